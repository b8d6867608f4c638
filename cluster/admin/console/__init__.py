"""The web console of a node: static files, and nothing that runs on the node for it."""
