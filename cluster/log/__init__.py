"""What a node logs: the events there are, and how each is written."""
