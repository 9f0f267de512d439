"""Selections: every candidate gets a decision and a reason, and each stage does what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.learning.curation.interface import AttemptCandidate, LeakageMatch, Selection, SelectionStage
from assay.learning.curation.select import SELECTORS, count_by_stage, parse_stage, select
from tests.learning.curation.made import candidate

pytestmark = pytest.mark.quick

anybody = st.builds(
    candidate,
    st.uuids().map(str),
    st.sampled_from(["t", "u"]),
    text=st.sampled_from(["", "ls", "cat a b c d e f g h", "cat a b c d e f g h i"]),
    outcome=st.sampled_from(["pass", "fail", "unknown", "error", None]),
    integrity=st.sampled_from(["pass", "fail", "unknown", None]),
    doubt=st.sampled_from([None, None, "its integrity is fail"]),
    acts=st.integers(0, 9),
    moves=st.lists(st.integers(0, 9), unique=True).map(lambda m: tuple(sorted(m))),
    density=st.floats(0, 1),
    errors=st.integers(0, 3),
    twin=st.sampled_from([None, LeakageMatch("h", "text", 0.7), LeakageMatch("h", "same task", 1.0)]),
    rsr=st.sampled_from([None, (3.0, 1.5)]),
    model=st.sampled_from(["m", "n"]),
)
stages = st.lists(st.sampled_from(sorted(SELECTORS)).map(SelectionStage), max_size=5)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(anybody, max_size=12), stages)
def test_everybody_is_told_why(held: list[AttemptCandidate], chosen: list[SelectionStage]) -> None:
    found = select(held, chosen)
    assert len(found) == len(held)
    for one in found:
        assert one.kept == (one.stage is None)
        assert all(one.why)
        assert len(one.why) == len(chosen) or not one.kept
    assert [saw for _, saw, _ in count_by_stage(chosen, found)][:1] == [len(held)][: len(chosen)]
    assert sum(saw - kept for _, saw, kept in count_by_stage(chosen, found)) == sum(not one.kept for one in found)
    assert select(held, chosen) == found


def why(stage: str, *held: AttemptCandidate) -> list[tuple[bool, str]]:
    return [(one.kept, one.why[-1]) for one in select(held, [parse_stage(stage)])]


def test_verdicts_keep_what_nothing_speaks_against() -> None:
    held = [
        candidate("0"),
        candidate("1", outcome="fail"),
        candidate("2", integrity="fail", doubt="its integrity is fail"),
        candidate("3", integrity="unknown", doubt="its integrity is unknown"),
        candidate("4", safety="fail"),
        candidate("5", imported=True),
    ]
    found = why("verdicts", *held)
    assert [kept for kept, _ in found] == [True, False, False, False, False, False]
    assert found[1][1] == "outcome is fail, wanted pass"
    assert found[2][1] == "integrity failed"
    assert found[3][1] == "doubtful: its integrity is unknown"
    assert [kept for kept, _ in why("verdicts:doubtful=true,imported=true", *held)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_verdicts_can_demand_integrity_and_process() -> None:
    held = [candidate("0", integrity=None), candidate("1", process_score=0.4), candidate("2", process_score=0.6)]
    assert [kept for kept, _ in why("verdicts:need_integrity=true", *held)] == [False, True, True]
    found = why("verdicts:process_at_least=0.5", *held)
    assert [kept for kept, _ in found] == [False, False, True]
    assert found[0][1] == "process score not measured, wanted at least 0.5"


def test_density_recovery_and_efficiency_hold_to_their_bounds() -> None:
    held = [
        candidate("0", density=0.6, cycles=2, errors=2, reflective=1, acts=10, distinct=0.9, waste=0.1),
        candidate("1", density=0.1, errors=0, acts=40, distinct=0.9, waste=0.1),
        candidate("2", density=0.3, errors=3, reflective=0, acts=12, distinct=0.4, waste=0.7),
    ]
    assert [kept for kept, _ in why("density:at_least=0.3", *held)] == [True, False, True]
    assert [kept for kept, _ in why("recovery", *held)] == [True, True, False]
    assert [kept for kept, _ in why("recovery:without_errors=drop", *held)] == [True, False, False]
    found = why("efficiency:of_shortest=0.5", *held)
    assert [kept for kept, _ in found] == [True, False, False]
    assert found[1][1] == "length of the shortest pass over its own 0.25, wanted at least 0.5"


def test_contrast_and_difficulty_count_those_left_out_earlier() -> None:
    held = [candidate(str(n), outcome="pass" if n else "fail") for n in range(4)]
    held += [candidate(f"e{n}", "easy") for n in range(4)] + [candidate("n", "new")]
    found = select(held, [SelectionStage("verdicts"), SelectionStage("contrast")])
    assert [one.kept for one in found] == [False, True, True, True] + [False] * 5
    assert found[1].why[-1] == "contrast 0.188 (passes 0.75 of 4), wanted at least 0.1"
    assert found[-1].why[-1] == "1 known attempts at its task, wanted 4"
    found = select(held, [SelectionStage("difficulty", {"bands": ["always"]})])
    assert [one.kept for one in found] == [False] * 4 + [True] * 5


def test_a_pass_by_cheating_counts_as_no_pass_of_its_task() -> None:
    held = [candidate("0"), candidate("1", integrity="fail", doubt="its integrity is fail")]
    found = select(held, [SelectionStage("contrast", {"attempts": 2, "at_least": 0.25})])
    assert [one.kept for one in found] == [True, True]
    assert "passes 0.50 of 2" in found[0].why[0]


def own(candidates: Sequence[AttemptCandidate], *, letter: str = "a") -> list[Selection]:
    return [Selection(one.chain.startswith(letter), f"begins with {one.chain[0]}") for one in candidates]


def test_a_stage_of_ones_own() -> None:
    found = select([candidate("ab"), candidate("b")], [parse_stage(f"{__name__}:own:letter=b")])
    assert [(one.kept, one.why) for one in found] == [(False, ("begins with a",)), (True, ("begins with b",))]


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        ("verdicts", SelectionStage("verdicts")),
        ("verdicts:doubtful=true,outcome=fail", SelectionStage("verdicts", {"doubtful": True, "outcome": "fail"})),
        ("difficulty:bands=hard+easy", SelectionStage("difficulty", {"bands": ["hard", "easy"]})),
        ("diversity:most=3,at_least=0.25", SelectionStage("diversity", {"most": 3, "at_least": 0.25})),
        ("package.module:function", SelectionStage("package.module:function")),
        ("package.module:function:a=1", SelectionStage("package.module:function", {"a": 1})),
    ],
)
def test_stages_are_read_from_words(words: str, stage: SelectionStage) -> None:
    assert parse_stage(words) == stage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("verdict", "unknown stage 'verdict'"),
        ("verdicts:x", "'x' is not of the form key=value"),
        ("density:at_lest=1", "'density' has no option 'at_lest'; it has at_least"),
        ("contrast:at_least=3", "contrast lies in"),
        ("diversity:most=two", "option 'most' is 'two': expected a whole number, got .*; write for example most=1"),
        ("verdicts:outcome=passed", "option 'outcome' is 'passed': expected 'pass' or 'fail' or 'any'"),
        ("diversity:most=0", "most must be 1 or more"),
        ("contrast:everyone=1", "no option 'everyone'"),
        ("difficulty:bands=soft", "difficulty"),
        ("mixture:total=-1", "total must not be negative"),
    ],
)
def test_a_wrong_stage_is_told(words: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        select([candidate("0")], [parse_stage(words)])


def test_a_stage_that_comes_again_is_counted_apart() -> None:
    held: Any = [candidate("0", density=0.5), candidate("1", density=0.1)]
    chosen = [SelectionStage("density", {"at_least": 0.0}), SelectionStage("density")]
    assert list(count_by_stage(chosen, select(held, chosen))) == [("density", 2, 2), ("density#2", 2, 1)]
