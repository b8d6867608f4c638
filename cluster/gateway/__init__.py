"""The broker as the sessions of a node's clients see it."""
