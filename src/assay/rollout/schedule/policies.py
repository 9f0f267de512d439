"""Allocation policies by name, and their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from assay.errors import UserError
from assay.rollout.schedule.allocation import (
    Halving,
    HalvingOptions,
    Policy,
    Uncertainty,
    UncertaintyOptions,
    Uniform,
    UniformOptions,
)
from assay.rollout.schedule.curriculum import (
    Bandit,
    BanditOptions,
    Frontier,
    FrontierOptions,
    Progress,
    ProgressOptions,
)
from assay.rollout.schedule.forks import Forks, ForksOptions
from assay.validation_messages import describe_invalid


class Allocation(NamedTuple):
    """A policy and its options."""

    options: type[msgspec.Struct]
    make: Callable[[Any], Policy]


CURRICULA: Mapping[str, Allocation] = {
    "frontier": Allocation(FrontierOptions, Frontier),
    "progress": Allocation(ProgressOptions, Progress),
    "bandit": Allocation(BanditOptions, Bandit),
}
ALLOCATIONS: Mapping[str, Allocation] = {
    "uniform": Allocation(UniformOptions, Uniform),
    "halving": Allocation(HalvingOptions, Halving),
    "uncertainty": Allocation(UncertaintyOptions, Uncertainty),
    "forks": Allocation(ForksOptions, Forks),
    **CURRICULA,
}


def policy_named(name: str, options: Mapping[str, Any]) -> Policy:
    """Creates a policy. Raises `UserError` if the name or an option is unknown."""
    if name not in ALLOCATIONS:
        raise UserError(f"allocate is {name!r}: it must be one of {', '.join(ALLOCATIONS)}")
    kind = ALLOCATIONS[name]
    try:
        return kind.make(msgspec.convert(dict(options), kind.options, strict=False))
    except msgspec.ValidationError as exc:
        field, problem = describe_invalid(exc, kind.options, dict(options), "option")
        raise UserError(f"allocate {name!r}: {f'{field}: ' if field else ''}{problem}") from exc
