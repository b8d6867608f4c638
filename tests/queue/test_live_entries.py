"""An entry is reduced to its live messages in about the time of a copy: a node does that to a few entries
each 250 ms, for an estimate of what its segments are worth.
"""

from __future__ import annotations

from unittest import mock

import pytest

from node.queue import live_entries
from node.queue.entry_format import encode_batch, encode_entry, encode_publish, encode_settle
from node.queue.operations import OWNER
from tests.queue.building import contents, uniform_run, varied_run
from tests.queue.test_partition import machine_with

FRONT_END = 7


@pytest.mark.interpreted
def test_messages_that_are_all_alive_are_copied_together_as_they_are() -> None:
    machine = machine_with(1, 2)
    runs = [uniform_run(2), varied_run([3, 1]), uniform_run(1), uniform_run(1), uniform_run(1)]
    parts = [b"".join(encode_publish(run, [1, 2])) for run in runs]
    settle = encode_settle(1, [(7, 7)])
    operations = [parts[0], parts[1], settle, parts[2], settle, parts[3], parts[4]]
    data = encode_entry([encode_batch(FRONT_END, 1, 1, operations)])
    machine.apply(2, data)
    expected = [
        encode_batch(OWNER, 0, 1, parts[:2]),
        encode_batch(OWNER, 0, 5, parts[2:3]),
        encode_batch(OWNER, 0, 6, parts[3:]),
    ]
    with mock.patch.object(live_entries, "encode_publish", side_effect=AssertionError):
        assert machine.rewrite(2, data) == encode_entry(expected)


def test_runs_of_which_a_part_is_alive_stand_between_those_that_are_whole() -> None:
    machine = machine_with(1)
    runs = [varied_run([1, 2]), varied_run([3, 4, 5]), varied_run([6]), varied_run([7, 8])]
    parts = [b"".join(encode_publish(run, [1])) for run in runs]
    data = encode_entry([encode_batch(FRONT_END, 1, 1, parts)])
    machine.apply(2, data)
    before = contents(data, 1, 99)
    dead = {4, 6}
    settle = encode_settle(1, [(number, number) for number in sorted(dead)])
    machine.apply(3, encode_entry([encode_batch(OWNER, 0, 0, [settle])]))
    rewritten = machine.rewrite(2, data)
    assert contents(rewritten, 1, 99) == {
        number: message for number, message in before.items() if number not in dead
    }
    assert machine.rewrite(2, rewritten) == rewritten


def test_messages_in_several_queues_are_alive_in_any_of_them() -> None:
    machine = machine_with(1, 2)
    parts = [b"".join(encode_publish(varied_run([size]), [1, 2])) for size in range(1, 5)]
    data = encode_entry([encode_batch(FRONT_END, 1, 1, parts)])
    machine.apply(2, data)
    settles = [encode_settle(1, [(1, 2)]), encode_settle(2, [(3, 4)])]
    machine.apply(3, encode_entry([encode_batch(OWNER, 0, 0, settles)]))
    assert machine.rewrite(2, data) == encode_entry([encode_batch(OWNER, 0, 1, parts)])
