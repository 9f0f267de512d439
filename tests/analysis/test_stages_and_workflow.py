"""Stages of acts by context, and the order of stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analysis.actions import actions_of
from assay.analysis.stages import STAGES, Stage, stages_of
from assay.analysis.states import State
from assay.analysis.workflow import coherence, moves, retries, workflow_similarity
from assay.records import Observation
from tests.analysis.made import call, step, trajectory

LETTERS: dict[str, Stage] = {stage[0]: stage for stage in STAGES}
stage_lists = st.lists(st.sampled_from(STAGES), max_size=25)


def stages(letters: str) -> list[Stage]:
    return [LETTERS[letter] for letter in letters]


def states(letters: str) -> list[State]:
    return [State(LETTERS[letter], "shell", "bash", str(number)) for number, letter in enumerate(letters)]


def letters_of(*tools: tuple[str, dict[str, object]]) -> str:
    actions = actions_of(trajectory(*(step(call(name, arguments)) for name, arguments in tools)))
    return "".join(stage[0] for stage in stages_of(actions))


def shells(*commands: str) -> str:
    return letters_of(*(("bash", {"command": command}) for command in commands))


def test_what_a_read_is_for_depends_on_what_was_changed() -> None:
    read, edit = ("read", {"path": "src/a.py"}), ("edit", {"path": "src/a.py", "new": "x"})
    other, test = ("read", {"path": "src/b.py"}), ("read", {"path": "tests/test_a.py"})
    assert letters_of(read, test, edit, read, other, test) == "eeivev"


def test_an_edit_of_a_test_verifies_once_something_is_implemented() -> None:
    test, edit = ("edit", {"path": "test_a.py", "new": "x"}), ("edit", {"path": "a.py", "new": "x"})
    assert letters_of(test, edit, test, ("edit", {"path": "SUMMARY.md", "new": "x"})) == "eivo"


def test_shell_commands_have_stages() -> None:
    looking = ("ls -la", "grep -rn foo .", "git diff")
    assert shells(*looking, "sed -i s/a/b/ a.py", "git diff", "python a.py", "pytest -q", "rm repro.py") == "eeeivvvo"


def test_what_tells_nothing_late_in_an_attempt_verifies() -> None:
    assert shells(*["ls"] * 8, "frobnicate", "frobnicate") == "e" * 8 + "vv"


def test_unknown_tools_go_by_what_they_report() -> None:
    fine = step(call("frobnicate", {}), seen=[Observation("done")])
    wrong = step(call("frobnicate", {}), seen=[Observation("Error: no seat")])
    assert [each[0] for each in stages_of(actions_of(trajectory(fine, wrong)))] == ["o", "v"]


@pytest.mark.parametrize(
    ("tool", "stage"),
    [("get_user_details", "explore"), ("listAirports", "explore"), ("book_reservation", "implement"),
     ("cancel-order", "implement"), ("verify_address", "verify"), ("getaway", "orchestrate"), ("book", "implement")],
)  # fmt: skip
def test_tools_of_services_go_by_their_verb(tool: str, stage: Stage) -> None:
    assert stages_of(actions_of(trajectory(step(call(tool, {}), seen=[Observation("fine")])))) == (stage,)


def test_moves_by_hand() -> None:
    assert moves(stages("eeivovie")) == {"deepen": 1, "pivot": 2, "confirm": 1, "backtrack": 3}


def test_coherence_by_hand() -> None:
    # e i v i: two forward, one back, no retry.
    assert coherence(states("eivi")) == pytest.approx(2 / 3)
    # Five alike, then on: one forward move of one; three of five transitions are blind retries.
    alike = [State("explore", "shell", "bash", "a")] * 5 + [State("implement", "shell", "bash", "a")]
    assert retries(alike) == (2, 3, 4)
    assert coherence(alike) == pytest.approx(1 - 3 / 5)
    assert coherence([]) == coherence(states("e")) == 1.0


@given(stage_lists, stage_lists)
def test_similarity_is_a_symmetric_share(first: list[Stage], second: list[Stage]) -> None:
    value = workflow_similarity(first, second)
    assert 0.0 <= value <= 1.0
    assert value == pytest.approx(workflow_similarity(second, first))
    assert workflow_similarity(first, first) == pytest.approx(1.0)


@given(st.text(alphabet="eivo", max_size=25))
def test_coherence_is_a_share(letters: str) -> None:
    assert 0.0 <= coherence(states(letters)) <= 1.0
