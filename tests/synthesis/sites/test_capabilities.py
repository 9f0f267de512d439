"""Capabilities of tasks on pages, and their table: known plans, options of looks, and records that are not opened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from assay.analysis.columns import AttemptMeasures
from assay.cli.capability_table import capability_rows, read_needed, sum_capabilities
from assay.environments.services.pages.theme import draw_theme
from assay.records import AttemptEnded, AttemptStarted, Evidence, EvidenceAdded, Task
from assay.statistics import AttemptOutcome
from assay.store import RunStore
from assay.store.blobs import BlobStore
from assay.synthesis.services.family import ServiceTasks
from assay.synthesis.services.planned import UnsuitableError
from assay.synthesis.sites.capabilities import CAPABILITIES, capabilities_of
from assay.synthesis.sites.family import SiteTasks

DOCS = Path(__file__).parents[3] / "docs" / "how-to" / "use-a-browser.md"


@pytest.fixture(scope="module")
def site_task() -> Task:
    return SiteTasks(site="bakery").tasks(1, seed=1)[0]


@pytest.fixture(scope="module")
def mail_task() -> Task:
    return ServiceTasks(app="mail", interface="pages", level="explicit").tasks(1, seed=1)[0]


def planned(task: Task, *calls: tuple[str, dict[str, Any]], **more: Any) -> Task:
    """Returns a task with another plan."""
    plan = [{"action": action, "arguments": arguments} for action, arguments in calls]
    own = {**task.environment.parameters, **({"plan": plan} if calls else {}), **more}
    return replace(task, environment=replace(task.environment, parameters=own))


def needs(task: Task, *calls: tuple[str, dict[str, Any]], **more: Any) -> set[str]:
    """Returns what a plan needs on pages that ask nothing once more."""
    plain = next(seed for seed in range(99) if draw_theme(seed).confirmation == "none")
    return set(capabilities_of(planned(task, *calls, **{"site": {"theme": plain}, **more})))


def test_plans_need_what_their_calls_do(mail_task: Task) -> None:
    assert needs(mail_task, ("search_contacts", {})) == set()
    assert needs(mail_task, ("search_contacts", {"text": "Ada"})) == {"search"}
    assert needs(mail_task, ("search_contacts", {"limit": 20, "offset": 0})) == set()
    assert needs(mail_task, ("search_contacts", {"limit": 20, "offset": 20})) == {"pagination"}
    first, second = ("get_message", {"message_id": "MSG-1"}), ("get_message", {"message_id": "MSG-2"})
    assert needs(mail_task, first, first) == {"look-up"}
    assert needs(mail_task, first, second) == {"look-up", "several-records"}
    assert needs(mail_task, ("create_reminder", {"at": "2026-03-26T17:00", "text": "call"})) == {"form", "date"}
    answer = ("answer_event_invitation", {"event_id": "EVT-1", "response": "tentative"})
    assert needs(mail_task, answer) == {"form", "choice", "look-up"}


def test_several_applications_count_without_those_that_help(mail_task: Task) -> None:
    apps = {"services": ["mail", "shop", "ticket"]}
    mail, shop = ("list_reminders", {}), ("search_customers", {"text": "Ada"})
    said = ("answer_question", {"request": 1, "rows": [["Ada"]]})
    assert needs(mail_task, mail, shop, **apps) == {"search", "several-applications"}
    assert needs(mail_task, mail, said, **apps) == {"form", "list"}


def test_the_theme_decides_how_forms_ask_once_more(mail_task: Task) -> None:
    found = {}
    for seed in range(20):
        found[draw_theme(seed).confirmation] = needs(mail_task, site={"theme": seed}) & {"dialog", "confirmation"}
    assert found == {"none": set(), "dialog": {"dialog"}, "page": {"confirmation"}}
    reading = {"site": {"theme": next(seed for seed in range(99) if draw_theme(seed).confirmation == "dialog")}}
    assert needs(mail_task, ("list_reminders", {}), **reading) == set()


def test_waits_and_persons() -> None:
    (days,) = ServiceTasks(app="shop", interface="pages", level="explicit", days=2).tasks(1, seed=1)
    assert {"waiting", "form"} <= needs(days)
    (asked,) = ServiceTasks(app="shop", interface="pages", level="persona").tasks(1, seed=1)
    assert "conversation" in needs(asked)
    assert "conversation" not in needs(days)


def test_steps_of_a_machine(site_task: Task) -> None:
    add, choose = ("add_candles", {}), ("choose_collection", {"collection": "in the shop"})
    assert needs(site_task, ("open_my_account", {}), ("open_my_account", {})) == set()
    assert needs(site_task, add) == set()
    assert needs(site_task, add, add) == {"repetition"}
    assert needs(site_task, choose) == {"form", "choice"}
    assert needs(site_task, choose, ("choose_glaze", {"glaze": "white"})) == {"form", "choice", "condition"}
    assert needs(site_task, ("redeem_voucher", {"code": "VOUCHER-1"})) == {"form", "look-up"}


def test_neither_words_nor_metadata_count(site_task: Task) -> None:
    other = replace(site_task, instruction="Search all pages.", metadata={}, tags=())
    assert capabilities_of(other) == capabilities_of(site_task)
    assert set(capabilities_of(site_task)) <= CAPABILITIES.keys()


@pytest.mark.parametrize(
    "more", [{"plan": []}, {"site": {"theme": "dark"}}, {"machines": [{"name": "x"}]}, {"services": ["no-such"]}]
)
def test_tasks_whose_world_cannot_be_opened_are_refused(site_task: Task, more: dict[str, Any]) -> None:
    with pytest.raises(UnsuitableError):
        capabilities_of(planned(site_task, **more))
    with pytest.raises(UnsuitableError, match="not a task on pages"):
        capabilities_of(replace(site_task, environment=replace(site_task.environment, kind="services")))


def test_the_page_lists_each_capability() -> None:
    section = DOCS.read_text().partition("## Pass rates by capability")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.M) == list(CAPABILITIES)


def attempt(agent: str, task: str, number: int, status: Any, *, doubtful: bool = False) -> AttemptMeasures:
    outcome = AttemptOutcome(task, agent, None, number, status, doubtful=doubtful)
    return AttemptMeasures(outcome, {}, None, {}, 0)


def test_rates_by_hand() -> None:
    attempts = [
        *(attempt("a", "t0", number, "pass") for number in range(2)),
        *(attempt("a", "t1", number, status) for number, status in enumerate(("pass", "fail"))),
        *(attempt("a", "t2", number, status) for number, status in enumerate(("fail", "unknown"))),
        attempt("a", "elsewhere", 0, "pass"),
        attempt("b", "t2", 0, "pass", doubtful=True),
    ]
    needed = {(0, "t0"): ("form",), (0, "t1"): ("form", "search"), (0, "t2"): ("search",)}
    by_name = {(one.agent, one.capability): one for one in sum_capabilities(attempts, needed)}
    form, search, doubted = by_name["a", "form"], by_name["a", "search"], by_name["b", "search"]
    assert (form.tasks, form.passed, form.judged, form.rate.value) == (2, 3, 4, 0.75)
    assert (form.others, form.other_rate.value) == (1, 0.0)
    assert (search.tasks, search.passed, search.judged, search.rate.value) == (2, 1, 3, 0.25)
    assert (search.others, search.other_rate.value) == (1, 1.0)
    assert form.rate.low is not None
    assert form.rate.low < 0.75
    assert (doubted.passed, doubted.rate.value, doubted.others) == (0, 0.0, 0)
    shown = capability_rows([doubted])[0]
    assert (shown["capability"], shown["theirs [95%]"]) == ("search", "-")


def stored(root: Path, task: Task, **config: Any) -> tuple[dict[Any, Any], list[str]]:
    record = BlobStore(root / "blobs").put(msgspec.json.encode(task))
    with RunStore.create(root, "r", config) as run:
        started = AttemptStarted("r", "x-0", task.id, task.digest, "a", None, 0, 0, at=1.0)
        kept = EvidenceAdded(Evidence("t", "state", "task", {"digest": task.digest, "record": record}))
        run.append("x-0.0", [started, kept, AttemptEnded("done", at=2.0)])
    said: list[str] = []
    return dict(read_needed(root, ("r",), said.append)), said


def test_archived_tasks_are_asked(tmp_path: Path, site_task: Task) -> None:
    assert stored(tmp_path, site_task) == ({(0, site_task.id): capabilities_of(site_task)}, [])


def test_records_of_others_are_not_opened(tmp_path: Path, site_task: Task) -> None:
    found, said = stored(tmp_path / "import", site_task, kind="import")
    assert (found, len(said)) == ({}, 1)
    named = planned(site_task, services=["evil.py:service"])
    found, said = stored(tmp_path / "code", named)
    assert found == {}
    assert "--allow-task-code" in said[0]
    found, said = stored(tmp_path / "broken", planned(site_task, machines=[{"name": "x"}]))
    assert found == {}
    assert "cannot be opened" in said[0]
