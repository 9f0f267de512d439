"""Tasks by interaction first: walks share what they play, a reward is made of the text, and wrong ends fail it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import msgspec
import pytest

from assay.cli import main
from assay.environments.services.outcome import expected_changes
from assay.environments.services.plans import PlannedCall, outcome_key, play, writes
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.plugins import load
from assay.records import Check, Task
from assay.synthesis.sites.browser_replay import replay_in_browser
from assay.synthesis.sites.page_client import PageClient
from assay.synthesis.sites.reward_writer import RewardWriter, Unreadable, gate
from assay.synthesis.sites.service_walks import ServiceWalks, WalkedServices, _needed
from assay.synthesis.sites.walk_family import WalkReport, WalkTasks
from assay.synthesis.sites.walk_tree import WalkTree
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck
from tests.optional import require_browser


def world_of(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def request_of(task: Task) -> str:
    return str(task.instruction).partition("\n\n")[0]


def judge(task: Task, plan: Sequence[PlannedCall]) -> str:
    given = WorldInput(task, task.checks[0], play(world_of(task), plan).facts(), None)
    return asyncio.run(StateCheck().judge_world(given)).verdict.status


def deletable(world: ServiceWorld) -> list[str]:
    """Returns the payees that the bank deletes."""
    found = [row[0] for row in world.database.connection.execute("SELECT id FROM bank_payees")]
    return [one for one in found if not world.fork().act("remove_payee", {"payee_id": one}).error]


@pytest.fixture(scope="module")
def made() -> tuple[tuple[Task, ...], WalkReport]:
    return WalkTasks(app="bank", walks=120).make(6, seed=2)


def test_walks_share_what_they_play(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    tasks, report = made
    assert len(tasks) == report.tasks == 6
    assert report.walked > 3 * report.played
    pruned = report.pruned.values()
    assert report.played + report.worlds == report.nodes + report.merged + sum(pruned)
    assert WalkTasks(app="bank", walks=120).tasks(6, seed=2) == tasks


def test_the_plan_passes_and_nothing_else_does(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    for task in made[0]:
        world = world_of(task)
        assert judge(task, world.plan) == "pass"
        others = [[PlannedCall(c.name, c.parsed or {}) for c in calls] for calls in world.perturb(5).values()]
        assert {judge(task, plan) for plan in [[], *others]} == {"fail"}


def test_a_request_is_read_back_into_the_calls_of_the_plan(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    for task in made[0]:
        world = world_of(task)
        lines = [line.partition(". ")[2] for line in request_of(task).splitlines() if line[:1].isdigit()]
        plan = [world.plan[at] for at in writes(world, world.plan)]
        assert [RewardWriter(world).read(line) for line in lines] == plan


def test_text_without_one_reading_makes_no_reward(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    task = made[0][0]
    writer = RewardWriter(world_of(task))
    line = next(line for line in request_of(task).splitlines() if line.startswith("1. "))
    for text in ("", "Do something.", "1. Do something.", line.replace("1. ", "1. Never ")):
        with pytest.raises(Unreadable):
            writer.write(text)


def test_a_reward_that_is_too_lax_or_of_something_else_is_refused() -> None:
    world = ServiceWorld.of([load("services", "bank")], 3)
    ends = [play(world, [PlannedCall("remove_payee", {"payee_id": one})]) for one in deletable(world)[:2]]
    golden, other = (end.database.changes(judged_only=True) for end in ends)
    reward = expected_changes(world.composition.tables, golden)
    assert gate(reward, golden, [other]) == ("", 1)
    assert gate(reward, other, [])[0] == "the walk's own end fails"
    assert gate([], golden, [other])[0] == "doing nothing passes"
    more = [msgspec.structs.replace(one, optional=True) for one in expected_changes(world.composition.tables, other)]
    assert gate([*reward, *more], golden, [[*golden, *other]])[0] == "a wrong state passes"


def test_writes_that_were_undone_are_not_asked_for() -> None:
    world = ServiceWorld.of([load("services", "bank")], 3)
    find = world.database.connection.execute
    removed = PlannedCall("remove_payee", {"payee_id": deletable(world)[0]})
    card = find("SELECT id FROM bank_cards WHERE status = 'active'").fetchone()[0]
    freeze = [PlannedCall(name, {"card_id": card}) for name in ("freeze_card", "unfreeze_card")]
    walked = play(world, [freeze[0], removed, freeze[1]])
    assert [call.code for call in walked.calls] == [None, None, None]
    assert _needed(world, walked, outcome_key(walked)) == [removed]


async def test_a_branch_that_means_nothing_is_not_walked_on() -> None:
    family = ServiceWalks("bank", "pages")
    explored = WalkedServices(family, *family._world_of(3))
    world, longest = explored.world, 0

    def refuse(changed: ServiceWorld) -> str:
        nonlocal longest
        actions = world.composition.actions
        longest = max(longest, sum(call.code is None and not actions[call.action].reads_only for call in changed.calls))
        return "it means nothing"

    reader = PageClient(world.fork(), world.seed)
    tree = WalkTree(reader, 1, explored.acts(reader.site), refuse)
    for _ in range(60):
        await tree.walk()
    assert tree.figures.pruned["it means nothing"] > 0
    assert longest == 1
    assert not world.calls


@pytest.mark.parametrize("theme", range(4))
async def test_forms_are_sent_under_every_look(theme: int) -> None:
    client = PageClient(ServiceWorld.of([load("services", "bank")], 3), theme)
    payee = deletable(client.world)[0]
    await client.follow("/bank/remove_payee")
    before = await client.save()
    content = await client.send(client.content.forms[0], {"f-payee_id": payee})
    assert (content.status, [call.action for call in client.world.calls]) == (200, ["remove_payee"])
    await client.load(before)
    assert (client.world.calls, client.address) == ([], "/bank/remove_payee")


def test_the_command_prints_the_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["synth", "walks", "bank", "--count", "2", "--walks", "60", "--without-browser"]
    for more in ([], ["--json"]):
        monkeypatch.setattr("sys.argv", ["assay", *words, *more])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
        shown = capsys.readouterr().out
        assert more or ("2 tasks of" in shown and "% saved" in shown)
    figures = json.loads(shown)
    assert (figures["tasks"], len(figures["made"]), figures["replayed"]) == (2, 2, False)
    assert figures["saved"] > 0.5


def test_options_that_cannot_be_are_named() -> None:
    with pytest.raises(UserError, match="walks=0 of the family 'walks'"):
        WalkTasks(app="bank", walks=0)


@pytest.mark.long
async def test_plans_end_in_a_browser_as_they_do_by_tools(made: tuple[tuple[Task, ...], WalkReport]) -> None:
    require_browser()
    first, second, *_ = made[0]
    wrong = {**second.environment.parameters, "plan": [{"action": "no_such_tool", "arguments": {}}]}
    broken = msgspec.structs.replace(
        second, environment=msgspec.structs.replace(second.environment, parameters=wrong), checks=(Check("a", "state"),)
    )
    problems = await replay_in_browser([first, broken])
    assert list(problems) == [second.id]
    assert "no page for the call no_such_tool" in problems[second.id]
