"""What pyproject.toml cannot say: the modules that are compiled to C or written in C, and when.

With QUORATE_COMPILE=1 in the environment the packages are built with the modules on the way of a message
compiled by mypyc (docs/decisions/0013-compiled.md), and with those in C (0031-contents-in-c.md); it takes a C
compiler and a minute or two. Without, the packages are built as they are. QUORATE_COMPILE=simulator compiles
the simulator of the tests with them. With QUORATE_OPTIMIZE=0 all modules have -O0, for code that is only
tested.
"""

import contextlib
import gc
import io
import itertools
import os
import shlex
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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

OFTEN = {
    "cluster/broker": "broker changing_parts",
    "cluster/gateway": "broker_port link moving_consumers routes state",
    "cluster/owner": (
        "admission alarms browsing contents histories intake lost_front_ends partition proposal requests "
        "serving sessions state unused_queues upkeep"
    ),
    "cluster/peers": "link_messages",
    "cluster/process": "node",
    "node/delivery": "credit settlements shares unsettled",
    "node/message": "run",
    "node/queue": (
        "annotations chronicle consumers decision_format delivery_state dispatch entry_format filtering "
        "history_notes lifecycle link_leases lost_leases operations order partition queue ready_by_group "
        "settled"
    ),
    "node/queue/features": "deduplication delay group lease_period priority priority_expression ttl",
    "node/ranges": "range_map range_set",
    "node/routing": "exchange matching",
    "node/session": "client_memory core requests",
    "node/session/amqp091": "session",
    "node/session/amqp10": "session",
    "node/wire/amqp091": (
        "ack_path channel codec connection contents deliveries effects facts header_tables incoming "
        "intake lifecycle likeness properties publish_path reader reply_to"
    ),
    "node/wire/amqp10": (
        "connection crossing decoding effects encoding facts field_readers field_values frame_input "
        "frames from_amqp091 incoming known_head links messages outcomes outgoing sections "
        "session_endpoint session_table to_amqp091 transfer_rows"
    ),
    "replication": "compaction forms host repair",
    "replication/journal": (
        "batch cache collection counters files journal log reader records segments stage table writer"
    ),
    "replication/raft": "follower leadership log messages progress raft reads ready state types",
    "replication/transport": "envelope flow peer peers stream",
    "replication/transport/zmtp": "connection curve frames records scratch",
}
"""The modules, by package, that have a thousandth or more of the samples in a profile of nodes under the
loads of `make bench`, or much of the samples in one of its rows: two fifths of the code. The compiler takes
more than twice as long with -O1 as with -O0, so that only these have -O1."""

WRITTEN_IN_C = {
    "node.queue._group_table": "node/queue/_group_table.c",
    "node.ranges._range_columns": "node/ranges/_range_columns.c",
    "node.wire.amqp091._contents": "node/wire/amqp091/_contents.c",
    "node.wire.amqp091._properties": "node/wire/amqp091/_properties.c",
    "node.wire.amqp10._application": "node/wire/amqp10/_application.c",
}
"""Modules that are written in C, each with a twin in Python, and their sources."""

HEADERS_IN_C = [
    "node/queue/group_parts.h",
    "node/queue/groups.h",
    "node/ranges/columns.h",
    "node/ranges/slots.h",
    "node/wire/amqp091/octets.h",
    "node/wire/same_keys.h",
]

SIMULATOR = "tests/simulation"
SIMULATOR_INTERPRETED = (
    "__init__", "__main__", "focus", "planted", "planted_histories", "planted_queues", "processes",
    "progress", "runs",
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


def missing() -> str | None:
    """What the build lacks of a C compiler and Python's headers; None if both are there."""
    variables = sysconfig.get_config_vars()
    compiler = shlex.split(os.environ.get("CC") or variables.get("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"a C compiler: there is no {compiler}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.exists() else f"Python's headers: there is no {header}"


def say(line: str) -> None:
    """Tell what the build does: it takes a minute or two."""
    print(f"quorate: {line}", file=sys.stderr, flush=True)


class BuildExtensions(build_ext):
    """Compiles C files side by side, on all cores. setuptools compiles those of one extension in turn."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        every = self.extensions
        first = {extension.sources[0]: extension for extension in reversed(every)}
        self.extensions = list(first.values())
        self.build_side_by_side()
        self.extensions = every
        for extension in every:
            made = self.get_ext_fullpath(first[extension.sources[0]].name)
            wanted = self.get_ext_fullpath(extension.name)
            if made != wanted:
                self.mkpath(str(Path(wanted).parent))
                self.copy_file(made, wanted)

    def build_side_by_side(self) -> None:
        """Build the extensions, no two of which share a C file."""
        compile_in_turn = self.compiler.compile
        total = sum(len(extension.sources) for extension in self.extensions)
        numbers = itertools.count(1)

        def compile_one(source: str, options: dict[str, Any]) -> list[str]:
            if Path(source).name.startswith(SELDOM):
                options = options | {"extra_postargs": [*options["extra_postargs"], "-O0"]}
            made: list[str] = compile_in_turn([source], **options)
            number = next(numbers)
            if number * 10 // total > (number - 1) * 10 // total:
                say(f"{number} of {total} C files are compiled")
            return made

        with ThreadPoolExecutor(self.parallel) as pool:

            def compile_side_by_side(sources: list[str], **options: Any) -> list[str]:
                made = pool.map(compile_one, sources, itertools.repeat(options))
                return list(itertools.chain.from_iterable(made))

            self.compiler.compile = compile_side_by_side
            super().build_extensions()


def translated() -> list[Extension]:
    """The extensions of the modules that mypyc translates to C; the C files are written here."""
    from mypyc.build import mypycify

    modules = sources()
    say(f"mypyc translates {len(modules)} modules to C")
    told = io.StringIO()
    # -Og takes a third off the compiler's time, and a twentieth off the rate (docs/decisions/0013).
    level = os.environ.get("QUORATE_OPTIMIZE", "1")
    try:
        with contextlib.redirect_stdout(told):
            made: list[Extension] = mypycify(
                [*OPTIONS, *modules], opt_level=level, debug_level="0", multi_file=True, group_name="quorate"
            )
    finally:
        for line in told.getvalue().splitlines():
            if not line.endswith(OF_NO_INTEREST):
                say(line)
    # At its end Python would look for circles among all objects of the translation, for 16 s.
    gc.freeze()
    for extension in made:
        extension.sources = in_units(extension.sources)
        # Modules call each other without the table that symbols of a library otherwise go through. The search
        # for what to warn of is a tenth of the compiler's time, and finds labels that mypyc has not used.
        extension.extra_compile_args = [*extension.extra_compile_args, "-fvisibility=hidden", "-w"]
    share_shims(made)
    return made


def share_shims(extensions: list[Extension]) -> None:
    """Have some modules share the C file, and so the library, by which Python imports each of them.

    mypyc makes a file of a few lines for each module, the shim. Compiling and linking one takes 0.04 s, and
    copying a library nothing. Python looks the last part of a module's name up in its library, so that no
    two modules in a file have the same one.
    """
    shims: list[dict[str, Extension]] = []
    for extension in extensions:
        if len(extension.sources) > 1 or not _text(extension).startswith(START_OF_SHIM):
            continue
        name = extension.name.rpartition(".")[2]
        others = next((some for some in shims if len(some) < MODULES_OF_A_SHIM and name not in some), None)
        if others is None:
            shims.append(others := {})
        others[name] = extension
    for number, some in enumerate(shims):
        file = Path("build", f"__shim_{number}.c")
        parts = (_text(extension).partition(END_OF_SHIM)[0] for extension in some.values())
        text = "".join(part.replace("#include <Python.h>", "") for part in parts)
        file.write_text(CALLED_BY_SHIMS + text, encoding="utf-8")
        for extension in some.values():
            extension.sources = [str(file)]


def _text(shim: Extension) -> str:
    return Path(shim.sources[0]).read_text(encoding="utf-8")


MODULES_OF_A_SHIM = 16
"""Each module's library has the code of all modules of its shim, some 300 octets for each."""

START_OF_SHIM = "#include <Python.h>\n\nPyMODINIT_FUNC\n"
"""Files of mypyc's runtime begin otherwise."""

END_OF_SHIM = "// distutils sometimes spuriously"
"""Behind it is a function that only packages need."""

CALLED_BY_SHIMS = """\
typedef struct _object PyObject;
#define NULL ((void *)0)
#define PyMODINIT_FUNC __attribute__((visibility("default"))) PyObject *
#define Py_DECREF Py_DecRef
void Py_DecRef(PyObject *);
void PyErr_Clear(void);
PyObject *Py_BuildValue(const char *, ...);
PyObject *PyImport_ImportModuleLevel(const char *, PyObject *, PyObject *, PyObject *, int);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
void *PyCapsule_GetPointer(PyObject *, const char *);
"""
"""Functions of Python's stable interface, as its headers declare them. The compiler takes 0.1 s to read the
headers for a file, and 0.02 s for this."""


def in_units(files: list[str]) -> list[str]:
    """C files of mypyc, in few that include them all: reading their headers for each is a sixth of a build.

    Units of modules that run often come first: the compiler takes longest for them. What else is among the
    files stays for itself.
    """
    modules = [Path(file) for file in files if Path(file).name.startswith("__native_")]
    names = {f"{package}/{name}" for package, many in OFTEN.items() for name in many.split()}
    often = {f"__native_{name.replace('/', '___')}.c" for name in names}
    units = [
        *_units([module for module in modules if module.name in often], "__unit"),
        *_units([module for module in modules if module.name not in often], SELDOM),
    ]
    return [*map(str, units), *(file for file in files if Path(file) not in modules)]


def _units(modules: list[Path], name: str) -> list[Path]:
    units: dict[Path, list[Path]] = {}
    octets = sum(module.stat().st_size for module in modules)
    before = 0
    for module in modules:
        unit = module.with_name(f"{name}_{before * UNITS // octets}.c")
        units.setdefault(unit, []).append(module)
        before += module.stat().st_size
    for unit, parts in units.items():
        unit.write_text("".join(f'#include "{part.name}"\n' for part in parts), encoding="utf-8")
    return list(units)


UNITS = 12
"""How many C files include those of all modules that run often, and as many the others: enough that no core
waits for the last one."""

SELDOM = "__seldom"
"""Names of units that are compiled with -O0 begin so."""

OF_NO_INTEREST = "warning: Treating generator comprehension as list"
METADATA = {"egg_info", "dist_info"}
"""Commands that only ask for the name, the version and the dependencies: pip gives them before it builds."""

if os.environ.get("QUORATE_COMPILE") not in ("1", "simulator") or METADATA & set(sys.argv):
    setup()
elif (what := missing()) is not None:
    sys.exit(
        f"quorate: compiling needs {what}. Install it (Debian: apt-get install gcc libc6-dev, and "
        "python3-dev for the headers of Debian's Python; CC=… names another compiler), or run the sources: "
        "`make up`, or `pip install` without QUORATE_COMPILE."
    )
else:
    written = [
        Extension(name, [source], extra_compile_args=["-O2", "-std=c11"], depends=HEADERS_IN_C)
        for name, source in WRITTEN_IN_C.items()
    ]
    setup(ext_modules=[*translated(), *written], cmdclass={"build_ext": BuildExtensions})
