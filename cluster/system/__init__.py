"""The operating system as a node uses it: its clock, what it gives the process, and its private files."""
