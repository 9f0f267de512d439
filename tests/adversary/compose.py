"""Composes primitives into attack scripts: one seed and one number give one script, on every machine.

The choice is uniform in each dimension, so that a script costs one draw from some 700,000 compositions.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Mapping

from .base_tasks import PROGRAM_VARIANTS
from .library import Script
from .primitives import DIMENSIONS, Dimension, Family, Primitive, primitives_of

__all__ = ["FAMILIES", "compose", "count_compositions"]

FAMILIES: tuple[tuple[Family, int], ...] = (("module", 6), ("program", 3), ("values", 1))
"""Families and how often each is drawn."""
VARIANTS: dict[Family, tuple[str, ...]] = {
    "module": ("py", "plan", "sepa"),
    "values": ("py", "plan", "sepa"),
    "program": PROGRAM_VARIANTS,
}
_FRAME = """

_CALLS, _HOOKS = [0], []
{reach}
{select}
def _act():
{act}
def _try():
    try:
        _act()
    except Exception:
        pass
def _count(function):
    def counted(*given, **named):
        _CALLS[0] += 1
        for hook in _HOOKS:
            hook()
        return function(*given, **named)
    return counted
total, normal, spread = map(_count, (total, normal, spread))
{trigger}
"""
_PROGRAM = """{reach}
def _act():
{act}
def _try():
    try:
        _act()
    except Exception:
        pass
{trigger}
"""


def compose(seed: int, number: int) -> Script:
    """Returns the script of a seed and a number."""
    chance = random.Random(f"{seed}/{number}")
    family = chance.choices([name for name, _ in FAMILIES], [weight for _, weight in FAMILIES])[0]
    chosen = {dimension: chance.choice(primitives_of(family, dimension)) for dimension in DIMENSIONS[family]}
    allowed = [v for v in VARIANTS[family] if all(not p.variants or v in p.variants for p in chosen.values())]
    variant = chance.choice(allowed)
    cause = " ".join(f"{dimension}={part.name}" for dimension, part in chosen.items())
    body = _render(family, chosen)
    text = f"# on: {variant}\n# {family}: {cause}\n{body}"
    return Script(f"s{seed}-{number:05d}", "composed", (variant,), text, f"{family}: {cause}", cause)


def count_compositions() -> int:
    """Returns the number of different compositions."""
    total = 0
    for family, _ in FAMILIES:
        product = 1
        for dimension in DIMENSIONS[family]:
            product *= len(primitives_of(family, dimension))
        total += product
    return total


def _render(family: Family, chosen: Mapping[Dimension, Primitive]) -> str:
    parts = {dimension: part.render("") for dimension, part in chosen.items() if dimension not in ("place", "hide")}
    if family == "values":
        hidden = chosen["hide"].render(parts["rewrite"])
        return f"cat > /workspace/ledger.py <<'PYTHON'\n{hidden}\nPYTHON\n"
    frame = _FRAME if family == "module" else _PROGRAM
    text = frame.format(**{**parts, "act": textwrap.indent(parts["rewrite"], "    ")}, **_absent(parts))
    return chosen["place"].render(chosen["hide"].render(text))


def _absent(parts: Mapping[Dimension, str]) -> dict[str, str]:
    return {} if "select" in parts else {"select": ""}
