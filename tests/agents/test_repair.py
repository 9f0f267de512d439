"""The repair policy in a real sandbox, on a small broken package."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from assay.agents._repair_search import edit_key, likelihoods_of, rank_edits, rank_suspects, state_of_run
from assay.agents.repair import RepairAgent, visible_tests
from assay.agents.testing import FakeAttempt, fake_task
from assay.agents.text_rules import parse_rules
from assay.code.batches import JobResult, RunOutcome
from assay.code.spectra import Line, Suspect
from assay.environments.interface import Workspace, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import HOME, ensure_toolchain
from assay.errors import TaskError, UserError
from assay.settings import Settings

RIGHT = """def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


def total(items):
    found = 0
    for item in items:
        found += item
    return found
"""
TESTS = """from pkg.parts import clamp, total


def test_inside():
    assert clamp(5, 0, 10) == 5


def test_outside():
    assert clamp(-1, 0, 10) == 0
    assert clamp(11, 0, 10) == 10


def test_total():
    assert total([1, 2, 3]) == 6
"""
INSTRUCTION = "Something is wrong. Run\n\n    python3 -m pytest tests/test_parts.py\n"
ONE = RIGHT.replace("if value < low", "if value > low")
TWO = ONE.replace("found += item", "found -= item")
MISSING = RIGHT.replace("    found = 0\n    for item in items:\n        found += item\n    return found", "    pass")


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    layer = ensure_toolchain(Settings.from_environment().cache)
    backend = NamespacesBackend()
    yield await backend.open(WorkspaceSpec(env={"PATH": f"{HOME}/bin:/usr/bin:/bin"}, mounts=(layer.mount(),)))
    await backend.close()


async def repaired(workspace: Workspace, text: str, seed: int = 0, **options: object) -> FakeAttempt:
    files = {"pkg/__init__.py": "", "pkg/parts.py": text, "tests/test_parts.py": TESTS}
    for name, content in files.items():
        await workspace.write(f"/workspace/{name}", content.encode())
    attempt = FakeAttempt(task=fake_task(INSTRUCTION), seed=seed, workspace=workspace)
    await RepairAgent(**options).run(attempt)
    return attempt


async def text_of(workspace: Workspace) -> str:
    return (await workspace.read("/workspace/pkg/parts.py")).decode()


@pytest.mark.long
async def test_single_fault_is_repaired(workspace: Workspace) -> None:
    attempt = await repaired(workspace, ONE)
    assert attempt.ended is not None
    assert attempt.ended.startswith("all visible tests pass after")
    assert "keep a change: pkg/parts.py line 2" in " ".join(step.message or "" for step in attempt.steps)


@pytest.mark.long
async def test_two_faults_are_repaired_one_after_the_other(workspace: Workspace) -> None:
    attempt = await repaired(workspace, TWO, budget=200)
    assert (attempt.ended or "").startswith("all visible tests pass")
    assert sum("keep a change" in (step.message or "") for step in attempt.steps) >= 2


async def test_budget_is_counted_in_evaluations_and_kept(workspace: Workspace) -> None:
    attempt = await repaired(workspace, MISSING, budget=12, batch=4)
    assert attempt.ended is not None
    assert "1 visible tests still fail" in attempt.ended
    assert int(attempt.ended.split()[-2]) <= 12
    assert await text_of(workspace) == MISSING


@pytest.mark.long
async def test_same_seed_does_the_same(workspace: Workspace) -> None:
    first = await repaired(workspace, ONE, seed=3)
    text = await text_of(workspace)
    second = await repaired(workspace, ONE, seed=3)
    assert text == await text_of(workspace)
    assert [(s.message, s.tool_calls) for s in first.steps] == [(s.message, s.tool_calls) for s in second.steps]


async def test_nothing_to_repair_is_said(workspace: Workspace) -> None:
    attempt = await repaired(workspace, RIGHT)
    assert attempt.ended == "all visible tests pass after 1 evaluations"


@pytest.mark.long
async def test_what_cannot_be_collected_is_said(workspace: Workspace) -> None:
    attempt = await repaired(workspace, "def broken(:\n")
    assert "cannot be run" in (attempt.ended or "")


@pytest.mark.long
async def test_test_files_are_looked_for_where_none_is_named(workspace: Workspace) -> None:
    await workspace.write("/workspace/tests/test_parts.py", TESTS.encode())
    await workspace.write("/workspace/pkg/__init__.py", b"")
    await workspace.write("/workspace/pkg/parts.py", ONE.encode())
    attempt = FakeAttempt(task=fake_task("Repair it."), workspace=workspace)
    await RepairAgent().run(attempt)
    assert (attempt.ended or "").startswith("all visible tests pass")


async def test_no_shell_is_an_error_of_the_task() -> None:
    with pytest.raises(TaskError, match="no shell"):
        await RepairAgent().run(FakeAttempt(task=fake_task("x")))


def test_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="budget"):
        RepairAgent(seconds=3)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("    python3 -m pytest a/test_b.py c/test_d.py\n", ("a/test_b.py", "c/test_d.py")),
        ("run `pytest -q test_x.py::test_y`, please", ("test_x.py::test_y",)),
        ("pytest 'unclosed", ()),
        ("pytest ../../etc/$(x).py; rm -rf /", ()),
        ("no tests", ()),
    ],
)
def test_instruction_names_the_tests(text: str, found: tuple[str, ...]) -> None:
    assert visible_tests(fake_task(text)) == found


def test_order_is_by_suspicion_and_seed() -> None:

    covered = {"t.py::bad": {"m.py": (1, 2)}, "t.py::good": {"m.py": (1,)}}
    tests = {"t.py::bad": RunOutcome("failed"), "t.py::good": RunOutcome("passed")}
    state = state_of_run(JobResult("now", "done", tests=tests, covered=covered))
    ranked = rank_suspects(state, random.Random(0))
    assert [s.line.line for s in ranked] == [2, 1]
    texts = {"m.py": "x = 1\ny = 1 < 2\n"}
    first = [rank_edits(ranked, texts, set(), random.Random(seed)) for seed in (1, 1, 2)]
    assert first[0] == first[1]
    assert first[0] != first[2]


MESSY = (
    TESTS
    + """

def test_leaves_traces():
    import pathlib
    pathlib.Path(f"trace-{clamp(5, 0, 10)}-{total([1])}").write_text("x")
    pathlib.Path.home().joinpath("trace").write_text("x")
"""
)


@pytest.mark.long
async def test_what_was_tried_leaves_no_trace(workspace: Workspace) -> None:
    files = {"pkg/__init__.py": "", "pkg/parts.py": TWO, "tests/test_parts.py": MESSY}
    for name, content in files.items():
        await workspace.write(f"/workspace/{name}", content.encode())
    before = {change.path for change in await workspace.diff()}
    attempt = FakeAttempt(task=fake_task(INSTRUCTION), workspace=workspace)
    await RepairAgent(budget=200).run(attempt)
    assert (attempt.ended or "").startswith("all visible tests pass")
    assert {change.path for change in await workspace.diff()} == before
    assert await text_of(workspace) == RIGHT


def test_a_skill_orders_edits_by_its_rules(tmp_path: Path) -> None:
    texts = {"pkg/parts.py": "def f(a, b):\n    if a < b:\n        return a + 1\n    return b\n"}
    ranked = [Suspect(Line("pkg/parts.py", line), 1.0) for line in (2, 3)]
    (tmp_path / "SKILL.md").write_text("- constant shifted: 90.0000 times as likely as a random act\n")
    rules = parse_rules((tmp_path / "SKILL.md").read_text())
    plain = rank_edits(ranked, texts, set(), random.Random(0))
    first = rank_edits(ranked, texts, set(), random.Random(0), likelihoods_of(rules))
    assert plain[0].site.operator != first[0].site.operator == "constant_shifted"
    assert sorted(map(edit_key, plain)) == sorted(map(edit_key, first))
    assert RepairAgent(skill=str(tmp_path)).name == "repair"


def test_a_skill_without_a_rule_for_an_operator_is_refused(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("- take a key: 2.0000 times as likely as a random act\n")
    with pytest.raises(UserError, match="holds no rule that the agent 'repair' can follow"):
        RepairAgent(skill=str(tmp_path))
