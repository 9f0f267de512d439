"""Sites from recorded attempts: the machine of drawn walks is found again, and what none shows is unknown."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import msgspec
import pytest

from assay.cli import main
from assay.environments.browser.page_moves import Move, PageAct
from assay.environments.browser.page_text import PageView, read_view
from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.environments.services.machines.machine import Condition, Machine, Transition, read_machine
from assay.environments.services.machines.search import Reach
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Check, EnvironmentSpec, Task
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.synthesis.sites.domains import DOMAINS
from assay.synthesis.sites.drawing import draw_machine
from assay.synthesis.sites.from_runs import make_site, read_site_file
from assay.synthesis.sites.from_runs_config import SiteFromRunsConfig
from assay.synthesis.sites.recorded_walks import RecordedWalk
from assay.synthesis.sites.recovery import NOT_RECORDED, count_transitions, recover, share_predicted
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck
from experiments._drawn_walks import draw_walk
from tests.optional import require_browser

MUSEUM = draw_machine(next(one for one in DOMAINS if one.name == "museum"), 3)


@pytest.fixture(scope="module")
def recovered() -> Machine:
    return recover([draw_walk(MUSEUM, seed, 60) for seed in range(40)], "museum").machine


def test_screens_and_data_of_a_site_are_found_again(recovered: Machine) -> None:
    assert {one.title for one in recovered.screens} == {one.title for one in MUSEUM.screens} | {"Not recorded"}
    assert recovered.screens[0].title == MUSEUM.screens[0].title
    assert set(recovered.codes) == set(MUSEUM.codes)
    for variable in MUSEUM.variables:
        found = recovered.by_variable[variable.name]
        assert found.first == variable.first
        assert set(found.domain) <= set(variable.domain)  # no walk counted as far as it goes
        assert not variable.choices or len(found.choices) == len(variable.choices)


def test_forms_do_what_they_did(recovered: Machine) -> None:
    titles = {one.name: one.title for one in recovered.screens}
    for one in MUSEUM.transitions:
        found = recovered.by_transition[one.name]
        assert (found.asks, found.adds, found.code) == (one.asks, one.adds, one.code), one.name
        assert {titles[at] for at in found.at} == {MUSEUM.by_screen[at].title for at in one.at}
    needy = [one for one in MUSEUM.transitions if one.needs and one.skill == "choose"]
    assert needy
    for one in needy:
        assert recovered.by_transition[one.name].needs == one.needs
    assert all(isinstance(need, Condition) for one in needy for need in one.needs)


def test_walks_that_were_left_out_are_predicted_the_better_the_more_were_recorded() -> None:
    shares = []
    for domain in DOMAINS[::3]:
        machine = draw_machine(domain, 5)
        sites = [recover([draw_walk(machine, seed) for seed in range(count)]) for count in (4, 40)]
        held = [draw_walk(machine, 1_000 + seed) for seed in range(20)]
        (few, total), (many, _) = (share_predicted(site, held) for site in sites)
        assert not sites[1].by_pages
        assert few < many
        shares.append(many / total)
    assert sum(shares) / len(shares) > 0.8


def test_each_step_is_predicted_from_where_the_record_is() -> None:
    held = [draw_walk(MUSEUM, 1_000 + seed) for seed in range(20)]
    few, many = (
        count_transitions(recover([draw_walk(MUSEUM, seed) for seed in range(count)], by_pages=False), held)
        for count in (2, 40)
    )
    steps = share_predicted(recover([draw_walk(MUSEUM, 1)], by_pages=False), held)[1]
    assert sum(few) == sum(many) == steps
    assert few.right < many.right
    assert few.unknown > many.unknown
    assert many.right / steps > 0.95


def test_a_wrong_machine_is_wrong_and_not_unknown() -> None:
    walks = [draw_walk(MUSEUM, seed) for seed in range(40)]
    site = recover(walks, by_pages=False)
    turned = {one.name: MUSEUM.screens[0].name for one in site.machine.transitions if one.at == (one.to,)}
    bent = tuple(
        msgspec.structs.replace(one, to=site.machine.screens[0].name, leads={}) if one.name in turned else one
        for one in site.machine.transitions
    )
    wrong = site._replace(machine=read_machine(msgspec.structs.replace(site.machine, transitions=bent)))
    right, worse = (count_transitions(one, [draw_walk(MUSEUM, 1_000)]) for one in (site, wrong))
    assert worse.wrong > right.wrong == 0
    assert worse.unknown == right.unknown


def test_an_act_that_no_walk_did_leads_to_the_page_that_says_so_and_is_unknown() -> None:
    walks = [draw_walk(MUSEUM, seed, 6) for seed in range(3)]
    machine = recover(walks).machine
    reach = Reach(machine)
    lost = next(state for state in reach.states if state.screen == NOT_RECORDED)
    way = reach.way_to(lost)
    assert way is not None
    assert not machine.leaving[NOT_RECORDED]
    parameters = {"machines": [msgspec.to_builtins(machine)]}
    facts = play(
        ServiceWorld(parameters, 1), [PlannedCall(step.transition.name, dict(step.given)) for step in way]
    ).facts()
    assert facts["summaries"] == {machine.name: {"unrecorded": True}}
    for outcome in ([], facts["changes"]):  # neither what was asked nor anything else
        check = Check("state", "state", {"outcomes": [{"changes": []}]})
        task = Task("t", "i", EnvironmentSpec("services", parameters, 1), (check,), "blake3:0")
        given = WorldInput(task, check, {**facts, "changes": outcome}, None)
        verdict = asyncio.run(StateCheck().judge_world(given)).verdict
        assert (verdict.status, verdict.score) == ("unknown", None)


def test_a_site_without_data_is_read_by_pages() -> None:
    screens = tuple(msgspec.structs.replace(one, shows=()) for one in MUSEUM.screens[1:4])
    names = [one.name for one in screens]
    steps = tuple(Transition(f"go_{name}", (names[at - 1],), name, "Goes on.") for at, name in enumerate(names))
    reader = read_machine(Machine("reader", "Pages.", screens, steps))
    site = recover([draw_walk(reader, seed, 12) for seed in range(6)], by_pages=True)
    assert (site.by_pages, site.machine.variables, len(site.machine.screens)) == (True, (), 4)
    assert share_predicted(site, [draw_walk(reader, 99, 12)]) == (12, 12)


async def test_too_few_attempts_and_no_acts_are_refused() -> None:
    config = SiteFromRunsConfig(runs=("r",), out="s.json")
    with pytest.raises(UserError, match="too few to hold out"):
        await make_site([draw_walk(MUSEUM, 1)], config)
    with pytest.raises(UserError, match="observe=tree"):
        await make_site([draw_walk(MUSEUM, 1, 0)], config)


async def test_a_file_is_read_back_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    config = SiteFromRunsConfig(runs=("r",), out="s.json", without_browser=True)
    made = await make_site([draw_walk(MUSEUM, seed) for seed in range(8)], config)
    assert (len(made.recovered_from), len(made.held_out), made.reading) == (6, 2, "values")
    file = tmp_path / "s.json"
    file.write_bytes(msgspec.json.encode(made))
    assert read_site_file(file) == made
    data = json.loads(file.read_bytes())
    data["machine"]["transitions"][0]["to"] = "nowhere"
    file.write_text(json.dumps(data))
    with pytest.raises(UserError, match="nowhere"):
        read_site_file(file)
    with pytest.raises(UserError, match="cannot be read"):
        read_site_file(tmp_path / "none.json")


async def record(settings: Settings, agent: str, run: str, **options: object) -> None:
    tasks = "family:sites,site=museum,n=1,seed=1,least=3,most=6"
    config = RunConfig(tasks=(tasks,), agent=agent, run=run, attempts=2, agent_options=options)
    await start_run(config, settings, Tally())


@pytest.mark.long
@pytest.mark.timeout(600)
def test_recorded_attempts_become_a_site_that_agents_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_browser()
    monkeypatch.chdir(tmp_path)
    settings = Settings(tmp_path / "cache", tmp_path / ".assay")
    asyncio.run(record(settings, "oracle", "by-oracle"))
    asyncio.run(record(settings, "page-walker", "at-random", acts=6))
    words = ["synth", "site", "by-oracle", "at-random", "--out", "site.json", "--reading", "values", "--json"]
    monkeypatch.setattr("sys.argv", ["assay", *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    report = json.loads(capsys.readouterr().out)
    assert (len(report["recovered_from"]), len(report["held_out"]), report["other_starts"]) == (3, 1, 0)
    fidelity = report["fidelity"]
    assert 0 < fidelity["reproduced"] == fidelity["predicted"] <= fidelity["steps"]
    assert fidelity["agreement"] == 1.0
    made = read_site_file(Path("site.json"))
    found = Tally()
    config = RunConfig(tasks=("family:sites,machine=site.json,least=2,most=4,n=1",), agent="oracle", run="mock")
    asyncio.run(start_run(config, settings, found))
    assert found.outcomes["pass"] == 1
    asyncio.run(_lead_astray(made.machine))


async def _lead_astray(machine: Machine) -> None:
    """Does in a browser what no record shows."""
    reach = Reach(machine)
    way = reach.way_to(next(state for state in reach.states if state.screen == NOT_RECORDED))
    assert way is not None
    plan = [{"action": step.transition.name, "arguments": dict(step.given)} for step in way]
    world = SiteWorld({"machines": [msgspec.to_builtins(machine)], "plan": plan, "site": {"pictures": False}}, 1)
    try:
        while (act := world.advice()) is not None:
            seen = await world.call(act.name, act.parsed or {})
        assert "no record shows what comes here" in seen.content
        assert world.facts()["summaries"][machine.name] == {"unrecorded": True}
    finally:
        await world.close()
        await close_browsers()


def test_what_pages_show_cannot_break_a_machine() -> None:
    """Reserved words, long names, years, and texts with marks as headings, terms, values and buttons."""
    hostile = ["select", "class", "id", "<script>alert(1)</script>", "é" * 300, "9" * 40, "a" * 90, "a" * 90 + "b", ""]

    def page(at: int, number: str) -> PageView:
        name = hostile[at % len(hostile)]
        lines = ["main", f"  heading {json.dumps(name or 'x')} level 1", f"  {json.dumps(name)}"]
        for term in hostile:
            lines += [f"  term {json.dumps(term)}", f"  definition {json.dumps(number)}"]
        lines += [f"  form {json.dumps(name)}", f"    [7] button {json.dumps(name)}"]
        return read_view('Address: "http://x.test/site"\n' + "\n".join(lines))

    views = [page(at, str(number)) for at, number in enumerate((0, 2, 2_023, 1, "--", 7, 3, 10**9, 5))]
    moves = [Move(one, PageAct("form", one.heading), other, True) for one, other in itertools.pairwise(views)]
    walk = RecordedWalk("r:a", "", tuple(moves), {})
    for by_pages in (False, True):
        machine = recover([walk, walk], by_pages=by_pages).machine
        world = ServiceWorld({"machines": [msgspec.to_builtins(machine)]}, 1)
        assert len(world.composition.actions) > len(machine.transitions) > 5
        asyncio.run(world.close())
