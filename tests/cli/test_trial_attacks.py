"""Worthless skills that try to be released: with runs of another agent, edited records, and used tasks."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import build_app
from assay.errors import StoreError, UserError
from assay.learning.skills.trial import run_trial
from assay.learning.skills.trial_config import TrialConfig
from assay.settings import Settings

AGENT = "assay.agents.rules_world:RulesWorldAgent"
TASKS = "family:adventure,rooms=3,locks=0,n=12,seed=5"
WORTHLESS = (
    "---\nname: zap\ndescription: Go on. Use it in text adventures.\n---\n\n"
    "- go east: 1.0000 times as likely as a random act\n- take a key: 1.0000 times as likely as a random act\n"
)


class CutError(Exception):
    """The trial is cut off here."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "zap").mkdir()
    (tmp_path / "zap" / "SKILL.md").write_text(WORTHLESS)
    assay(tmp_path / "store", "skills", "import", str(tmp_path / "zap"))
    return tmp_path / "store"


def assay(store: Path, *words: str) -> None:
    result = CliRunner().invoke(build_app(), [*words, "--store", str(store)])
    assert result.exit_code == 0, result.output


def test_agent_that_breaks_its_world_to_be_tried_again_gains_nothing(store: Path) -> None:
    agent = f"{Path(__file__).with_name('redrawing.py')}:RedrawingAgent"
    tasks = "family:adventure,rooms=3,locks=0,n=40,seed=12"
    trial = TrialConfig(skill="zap", tasks=(tasks,), agent=agent, looks=1)
    decided = asyncio.run(run_trial(trial, Settings(store=store, cache=store.parent))).trial
    assert decided is not None
    assert not decided.accepted
    assert decided.unjudged >= 20


def begin_trial(store: Path, until: str) -> None:
    """Begins a trial and cuts it off before an arm."""

    def report(line: str) -> None:
        if f": {until}," in line:
            raise CutError

    with pytest.raises(CutError):
        asyncio.run(run_trial(config(), Settings(store=store, cache=store.parent), report))


def config() -> TrialConfig:
    return TrialConfig(skill="zap", tasks=(TASKS,), agent=AGENT, looks=1)


def go_on(store: Path) -> None:
    asyncio.run(run_trial(config(), Settings(store=store, cache=store.parent)))


def test_run_of_another_agent_under_the_name_of_an_arm_is_refused(store: Path) -> None:
    begin_trial(store, "skill")
    (control,) = (one.name for one in (store / "runs").iterdir())
    assay(store, "run", TASKS, "--agent", "oracle", "--run", control.replace("-none-", "-skill-"))
    with pytest.raises(UserError, match="was started with other arguments"):
        go_on(store)


def test_edited_attempts_of_an_arm_are_refused(store: Path) -> None:
    begin_trial(store, "placebo")
    (run,) = (one for one in (store / "runs").iterdir() if "-skill-" in one.name)
    with sqlite3.connect(run / "run.sqlite") as database:
        rows = database.execute("SELECT chain, row FROM attempts").fetchall()
        assert any(b'"fail"' in row for _, row in rows)
        for chain, row in rows:
            database.execute("UPDATE attempts SET row = ? WHERE chain = ?", (row.replace(b'"fail"', b'"pass"'), chain))
    with pytest.raises(StoreError, match="is not what was recorded"):
        go_on(store)


def test_use_of_an_aborted_trial_cannot_be_cut_off(store: Path) -> None:
    begin_trial(store, "skill")
    ledger = store / "skills" / "holdouts.jsonl"
    (line,) = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"")
    with pytest.raises(StoreError, match="its end was cut off"):
        go_on(store)
    ledger.write_bytes(line)
    go_on(store)


@pytest.mark.parametrize(("draws", "unjudged"), [("anew", 1), ("seed", 0)])
def test_attempt_that_was_cut_off_and_drawn_anew_counts_against_the_skill(
    store: Path, draws: str, unjudged: int
) -> None:
    agent = f"{Path(__file__).with_name('redrawing.py')}:CutAgent"
    trial = TrialConfig(
        skill="zap", tasks=(TASKS,), agent=agent, agent_options={"draws": draws}, looks=1, concurrency=1
    )
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run_trial(trial, Settings(store=store, cache=store.parent)))
    decided = asyncio.run(run_trial(trial, Settings(store=store, cache=store.parent))).trial
    assert decided is not None
    assert decided.unjudged == unjudged


def test_agent_that_is_changed_in_the_middle_of_a_trial_makes_another_trial(store: Path) -> None:
    agent = store.parent / "agent.py"
    agent.write_text(
        "from assay.agents.rules_world import RulesWorldAgent\n\n\n"
        "class Agent(RulesWorldAgent):\n    name = 'changing'\n"
    )
    trial = TrialConfig(skill="zap", tasks=(TASKS,), agent=f"{agent}:Agent", looks=1)

    def change(line: str) -> None:
        if ": skill," in line:
            raise CutError

    with pytest.raises(CutError):
        asyncio.run(run_trial(trial, Settings(store=store, cache=store.parent), change))
    agent.write_text(f"{agent.read_text()}    steps = 3\n")
    with pytest.raises(UserError, match="this holdout is used up"):
        asyncio.run(run_trial(trial, Settings(store=store, cache=store.parent)))
