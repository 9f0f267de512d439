"""The task family `workbench`: what is judged, what doing nothing passes, and the verdicts of recorded runs."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.admission.battery import admit
from assay.admission.config import AdmitConfig
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Task, VerdictStatus
from assay.rollout import Tally
from assay.settings import Settings
from assay.synthesis.services.workbench import WorkBenchTasks, read_call
from assay.tasks import LoadedTask
from assay.verdicts import worst_outcome
from assay.verify.outcome import WorldRequest, verify_world
from tests.environments.services.benchmark_data import read_json, shared_folder
from tests.environments.services.small_workbench import write_workbench
from tests.sampling import WHOLE, draw_sample


def small(folder: Path, **options: Any) -> tuple[Task, ...]:
    return tuple(WorkBenchTasks(data=str(folder), **options).tasks(1000, 0))


def opened(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def plan_of(task: Task) -> tuple[PlannedCall, ...]:
    return msgspec.convert(task.environment.parameters["plan"], tuple[PlannedCall, ...])


def judge_facts(task: Task, facts: dict[str, Any]) -> VerdictStatus:
    results = asyncio.run(verify_world(WorldRequest(task, facts, None)))
    assert all(one.verdict.separation == "no-agent-code" for one in results)
    worst = worst_outcome(one.verdict.status for one in results)
    assert worst is not None
    return worst


def judge(task: Task, world: ServiceWorld) -> VerdictStatus:
    return judge_facts(task, world.facts())


def renamed(name: str) -> PlannedCall:
    return PlannedCall("update_event", {"event_id": "00000000", "field": "event_name", "new_value": name})


def test_references_pass_and_nothing_passes_where_nothing_changes(tmp_path: Path) -> None:
    tasks = small(write_workbench(tmp_path))
    assert [task.id for task in tasks] == [
        "workbench-multi_domain-0",
        "workbench-email-0",
        "workbench-calendar-0",
        "workbench-calendar-1",
        "workbench-project_management-0",
        "workbench-customer_relationship_manager-0",
    ]
    assert [judge(task, play(opened(task), plan_of(task))) for task in tasks] == ["pass"] * 6
    assert [judge(task, opened(task)) for task in tasks] == ["fail", "pass", "fail", "pass", "fail", "fail"]
    assert [task.metadata["changes"] for task in tasks] == [2, 0, 1, 0, 1, 1]


def test_case_is_compared_where_the_benchmark_compares_it(tmp_path: Path) -> None:
    tasks = {task.id: task for task in small(write_workbench(tmp_path))}
    talk = tasks["workbench-calendar-0"]
    assert judge(talk, play(opened(talk), [renamed("TALK")])) == "pass"
    assert judge(talk, play(opened(talk), [renamed("Talks")])) == "fail"
    board = tasks["workbench-project_management-0"]
    cased = [change for change in board.checks[0].parameters["caseless"] if change.endswith(("list_name", "board"))]
    assert cased == []


def test_domains_limit_the_tools(tmp_path: Path) -> None:
    (task,) = small(write_workbench(tmp_path), domain="customer_relationship_manager", tools="domains")
    assert task.environment.parameters["services"] == ["workbench-customers", "workbench-directory"]
    assert judge(task, play(opened(task), plan_of(task))) == "pass"


def test_a_task_does_not_depend_on_the_folder(tmp_path: Path) -> None:
    here, there = (
        small(write_workbench(tmp_path / "a")),
        small(write_workbench(tmp_path / "b", "data/processed", compressed=True)),
    )
    assert [task.digest for task in here] == [task.digest for task in there]
    assert len({task.digest for task in here}) == 6
    (tmp_path / "a" / "emails.csv").write_bytes((tmp_path / "a" / "emails.csv").read_bytes() + b"3,,,,,\n")
    assert small(tmp_path / "a")[0].digest != here[0].digest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domain": "crm"}, "domain=crm of the family 'workbench': expected multi_domain, email"),
        ({"tools": "some"}, "tools=some of the family 'workbench': expected all or domains"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small(write_workbench(tmp_path), **options)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("[", "cannot be read"),
        ("{'a': 1}", "is not a list of texts"),
        ("[1]", "is not a list of texts"),
        ("", "cannot be read"),
        ("['calendar.delete_event.func(event_id=open(1))']", "is not a call of a tool"),
        ("[" * 5000, "cannot be read"),
    ],
)
def test_references_that_cannot_be_read_are_named_and_never_executed(tmp_path: Path, answer: str, message: str) -> None:
    path = write_workbench(tmp_path) / "queries_and_answers" / "email_queries_and_answers.csv"
    path.write_text(f'query,answer,base_template,domains\nDo it.,"{answer}",t,[]\n')
    with pytest.raises(UserError, match=message):
        small(tmp_path, domain="email")


def test_missing_files_are_named(tmp_path: Path) -> None:
    (write_workbench(tmp_path) / "project_tasks.csv").unlink()
    with pytest.raises(UserError, match=r"Found no project_tasks\.csv"):
        small(tmp_path)
    with pytest.raises(UserError, match=r"Found no multi_domain_queries_and_answers\.csv"):
        small(tmp_path / "absent")


@pytest.mark.parametrize(
    "text",
    [
        "delete_event.func(event_id='1')",
        "calendar.delete_event(event_id='1')",
        "calendar.delete_event.func('1')",
        "calendar.delete_event.func(event_id=1)",
        "calendar.delete_event.func(**{'event_id': '1'})",
        "os.system.func(command='true')",
        "calendar.delete_event.func(event_id='1'",
        "calendar",
    ],
)
def test_other_texts_are_no_calls(text: str) -> None:
    assert read_call(text) is None


def test_a_call_is_read_with_its_line_breaks() -> None:
    call = read_call('email.reply_email.func(email_id="1", body="Hi,\nSam")')
    assert call == PlannedCall("reply_email", {"email_id": "1", "body": "Hi,\nSam"})


async def test_admission_refuses_what_nothing_passes_and_says_why(tmp_path: Path) -> None:
    tasks = [LoadedTask(task, None) for task in small(write_workbench(tmp_path / "data"))]
    settings = Settings(cache=tmp_path / "cache", store=tmp_path / "store")
    done = await admit(AdmitConfig(tasks=("given",), run="a", quick=True), settings, Tally(), tasks=tasks)
    refused = {report.task: {f.text for f in report.findings} for report in done.reports if not report.is_admitted}
    assert set(refused) == {"workbench-email-0", "workbench-calendar-1"}
    assert all("nothing done is paid." in texts for texts in refused.values())


# The whole benchmark in a campaign, a sample of it in the suite.


SAMPLE = 120


@cache
def benchmark() -> tuple[Task, ...]:
    family = WorkBenchTasks(data=str(shared_folder("environments", "workbench")))
    queries = [query for domain in family._sets for query in family._read(domain)]
    assert len(queries) == 690
    tasks = tuple(family._build(query) for query in draw_sample(queries, SAMPLE))
    assert len({task.digest for task in tasks}) == len(tasks)
    return tasks


@pytest.mark.timeout(900)
def test_all_references_pass_and_nothing_passes_where_nothing_is_wanted() -> None:
    figures = read_json(shared_folder("environments", "workbench", "recomputed_totals.json"))
    seen: Counter[str] = Counter()
    for task in benchmark():
        world = opened(task)
        nothing = judge(task, world) == "pass"
        assert nothing == (task.metadata["changes"] == 0), task.id
        for call in plan_of(task):
            assert not world.act(call.action, call.arguments).error
        seen += Counter(tasks=1, oracle_correct=judge(task, world) == "pass", null_correct=nothing)
        seen["no_calls"] += not plan_of(task)
    no_calls = seen.pop("no_calls")
    if WHOLE:
        assert no_calls == 122
        assert seen == {name: figures[name] for name in ("tasks", "oracle_correct", "null_correct")}
    sample = {"tasks": 120, "oracle_correct": 120, "null_correct": 24}
    assert seen == ({"tasks": 690, "oracle_correct": 690, "null_correct": 124} if WHOLE else sample)


def recorded_runs() -> Iterator[dict[str, Any]]:
    path = shared_folder("environments", "workbench", "recorded_predictions_with_verdict.jsonl.gz")
    with gzip.open(path) as stream:
        yield from map(json.loads, stream)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_recorded_runs_of_five_models_are_judged_as_recorded() -> None:
    tasks = {task.metadata["query"]: task for task in benchmark()}
    start = opened(benchmark()[0])
    actions = start.composition.actions
    states: dict[str, dict[str, Any]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for run in recorded_runs():
        if run["query"] not in tasks:
            continue
        # All runs begin in the same state, and views change nothing: the same writes lead to the same facts.
        calls = [call for call in map(read_call, run["calls"]) if call and call.action in actions]
        writes = [call for call in calls if not actions[call.action].reads_only]
        key = repr(writes)
        if key not in states:
            states[key] = play(start, writes).facts()
        facts, task = states[key], tasks[run["query"]]
        is_right = judge_facts(task, facts) == "pass"
        has_side_effects = bool(facts["changes"]) and not is_right
        # An attempt that ended in an error counts as wrong, whatever its state.
        assert (is_right and not run["error"], has_side_effects) == (run["correct"], run["side_effects"]), run
        seen += Counter({(run["model"], "runs"): 1, (run["model"], "correct"): run["correct"]})
        seen[run["model"], "side"] += has_side_effects
    figures = read_json(shared_folder("environments", "workbench", "recomputed_totals.json"))["totals"]
    totals = {model: tuple(seen[model, name] for name in ("runs", "correct", "side")) for model in figures}
    if not WHOLE:
        assert {model: runs for model, (runs, _, _) in totals.items()} == dict.fromkeys(figures, len(tasks))
        return
    assert totals == {model: (one["n"], one["correct"], one["side"]) for model, one in figures.items()}
    assert totals == {
        "gpt-4": (690, 340, 138),
        "gpt-3.5": (690, 93, 362),
        "claude-2": (690, 156, 254),
        "llama2-70b": (690, 16, 137),
        "mistral-8x7B": (690, 132, 237),
    }
