"""The process of a node: sockets, timers, signals, directories."""
