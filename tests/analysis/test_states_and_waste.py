"""Which acts are the same act, and which were in vain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.actions import actions_of
from assay.analysis.alignment import Pair
from assay.analysis.quality import process_quality
from assay.analysis.stages import STAGES
from assay.analysis.states import State, block, equivalent, normal_command, normal_path, states_of
from assay.analysis.waste import cycles, waste_of
from tests.analysis.made import call, step, trajectory

some_states = st.builds(
    State,
    st.sampled_from(STAGES),
    st.sampled_from(["shell", "read", "edit", "search", "tool"]),
    st.sampled_from(["t", "u"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "grep foo a.py", "grep foo b.py", "ls"]),
    st.sampled_from([None, (1, 10), (5, 20)]),
)


def shell(what: str, stage: str = "explore") -> State:
    return State(stage, "shell", "bash", "", what)  # type: ignore[arg-type]


def read(file: str, lines: tuple[int, int] | None = None) -> State:
    return State("explore", "read", "read", file, "", lines)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (read("a"), read("a"), True),
        (read("a"), read("b"), False),
        (read("a", (1, 10)), read("a", (5, 14)), True),
        (read("a", (1, 10)), read("a", (9, 100)), False),
        (shell("grep -n foo src/a.py"), shell("grep -n foo src/a.py src/b.py"), True),
        (shell("grep -n foo src/a.py"), shell("ls src"), False),
        (shell("ls"), shell("ls", "verify"), False),
        (State("implement", "edit", "edit", "a", "x"), State("implement", "edit", "write", "a", "y"), True),
        (
            State("orchestrate", "tool", "book", "", '{"a":1}'),
            State("orchestrate", "tool", "book", "", '{"a":2}'),
            False,
        ),
    ],
)
def test_equivalence_by_hand(first: State, second: State, same: bool) -> None:
    assert equivalent(first, second) is same


@given(some_states, some_states)
def test_equivalence_is_symmetric_and_reflexive(first: State, second: State) -> None:
    assert equivalent(first, first)
    assert equivalent(first, second) == equivalent(second, first)
    if equivalent(first, second):
        assert block(first) == block(second)


def test_commands_and_paths_are_normalised() -> None:
    assert normal_command("cd /testbed && grep -n x /testbed/a.py 2>/dev/null | head -5") == "grep -n x a.py"
    assert normal_command("cat <<E | sort\nx\nE") == "cat << x ; sort"
    assert [normal_path(each) for each in ("/testbed/src/a.py", "./src/a.py", "/workspace", "a//b/../c")] == [
        "src/a.py",
        "src/a.py",
        "",
        "a/c",
    ]


@given(st.text(max_size=40))
def test_any_text_can_be_normalised(text: str) -> None:
    normal_path(text)
    normal_command(text)


def test_cycles_by_hand() -> None:
    assert list(cycles("abababxx")) == [(0, 2, 3)]
    assert list(cycles("abcabcd")) == [(0, 3, 2)]
    assert list(cycles("aaaaaa")) == []
    assert list(cycles("xababyabcdabcd")) == [(1, 2, 2), (6, 4, 2)]


@given(st.text(alphabet="abc", max_size=30))
def test_cycles_stand_where_they_are_said_to(text: str) -> None:
    end = 0
    for start, length, rounds in cycles(text):
        assert start >= end
        assert text[start : start + length] * rounds == text[start : start + length * rounds]
        end = start + length * rounds


def test_a_way_back_to_exploring_between_two_changes_is_a_regression() -> None:
    letters = {"e": "explore", "i": "implement", "v": "verify"}
    states = [State(letters[x], "tool", x, str(n)) for n, x in enumerate("eivveei")]  # type: ignore[arg-type]
    waste = waste_of(states)
    assert [(each.kind, each.positions) for each in waste.patterns] == [("regression", (4, 5))]
    assert waste.severity == pytest.approx(2 / 7)
    assert waste_of(states, states, [Pair(n, n) for n in range(7)]).patterns == ()


def test_an_act_counts_once_whatever_it_is_found_for() -> None:
    waste = waste_of([read("a")] * 5)
    assert (waste.count("retry"), waste.count("redundant"), waste.wasted) == (1, 4, (1, 2, 3, 4))


def test_looking_again_after_a_change_is_not_redundant() -> None:
    change = State("implement", "edit", "edit", "a", "x")
    assert waste_of([read("a"), change, read("a")]).count("redundant") == 0


def test_against_a_reference_what_stands_beside_a_match_is_redundant_and_late_exploring_unnecessary() -> None:
    reference = [
        read("a"),
        State("implement", "edit", "edit", "a", "x"),
        State("verify", "shell", "bash", "", "pytest"),
    ]
    states = [read("a"), read("a"), *reference[1:], read("b")]
    waste = waste_of(states, reference, [Pair(0, 0), Pair(2, 1), Pair(3, 2)])
    assert [(each.kind, each.positions) for each in waste.patterns] == [("redundant", (1,)), ("unnecessary", (4,))]


@given(st.lists(some_states, max_size=20), st.lists(some_states, max_size=10))
def test_waste_is_a_share_and_a_reference_only_forgives_patterns(states: list[State], reference: list[State]) -> None:
    alone, against = waste_of(states), waste_of(states, reference, [])
    for waste in (alone, against):
        assert 0.0 <= waste.severity <= 1.0
        assert set(waste.wasted) <= set(range(len(states)))
    for kind in ("retry", "regression", "cycle"):
        assert against.count(kind) <= alone.count(kind)  # type: ignore[arg-type]


def test_an_attempt_like_its_reference_is_of_the_best_quality() -> None:
    commands = ["grep x a.py", "sed -i s/x/y/ a.py", "pytest"]
    actions = actions_of(trajectory(*(step(call("bash", {"command": each})) for each in commands)))
    quality = process_quality(actions, [actions])
    assert quality is not None
    assert (quality.score, quality.referenced, quality.path) == (pytest.approx(1.0), True, 0)
    assert process_quality(()) is None
    unguided = process_quality(actions, [()])
    assert unguided is not None
    assert not unguided.referenced


def test_without_reference_order_stages_and_thrift_are_judged() -> None:
    actions = actions_of(trajectory(*(step(call("bash", {"command": "ls"})) for _ in range(4))))
    quality = process_quality(actions)
    assert quality is not None
    # Two of three transitions are blind retries; one stage of three; three of four acts wasted.
    assert quality.parts == pytest.approx({"coherence": 1 / 3, "completeness": 1 / 3, "thrift": 1 / 4})
    assert quality.score == pytest.approx((25 / 3 + 18 / 3 + 25 / 4) / 68)
    assert states_of(actions)[0] == shell("ls")
