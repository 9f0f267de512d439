"""Another agent goes on from before each step: whether it could still be won, and which step was decisive."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.agents.null import NullAgent
from assay.agents.oracle import OracleAgent
from assay.errors import UserError
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.rejudge.config import ReplayConfig
from assay.rollout.rejudge.counterfactual import PrefixOutcome, RewindResult, decisive_step, rewind, rewind_run
from assay.settings import Settings
from assay.store import RunStore, audit
from tests.rollout.acting import write_task
from tests.rollout.agents import Solver, add
from tests.rollout.counting import counting_task

ACTING = Path(__file__).parents[1] / "acting.py"


def settings(store: Path) -> Settings:
    return Settings(Settings.from_environment().cache, store)


async def typed(store: Path, run: str, *commands: str) -> str:
    folder = write_task(store / "task")
    options = {"commands": "\n".join(commands)}
    config = RunConfig(tasks=(str(folder),), agent=f"{ACTING}:Typist", agent_options=options, run=run)
    await start_run(config, settings(store), Tally())
    return f"{run}:typing@0"


def won(outcomes: tuple[PrefixOutcome, ...]) -> list[bool]:
    return [one.outcome == "pass" for one in outcomes]


@pytest.mark.long
async def test_the_decisive_step_is_the_one_that_spoils_it(tmp_path: Path) -> None:
    attempt = await typed(tmp_path, "r", "ls", "echo no > answer", "touch spoilt", "echo done > answer")
    outcomes = await rewind(attempt, OracleAgent(), settings(tmp_path))
    assert won(outcomes) == [True, True, True, False, False]
    assert decisive_step(outcomes, 4) == 2
    assert {one.how for one in outcomes} == {"snapshot"}


@pytest.mark.long
async def test_states_that_no_snapshot_holds_are_reached_by_doing_the_prefix_again(tmp_path: Path) -> None:
    commands = ("echo x > /tmp/kept", "sleep 300 >/dev/null 2>&1 & echo on", "cp /tmp/kept spoilt")
    outcomes = await rewind(await typed(tmp_path, "r", *commands), OracleAgent(), settings(tmp_path))
    assert [one.how for one in outcomes] == ["snapshot", "replayed", "replayed", "replayed"]
    assert "/tmp/kept" in str(outcomes[1].note) or "processes" in str(outcomes[1].note)
    assert won(outcomes) == [True, True, True, False]


@pytest.mark.long
async def test_the_rest_of_another_attempt_goes_on(tmp_path: Path) -> None:
    await typed(tmp_path, "r", "echo one", "echo two", "echo done > answer")
    config = ReplayConfig(attempts=("typing@0",), agent="attempt:typing@0")
    (found,) = await rewind_run("r", config, settings(tmp_path), Tally())
    assert won(found.outcomes) == [True, True, True, True]
    assert (found.decisive, "no step was decisive" in found.summary) == (None, True)
    assert audit(tmp_path, found.continuations) == ()
    with RunStore.open(tmp_path, found.continuations) as store:
        steps = [row.steps for row in store.attempts() if "+before-" in row.attempt]
    assert sorted(steps) == [0, 1, 2, 3]


@pytest.mark.long
async def test_an_agent_that_wins_from_nowhere_makes_no_step_decisive(tmp_path: Path) -> None:
    attempt = await typed(tmp_path, "r", "touch spoilt")
    outcomes = await rewind(attempt, NullAgent(), settings(tmp_path))
    assert (won(outcomes), decisive_step(outcomes, 1)) == ([False, False], None)


class Adder:
    """Adds up to ten, one by one, and can take nothing away."""

    name = "adder"
    needs_model = False

    async def run(self, attempt: object) -> None:
        (seen,) = await attempt.act([add(0)])  # type: ignore[attr-defined]
        for _ in range(max(0, 10 - int(seen.content))):
            await attempt.act([add(1)])  # type: ignore[attr-defined]


class Overshooter(Solver):
    name = "overshooter"

    async def run(self, attempt: object) -> None:
        for by in (4, 4, 4):
            await attempt.act([add(by)])  # type: ignore[attr-defined]


@pytest.mark.quick
async def test_worlds_are_rewound_by_doing_their_calls_again(tmp_path: Path) -> None:
    agent = f"{__file__}:Overshooter"
    await start_run(
        RunConfig(tasks=("-",), agent=agent, run="r"), settings(tmp_path), Tally(), tasks=(counting_task(),)
    )
    outcomes = await rewind("r:count@0", Adder(), settings(tmp_path), config=ReplayConfig(allow_task_code=True))
    assert (won(outcomes), decisive_step(outcomes, 3)) == ([True, True, True, False], 2)


@pytest.mark.quick
async def test_what_is_no_attempt_is_refused(tmp_path: Path) -> None:
    RunStore.create(tmp_path, "r", {}).close()
    with pytest.raises(UserError, match="is not an attempt"):
        await rewind("r:none@0", NullAgent(), settings(tmp_path))


@pytest.mark.quick
def test_an_unjudged_continuation_decides_nothing() -> None:
    outcomes = tuple(
        PrefixOutcome(n, status, None, "c", "replayed")  # type: ignore[arg-type]
        for n, status in enumerate(["pass", None, "pass", "fail"])
    )
    assert decisive_step(outcomes, 3) == 2
    summary = RewindResult("r", "a", "fail", "oracle", "x", 3, outcomes, 2).summary
    assert summary == "step 2 was decisive: before it oracle still wins, and from no later step"
