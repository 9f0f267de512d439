"""Tasks of services in which something must be declined or answered: they can be done, and by nothing less."""

from __future__ import annotations

import asyncio
from functools import cache

import msgspec
import pytest

from assay.environments.services.plans import PlannedCall, play, play_recorded
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Task, Verdict
from assay.synthesis.services import requests
from assay.synthesis.services.family import ServiceTasks
from assay.verify.answer_check import AnswerCheck
from assay.verify.interface import WorldInput
from assay.verify.logged_calls import trace_of_calls
from assay.verify.service_checks import rule_results
from assay.verify.state_check import StateCheck
from assay.verify.submitted_answers import CREDIT
from tests.synthesis.test_service_tasks import TANKS

APPS = ("tracker", "console", "airline", "mail", "bank", "shop")


@cache
def made(app: str, kind: str) -> tuple[Task, ...]:
    return ServiceTasks(app=app, kind=kind).tasks(3, 1)


def opened(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def plan_of(task: Task) -> tuple[PlannedCall, ...]:
    return msgspec.convert(task.environment.parameters["plan"], tuple[PlannedCall, ...])


def verdict(task: Task, world: ServiceWorld, kind: str = "state") -> Verdict:
    check = next(check for check in task.checks if check.kind == kind)
    judging = AnswerCheck() if kind == "answer" else StateCheck()
    return asyncio.run(judging.judge_world(WorldInput(task, check, world.facts(), None))).verdict


def declined(task: Task) -> PlannedCall:
    return next(call for call in plan_of(task) if call.action == "decline_request")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["impossible", "ambiguous"])
@pytest.mark.parametrize("app", APPS)
def test_declining_passes_and_nothing_less_does(app: str, kind: str) -> None:
    assert len(made(app, kind)) == 3
    for task in made(app, kind):
        world, plan = opened(task), plan_of(task)
        assert verdict(task, play(world, plan)).status == "pass", task.id
        assert verdict(task, world).status == "fail"
        without = [call for call in plan if call.action != "decline_request"]
        assert verdict(task, play(world, without)).status == "fail"
        blind = [_with(call, record_id="no-such-record") for call in plan]
        assert verdict(task, play(world, blind)).status == "fail"


def _with(call: PlannedCall, **arguments: object) -> PlannedCall:
    if call.action != "decline_request":
        return call
    return PlannedCall(call.action, call.arguments | arguments)


def test_a_wrong_reason_fails_where_asking_would_have_helped() -> None:
    for task in made("tracker", "ambiguous"):
        plan = [_with(call, reason="not_possible") for call in plan_of(task)]
        assert verdict(task, play(opened(task), plan)).status == "fail"


def test_each_record_that_fits_may_be_named() -> None:
    for task in made("console", "ambiguous"):
        outcomes = next(check for check in task.checks if check.kind == "state").parameters["outcomes"]
        records = {
            change["values"]["record_id"]
            for outcome in outcomes
            for change in outcome["changes"]
            if change["table"] == "ticket_refusals"
        }
        assert len(records) > 1
        for record in records:
            plan = [_with(call, record_id=record) for call in plan_of(task)]
            assert verdict(task, play(opened(task), plan)).status == "pass"


@pytest.mark.long
def test_facts_that_would_say_which_record_is_meant_are_left_out() -> None:
    """The plan may find the record by words of its title, which the person does not say."""
    titles = 0
    for task in ServiceTasks(app="tracker", kind="ambiguous", level="implicit", writes=1).tasks(6, 0):
        record = declined(task).arguments["record_id"]
        shown = opened(task).peek("get_issue", {"issue_id": record})
        if not shown.error:
            titles += 1
            assert msgspec.json.decode(shown.content)["issue"]["title"] not in task.instruction
        assert record not in task.instruction
    assert titles > 2


FORBIDDEN = {
    "airline": {"airline-not-at-the-desk/heavy-bags", "airline-not-at-the-desk/lone-minors"},
    "bank": {"bank-cards/switch-off-only", "bank-cards/no-high-limit"},
    "console": {"console-capacity/two-replicas"},
    "mail": {"mail-inside-and-outside/guests-are-not-invited", "mail-inside-and-outside/no-filter-for-colleagues"},
    "shop": {"shop-limits/no-express-afterwards"},
    "tracker": {"tracker-opening/urgent-bugs"},
}


@pytest.mark.long
@pytest.mark.parametrize("app", APPS)
def test_what_is_forbidden_is_declined_and_keeps_the_policy(app: str) -> None:
    assert len(made(app, "forbidden")) == 3
    for task in made(app, "forbidden"):
        world, plan = opened(task), plan_of(task)
        assert verdict(task, play(world, plan)).status == "pass"
        kept = rule_results(world.policy.contracts, trace_of_calls(play_recorded(world, plan)), "the policy")
        assert {result.status for result in kept} == {"pass"}


@pytest.mark.parametrize("app", APPS)
def test_what_is_forbidden_is_possible_and_breaks_a_rule_whatever_came_before(
    app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[ServiceWorld, PlannedCall]] = []

    def noted(world: ServiceWorld, call: PlannedCall) -> bool:
        found = is_forbidden(world, call)
        if found:
            asked.append((world.fork(), call))
        return found

    is_forbidden = requests._is_forbidden
    monkeypatch.setattr(requests, "_is_forbidden", noted)
    assert ServiceTasks(app=app, kind="forbidden", writes=1).tasks(1, 3)
    world, call = asked[-1]
    calls = play_recorded(world, [call])
    assert not any(observation.error for _, observation in calls)
    results = rule_results(world.policy.contracts, trace_of_calls(calls), "the policy")
    assert FORBIDDEN[app] & {result.name for result in results if result.status == "fail"}


@pytest.mark.parametrize("app", APPS)
def test_the_answers_of_another_seed_are_wrong(app: str) -> None:
    for task in made(app, "question"):
        world = opened(task)
        foreign = [PlannedCall(call.name, call.parsed or {}) for call in world.elsewhere()]
        done = play(world, foreign)
        given = [call for call in foreign if call.action == "answer_question"]
        assert [call.arguments for call in given] != [
            call.arguments for call in plan_of(task) if call.action == "answer_question"
        ]
        assert verdict(task, done, "answer").status == "fail"


@pytest.mark.parametrize("app", APPS)
def test_answers_pass_and_wrong_or_absent_ones_do_not(app: str) -> None:
    for task in made(app, "question"):
        world, plan = opened(task), plan_of(task)
        done = play(world, plan)
        assert verdict(task, done).status == "pass", task.id
        assert verdict(task, done, "answer").status == "pass", task.id
        assert verdict(task, world, "answer").status == "fail"
        wrong = [
            PlannedCall(c.action, c.arguments | {"rows": [["999983"]]}) if c.action == "answer_question" else c
            for c in plan
        ]
        found = verdict(task, play(world, wrong), "answer")
        assert found.status == "fail"
        assert found.score is not None
        assert 0 <= found.score < 1
        elsewhere = ServiceWorld(task.environment.parameters, task.environment.seed + 1)
        assert any(call.code for call in play(elsewhere, plan).calls) or _differs(task, elsewhere)


def _differs(task: Task, elsewhere: ServiceWorld) -> bool:
    """Returns whether the same reads show something else in a world of another seed."""
    reads = [call for call in plan_of(task) if call.action != "answer_question"]
    here = play_recorded(opened(task), reads)
    return any(one[1] != two[1] for one, two in zip(here, play_recorded(elsewhere, reads), strict=True))


def test_reads_on_the_way_to_an_answer_earn_credit() -> None:
    """The read that shows the answer earns 0.4; each one before it 0.4 times as much."""
    task = next(
        task
        for app in APPS
        for task in made(app, "question")
        for question in [next(c for c in task.checks if c.kind == "answer").parameters["questions"]]
        if len(question) == 1 and len(question[0]["path"]) > 1
    )
    path = next(c for c in task.checks if c.kind == "answer").parameters["questions"][0]["path"]
    reads = [call for call in plan_of(task) if call.action != "answer_question"]
    all_read = verdict(task, play(opened(task), reads), "answer").score
    last_missing = verdict(task, play(opened(task), reads[:-1]), "answer").score
    assert all_read == pytest.approx(sum(CREDIT**k for k in range(1, len(path) + 1)))
    assert last_missing == pytest.approx(sum(CREDIT**k for k in range(2, len(path) + 1)))


def test_mixed_takes_all_kinds_in_turn_and_the_tools_are_the_same_in_all() -> None:
    tasks = ServiceTasks(app="tracker", kind="mixed", level="explicit").tasks(5, 2)
    kinds = [task.tags[2] for task in tasks]
    assert kinds == ["tracker", "impossible", "forbidden", "ambiguous", "question"]
    tools = [opened(task).specs() for task in tasks]
    assert all(one == tools[0] for one in tools)


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"app": "tracker", "kind": "hopeless"}, "expected possible, impossible, forbidden, ambiguous, question"),
        ({"app": TANKS, "kind": "forbidden"}, "tanks have no rule that forbids a call by itself"),
        ({"app": "tracker", "kind": "ambiguous", "level": "persona"}, "a person who can be asked"),
    ],
)
def test_kinds_that_applications_lack_are_refused(options: dict[str, str], part: str) -> None:
    with pytest.raises(UserError, match=part):
        ServiceTasks(**options).tasks(1, 0)


def test_a_question_that_can_be_guessed_is_not_asked_alone() -> None:
    """Sixteen economy seats are free on most flights of every world."""
    alone = ServiceTasks(app="airline", kind="question", level="explicit", writes=1).tasks(12, 0)
    assert len(alone) == 12
    assert not any("economy seats" in task.instruction.split("\n\nPolicy")[0] for task in alone)
    together = ServiceTasks(app="airline", kind="question", level="explicit", writes=3).tasks(6, 0)
    assert any("economy seats" in task.instruction for task in together)
