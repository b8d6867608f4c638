"""`python -m cluster`: the `quorate` command where it is not installed."""

from cluster.cli.main import main

main(prog_name="quorate")
