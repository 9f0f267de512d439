"""A selection: stages one after the other, and for every candidate in the end why it is in or out."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from assay import plugins
from assay.errors import UserError
from assay.learning.options import checked
from assay.pairs import read_pairs, read_value

from .diversity import diversity
from .filters import density, efficiency, recovery, separation, verdicts
from .interface import Candidate, Decision, Stage
from .mixture import mixture
from .similar import duplicates, leakage
from .tasks import contrast, difficulty
from .teacher import teacher

__all__ = ["SELECTORS", "Selected", "counts", "labels", "parse_stage", "select"]

SELECTORS: dict[str, Callable[..., list[Decision]]] = {
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


class Selected(msgspec.Struct, frozen=True):
    """What came of one candidate."""

    kept: bool
    stage: str | None
    """The stage that left it out; None where it was kept."""
    why: tuple[str, ...]
    """What each stage said that saw it; the last line is what decided."""


def select(candidates: Sequence[Candidate], stages: Sequence[Stage]) -> list[Selected]:
    """Decides about every candidate.

    Args:
        candidates: In order of preference: where two are alike, the first is kept.
        stages: Each sees what those before it kept.

    Raises:
        UserError: A stage or an option does not exist, or makes no sense.
        PluginLoadError: A stage of one's own does not import.
    """
    why: list[list[str]] = [[] for _ in candidates]
    out: dict[int, str] = {}
    left = list(range(len(candidates)))
    for name, stage in zip(labels(stages), stages, strict=True):
        decisions = _decided(stage, [candidates[number] for number in left], candidates)
        for number, decision in zip(left, decisions, strict=True):
            why[number].append(decision.why)
            if not decision.kept:
                out[number] = name
        left = [number for number in left if number not in out]
    return [Selected(n not in out, out.get(n), tuple(said)) for n, said in enumerate(why)]


def labels(stages: Sequence[Stage]) -> list[str]:
    """A name for each stage: its own, with a number where it comes again."""
    times: Counter[str] = Counter()
    found = []
    for stage in stages:
        times[stage.name] += 1
        found.append(stage.name if times[stage.name] == 1 else f"{stage.name}#{times[stage.name]}")
    return found


def _decided(stage: Stage, candidates: Sequence[Candidate], everyone: Sequence[Candidate]) -> list[Decision]:
    selector: Callable[..., list[Decision]] = SELECTORS.get(stage.name) or _plugin(stage.name)
    options = checked(f"stage {stage.name!r}", selector, stage.options, handed=("everyone",))
    context = {"everyone": everyone} if "everyone" in inspect.signature(selector).parameters else {}
    try:
        found = selector(candidates, **options, **context)
    except (TypeError, ValueError) as exc:
        raise UserError(f"stage {stage.name!r}: {exc}") from exc
    if len(found) != len(candidates):
        raise UserError(f"stage {stage.name!r} decided about {len(found)} of {len(candidates)} candidates")
    return found


def _plugin(name: str) -> Callable[..., list[Decision]]:
    if ":" not in name and not name.endswith(".py"):
        raise UserError(f"there is no stage {name!r}; there are {', '.join(SELECTORS)}, and module:function")
    found: Callable[..., list[Decision]] = plugins.load("stages", name)
    return found


def parse_stage(words: str) -> Stage:
    """A stage as a command line has it: `density`, `density:at_least=0.3`, `verdicts:outcome=fail,doubtful=true`.

    A value is JSON where it reads as JSON, else text; `+` joins several: `difficulty:bands=hard+middling`.

    Raises:
        UserError: It does not read as that.
    """
    name, _, rest = words.partition(":") if words.split(":")[0] in SELECTORS else _own(words)
    pairs = filter(None, rest.split(","))
    options = read_pairs(pairs, f"--where {words}", "write NAME:key=value,key=value", read=_several)
    return Stage(name, options)


def _own(words: str) -> tuple[str, str, str]:
    """`module:function` and then options, told apart by the second colon."""
    parts = words.split(":", 2)
    return ":".join(parts[:2]), ":", parts[2] if len(parts) > 2 else ""


def _several(text: str) -> Any:
    return [read_value(part) for part in text.split("+")] if "+" in text else read_value(text)


def counts(stages: Sequence[Stage], selected: Sequence[Selected]) -> Iterator[tuple[str, int, int]]:
    """Each stage with how many it saw and how many it kept."""
    out = Counter(one.stage for one in selected)
    left = len(selected)
    for name in labels(stages):
        yield name, left, left - out[name]
        left -= out[name]
