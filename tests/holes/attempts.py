"""Runs planned attempts on the tasks here: one run, any mixture of agents and verifications."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from assay.agents.interface import Agent
from assay.agents.null import NullAgent
from assay.agents.oracle import OracleAgent
from assay.environments.workspace.choose import choose_backend
from assay.records import Verdict
from assay.rollout import RunConfig, Tally
from assay.rollout.place import Keeping, Place, WorkspacePlace
from assay.rollout.plan import PlannedAttempt, Verification, attempt_seed
from assay.rollout.prepare import Preparer
from assay.rollout.runner import run_plan
from assay.rollout.trial import Services
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask

__all__ = ["HERE", "Attempted", "Probe", "run_probes"]

HERE = Path(__file__).parent


class Probe(NamedTuple):
    """One attempt: who acts on what, and how it is judged."""

    loaded: LoadedTask
    name: str
    agent: Agent
    verification: Verification

    @property
    def id(self) -> str:
        return f"{self.loaded.task.id}@{self.name}.{self.verification}"


class Attempted(NamedTuple):
    """How it ended: `outcome` is None where the try broke, and `trouble` says on what."""

    outcome: str | None
    verdict: Verdict | None
    trouble: str | None


def oracle(loaded: LoadedTask, verification: Verification) -> Probe:
    return Probe(loaded, "oracle", OracleAgent(), verification)


def null(loaded: LoadedTask, verification: Verification) -> Probe:
    return Probe(loaded, "null", NullAgent(), verification)


async def run_probes(probes: Sequence[Probe], store: Path, *, concurrency: int = 2) -> dict[str, Attempted]:
    """Runs all and returns how each ended, by `Probe.id`."""
    config = RunConfig(tasks=("-",), run="holes", concurrency=concurrency, retries=1)
    settings = Settings(cache=Settings.from_environment().cache, store=store)
    backend, _ = await choose_backend("namespaces", allow_unsafe=False)
    try:
        with RunStore.create(store, "holes", {}) as run:
            preparer = Preparer(backend, config, settings)

            def place(planned: PlannedAttempt) -> Place:
                agent = planned.agent or NullAgent()
                own = ("/solution",) if agent.name == "oracle" else ()
                keeping = Keeping(run.blobs, 1, agent, own, planned.verification)
                return WorkspacePlace(preparer, planned.loaded, keeping)

            services = Services(config, run.run, run, run.blobs, NullAgent(), None, place)
            await run_plan(services, [_planned(probe) for probe in probes], Tally())
    finally:
        await backend.close()
    return _ended(store)


def _planned(probe: Probe) -> PlannedAttempt:
    task = probe.loaded.task
    seed = attempt_seed(0, task.digest, probe.name, 0)
    return PlannedAttempt(probe.id, probe.loaded, 0, seed, task.limits, probe.agent, probe.verification)


def _ended(store: Path) -> dict[str, Attempted]:
    with RunStore.open(store, "holes") as run:
        rows = {row.attempt: row for row in run.attempts() if row.final}
        verdicts = {t.attempt: t.verdicts[-1] if t.verdicts else None for t in run.trajectories()}
    return {name: Attempted(row.outcome, verdicts.get(name), row.error) for name, row in rows.items()}
