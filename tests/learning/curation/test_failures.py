"""Lessons from failed attempts: what is kept, what is learnt from, and that only wins win."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from assay.learning.conversation import Opening
from assay.learning.curation.failures import (
    build_guidance,
    contrast_at,
    fission_lesson,
    own_steps,
    reattempt_lesson,
    salvage_lesson,
)
from assay.learning.curation.lessons import lesson_line, pair_line
from assay.learning.curation.recover import add_guidance, from_prefixes
from assay.records import Check, EnvironmentSpec, Evidence, Observation, Step, Task, Trajectory, Verdict
from assay.rollout.rejudge.counterfactual import PrefixOutcome, RewindResult
from assay.settings import Settings
from assay.tasks import LoadedTask
from tests.analysis.made import call, step, trajectory
from tests.learning.curation.made import assay, lines

pytestmark = pytest.mark.quick


def did(word: str, *, error: bool = False) -> Step:
    return step(call("do", {"what": word}, "c"), seen=[Observation(f"{word} done", "c", error=error)])


FAILED = trajectory(did("a"), did("b", error=True), did("c"), did("d"), attempt="f",
                    verdicts=(Verdict("tests", "outcome", "fail", 0.0, "3 of 4 tests passed"),))  # fmt: skip


def won(prefix: int, *words: str, again: bool = True) -> Trajectory:
    """A continuation that did the first `prefix` steps again, or began in their state."""
    before = FAILED.steps[:prefix] if again else ()
    made = trajectory(*before, *(did(word) for word in words), attempt=f"w{prefix}")
    note = Evidence("e1", "audit", "replayed", {"steps": prefix})
    return msgspec.structs.replace(made, outcome="pass", evidence=(note,) if again else (), agent="replay+expert")


def words(*steps: Step) -> list[str]:
    return [s.tool_calls[0].parsed["what"] if s.tool_calls else f"({s.actor})" for s in steps]  # type: ignore[index]


@pytest.mark.parametrize("again", [True, False])
def test_a_salvage_is_the_beginning_of_one_and_the_end_of_the_other(again: bool) -> None:
    found = salvage_lesson(FAILED, won(2, "x", "y", again=again), 2)
    assert words(*found.steps) == ["a", "b", "x", "y"]
    assert found.learn == (True,) * 4
    assert [s.index for s in found.steps] == [0, 1, 2, 3]
    ids = [c.id for s in found.steps for c in s.tool_calls]
    assert len(set(ids)) == 4
    assert [s.observations[0].call_id for s in found.steps] == ids
    assert found.why == "step 2 lost it: before it expert still won; 2 of its steps are kept"


def test_a_fission_learns_only_how_the_error_was_got_over() -> None:
    found = fission_lesson(FAILED, won(2, "x", "y"), 2)
    assert words(*found.steps) == ["a", "b", "(user)", "x", "y"]
    assert found.learn == (False, False, False, True, True)
    assert found.feedback is not None
    assert "b done" in found.feedback
    with pytest.raises(ValueError, match="came to no error"):
        fission_lesson(FAILED, won(1, "x"), 1)


def test_a_lesson_as_a_conversation_says_which_messages_to_learn() -> None:
    opening = Opening([{"role": "user", "content": "Do it."}], [])
    line = lesson_line(fission_lesson(FAILED, won(2, "x"), 2), FAILED, opening)
    roles = [message["role"] for message in line.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "user", "assistant", "tool"]
    assert line.learn == [False] * 6 + [True, False]


def test_a_pair_is_one_message_against_one_under_the_same_conversation() -> None:
    contrast = contrast_at(FAILED, won(2, "x", "y"), 2)
    assert contrast is not None
    line = pair_line(contrast, FAILED, Opening([{"role": "user", "content": "Do it."}], []))
    assert [m["role"] for m in line.prompt] == ["user", "assistant", "tool", "assistant", "tool"]
    chosen, rejected = (
        getattr(line, name)[0]["tool_calls"][0]["function"]["arguments"] for name in ("chosen", "rejected")
    )
    assert (json.loads(chosen), json.loads(rejected)) == ({"what": "x"}, {"what": "c"})
    assert contrast_at(FAILED, won(2, "c"), 2) is None
    assert contrast_at(FAILED, won(2), 2) is None


def rewound(*passed: int, decisive: int | None) -> RewindResult:
    outcomes = tuple(PrefixOutcome(n, "pass" if n in passed else "fail", None, f"w{n}", "replayed") for n in range(5))
    return RewindResult("run", "f", "fail", "expert", "cont", 4, outcomes, decisive)


def test_what_continuations_teach() -> None:
    found = from_prefixes(FAILED, rewound(0, 1, 2, 3, decisive=3), {f"w{n}": won(n, "x") for n in range(4)})
    assert [lesson.kind for lesson in found.lessons] == ["salvage", "fission"]
    assert [lesson.prefix for lesson in found.lessons] == [3, 2]
    assert found.contrast is not None
    assert "1 errors of it can be got over" in found.why


def test_a_win_that_is_doubted_teaches_nothing() -> None:
    found = from_prefixes(FAILED, rewound(0, 1, decisive=1), {})
    assert (found.lessons, found.contrast) == ((), None)


def test_guidance_tells_no_more_than_was_asked_for() -> None:
    assert "tests" not in build_guidance(FAILED, "outcome")
    assert "'tests' failed" in build_guidance(FAILED, "checks")
    assert "3 of 4" not in build_guidance(FAILED, "checks")
    assert "3 of 4 tests passed" in build_guidance(FAILED, "evidence")


def test_a_guided_task_is_another_task_and_its_lesson_leaves_the_guidance_out() -> None:
    task = Task("t", "Do it.", EnvironmentSpec("w"), (Check("c", "k"),), "blake3:1")
    made = add_guidance(LoadedTask(task, None), "Try x.", 0).task
    assert made.instruction == "Do it.\n\nTry x."
    assert (made.id, made.digest != task.digest) == ("t+guided-0", True)
    lesson = reattempt_lesson(won(0, "x"), "Try x.")
    assert words(*lesson.steps) == ["x"]
    assert lesson.feedback == "Try x."


def test_only_the_own_steps_of_a_continuation_count() -> None:
    assert words(*own_steps(won(3, "x", "y"))) == ["x", "y"]


def test_failed_attempts_become_lessons(settings: Settings, tmp_path: Path) -> None:
    store = str(settings.store)
    where = ["--where", "verdicts:outcome=fail", "--where", "mixture:total=2"]
    agents = ["--recover", "expert", "--reattempt", "expert"]
    said = assay("curate", "g", "--store", store, *where, *agents, "--out", str(tmp_path / "o"))
    results = json.loads((tmp_path / "o" / "manifest.json").read_text())["report"]["recovered"]
    assert len(results) == 4
    assert all(one["why"] and one["why"] in said for one in results)
    lessons = lines(tmp_path / "o" / "lessons.jsonl")
    assert {one["kind"] for one in lessons} >= {"reattempt"}
    assert sorted(kind for one in results for kind in one["lessons"]) == sorted(one["kind"] for one in lessons)
    assert all(any(one["learn"]) and len(one["learn"]) == len(one["messages"]) for one in lessons)
    assert f"{len(lines(tmp_path / 'o' / 'pairs.jsonl'))} pairs" in said
    guidance = next(one["feedback"] for one in lessons if one["kind"] == "reattempt")
    assert all(guidance not in json.dumps(one["messages"]) for one in lessons)
