"""Cached results are those of the call itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from assay.analysis import _tests as tests
from assay.analysis._files import command_files
from assay.analysis._memo import cached_by_command, cached_by_identity
from assay.analysis._wrappers import without_wrappers
from assay.analysis.commands import simple_commands
from assay.analysis.integrity import RULES
from assay.analysis.states import states_of
from assay.analysis.subject import apply_rules

from .trajectories import ran, subject

_WORDS = ["sudo", "pytest", "cat", "a.py", "tests/test_a.py", ">", "out", "rm", "|", "&&", "'", "$(", ")", "\n", "-i"]
_COMMANDS = st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join)
_ACTS = [
    "cat /tests/test_outputs.py",
    "rm tests/test_a.py",
    "git log --all",
    "sed -i s/assert/pass/ tests/test_a.py",
    "ls",
    "echo 1 > /logs/verifier/reward.txt",
]


def _uncached(ask: Any) -> Any:
    return ask.__wrapped__


@given(_COMMANDS)
def test_what_a_command_says_is_the_same_when_it_is_asked_again(command: str) -> None:
    for ask in (simple_commands, command_files, tests.test_commands):
        assert ask(command) == ask(command) == _uncached(ask)(command)
    for simple in simple_commands(command):
        assert simple.effective == simple.effective == without_wrappers(simple.words)


@given(st.lists(st.sampled_from(["a", "b", "c" * 20_000, "d" * 20_000, "e" * 20_000]), max_size=12))
def test_short_and_long_texts_are_cached_apart(texts: list[str]) -> None:
    read = cached_by_command(str.upper)
    assert [read(text) for text in texts] == [text.upper() for text in texts]


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 3))
def test_equal_objects_are_told_apart(order: list[int], size: int) -> None:
    objects = [tuple([1, 2]) for _ in range(5)]
    itself = cached_by_identity(size)(lambda one: [one])
    assert all(itself(objects[number])[0] is objects[number] for number in order)


@given(st.lists(st.lists(st.sampled_from(_ACTS), min_size=1, max_size=4), min_size=2, max_size=4))
def test_findings_do_not_depend_on_what_was_judged_before(attempts: list[list[str]]) -> None:
    def made() -> list[Any]:
        return [subject([ran(n, act, "tests/test_a.py") for n, act in enumerate(acts)]) for acts in attempts]

    alone = [(list(apply_rules(RULES, one)), states_of(one.actions)) for one in made()]
    mixed = made()
    by_rule = [[list(rule(one)) for one in mixed] for rule in RULES]  # each rule sees all attempts in turn
    for number, (findings, states) in enumerate(alone):
        assert [finding for found in by_rule for finding in found[number]] == findings
        assert states_of(mixed[number].actions) == states
