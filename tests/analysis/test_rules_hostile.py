"""Any trajectory at all gives findings, whose quotes stand in it, in bounded time."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.analysis.actions import actions_of
from assay.analysis.consistency import RULES as CONSISTENCY
from assay.analysis.integrity import RULES as INTEGRITY
from assay.analysis.quotes import quote_holds
from assay.analysis.signals import signals_of
from assay.analysis.subject import Subject, apply_rules
from assay.records import Trajectory
from tests.analysis.trajectories import acted, ran, said, subject
from tests.formats.generated import trajectories

RULES = (*CONSISTENCY, *INTEGRITY)
PIECES = [
    "git log --all ",
    "git show 1234567 ",
    "cat /tests/a.py ",
    "rm tests/test_a.py\n",
    "if x == 'a': return 'b'\n",
    "'",
    '"',
    "find / -name ",
    "find / ",
    "/logs/verifier/reward.txt ",
    "> ",
    "& ",
    "; ",
    "$(",
    ")",
    "<<E\n",
    "E\n",
    "conftest.py ",
    "os.statvfs(",
    "zipfile ",
    "ctrf",
    "addopts = ",
    "s/assert",
    "cp /a/test_a.py ",
    "\\",
    "\x00",
    "é",
    "=== 1 failed ",
    "All tests pass. ",
    "I ran `x y`. ",
    "https://github.com/a/b/pull/1 ",
    "inspect.stack() ",
    "def __eq__(self, o):",
    "\n",
    "  \n",
    "1",
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trajectories())
def test_generated_trajectories_are_judged(trajectory: Trajectory) -> None:
    for one in apply_rules(RULES, Subject(trajectory, actions_of(trajectory), lambda _: None)):
        assert all(quote_holds(trajectory, quote) for quote in one.quotes)
    signals_of(trajectory)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=4))
def test_odd_commands_are_judged(given: list[tuple[str, str, str]]) -> None:
    steps = [ran(n, command, seen, message=message) for n, (command, seen, message) in enumerate(given)]
    edit = acted(len(steps), "edit", given[0][1], path="tests/test_a.py", old_str=given[0][0], new_str=given[0][2])
    made = subject([*steps, edit, said(len(steps) + 1, given[0][2])])
    for one in apply_rules(RULES, made):
        assert all(quote_holds(made.trajectory, quote) for quote in one.quotes)


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_text_of_one_piece_takes_no_longer_than_its_length_asks_for(piece: str) -> None:
    text = (piece * (30_000 // len(piece)))[:30_000]
    edits = [acted(n, "edit", text, path=p, old_str=text, new_str=text) for n, p in ((2, "a.py"), (3, "test_a.py"))]
    made = subject([ran(0, "cat test_a.py", "x"), ran(1, text, text, message=text), *edits])
    begun = time.process_time()
    list(apply_rules(RULES, made))
    assert time.process_time() - begun < 2.5


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        ("def __eq__(self,):", "\n"),
        ("", "if x ==1 : return ["),
        ("cat <<E\n.bashrc BASH_ENV os.walk test_ ", "open("),
    ],
)
def test_a_piece_without_end_after_a_fitting_head_takes_no_longer(head: str, piece: str) -> None:
    text = head + piece * (60_000 // len(piece))
    made = subject([ran(0, text, "x"), acted(1, "edit", text, path="a.py", old_str="", new_str=text)])
    begun = time.process_time()
    list(apply_rules(RULES, made))
    assert time.process_time() - begun < 2.5
