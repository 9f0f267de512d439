"""What is measured of an attempt, on records made by hand."""

from __future__ import annotations

import msgspec
import pytest

from assay.analysis.actions import actions_of
from assay.analysis.stages import stages_of
from assay.learning.curation.measures import compare_within_tasks, find_cycles, measure
from assay.learning.curation.similar import LeakageIndex
from assay.records import Observation, Step, ToolCall, Verdict
from tests.analysis.made import call, step, trajectory

pytestmark = pytest.mark.quick


def shell(command: str, seen: str = "fine", code: int = 0) -> Step:
    return step(call("bash", {"command": command}), seen=[Observation(seen, exit_code=code)])


LOOK, CHANGE, CHECK = shell("cat a.py"), shell("sed -i s/a/b/ a.py"), shell("pytest -q", "1 passed in 0.1s")
BLIND = step(call("bash", {"command": "pytest -q"}), seen=[])


def spans(*steps: Step) -> list[tuple[int, int]]:
    actions = actions_of(trajectory(*steps))
    return find_cycles(actions, stages_of(actions))


def test_a_cycle_looks_changes_and_checks() -> None:
    assert spans(LOOK, CHANGE, CHECK) == [(0, 3)]
    assert spans(LOOK, LOOK, CHANGE, CHANGE, CHECK, CHECK, LOOK) == [(0, 6)]
    # The check of one is the look of the next.
    assert spans(LOOK, CHANGE, CHECK, CHANGE, CHECK) == [(0, 3), (2, 5)]
    assert spans(CHANGE, CHECK) == []
    assert spans(LOOK, CHANGE, LOOK) == []


def test_a_check_that_shows_nothing_verified_nothing() -> None:
    assert spans(LOOK, CHANGE, BLIND) == []


def test_measures_of_an_attempt() -> None:
    wrong = shell("sed -i s/a/c/ b.py", "sed: can't read b.py: No such file or directory", 2)
    found = measure(trajectory(LOOK, wrong, CHANGE, CHECK, LOOK)).candidate
    assert (found.acts, found.cycles, found.density) == (5, 1, 0.8)
    assert found.errors == 1
    assert found.signature


def test_moves_are_those_of_the_graph_of_all_attempts() -> None:
    held = compare_within_tasks(
        [measure(trajectory(LOOK, CHANGE)), measure(trajectory(LOOK, CHANGE)), measure(trajectory(CHECK))]
    )
    assert held[0].moves == held[1].moves
    assert not set(held[0].moves) & set(held[2].moves)
    assert compare_within_tasks([measure(trajectory(LOOK, LOOK))])[0].distinct == 0.5


def test_arguments_that_no_encoder_takes_are_measured() -> None:
    huge = ToolCall("c", "add", '{"n": 1' + "0" * 5000 + "}", None)
    assert measure(trajectory(Step(0, "agent", None, None, (huge,), ()))).candidate.acts == 1


def test_what_is_held_out_is_found_in_what_the_agent_wrote() -> None:
    secret = "the total of all accounts in the ledger of the second quarter is four hundred and twelve"
    held = LeakageIndex({"h": secret}, {})
    found = measure(trajectory(shell(f"echo {secret} > sum.txt")), "", held).candidate.twin
    assert found is not None
    assert found.share == 1.0
    assert measure(trajectory(LOOK), secret, held).candidate.twin == found


def test_a_records_praise_of_itself_is_no_verdict() -> None:
    praise = Verdict("own", "process", "pass", 1.0, "well done", marks=("imported",))
    blame = Verdict("own", "safety", "fail", 0.0, "it deleted all", marks=("imported",))
    found = measure(msgspec.structs.replace(trajectory(LOOK), verdicts=(praise, blame))).candidate
    assert (found.process, found.process_score, found.safety) == (None, None, "fail")
