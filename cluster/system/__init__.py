"""The operating system as a node uses it: its clock, its resources, and private files."""
