"""Several nodes on one machine, started and supervised."""
