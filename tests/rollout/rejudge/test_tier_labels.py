"""Labels of recorded steps by execution, and routers scored on them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from assay.errors import OptionError, StoreError, UserError
from assay.learning.sampled import group_name
from assay.learning.turn_facts import initial_state
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import TiersConfig
from assay.rollout.rejudge.replay import replay_obstacle
from assay.rollout.rejudge.tier_labels import (
    TIER_LABEL,
    _read_manifest,
    _RecordedTry,
    _TryCounts,
    label_tiers,
    read_labels,
    score_routes,
)
from assay.settings import Settings
from assay.store import RunStore, final_rows
from assay.verify.reverification import CannotRebuildError
from tests.rollout.attempt.test_branches import TRYING

COUNTER = Path(__file__).parents[3] / "docs_src" / "counter_world.py"
TASKS = "family:tables,n=4"
TIERS: dict[str, Any] = {"tiers": {"weak": "random-world", "strong": "expert"}, "costs": {"weak": 1.0, "strong": 9.0}}
ROUTERS = """
def names(prefix):
    return "strong" if len(prefix.steps) < 3 else "weak"

def decides(prefix):
    return len(prefix.steps) < 3

def sees(prefix):
    assert prefix.task.instruction
    return bool(prefix.steps) and prefix.steps[-1].tool_calls[0].name == "find"

def errs(prefix):
    return "other"
"""


async def record(tmp_path: Path, agent: str = "expert", **options: Any) -> Settings:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    await start_run(RunConfig(tasks=(TASKS,), run="r", agent=agent, agent_options=options), settings, Tally())
    return settings


async def test_a_step_is_labelled_with_the_cheapest_tier_whose_tries_pass(tmp_path: Path) -> None:
    settings = await record(tmp_path)
    config = TiersConfig(**TIERS, forks=3)
    found = await label_tiers("r", config, settings, Tally())
    assert list(found.tiers) == ["weak", "strong"]  # by cost
    with RunStore.open(settings.store, "r") as store:
        assert len(found.steps) == sum(row.steps for row in store.attempts())
    assert found.untried == ()
    for one in found.steps:
        passed = {tier: counts == (3, 3) for tier, counts in one.tries.items()}
        assert one.tier == ("weak" if passed["weak"] else "strong")
        assert ("strong" in passed) is not passed["weak"]  # the dearer tier is asked only where the cheaper one fails
        assert passed.get("strong", True)
    assert any(one.tier == "strong" for one in found.steps)
    with RunStore.open(settings.store, found.labels) as store:
        assert len(final_rows(store.attempts())) == found.tries == 3 * sum(len(one.tries) for one in found.steps)
        assert msgspec.to_builtins(read_labels(store)) == msgspec.to_builtins(found)
    again = await label_tiers("r", config, settings, Tally())
    assert [(one.step, one.tries) for one in again.steps] == [(one.step, one.tries) for one in found.steps]


async def test_labelling_reads_no_try_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, read = await record(tmp_path), list[str]()
    trajectory = RunStore.trajectory
    monkeypatch.setattr(RunStore, "trajectory", lambda store, chain: read.append(store.run) or trajectory(store, chain))
    found = await label_tiers("r", TiersConfig(**TIERS, forks=1), settings, Tally())
    assert found.tries > len(read)
    assert found.labels not in read


async def test_a_try_is_recorded_as_a_fork_of_the_state_before_its_step(tmp_path: Path) -> None:
    settings = await record(tmp_path)
    found = await label_tiers("r", TiersConfig(**TIERS, forks=1), settings, Tally())
    with RunStore.open(settings.store, "r") as store:
        states = {row.chain: [one.state for one in store.trajectory(row.chain).steps] for row in store.attempts()}
    with RunStore.open(settings.store, found.labels) as store:
        tries = [store.trajectory(row.chain) for row in store.attempts()]
        assert store.manifest()["tier_label"]["config"]["tiers"] == TIERS["tiers"]
    for one in tries:
        label = one.started.config["tier_label"]
        fork = "fork+" if label["step"] else ""
        assert one.agent == f"{label['tier']}+{fork}{TIERS['tiers'][label['tier']]}"
        state = states[label["chain"]][label["step"] - 1] if label["step"] else None
        assert initial_state(one) == (state or f"beginning of {one.task_digest}")
        assert group_name(one).endswith(f"|{state or ''}")
        assert ("began in the middle" in (replay_obstacle(one) or "")) is (label["step"] > 0)
    with pytest.raises(UserError, match="holds tries of `assay router label`"):
        await label_tiers(found.labels, TiersConfig(**TIERS), settings, Tally())


async def test_routers_are_scored_on_the_prefixes_that_a_live_router_sees(tmp_path: Path) -> None:
    settings = await record(tmp_path)
    found = await label_tiers("r", TiersConfig(**TIERS, forks=2), settings, Tally())
    file = tmp_path / "routers.py"
    file.write_text(ROUTERS)
    routes = [f"{file}:{name}" for name in ("names", "decides", "sees")]
    report = score_routes(found.labels, routes, settings.store)
    scores = {one.router.rpartition(":")[2]: one for one in report.scores}
    assert list(scores) == ["names", "decides", "sees", "always weak", "always strong", "the labels"]
    wanted = [one.tier for one in found.steps]
    early = [one.step < 3 for one in found.steps]
    after_find = [one.step in (1, 2) for one in found.steps]
    chosen = ["strong" if is_early else "weak" for is_early in early]
    assert scores["names"].right == fmean(one == other for one, other in zip(chosen, wanted, strict=True))
    assert msgspec.structs.replace(scores["decides"], router="") == msgspec.structs.replace(scores["names"], router="")
    assert scores["sees"].cost == fmean(9 if one else 1 for one in after_find)
    with pytest.raises(UserError, match="expected a tier"):
        score_routes(found.labels, [f"{file}:errs"], settings.store)
    with pytest.raises(OptionError, match="take after-error"):
        score_routes(found.labels, ["sometimes"], settings.store)
    with pytest.raises(StoreError, match="holds no labels"):
        score_routes("r", [], settings.store)


async def test_steps_at_which_no_tier_suffices_count_for_no_router(tmp_path: Path) -> None:
    settings = await record(tmp_path)
    tiers = {"tiers": {"none": "null", "random": "random-world"}, "costs": {"none": 1.0, "random": 2.0}}
    found = await label_tiers("r", TiersConfig(**tiers, forks=2), settings, Tally())
    unlabelled = [one for one in found.steps if one.tier is None]
    assert unlabelled
    if len(unlabelled) == len(found.steps):
        with pytest.raises(UserError, match="no step"):
            score_routes(found.labels, [], settings.store)
        return
    report = score_routes(found.labels, ["after-error"], settings.store)
    assert report.unlabelled == len(unlabelled)
    assert report.scores[0].steps == len(found.steps) - len(unlabelled)


async def test_steps_whose_state_cannot_be_rebuilt_are_counted(tmp_path: Path) -> None:
    settings, agent = (
        Settings(tmp_path / "cache", tmp_path / "store"),
        f"{Path(__file__).parents[1] / 'agents.py'}:Solver",
    )
    tasks = (f"family:{COUNTER}:CounterTasks,n=1",)  # its world cannot be saved in the middle
    await start_run(RunConfig(tasks=tasks, run="r", agent=agent), settings, Tally())
    tiers = {"tiers": {"none": "null", "adds": agent}, "costs": {"none": 1.0, "adds": 2.0}}
    found = await label_tiers("r", TiersConfig(**tiers, forks=1, allow_task_code=True), settings, Tally())
    assert [(one.step, one.tier) for one in found.steps] == [(0, "adds")]
    assert found.untried == ("count-from-0@0:1",)
    report = score_routes(found.labels, [], settings.store)
    assert (report.untried, report.unlabelled, report.scores[0].steps) == (1, 0, 1)


async def test_routers_read_the_version_of_the_tasks_that_was_labelled(tmp_path: Path) -> None:
    settings, agent = (
        Settings(tmp_path / "cache", tmp_path / "store"),
        f"{Path(__file__).parents[1] / 'agents.py'}:Solver",
    )
    world, router = tmp_path / "world.py", tmp_path / "router.py"
    world.write_text(COUNTER.read_text())
    router.write_text('def pick(prefix):\n    return "none" if "Reach" in prefix.task.instruction else "adds"\n')
    await start_run(RunConfig(tasks=(f"family:{world}:CounterTasks,n=1",), run="r", agent=agent), settings, Tally())
    world.write_text(COUNTER.read_text().replace("Bring the counter to 10.", "Reach 10."))
    tiers = {"tiers": {"none": "null", "adds": agent}, "costs": {"none": 1.0, "adds": 2.0}}
    config = TiersConfig(**tiers, forks=1, every=2, check_version="today", allow_task_code=True)
    found = await label_tiers("r", config, settings, Tally())
    report = score_routes(found.labels, [f"{router}:pick"], settings.store, allow_task_code=True)
    assert report.scores[0].under == 1
    with pytest.raises(CannotRebuildError, match="names Python code"):
        score_routes(found.labels, [f"{router}:pick"], settings.store)


async def test_what_cannot_continue_is_refused(tmp_path: Path) -> None:
    settings = await record(tmp_path, "best-of:2:expert", judge="verdict")
    with pytest.raises(UserError, match="of several tries"):
        await label_tiers("r", TiersConfig(**TIERS), settings, Tally())
    branching = {**TIERS, "tiers": {"weak": "null", "strong": "vote:2:expert"}}
    with pytest.raises(UserError, match="tries several times"):
        await label_tiers("r", TiersConfig(**branching), settings, Tally())
    asking = {**TIERS, "tiers": {"weak": "null", "strong": "loop"}}
    with pytest.raises(UserError, match="--tier-model strong=MODEL"):
        await label_tiers("r", TiersConfig(**asking), settings, Tally())


async def test_each_tier_has_a_model_of_its_own(tmp_path: Path) -> None:
    settings = await record(tmp_path)
    tiers = {"tiers": {"small": "loop", "large": "loop"}, "costs": {"small": 1.0, "large": 2.0}}
    replies = {"small": "mover_and_witness", "large": "mover_and_judge"}
    models = {name: f"scripted:{TRYING}:{function}" for name, function in replies.items()}
    config = TiersConfig(**tiers, tier_models=models, forks=1, every=3)
    found = await label_tiers("r", config, settings, Tally())
    with RunStore.open(settings.store, found.labels) as store:
        asked = {(row.attempt.split("+")[-1].split("@")[0], str(row.model)) for row in store.attempts()}
    assert {(tier, model.rpartition(":")[2]) for tier, model in asked} == set(replies.items())
    assert {one.step % 3 for one in found.steps} == {0}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"costs": {"weak": 1.0}}, "each with its cost"),
        ({"costs": {"weak": 1.0, "strong": 1.0}}, "differ"),
        ({"costs": {"weak": 0.0, "strong": 1.0}}, "above 0"),
        ({"agent_options": {"mid.noise": 1}}, "no tier is called 'mid'"),
        ({"agent_options": {"weak": {"noise": 1}}}, "a tier without an option"),
        ({"tier_models": {"mid": "x"}}, "no tier is called 'mid'"),
    ],
)
def test_tiers_that_do_not_fit_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        TiersConfig(**{**TIERS, **changes})


async def test_unjudged_tries_count_as_failed_and_edited_ones_are_refused(tmp_path: Path) -> None:
    settings = await record(tmp_path)
    found = await label_tiers("r", TiersConfig(**TIERS), settings, Tally())
    with RunStore.open(settings.store, found.labels) as store:
        rows = final_rows(store.attempts())
        tries = [msgspec.convert(store.trajectory(row.chain).started.config[TIER_LABEL], _RecordedTry) for row in rows]
        counts = _TryCounts(replace(_read_manifest(store), need=0.9))
        strong = next(n for n, one in enumerate(tries) if one.tier == "strong")
        step = tries[strong].chain, tries[strong].step
        for row, one in zip(rows, tries, strict=True):
            if (one.chain, one.step) == step:
                counts.add(store, [row], [one])
        label = counts.label_of(step)
        counts.add(store, [replace(rows[strong], outcome=None, broke="provider")], [tries[strong]])
        assert (label, counts.label_of(step)) == ("strong", None)
    with sqlite3.connect(settings.store / "runs" / found.labels / "run.sqlite") as database:
        for chain, data in database.execute("SELECT chain, row FROM attempts").fetchall():
            changed = data.replace(b'"fail"', b'"pass"')
            database.execute("UPDATE attempts SET row = ? WHERE chain = ?", (changed, chain))
    with RunStore.open(settings.store, found.labels) as store, pytest.raises(StoreError, match="not what was recorded"):
        read_labels(store)
