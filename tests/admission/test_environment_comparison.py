"""Two environments compared: worlds in process, and workspaces in real sandboxes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.admission._comparison_actions import draw_argument, shell_actions, tool_actions
from assay.admission.config import AdmitConfig
from assay.admission.environment_comparison import ComparisonOptions, ComparisonReport, compare_tasks
from assay.environments.interface import ToolSpec
from assay.errors import UserError
from assay.records import Check, EnvironmentSpec, Observation, Task, ToolCall, digest_record
from assay.rollout import Tally
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask, TaskDraft, find_tasks, write_task

CLOSED = {"type": "object", "properties": {"by": {"type": "integer"}}, "additionalProperties": False}
ADD = {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]}


class Counter:
    """A number that `add` moves; other implementations differ in one thing each."""

    schema: dict[str, Any] = ADD
    answer = "{0}"

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        self.value = int(parameters["start"])
        self.calls = 0

    def specs(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("add", "Adds.", self.schema),)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        if name != "add" or not isinstance(arguments.get("by"), int):
            return Observation("no such call", error=True)
        self.calls += 1
        self.value = self.moved(arguments["by"])
        return Observation(self.answer.format(self.value))

    def moved(self, by: int) -> int:
        return self.value + by

    def oracle(self) -> list[ToolCall]:
        return [ToolCall("c", "add", '{"by": 70}', {"by": 70})]

    async def digest(self) -> str:
        return digest_record([type(self).__name__, self.value])  # its own way: not to be compared

    def facts(self) -> dict[str, Any]:
        return {"value": self.value}

    async def close(self) -> None:
        return None


class Rewritten(Counter):
    def moved(self, by: int) -> int:
        return sum((self.value, by))


class Saturates(Counter):
    def moved(self, by: int) -> int:
        return min(self.value + by, 50)


class Talks(Counter):
    answer = "now {0}"


class Strict(Counter):
    schema = CLOSED


class Raises(Counter):
    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        if name != "add":
            raise KeyError(name)
        return await super().call(name, arguments)


class Random(Counter):
    """Says something else each time it is made, and moves alike."""

    made = 0

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        Random.made += 1
        await super().call(name, arguments)
        return Observation(f"token {Random.made}")


class Hollow(Counter):
    """Answers as if it moved, and does not."""

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        return Observation(str(self.value + arguments.get("by", 0)))


class Forgets(Counter):
    """Reports less, so that its check is not observed."""

    def facts(self) -> dict[str, Any]:
        return {"value": self.value, "calls": 0}


def world(kind: str, expected: int = 10, **more: Any) -> LoadedTask:
    spec = EnvironmentSpec(f"{__file__}:{kind}", {"start": 3})
    checks = (Check("ten", "facts", {"expected": {"value": expected}}),)
    task = Task("count", "Bring it to ten.", spec, checks, digest=digest_record([kind, expected]), **more)
    return LoadedTask(task, None)


async def compared(
    folder: Path, one: LoadedTask, other: LoadedTask, options: ComparisonOptions | None = None
) -> ComparisonReport:
    settings = Settings(Settings.from_environment().cache, folder / "store")
    config = AdmitConfig(tasks=("given",), seed=1)
    return await compare_tasks([one], [other], config, options or ComparisonOptions(rollouts=0), settings, Tally())


async def test_another_implementation_of_the_same_world_is_equivalent(tmp_path: Path) -> None:
    report = await compared(tmp_path, world("Counter"), world("Rewritten"), ComparisonOptions(rollouts=1))
    assert report.equivalent
    assert report.tests["interaction"] > 100
    assert report.tests["rollout"] >= 9
    assert "no divergence found" in report.markdown()


@pytest.mark.parametrize(
    ("kind", "layer", "about", "other"),
    [
        ("Saturates", "interaction", "observation", "50"),
        ("Talks", "interaction", "observation", "now "),
        ("Strict", "property", "tool add", "additionalProperties"),
        ("Raises", "interaction", "observation", "raised KeyError"),
        ("Forgets", "property", "first state", "calls"),
    ],
)
async def test_the_first_divergence_is_reported_with_what_led_there(
    tmp_path: Path, kind: str, layer: str, about: str, other: str
) -> None:
    report = await compared(tmp_path, world("Counter"), world(kind))
    found = report.divergences[0]
    assert (found.layer, found.about) == (layer, about)
    assert other in found.other
    assert bool(found.actions) == (layer == "interaction")
    assert not report.equivalent


def outcomes(folder: Path, report: ComparisonReport) -> list[dict[str, tuple[str, int]]]:
    """Returns, for each of the two runs, outcome and number of steps by task and agent."""
    found = []
    for run in report.runs:
        with RunStore.open(folder / "store", run) as store:
            found.append({row.attempt: (row.outcome or "none", row.steps) for row in store.attempts()})
    return found


async def test_policies_act_in_both_worlds_and_their_verdicts_are_compared(tmp_path: Path) -> None:
    only_rollouts = ComparisonOptions(episodes=0, rollouts=1)
    same = await compared(tmp_path, world("Counter", 73), world("Rewritten", 73), only_rollouts)
    first, second = outcomes(tmp_path, same)
    assert first == second == {"count@null.0": ("fail", 0), "count@oracle.0": ("pass", 1)}
    assert same.equivalent


async def test_a_policy_that_one_world_fails_is_a_divergence(tmp_path: Path) -> None:
    report = await compared(
        tmp_path, world("Counter", 73), world("Hollow", 73), ComparisonOptions(episodes=0, rollouts=1)
    )
    found = {one.about: (one.one, one.other) for one in report.divergences}
    assert found["verdict of oracle.0"] == ("pass", "fail")
    assert "verdict of null.0" not in found


async def test_text_worlds_of_a_family_are_run_by_expert_and_random_policy(tmp_path: Path) -> None:
    grids = [find_tasks([f"family:grid,n=1,seed={seed}"])[0] for seed in (1, 1, 2)]
    options = ComparisonOptions(episodes=0, rollouts=1)
    report = await compared(tmp_path, grids[0], grids[1], options)
    first, second = outcomes(tmp_path, report)
    assert first == second
    by_agent = {attempt.rpartition("@")[2]: found for attempt, found in first.items()}
    assert by_agent["expert.0"][0] == "pass"
    assert by_agent["expert.0"][1] > 0
    assert by_agent["null.0"] == ("fail", 0)
    assert by_agent["random-world.0"][1] > 0
    assert report.equivalent
    assert not (await compared(tmp_path, grids[0], grids[2], options)).equivalent


async def test_what_the_first_does_not_repeat_itself_is_no_divergence(tmp_path: Path) -> None:
    report = await compared(tmp_path, world("Random"), world("Random"))
    assert report.equivalent
    assert report.unstable > 50


async def test_declared_volatile_text_is_not_compared(tmp_path: Path) -> None:
    report = await compared(
        tmp_path, world("Counter"), world("Talks"), ComparisonOptions(rollouts=0, volatile=("now ",))
    )
    assert not report.equivalent
    hidden = ComparisonOptions(rollouts=0, volatile=(r'"content":"[^"]*"',))
    assert (await compared(tmp_path, world("Counter"), world("Talks"), hidden)).equivalent


async def test_other_checks_differ_as_property_and_in_their_verdicts(tmp_path: Path) -> None:
    report = await compared(tmp_path, world("Counter"), world("Counter", expected=73))
    assert [d.layer for d in report.divergences] == ["property", "rollout"]
    assert report.divergences[1].one == "ten: fail"
    assert report.divergences[1].actions == ('add {"by":70}',)


def workspace(folder: Path, name: str, files: Mapping[str, str]) -> LoadedTask:
    texts: dict[str, str | bytes] = {
        "instruction.md": "Write `sum.txt`.",
        "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\nCOPY data /workspace/\n",
        "environment/data/numbers.txt": "1\n2\n",
        "solution/solve.sh": "echo 3 > /workspace/sum.txt\n",
        "tests/test.sh": "grep -qx 3 /workspace/sum.txt && echo 1 > /logs/verifier/reward.txt\n",
        **files,
    }
    return write_task(folder / name, TaskDraft(files=texts))


@pytest.mark.long
async def test_workspaces_are_compared_in_sandboxes(tmp_path: Path) -> None:
    options = ComparisonOptions(episodes=2, steps=5, rollouts=1)
    one, same = workspace(tmp_path, "a", {}), workspace(tmp_path, "b", {"README.md": "another text for people"})
    report = await compared(tmp_path, one, same, options)
    assert report.divergences == ()
    assert report.tests["rollout"] == 3
    assert len(report.runs) == 2
    data = {
        "environment/data/numbers.txt": "1\n3\n",
        "tests/test.sh": "echo 0 > /logs/verifier/reward.txt\n",
    }
    other = await compared(tmp_path, one, workspace(tmp_path, "c", data), options)
    assert {(d.layer, d.about) for d in other.divergences} >= {
        ("property", "file ./numbers.txt"),
        ("rollout", "verdict of oracle.0"),
    }
    assert any(d.layer == "interaction" and d.actions for d in other.divergences)


async def test_tasks_that_cannot_be_paired_are_refused_in_words(tmp_path: Path) -> None:
    settings = Settings(Settings.from_environment().cache, tmp_path)
    with pytest.raises(UserError, match="cannot be paired"):
        await compare_tasks([], [world("Counter")], AdmitConfig(tasks=("x",)), ComparisonOptions(), settings, Tally())
    with pytest.raises(UserError, match="is not a regular expression"):
        ComparisonOptions(volatile=("(",))


async def test_a_world_and_a_workspace_are_never_equivalent(tmp_path: Path) -> None:
    report = await compared(tmp_path, world("Counter"), workspace(tmp_path, "a", {}))
    assert [d.about for d in report.divergences] == ["environment"]


@pytest.mark.quick
def test_drawn_actions_depend_on_their_seed_alone() -> None:
    specs = (ToolSpec("add", "", ADD),)
    assert tool_actions(specs, 20, "a") == tool_actions(specs, 20, "a") != tool_actions(specs, 20, "b")
    assert {action.tool for action in tool_actions(specs, 60, "a")} == {"add", "add_x"}
    assert shell_actions(["./a"], 9, "s") == shell_actions(["./a"], 9, "s")
    assert len(shell_actions([], 9, "s")) == 9


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats()
    | st.sampled_from(["object", "array", "integer", "number", "string", "enum"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "properties", "items", "enum", "required", "minimum", "minItems", "anyOf", "a"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.quick
@given(JSON)
@example({"required": [[]], "properties": None})
@example({"type": "number", "minimum": float("inf"), "maximum": float("nan")})
def test_arguments_are_drawn_for_any_schema(schema: Any) -> None:
    import random

    draw_argument(schema, random.Random(0))
