"""What makes a node a process: sockets, timers, signals, directories."""
