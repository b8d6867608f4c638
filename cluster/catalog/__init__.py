"""What all nodes agree on: members, virtual hosts, exchanges, bindings, queues, and where each lives."""
