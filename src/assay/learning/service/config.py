"""What the service is started with, and what a client may ask of it.

Whoever holds the token may spend this machine's time on what the operator named, and no more: policies, agents,
families and task folders go by the operator's list, so that no request names a path, a URL, a module or a credential.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from assay.errors import UserError
from assay.learning.credit.compose import CreditConfig
from assay.records import Limits
from assay.rollout.config import RunConfig
from assay.rollout.plan import merge_limits

__all__ = ["BatchRequest", "PolicyAsked", "RolloutServiceConfig", "require_policies", "run_config"]

Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")]
Version = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]
Source = Annotated[str, msgspec.Meta(max_length=500)]
Count = Annotated[int, msgspec.Meta(ge=1)]
VERSION = "{version}"
"""What the client's version stands for in a policy."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9+_-]{0,63}", re.ASCII)


class RolloutServiceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What trainers may ask for, and how much of it."""

    policies: dict[str, str] = {}
    """Models that a client may name, as `name=MODEL`, MODEL as in `assay run`; `{version}` in it stands for the version
    that the client names: `actor=local:/weights/{version}`."""
    families: tuple[str, ...] = ()
    """Generated families of tasks that a client may name; repeatable."""
    task_folders: tuple[str, ...] = ()
    """Folders below which a client may name task folders; repeatable."""
    agents: tuple[str, ...] = ("loop",)
    """Agents that a client may name; repeatable."""
    renderers: dict[str, str] = {}
    """Checkpoint folder of a policy, as `name=FOLDER`, so that rows tell the role of each token; a `local:` policy
    needs none."""
    port: int = 0
    """The port on 127.0.0.1; 0 lets the system pick one."""
    token_file: str | None = None
    """The file that holds the token; made, for its owner alone, where it is missing. Default: `service/token` in the
    store."""
    concurrency: int = 16
    """How many attempts are under way at once."""
    waiting: Count = 64
    """Batches that may wait; further ones are refused until some are done."""
    attempts: Count = 20_000
    """Attempts of one batch, at most."""
    kept: Count = 10_000
    """Batches that are remembered; further ones are refused until some are deleted."""
    limits: Limits = Limits(wall_s=600, turns=200)
    """Limits of each attempt; a client may ask for stricter ones."""


class PolicyAsked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which weights are to act."""

    name: Name
    """One of the service's policies."""
    version: Version | None = None
    """Of its weights: put into the policy's address where that has a place for it, and compared with what the replies
    say."""


class BatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a client asks for: the body of `POST /v1/batches`."""

    id: Name
    """The client's own name for it. The same request again is the same batch."""
    policy: PolicyAsked
    """Which weights are to act."""
    tasks: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1, max_length=1000)]
    """`family:NAME,n=...,seed=...`, or paths below one of the service's task folders."""
    agent: str = "loop"
    """Who asks the policy."""
    agent_options: dict[str, Any] = {}
    """Its options."""
    attempts: Count = 8
    """Attempts at each task: the size of a group."""
    budget: Count | None = None
    """Attempts in all; see `assay run`."""
    allocate: str = "uniform"
    """Which tasks get them; see `assay run`."""
    allocate_options: dict[str, Any] = {}
    """Options of that."""
    early_stop: float | None = None
    """Whether hopeless attempts are ended; see `assay run`."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    """The seed of all attempts."""
    limits: Limits = Limits()
    """Limits of each attempt; where the service has stricter ones, those hold."""
    credit: CreditConfig = CreditConfig()
    """How the turns of the rows get their advantages."""
    unproved: bool = False
    """Whether rows with tokens whose context is not proved are given, those tokens masked; else the batch fails."""


def require_policies(config: RolloutServiceConfig) -> None:
    """Raises `UserError` where a service could do nothing, or a list of the operator's is wrong."""
    if not config.policies:
        raise UserError("no policy: name what may act, for example --policy actor=local:/weights/{version}")
    if not config.families and not config.task_folders:
        raise UserError("no tasks: name what may be asked for with --family NAME or --task-folder FOLDER")
    for name in (*config.policies, *config.renderers):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
            raise UserError(f"policy {name!r}: up to 64 letters, digits, - and _")
    missing = [folder for folder in config.task_folders if not Path(folder).is_dir()]
    if missing:
        raise UserError(f"there is no folder {missing[0]}: correct --task-folder")


def run_config(service: RolloutServiceConfig, asked: BatchRequest, run: str) -> RunConfig:
    """The run that a batch is. Raises `UserError` naming the first thing that is not to be had."""
    if asked.agent not in service.agents:
        raise UserError(f"agent {asked.agent!r} is not served here; these are: {', '.join(service.agents)}")
    _require_own(asked.credit)
    return RunConfig(
        tasks=tuple(_source(service, source) for source in asked.tasks),
        agent=asked.agent,
        agent_options=asked.agent_options,
        model=_model(service.policies, asked.policy),
        attempts=asked.attempts,
        budget=asked.budget,
        allocate=asked.allocate,
        allocate_options=asked.allocate_options,
        early_stop=asked.early_stop,
        concurrency=service.concurrency,
        model_concurrency=service.concurrency,
        seed=asked.seed,
        limits=merge_limits(service.limits, asked.limits),
        run=run,
    )


def _model(policies: Mapping[str, str], asked: PolicyAsked) -> str:
    if asked.name not in policies:
        raise UserError(f"policy {asked.name!r} is not served here; these are: {', '.join(sorted(policies))}")
    model = policies[asked.name]
    if VERSION not in model:
        return model
    if asked.version is None or ".." in asked.version:
        raise UserError(f"policy {asked.name!r} is one for each version: name policy.version")
    return model.replace(VERSION, asked.version)


def _source(service: RolloutServiceConfig, source: str) -> str:
    if source.startswith("family:"):
        name = source.removeprefix("family:").partition(",")[0]
        if name not in service.families:
            known = ", ".join(service.families) or "none"
            raise UserError(f"family {name[:60]!r} is not served here; these are: {known}")
        return source
    parts = PurePosixPath(source).parts
    if not parts or PurePosixPath(source).is_absolute() or ".." in parts or "\0" in source:
        raise UserError(
            f"task {source[:100]!r}: expected family:NAME,..., or a path below one of the service's task folders"
        )
    for folder in service.task_folders:
        root = Path(folder).resolve()
        found = (root / source).resolve()
        if found.is_relative_to(root) and found.is_dir():
            return str(found)
    raise UserError(f"there is no task folder {source[:100]!r} here")


def _require_own(credit: CreditConfig) -> None:
    """Names of installed methods alone: a module's name would import it."""
    for name in (credit.method, *(stage.name for stage in credit.masks)):
        if not _PLAIN.fullmatch(name):
            raise UserError(f"credit {name[:60]!r} is no name of an installed method")
