"""The tests' marks name requirements and sentences that exist, and docs/conformance.md says what they say."""

from __future__ import annotations

import ast

from scripts.conformance import (
    BINDS_SERVER,
    DOCUMENT,
    UNCLAIMED,
    calls,
    clauses,
    document,
    marked,
    marks,
    modules,
    requirements,
    sentences,
    sentences_10,
    shown,
)


def test_every_mark_names_a_requirement() -> None:
    known = {key for rows in requirements().values() for key in rows}
    assert set(clauses()) <= known, "clauses of requirements that do not exist"
    known |= {clause for rows in clauses().values() for clause in rows}
    unknown = {key: tests for key, tests in shown().items() if key not in known}
    assert not unknown


def test_clauses_stand_in_the_order_of_their_ids() -> None:
    assert list(clauses()) == sorted(clauses(), key=lambda key: (key[0], int(key[1:])))
    for key, rows in clauses().items():
        assert list(rows) == [f"{key}.{number}" for number in range(1, len(rows) + 1)]
        assert len(set(rows.values())) == len(rows), f"{key}: two clauses in the same words"


def test_no_mark_names_a_whole_requirement_that_has_clauses() -> None:
    whole = {key: tests for key, tests in shown().items() if key in clauses()}
    assert not whole, "name the clauses that these tests assert"


def test_every_sentence_that_binds_the_server_has_a_test() -> None:
    known = sentences()
    tests = shown("sentence")
    assert not set(tests) - set(known) - set(sentences_10()), "tests name sentences that do not exist"
    missing = [key for key, one in known.items() if one.binds in BINDS_SERVER and key not in tests]
    assert not missing
    for key, one in known.items():
        assert one.binds in (*BINDS_SERVER, "client", "nobody"), key
        assert one.binds in BINDS_SERVER or one.remark, f"{key}: why does it not bind the server?"


def test_every_sentence_of_amqp_1_0_that_binds_the_broker_has_a_test() -> None:
    known, tests = sentences_10(), shown("sentence")
    missing = [key for key, one in known.items() if one.binds == "broker" and key not in tests]
    assert not missing
    for key, one in known.items():
        assert key.startswith("1.0/") and one.text, key
        assert one.binds in ("broker", *UNCLAIMED), key
        assert one.binds == "broker" or (one.remark and key not in tests), f"{key}: claimed, or no reason"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make conformance`"


def test_marks_are_found_on_functions_classes_and_modules() -> None:
    source = """
pytestmark = [pytest.mark.requirement("A1")]

@pytest.mark.requirement("A2", "A3")
async def test_one(): ...

@pytest.mark.requirement("A4")
class TestGroup:
    @pytest.mark.requirement("A5")
    def test_two(self): ...

@pytest.mark.sentence("4.2.3-1")
def test_three(): ...

def not_a_test(): ...

class Machine(RuleBasedStateMachine): ...

TestMachine = pytest.mark.requirement("A6")(Machine.TestCase)
"""
    assert list(marks(ast.parse(source), "sentence")) == [("test_three", "4.2.3-1")]
    assert sorted(marks(ast.parse(source))) == [
        ("TestGroup::test_two", "A1"),
        ("TestGroup::test_two", "A4"),
        ("TestGroup::test_two", "A5"),
        ("TestMachine::runTest", "A1"),
        ("TestMachine::runTest", "A6"),
        ("test_one", "A1"),
        ("test_one", "A2"),
        ("test_one", "A3"),
        ("test_three", "A1"),
    ]


def test_a_target_runs_a_test_alone_where_all_of_the_test_is_marked() -> None:
    source = """
@pytest.mark.proof
def test_all(): ...

@pytest.mark.parametrize("rounds", [1, pytest.param(9, marks=pytest.mark.proof)])
def test_some(rounds): ...

TestMachine = pytest.mark.requirement("A6")(pytest.mark.proof(Machine.TestCase))
"""
    assert marked(ast.parse(source), "proof") == {"test_all", "TestMachine::runTest"}


def test_no_mark_stands_where_it_is_not_found() -> None:
    for path, tree in modules().items():
        written = {one.value for call in calls([tree]) for one in call.args if isinstance(one, ast.Constant)}
        assert written == {key for _, key in marks(tree)}, path
        assert all(isinstance(one, ast.Constant) for call in calls([tree]) for one in call.args), path
