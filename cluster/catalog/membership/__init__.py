"""How the members of the cluster and the replicas of partitions change while the cluster runs."""
