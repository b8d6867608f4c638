"""Clusters to hurt: processes of this machine, or containers, and the means to hurt them with."""
