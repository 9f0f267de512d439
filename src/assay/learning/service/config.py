"""Service configuration, and the request format of its clients.

A client with the token may use what the operator listed and nothing else: policies, agents, families and task folders
are named by the operator, so a request contains no path, URL, module or credential.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from assay.errors import UserError
from assay.gateway.backends import require_model_form
from assay.learning.credit.compose import CreditConfig, require_usable, whole_batch_methods
from assay.plugins import load
from assay.records import Limits
from assay.rollout.config import RunConfig, require_possible_limits
from assay.rollout.plan import merge_limits
from assay.tasks.family_folder import first_unplain
from assay.tasks.sources import with_listed_options

from .service_config import Count, RolloutServiceConfig

Name = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")]
Version = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]
Source = Annotated[str, msgspec.Meta(max_length=500)]
VERSION = "{version}"
"""Placeholder of the client's version in a policy."""
MAX_STEP = 2**40
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9+_-]{0,63}", re.ASCII)


class PolicyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which weights are to act."""

    name: Name
    """Name of one of the service's policies."""
    version: Version | None = None
    """Version of its weights: substituted into the policy's address if it has a placeholder, and compared with the
    replies."""


class BatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Body of `POST /v1/batches`."""

    id: Name
    """The client's id; repeating the request returns the same batch."""
    policy: PolicyRequest
    """Which weights are to act."""
    tasks: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1, max_length=1000)]
    """`family:NAME,n=...,seed=...`, or paths below one of the service's task folders."""
    agent: str = "loop"
    """Agent that uses the policy."""
    agent_options: dict[str, Any] = {}
    """Options of the agent."""
    attempts: Count = 8
    """Attempts at each task: the size of a group."""
    budget: Count | None = None
    """Attempts in all; see `assay run`."""
    allocate: str = "uniform"
    """Which tasks get them; see `assay run`."""
    allocate_options: dict[str, Any] = {}
    """Options of the allocation."""
    early_stop: float | None = None
    """Early stopping of hopeless attempts; see `assay run`."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    """The seed of all attempts."""
    limits: Limits = Limits()
    """Limits of each attempt; stricter limits of the service apply."""
    credit: CreditConfig | None = CreditConfig()
    """Credit assignment for the rows; null returns rows without credit."""
    step: Annotated[int, msgspec.Meta(ge=0, le=MAX_STEP)] | None = None
    """The trainer's step that trains on the batch: the number of updates that its weights have had. The batch begins
    once the policy's posted step is at least `step - most_lag`, and uses the posted versions; unset takes its turn
    among the batches without one."""
    most_lag: Annotated[int, msgspec.Meta(ge=0, le=MAX_STEP)] | None = None
    """Maximum age of trained tokens in updates, for a batch with a step: older groups are handed over without rows.
    Unset does not bound it."""
    unproved: bool = False
    """Returns rows with uncertified tokens, those tokens masked; else the batch fails."""


class VersionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `POST /v1/policies/NAME/versions`."""

    version: Version
    """Name of the new weights, which replies carry."""
    step: Annotated[int, msgspec.Meta(ge=0, le=MAX_STEP)]
    """Number of updates that they have had."""


class AcknowledgeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `POST /v1/batches/ID/acknowledge`."""

    cursor: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    """Groups before this cursor, which `next` gave, are not handed over again by default."""


class AbortRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of `POST /v1/batches/ID/abort`."""

    attempts: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1, max_length=10_000)]
    """Attempts under way, as groups name them. Their trials are kept in the store and marked."""


def require_policies(config: RolloutServiceConfig) -> None:
    """Raises `UserError` for a service without policies or tasks, or with an invalid name or folder."""
    if not config.policies:
        raise UserError("no policy: name what may act, for example --policy actor=local:/weights/{version}")
    if not config.families and not config.task_folders:
        raise UserError("no tasks: name what may be asked for with --family NAME or --task-folder FOLDER")
    for name in (*config.policies, *config.renderers, *config.hooks):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
            raise UserError(f"policy {name!r}: up to 64 letters, digits, - and _")
    unknown = sorted(config.hooks.keys() - config.policies.keys())
    if unknown:
        raise UserError(f"--hook {unknown[0]}: unknown policy")
    for name, model in config.policies.items():
        try:
            require_model_form(model)
        except UserError as exc:
            raise UserError(f"--policy {name}={exc}") from None
    require_possible_limits(config.limits)
    for agent in config.agents:
        load("agents", agent)
    families = [family.partition(",")[0] for family in config.families]
    for name, family in zip(families, config.families, strict=True):
        load("tasks", name)
        with_listed_options(f"family:{name}", family)
        if families.count(name) > 1:
            raise UserError(f"--family {name} is listed twice: which of its options hold is not clear")
    missing = [folder for folder in config.task_folders if not Path(folder).is_dir()]
    if missing:
        raise UserError(f"folder {missing[0]} does not exist: correct --task-folder")


def run_config(service: RolloutServiceConfig, request: BatchRequest, run: str, version: str | None = None) -> RunConfig:
    """Returns the run configuration of a batch, with the policy's posted `version` for one with a step.

    Raises:
        UserError: Something in the request is not available; the message names the first such item.
    """
    if request.agent not in service.agents:
        raise UserError(f"agent {request.agent!r} is not served here; these are: {', '.join(service.agents)}")
    _require_no_host_options(request.agent, request.agent_options)
    if request.credit is not None:
        _require_usable_credit(request.credit)
    _require_stream(request)
    return RunConfig(
        tasks=tuple(_source(service, source) for source in request.tasks),
        agent=request.agent,
        agent_options=request.agent_options,
        model=_model(service.policies, request.policy, version if request.step is not None else None),
        attempts=request.attempts,
        budget=request.budget,
        allocate=request.allocate,
        allocate_options=request.allocate_options,
        early_stop=request.early_stop,
        concurrency=service.concurrency,
        model_concurrency=service.concurrency,
        seed=request.seed,
        limits=merge_limits(service.limits, request.limits),
        run=run,
    )


def _require_no_host_options(agent: str, options: Mapping[str, Any]) -> None:
    """Raises `UserError` for options that name files or code of this machine. An agent whose class says which do so
    (`host_options`) takes any text in the others; another agent takes plain words alone."""
    named = getattr(load("agents", agent), "host_options", None)
    if named is None:
        unplain = first_unplain(options)
        if unplain is not None:
            raise UserError(
                f"agent_options of {agent!r}: {unplain[:80]!r} may name code or a file here, and a request names "
                "none: use numbers and plain words"
            )
        return
    given = sorted(named & options.keys())
    if given:
        raise UserError(f"agent_options of {agent!r}: {given[0]} names a file here, and a request names none")


def _require_stream(request: BatchRequest) -> None:
    """Raises `UserError` for options that a batch with, or without, a step cannot have."""
    if request.step is None:
        if request.most_lag is not None:
            raise UserError("most_lag bounds the age of a batch with a step: name the step")
        return
    if request.policy.version is not None:
        raise UserError("a batch with a step uses the versions that the trainer posts: leave policy.version out")
    whole = () if request.credit is None else whole_batch_methods(request.credit)
    if whole:
        raise UserError(
            f"credit by {whole[0]!r} may need the whole batch, and a batch with a step is handed over group by group: "
            "use a method of one group, such as grpo or rloo, or credit null and assign it yourself"
        )


def _model(policies: Mapping[str, str], request: PolicyRequest, posted: str | None) -> str:
    if request.name not in policies:
        raise UserError(f"policy {request.name!r} is not served here; these are: {', '.join(sorted(policies))}")
    model = policies[request.name]
    if VERSION not in model:
        return model
    version = posted or request.version
    if version is None or ".." in version:
        raise UserError(f"policy {request.name!r} is one for each version: name policy.version")
    return model.replace(VERSION, version)


def _source(service: RolloutServiceConfig, source: str) -> str:
    if source.startswith("family:"):
        name = source.removeprefix("family:").partition(",")[0]
        listed = {one.partition(",")[0]: one for one in service.families}
        if name not in listed:
            raise UserError(f"family {name[:60]!r} is not served here; these are: {', '.join(listed) or 'none'}")
        return with_listed_options(source, listed[name])
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
    raise UserError(f"task folder {source[:100]!r} does not exist here")


def _require_usable_credit(credit: CreditConfig) -> None:
    """Raises `UserError` for credit that would fail once the attempts are made; accepts installed methods only,
    because a module name would import it."""
    for name in (credit.method, *(stage.name for stage in credit.masks)):
        if not _PLAIN.fullmatch(name):
            raise UserError(f"credit {name[:60]!r} is not an installed method")
    require_usable(credit)
