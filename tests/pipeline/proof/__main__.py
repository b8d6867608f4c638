"""`python -m tests.pipeline.proof --kind KIND --kills N --seed SEED`: see docs/pipeline.md, "The proof"."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

from tests.pipeline.proof.run import KINDS, Proof, first_of


@click.command()
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, default=KINDS, show_default=True)
@click.option("--kills", default=100, show_default=True, help="Of each kind.")
@click.option("--seconds", default=float("inf"), help="Begin no further kill of a kind after so long.")
@click.option("--seed", default=1, show_default=True, help="Chooses the points, and who is killed there.")
@click.option("--keep", is_flag=True, help="Keep the directory with logs, journals and checkpoints.")
def main(kinds: tuple[str, ...], kills: int, seconds: float, seed: int, keep: bool) -> None:
    """Kill parts of two streaming queries, and of the cluster, while messages go from a stream over two
    shuffles and a queue to another queue. Each must be there once at the end.
    """
    # Processes of Spark would go on behind a proof that is ended: an exit ends them, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(max([run(kind, kills, seconds, seed, keep) for kind in kinds], default=0))


def run(kind: str, kills: int, seconds: float, seed: int, keep: bool) -> int:
    """Prints progress and the verdict. Returns the exit status."""
    again = f"make proof-pipeline ARGS='--kind {kind} --kills {kills} --seed {seed}'"
    scratch = Path(tempfile.mkdtemp(prefix="proof-"))
    try:
        verdict = Proof(kind, seed, scratch, click.echo).run(kills, seconds)
    except BaseException:
        click.echo(f"kind {kind}, seed {seed} has failed; again: {again}")
        raise
    finally:
        if keep:
            click.echo(f"kept: {scratch}")
        else:
            shutil.rmtree(scratch)
    click.echo(verdict.line())
    if verdict.kept:
        return 0
    click.echo(
        f"missing: {first_of(verdict.missing)}; doubled: {first_of(verdict.doubled)}; "
        f"passwords: {verdict.secrets}; again: {again}"
    )
    return 1


if __name__ == "__main__":
    main()
