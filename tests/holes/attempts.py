"""Runs planned attempts on the tasks here: one run, any mixture of agents and verifications."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from assay.admission.knowledge import extract_knowledge
from assay.agents.cheats.interface import Knowledge
from assay.agents.interface import Agent
from assay.agents.null import NullAgent
from assay.agents.oracle import OracleAgent
from assay.environments.interface import Backend
from assay.environments.workspace.choose import choose_backend
from assay.records import Verdict
from assay.rollout import RunConfig, Tally
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.attempt.site import AttemptSite, SiteOptions, WorkspaceSite
from assay.rollout.attempt.trial import Services
from assay.rollout.plan import PlannedAttempt, Verification, attempt_seed
from assay.rollout.schedule.runner import run_plan
from assay.settings import Settings
from assay.store import RunStore
from assay.tasks import LoadedTask

__all__ = ["Attempted", "Attempts", "Probe", "attempts", "ended", "null", "oracle", "run_probes"]


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


class Attempts:
    """A run that is under way; probes may be added to it in several goes."""

    def __init__(self, run: RunStore, backend: Backend, concurrency: int) -> None:
        config = RunConfig(tasks=("-",), run="holes", concurrency=concurrency, retries=1)
        self._run = run
        self._backend = backend
        self._preparer = Preparer(backend, config, Settings.from_environment())
        self._services = Services(config, run.run, run, run.blobs, NullAgent(), None, self._place)

    def _place(self, planned: PlannedAttempt) -> AttemptSite:
        agent = planned.agent or NullAgent()
        own = ("/solution",) if agent.name == "oracle" else ()
        site_options = SiteOptions(self._run.blobs, 1, agent, own, planned.verification)
        return WorkspaceSite(self._preparer, planned.loaded, site_options)

    async def add(self, probes: Sequence[Probe]) -> None:
        """Runs more attempts."""
        await run_plan(self._services, [_planned(probe) for probe in probes], Tally())

    async def learn(self, tasks: Sequence[LoadedTask]) -> dict[str, Knowledge]:
        """What an adversary may know of tasks, by their ids: solves them first."""
        solved = [oracle(loaded, "default") for loaded in tasks]
        await self.add(solved)
        trajectories = {t.attempt: t for t in self._run.trajectories()}
        known = {}
        for probe in solved:
            spec = await self._preparer.spec(probe.loaded)
            found = await extract_knowledge(probe.loaded, trajectories[probe.id], self._run.blobs, self._backend, spec)
            assert found is not None
            known[probe.loaded.task.id] = found.knowledge
        return known


@asynccontextmanager
async def attempts(store: Path, *, concurrency: int = 2) -> AsyncIterator[Attempts]:
    """A run in `store`, on a backend of its own."""
    backend, _ = await choose_backend("namespaces", allow_unsafe=False)
    try:
        with RunStore.create(store, "holes", {}) as run:
            yield Attempts(run, backend, concurrency)
    finally:
        await backend.close()


async def run_probes(probes: Sequence[Probe], store: Path) -> dict[str, Attempted]:
    """Runs all and returns how each ended, by `Probe.id`."""
    async with attempts(store) as run:
        await run.add(probes)
    return ended(store)


def _planned(probe: Probe) -> PlannedAttempt:
    task = probe.loaded.task
    seed = attempt_seed(0, task.digest, probe.name, 0)
    return PlannedAttempt(probe.id, probe.loaded, 0, seed, task.limits, probe.agent, probe.verification)


def ended(store: Path) -> dict[str, Attempted]:
    """How every attempt of a run ended."""
    with RunStore.open(store, "holes") as run:
        rows = {row.attempt: row for row in run.attempts() if row.final}
        outcomes = {t.attempt: [v for v in t.verdicts if v.kind == "outcome"] for t in run.trajectories()}
        verdicts = {name: given[-1] if given else None for name, given in outcomes.items()}
    return {name: Attempted(row.outcome, verdicts.get(name), row.error) for name, row in rows.items()}
