"""The catalog, on which all nodes agree: members, virtual hosts, exchanges, bindings, queues, and where each
lives."""
