"""What pyproject.toml cannot say: the modules that are compiled to C or written in C, and when.

With QUORATE_COMPILE=1 in the environment the packages are built with the modules on the way of a message
compiled by mypyc (docs/decisions/0013-compiled.md), and with those in C (0031-contents-in-c.md); it takes a C
compiler and some minutes. Without, the packages are built as they are. QUORATE_COMPILE=simulator compiles
the simulator of the tests with them.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

COMPILED = (
    "replication",
    "node",
    "cluster/owner",
    "cluster/peers/link_messages.py",
    "cluster/gateway",
    "cluster/broker",
    "cluster/admin/traces",
    "cluster/process/node.py",
)
"""Packages and modules on the way of a message."""

INTERPRETED = {
    "node/session/listener.py": "derives from asyncio's classes, which a compiled class cannot",
    "node/session/permissions.py": "is held by weak references, which compiled classes have not",
    "node/session/tls_port.py": "derives from asyncio's classes",
    "node/wire/amqp091/fields.py": "derives from int",
    "node/wire/amqp091/methods.py": "generated, and most of it never meets a message",
    "node/wire/amqp091/primitives.py": "has the base class of what methods.py has",
    "node/wire/amqp10/values.py": "derives from int, float and str",
    "replication/journal/errors.py": "derives from OSError",
    "replication/transport/acceptor.py": "derives from OSError",
}
"""Modules among them that stay as they are, and why."""

WRITTEN_IN_C = {
    "node.wire.amqp091._contents": "node/wire/amqp091/_contents.c",
    "node.wire.amqp091._properties": "node/wire/amqp091/_properties.c",
}
"""Modules that are written in C, each with a twin in Python, and their sources."""

SIMULATOR = "tests/simulation"
SIMULATOR_INTERPRETED = (
    "__init__", "__main__", "focus", "planted", "planted_queues", "processes", "progress", "runs",
)  # fmt: skip
"""Modules of the simulator that do nothing while a seed runs, or put bugs in the place of methods."""

OPTIONS = (
    "--config-file=",
    "--cache-dir=build/mypy_cache",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
)
"""Types of other packages count for nothing, so that a build is the same wherever it is made."""


def sources() -> list[str]:
    """The modules to compile."""
    found: list[Path] = []
    for root in map(Path, COMPILED):
        found += root.rglob("*.py") if root.is_dir() else [root]
    if os.environ.get("QUORATE_COMPILE") == "simulator":
        own = (path for path in Path(SIMULATOR).rglob("*.py") if not path.name.startswith("test_"))
        found += [path for path in own if path.stem not in SIMULATOR_INTERPRETED]
    return sorted(str(path) for path in found if path.name != "__init__.py" and str(path) not in INTERPRETED)


if os.environ.get("QUORATE_COMPILE") in ("1", "simulator"):
    from mypyc.build import mypycify

    # -O1 keeps the build to minutes; what -O3 would give was not measured.
    compiled = mypycify(
        [*OPTIONS, *sources()], opt_level="1", debug_level="0", multi_file=True, group_name="quorate"
    )
    written = [
        Extension(
            name, [source], extra_compile_args=["-O2", "-std=c11"], depends=["node/wire/amqp091/octets.h"]
        )
        for name, source in WRITTEN_IN_C.items()
    ]
    setup(ext_modules=[*compiled, *written])
else:
    setup()
