"""In-process worlds go through the battery by their hooks; what they cannot give is not tested, never sound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assay.admission.battery import Admission, admit
from assay.admission.config import AdmitConfig
from assay.admission.probe import Probe
from assay.admission.probes import world_probes
from assay.admission.soundness import TaskReport
from assay.admission.worlds import WorldHooks, collect_hooks
from assay.cli.app import build_app
from assay.errors import TaskError
from assay.records import Check
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.statistics import wilson
from assay.tasks import LoadedTask
from tests.admission.worlds import Bare, Whole, world_task

pytestmark = pytest.mark.quick


async def admitted(tmp_path: Path, *tasks: LoadedTask, **fields: Any) -> Admission:
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    config = AdmitConfig(tasks=("given",), run="a", **fields)
    return await admit(config, settings, Tally(), tasks=tasks)


async def report_of(tmp_path: Path, task: LoadedTask, **fields: Any) -> TaskReport:
    (report,) = (await admitted(tmp_path, task, **fields)).reports
    return report


async def test_a_world_with_every_hook_is_admitted(tmp_path: Path) -> None:
    report = await report_of(tmp_path, world_task(Whole))
    outcomes = {probe.probe: probe.outcome for probe in report.probes}
    assert report.admitted == {"default": True}
    assert outcomes["oracle.1"] == outcomes["oracle.3"] == "pass"
    assert outcomes["null.nothing"] == outcomes["null.add-zero"] == outcomes["cheat.blind-replay"] == "fail"


async def test_wrong_solutions_that_end_in_the_same_world_are_told_from_those_that_do_not(tmp_path: Path) -> None:
    found = (await report_of(tmp_path, world_task(Whole))).sensitivity
    assert found is not None
    judged = {one.operator: (one.judgement, one.by) for one in found.survivors}
    assert judged == {"in-two": ("equivalent", "final state"), "noisy": ("changed", "final state")}
    assert (found.tried, found.rejected, found.best) == (3, 1, 0.5)


@pytest.mark.parametrize("kinds", [("communicated", "state"), ("state",)])
def test_a_check_of_what_was_said_is_tried_by_saying_every_number(kinds: tuple[str, ...]) -> None:
    checks = tuple(Check(kind, kind) for kind in kinds)
    probes = world_probes(AdmitConfig(tasks=("given",)), WorldHooks(), checks)
    names = {one.name for one in probes if isinstance(one, Probe)}
    assert ("cheat.shortcut-all-numbers" in names) == ("communicated" in kinds)


async def test_a_world_without_hooks_is_not_tested_and_not_admitted(tmp_path: Path) -> None:
    report = await report_of(tmp_path, world_task(Bare))
    untried = {one.probe for one in report.untried}
    assert {"oracle", "null", "cheat", "sensitivity", "strictness", "oracle.clock"} <= untried
    assert [(f.kind, f.severity) for f in report.findings if f.severity != "note"] == [("no-oracle", "broken")]
    assert not report.is_admitted


async def test_a_check_that_anything_passes_is_a_hole(tmp_path: Path) -> None:
    report = await report_of(tmp_path, world_task(Bare, expected=0))
    assert ("null-passed", "null.nothing") in {(f.kind, f.probe) for f in report.findings if f.severity == "hole"}


async def test_a_solution_that_does_not_solve_is_named(tmp_path: Path) -> None:
    report = await report_of(tmp_path, world_task(Whole, expected=11))
    (found,) = [f for f in report.findings if f.kind == "oracle-fails"]
    assert "differs: value" in found.text
    assert found.evidence == ("world@oracle.1", "world@oracle.2", "world@oracle.3")


async def test_the_quick_battery_leaves_wrong_solutions_out(tmp_path: Path) -> None:
    report = await report_of(tmp_path, world_task(Whole), quick=True)
    assert report.sensitivity is None
    assert "left out by --quick" in {one.reason for one in report.untried if one.probe == "sensitivity"}


async def test_the_quick_battery_tries_as_many_wrong_solutions_as_are_asked_for(tmp_path: Path) -> None:
    report = await report_of(tmp_path, world_task(Whole), quick=True, mutants=1)
    assert report.sensitivity is not None
    assert report.sensitivity.tried == 1


class Lying(Bare):
    """Its solution is no list of calls."""

    def oracle(self) -> Any:
        return ["add"]


async def test_a_hook_that_gives_no_calls_is_the_tasks_failure() -> None:
    lying = world_task(Lying)
    kind = f"{__file__}:Lying"
    from msgspec.structs import replace

    task = replace(lying.task, environment=replace(lying.task.environment, kind=kind))
    with pytest.raises(TaskError, match="hook oracle gives no list of tool calls"):
        await collect_hooks(LoadedTask(task, None), 0)


@pytest.mark.long
async def test_many_tasks_are_certified_one_by_one_and_counted_together(tmp_path: Path) -> None:
    tasks = [world_task(Whole, name=f"w{n:02}") for n in range(20)]
    tasks += [world_task(Bare, expected=0, name="careless")]
    tally = Tally()
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    told: list[str] = []
    config = AdmitConfig(tasks=("given",), run="a", quick=True, concurrency=1)
    result = await admit(config, settings, tally, on_report=lambda report: told.append(report.task), tasks=tasks)
    assert [report.task for report in result.reports] == told == [one.task.id for one in tasks]
    assert sum(report.is_admitted for report in result.reports) == 20
    assert tally.done == tally.total == sum(len(report.probes) for report in result.reports)


def test_a_family_of_the_documentation_is_admitted(tmp_path: Path) -> None:
    family = f"family:{Path(__file__).parents[2] / 'docs_src' / 'counter_world.py'}:CounterTasks,n=3,seed=4"
    done = CliRunner().invoke(build_app(), ["admit", family, "--store", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "3 of 3 tasks are admitted" in done.stdout


async def test_how_hard_it_is_comes_from_the_attempts_in_the_store(tmp_path: Path) -> None:
    task, settings = world_task(Whole), Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    agents = Path(__file__).parents[1] / "rollout" / "agents.py"
    for agent, attempts in ((f"{agents}:Solver", 20), ("null", 3)):
        config = RunConfig(tasks=("-",), agent=agent, attempts=attempts)
        await start_run(config, settings, Tally(), tasks=[task])
    report = await report_of(tmp_path, task, quick=True)
    (rate,) = report.difficulty
    assert (rate.agent, rate.judged, rate.passed, rate.interval) == ("solver", 20, 20, wilson(20, 20))
    assert "too-easy" in {f.kind for f in report.findings}
    assert report.is_admitted
