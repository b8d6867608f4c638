"""Who belongs to the cluster, and which nodes have replicas: how both change while it runs."""
