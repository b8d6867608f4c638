"""Clusters for runs: processes of this machine, or containers, with the means to inject faults into them."""
