"""Runs selection stages in order, and records for every candidate why it is in or out."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from assay import plugins
from assay.errors import UserError
from assay.learning.options import convert_options
from assay.pairs import read_pairs, read_value

from .diversity import diversity
from .filters import density, efficiency, recovery, secrets, separation, verdicts
from .interface import AttemptCandidate, Selection, SelectionStage, Selector
from .mixture import mixture
from .similar import duplicates, leakage
from .tasks import contrast, difficulty
from .teacher import teacher

SELECTORS: dict[str, Callable[..., list[Selection]]] = {
    "secrets": secrets,
    "verdicts": verdicts,
    "separation": separation,
    "density": density,
    "recovery": recovery,
    "efficiency": efficiency,
    "contrast": contrast,
    "difficulty": difficulty,
    "duplicates": duplicates,
    "leakage": leakage,
    "diversity": diversity,
    "teacher": teacher,
    "mixture": mixture,
}


class SelectionResult(msgspec.Struct, frozen=True):
    """Decision on one candidate after all stages."""

    kept: bool
    stage: str | None
    """The stage that rejected it; None if kept."""
    why: tuple[str, ...]
    """Reasons of each stage that saw it; the last one decided."""


def select(candidates: Sequence[AttemptCandidate], stages: Sequence[SelectionStage]) -> list[SelectionResult]:
    """Decides about every candidate; of equal ones the first is kept. Each stage sees what those before it kept.

    Raises:
        UserError: A stage or an option does not exist, or makes no sense.
        PluginLoadError: A stage of one's own does not import.
    """
    why: list[list[str]] = [[] for _ in candidates]
    out: dict[int, str] = {}
    remaining = list(range(len(candidates)))
    for name, stage in zip(stage_labels(stages), stages, strict=True):
        decisions = _run_stage(stage, [candidates[number] for number in remaining], candidates)
        for number, decision in zip(remaining, decisions, strict=True):
            why[number].append(decision.why)
            if not decision.kept:
                out[number] = name
        remaining = [number for number in remaining if number not in out]
    return [SelectionResult(n not in out, out.get(n), tuple(reasons)) for n, reasons in enumerate(why)]


def stage_labels(stages: Sequence[SelectionStage]) -> list[str]:
    """Returns each stage's name, numbered if it occurs again."""
    times: Counter[str] = Counter()
    found = []
    for stage in stages:
        times[stage.name] += 1
        found.append(stage.name if times[stage.name] == 1 else f"{stage.name}#{times[stage.name]}")
    return found


def _run_stage(
    stage: SelectionStage, candidates: Sequence[AttemptCandidate], everyone: Sequence[AttemptCandidate]
) -> list[Selection]:
    selector: Callable[..., list[Selection]] = SELECTORS.get(stage.name) or _plugin(stage.name)
    options = convert_options(f"stage {stage.name!r}", selector, stage.options, handed=("everyone",))
    context = {"everyone": everyone} if "everyone" in inspect.signature(selector).parameters else {}
    try:
        found = selector(candidates, **options, **context)
    except (TypeError, ValueError) as exc:
        raise UserError(f"stage {stage.name!r}: {exc}") from exc
    if len(found) != len(candidates):
        raise UserError(f"stage {stage.name!r} decided about {len(found)} of {len(candidates)} candidates")
    return found


def _plugin(name: str) -> Selector:
    if ":" not in name and not name.endswith(".py"):
        raise UserError(f"unknown stage {name!r}; expected one of {', '.join(SELECTORS)}, and module:function")
    found: Selector = plugins.load("stages", name)
    return found


def parse_stage(words: str) -> SelectionStage:
    """Parses a stage from the command line: `density`, `density:at_least=0.3`, `verdicts:outcome=fail,doubtful=true`.

    A value is JSON where it reads as JSON, else text; `+` joins several: `difficulty:bands=hard+middling`.

    Raises:
        UserError: It does not read as that.
    """
    name, _, rest = words.partition(":") if words.split(":")[0] in SELECTORS else _split_plugin(words)
    pairs = filter(None, rest.split(","))
    options = read_pairs(pairs, f"--where {words}", "write NAME:key=value,key=value", read=_read_values)
    return SelectionStage(name, options)


def _split_plugin(words: str) -> tuple[str, str, str]:
    """Splits `module:function` from its options at the second colon."""
    parts = words.split(":", 2)
    return ":".join(parts[:2]), ":", parts[2] if len(parts) > 2 else ""


def _read_values(text: str) -> Any:
    return [read_value(part) for part in text.split("+")] if "+" in text else read_value(text)


def count_by_stage(
    stages: Sequence[SelectionStage], selected: Sequence[SelectionResult]
) -> Iterator[tuple[str, int, int]]:
    """Yields each stage with the number of candidates it saw and kept."""
    out = Counter(one.stage for one in selected)
    remaining = len(selected)
    for name in stage_labels(stages):
        yield name, remaining, remaining - out[name]
        remaining -= out[name]
