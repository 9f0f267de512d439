"""The kinds of work that nodes do, and how a node finds the code of one.

A published run without the key `workload` is an ordinary run. Another one names an entry point of the group
`assay.workloads`: a function `(PublishedRun, NodeContext) -> NodeRun`, which packages above this one provide. Names of
Python code are not accepted here: the name comes from the place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay import __version__
from assay.agents.interface import Agent
from assay.analysis.contracts import Contract
from assay.errors import UserError
from assay.gateway.interface import ModelBackend
from assay.plugins import load, names
from assay.rollout.attempt.trial import Services
from assay.rollout.config import RunConfig
from assay.rollout.run_manifest import parse_manifest
from assay.rollout.runs import RunResources
from assay.settings import Settings
from assay.store.objects.interface import ObjectStore
from assay.tasks import LoadedTask

from .agent import RunTrial
from .node_config import Count
from .place_records import PublishedRun
from .recorded_trial import LocalTrials, attempt_planner
from .shared_blobs import BlobUploader
from .shared_layers import SharedLayers

WORKLOAD = "workload"
"""Key of a published manifest: the name of its kind of work."""


class NodeContext(NamedTuple):
    """The node that loads a run."""

    place: ObjectStore
    settings: Settings
    slots: int
    """Attempts that run at once."""
    folder: Path
    """Folder of the node, on a local disk; removed when all trials are in the place."""
    stack: AsyncExitStack
    """Closed when the node ends."""
    layers: SharedLayers | None = None
    """Exchanges layers with other machines."""
    backend: str | None = None
    """Sandbox of its attempts in place of the run's."""


class NodeParts(NamedTuple):
    """Resources that a node opened for a run."""

    services: Services
    """Over the node's own store; without a budget, which the coordinator keeps."""
    resources: RunResources
    context: NodeContext


class NodeRun(NamedTuple):
    """A run as a node carries it out."""

    name: str
    config: RunConfig
    """Without its budget, which the coordinator keeps."""
    tasks: Sequence[LoadedTask]
    agent: Agent
    contracts: tuple[Contract, ...]
    id: str = ""
    """Random id of the published run."""
    make_trials: Callable[[NodeRun, NodeParts], RunTrial] | None = None
    """Returns what runs the leases; None: trials of a configuration."""
    screening: bool = False
    """True if attempts may share judges."""
    model: ModelBackend | None = None
    """An open model in place of the one that `config` names; closed by the stack of the context."""

    def trials(self, parts: NodeParts) -> RunTrial:
        """Returns what runs the leases of this run."""
        if self.make_trials is not None:
            return self.make_trials(self, parts)
        blobs = BlobUploader(parts.services.store, parts.context.place)
        return LocalTrials(parts.services, self.tasks, attempt_planner(self.config, self.agent.name), blobs)


PUBLISHED_CONCURRENCY = "concurrency"
"""Key of the published manifest of a workload: attempts that run at once, unless the node says otherwise."""

LoadRun = Callable[[PublishedRun, NodeContext], Awaitable[NodeRun]]


def concurrency_of(published: PublishedRun) -> int:
    """Returns how many attempts run at once in a node of a run. Raises `UserError`, also as `find_workload`."""
    find_workload(published)
    manifest = published.manifest
    try:
        if WORKLOAD in manifest:
            return msgspec.convert(manifest[PUBLISHED_CONCURRENCY], Count)
        return parse_manifest(manifest)[0].concurrency
    except (KeyError, msgspec.ValidationError) as exc:
        raise UserError(f"run {published.run!r} does not say how it was made ({exc})") from exc


def find_workload(published: PublishedRun) -> LoadRun | None:
    """Returns what loads a published run; None for an ordinary one.

    Raises:
        UserError: Another version of Assay published it, or this one knows no such work.
    """
    manifest = published.manifest
    if manifest.get("assay_version") != __version__:
        raise UserError(
            f"run {published.run!r} was started by Assay {manifest.get('assay_version')}, this node has {__version__}: "
            "install the same version on all machines"
        )
    workload = manifest.get(WORKLOAD)
    if workload is None:
        return None
    known = names("workloads")
    if not isinstance(workload, str) or workload not in known:
        raise UserError(f"run {published.run!r} is work of the kind {workload!r}; this node knows {sorted(known)}")
    found: LoadRun = load("workloads", workload)
    return found
