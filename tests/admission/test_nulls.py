"""Answers without work: they have the shape of an answer, and never its content."""

from __future__ import annotations

import pytest

from assay.agents.cheats.interface import Knowledge, SolutionFile
from assay.agents.nulls import NULLS, CommentsAgent, CrashAgent, EmptyAnswerAgent
from assay.agents.testing import FakeAttempt
from assay.errors import AgentError

pytestmark = pytest.mark.quick
SOLVED = b"def total(xs):\n    return sum(xs)\n"
GIVEN = b'def total(xs):\n    """Adds."""\n    return 0\n'


def written(name: str, *files: SolutionFile) -> dict[str, bytes]:
    return {known.path: data for known, data in NULLS[name](Knowledge("/w", files)).files()}


def test_an_empty_answer_has_the_form_of_each_file() -> None:
    found = written(
        "empty",
        SolutionFile("/w/a.json", None, b"[1, 2]"),
        SolutionFile("/w/b.json", None, b' {"x": 1}'),
        SolutionFile("/w/c.csv", None, b"x,y\n1,2\n"),
    )
    assert found == {"/w/a.json": b"[]\n", "/w/b.json": b"{}\n", "/w/c.csv": b""}


def test_an_empty_program_keeps_its_names_and_does_nothing() -> None:
    data = written("empty", SolutionFile("/w/m.py", GIVEN, SOLVED))["/w/m.py"]
    scope: dict[str, object] = {}
    exec(data, scope)
    assert scope["total"]([1, 2]) is None  # type: ignore[operator]


def test_an_empty_program_does_nothing_of_what_a_whole_new_one_does_outside_of_functions() -> None:
    new = b"import sys\nprint(sum(map(int, sys.stdin)))\n\n\ndef total(xs):\n    return sum(xs)\n"
    assert written("empty", SolutionFile("/w/new.py", None, new)) == {
        "/w/new.py": b"import sys\n\ndef total(xs):\n    return None\n"
    }


def test_what_was_there_and_is_no_program_is_no_empty_answer() -> None:
    assert (
        written("empty", SolutionFile("/w/a.txt", b"old\n", b"new\n"), SolutionFile("/w/b.py", b"def (", b"x = 1"))
        == {}
    )


def test_comments_are_added_to_what_was_there() -> None:
    found = written("comments", SolutionFile("/w/m.py", GIVEN, SOLVED), SolutionFile("/w/new.js", None, b"f()"))
    assert found == {"/w/m.py": GIVEN + b"# to be done\n", "/w/new.js": b"// to be done\n"}


def test_a_file_that_solving_removes_is_left_alone() -> None:
    gone = SolutionFile("/w/m.py", GIVEN, None)
    assert written("empty", gone) == written("comments", gone) == written("crash", gone) == {}


def test_a_program_that_crashes_keeps_who_runs_it() -> None:
    found = written("crash", SolutionFile("/w/run", None, b"#!/usr/bin/env python3\nprint(1)\n"))
    assert found == {"/w/run": b'#!/usr/bin/env python3\nraise SystemExit("crashed at once")\n'}


async def test_where_no_program_is_wanted_the_agent_itself_crashes() -> None:
    with pytest.raises(AgentError, match="on purpose"):
        await CrashAgent(Knowledge("/w", (SolutionFile("/w/a.txt", None, b"x"),))).run(FakeAttempt())


async def test_no_answer_holds_what_the_solution_wrote() -> None:
    files = (SolutionFile("/w/m.py", GIVEN, SOLVED), SolutionFile("/w/a.txt", None, b"the secret"))
    for kind in (CommentsAgent, EmptyAnswerAgent, CrashAgent):
        for known, data in kind(Knowledge("/w", files)).files():
            assert known.after is not None
            assert b"secret" not in data
            assert b"sum" not in data
