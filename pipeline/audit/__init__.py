"""Judges the journals of several nodes together: whether the cluster has kept its promises."""
