"""The job report: figures of queues, from journals and from nodes that run."""
