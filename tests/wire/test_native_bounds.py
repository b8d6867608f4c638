"""The functions in C read no octet beyond those that they were given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.wire import native

FUZZ = """
import random, sys
from array import array
from pathlib import Path
from tests.wire import native
from tests.wire.client import publish
built, reading, application = (native.load(Path(file)) for file in sys.argv[1:])
from tests.wire.property_lists import LISTS, SURE, VALID

def read(octets, skip, lengths):
    built.body_sizes(octets, skip, lengths)
    built.deliveries(octets, skip, lengths, b"long before", b"after", 1, 2)
    if skip < 0:
        built.routing_keys(octets, lengths)
    reading.asked(octets, skip, lengths)
    reading.header_keys(octets, skip, lengths, (b"n", b"attempt", b"x-delay"))
    reading.integers(octets, skip, lengths, (b"n",))
    reading.offsets(octets, skip, lengths, 1, 7)
    for number in (0, 6, 8, 13):
        reading.texts(octets, skip, lengths, number)

METHOD = publish(1, b"").index(0xCE) + 1

def run(octets):
    skip = min(METHOD, len(octets))
    for own in (False, True):
        for traits in (0, 1, 2, 4):
            user = chance.choice((None, b"guest"))
            try:
                measured, end, _ = built.scan(octets, 0, skip, own, traits, user, 4088, 3000)
            except ValueError:
                continue
            lengths = array("I")
            lengths.frombytes(measured)
            if lengths:
                read(octets[:end], -1 if own else skip, lengths)
        for lengths in (array("I", [len(octets)]), array("I", [max(0, len(octets) - skip)] * 2)):
            try:
                built.alike(octets, skip, lengths, chance.choice((0, 1, 2)), b"guest", 3000)
            except ValueError:
                pass
        try:
            read(octets, -1 if own else skip, array("I", [len(octets)]))
        except ValueError:
            pass

chance = random.Random(7)
for octets in LISTS:
    run(publish(1, b"", properties=octets))
    run(publish(1, b"x", properties=octets) * 3)
whole = [b"".join(some[:6]) for some in SURE.values()]
whole += [publish(1, b"", properties=octets) for octets in VALID]
for _ in range(6000):
    data = bytearray(chance.choice(whole))
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        data[chance.randrange(len(data))] = chance.choice((0, 1, 2, 3, 0x41, 0x46, 0x53, 0xCE, 0xFF, 0x80))
    run(bytes(data[: chance.randrange(20, len(data) + 1)]))
    run(bytes(data))

from tests.wire.application_properties import MESSAGES
ODD = (0, 1, 2, 4, 0x40, 0x45, 0x53, 0x56, 0x73, 0x74, 0x75, 0xA1, 0xB1, 0xC1, 0xD1, 0xFF)
for _ in range(20000):
    data = bytearray(chance.choice(MESSAGES))
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        data[chance.randrange(len(data))] = chance.choice(ODD)
    cut = bytes(data[: chance.randrange(1, len(data) + 1)])
    for octets in (cut, bytes(data)):
        application.property_keys(octets, 0, array("I", [len(octets)]), (b"n", b"kind"))
        application.integers(octets, 0, array("I", [len(octets)]), (b"n",))
"""


def test_no_octet_beyond_the_input_is_read(tmp_path: Path) -> None:
    """Under the address sanitizer, which ends the process at the first such octet."""
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    options = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover")
    files = [
        str(native.build(name, tmp_path, *options)) for name in ("_contents", "_properties", "_application")
    ]
    # Objects of Python's own allocator stand side by side, with no gap that the sanitizer could watch.
    settings = {
        "LD_PRELOAD": found.stdout.strip(),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", FUZZ, *files]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
