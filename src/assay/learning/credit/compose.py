"""Credit by name: an estimator and its masks, as named in a recipe.

Estimators and masks are found by the entry point group `assay.advantages`, or as `module:function`. An estimator is
called with the batch, a mask with the batch and the credit so far. Estimators are evidence-aware unless configured
otherwise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from assay import plugins
from assay.errors import UserError
from assay.learning.options import convert_options
from assay.learning.rows_config import ActorWeighting

from .evidence import evidence_aware
from .interface import Batch, Credit


class MaskStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mask applied after the estimator."""

    name: str
    options: dict[str, Any] = {}


class CreditConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of credit assignment."""

    method: str = "grpo"
    """An estimator by name, or `module:function`."""
    options: dict[str, Any] = {}
    """Options of the estimator."""
    evidence: Literal["aware", "ignore"] = "aware"
    """`ignore` uses every reward unchanged, for comparisons."""
    dishonest: Literal["fail", "mask"] = "fail"
    """Treatment of attempts with failed integrity: counted as failed, or left out."""
    need_integrity: bool = False
    """Leaves out passes without an integrity verdict."""
    masks: tuple[MaskStage, ...] = ()
    """Masks, applied in order."""
    actors: ActorWeighting = "equal"
    """Weights of a team's actors. `rank-consistency`: the larger, the better the rewards of an actor's own turns order
    the attempts of a group as their outcomes do; see the page about credit."""


_UNRECORDED = {
    "gae": ("a critic's values of each turn", "step-returns, reinforce++ or grpo, which need no critic"),
    "leave-one-out": ("the rewards of replays without each turn", "progress, or rloo, which it is without replays"),
    "entropy": ("the policy's entropy over all tokens", "first-error or fresh, or leave the mask out"),
}
"""Methods that need a column which no training row has, with that column's content and what to use instead."""


_BY_GROUP = frozenset(
    {
        "grpo", "dr-grpo", "rloo", "gigpo", "mc-grpo", "step-returns", "m-grpo", "xrpo", "sweet-spot", "progress",
        "hindsight", "first-error", "fresh",
    }
)  # fmt: skip
"""Methods whose credit of a group does not depend on other groups."""


def whole_batch_methods(config: CreditConfig) -> tuple[str, ...]:
    """Returns the methods that may need the whole batch: `reinforce++`, and those that are not built in."""
    return tuple(name for name in (config.method, *(stage.name for stage in config.masks)) if name not in _BY_GROUP)


def require_recorded(config: CreditConfig) -> None:
    """Raises `UserError` for a method whose columns training rows do not have; `compute_credit` takes it with a batch
    of your own."""
    for name in (config.method, *(stage.name for stage in config.masks)):
        if name in _UNRECORDED:
            column, instead = _UNRECORDED[name]
            raise UserError(
                f"credit by {name!r} needs {column}, which no training row has: use {instead}; with arrays of your own "
                "`assay.learning.credit.compute_credit` takes it"
            )


def require_usable(config: CreditConfig) -> None:
    """Loads all methods of a recipe, so that it is refused before anything runs.

    Raises:
        UserError: A method needs what no training row has, an option does not exist, or a mask stands for an estimator.
        PluginLoadError: A method is not found or does not import.
    """
    require_recorded(config)
    _load_method(config.method, config.options, mask=False)
    for stage in config.masks:
        _load_method(stage.name, stage.options, mask=True)


def compute_credit(batch: Batch, config: CreditConfig) -> Credit:
    """Returns the credit of every turn as configured.

    Raises:
        UserError: An option does not exist, or the batch lacks what a method needs.
        PluginLoadError: A method is not found or does not import.
    """
    method, options = _load_method(config.method, config.options, mask=False)
    if config.evidence == "aware":
        method = evidence_aware(method, dishonest=config.dishonest, need_integrity=config.need_integrity)
    found = _call_method(config.method, method, (batch,), options)
    for stage in config.masks:
        mask, options = _load_method(stage.name, stage.options, mask=True)
        found = _call_method(stage.name, mask, (batch, found), options)
    return found


def _load_method(name: str, options: Mapping[str, Any], *, mask: bool) -> tuple[Callable[..., Credit], dict[str, Any]]:
    method: Callable[..., Credit] = plugins.load("advantages", name)
    if ("credit" in inspect.signature(method).parameters) != mask:
        raise UserError(f"{name!r} is {'an estimator, not a mask' if mask else 'a mask, not an estimator'} of credit")
    return method, convert_options(f"credit by {name!r}", method, options)


def _call_method(
    name: str, method: Callable[..., Credit], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> Credit:
    try:
        return method(*arguments, **options)
    except (TypeError, ValueError) as exc:
        raise UserError(f"credit by {name!r}: {exc}") from exc
