"""Writes docs/reference/worlds.md from the worlds themselves: docstrings, knobs, acts, wrappers, promises."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from assay import plugins
from assay.environments.worlds import conformance, interface, opening, played, wrappers
from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.rules import Rules, WorldConfig

__all__ = ["worlds_page"]

ORDER = (
    "grid", "maze", "key-value", "tables", "subset-sum", "graph-path", "constraints", "sokoban", "adventure",
    "gymnasium", "reasoning-gym", "textarena",
)  # fmt: skip
RECORDS = """
## What a run records

- Each act is a step; its `state` is the world's name for where it is then, the same in every attempt that comes there.
- Evidence of kind `episode`, once an attempt: the columns `steps`, `rewards`, `progress` and `errors`, one entry an act
  (`steps` says of which step it was), and `terminated`, `truncated` and `reward`, the sum.
- Evidence of kind `facts`: what the world became, by which it is judged, and the digest to which doing the acts again
  must lead (`assay verify --again`).
- A world that terminates ends the attempt (`ended`); one whose turns are used up stops it (`stopped`: `turns`).
- With the agent `expert` and `noise`, evidence of kind `expert_noise`: which steps were random.
"""


def worlds_page(field_table: Callable[[type], str]) -> str:
    """docs/reference/worlds.md."""
    made = (
        "# Text worlds\n\nTurn-based worlds in this process, for `assay run family:NAME,n=20,seed=3,knob=value`. "
        "[How to write one](../how-to/write-a-world.md).\n\n## What a world promises\n\n"
        f"{inspect.getdoc(interface)}\n\n`assay check environment NAME` tries, on several seeds:\n\n"
    )
    made += "".join(f"- {trial.__name__.replace('_', ' ')}\n" for trial in conformance.PROPERTIES)
    made += f"\n## Options of every family\n\n{_options()}\n## Options of every world\n\n{field_table(WorldConfig)}"
    made += "".join(_world(name, field_table) for name in ORDER)
    made += f"\n# What is put around a world\n\n{inspect.getdoc(wrappers)}\n"
    for name, kind in wrappers.WRAPPERS.items():
        made += f"\n## {name}\n\n{inspect.getdoc(kind)}\n"
        if msgspec.structs.fields(kind.Options):
            made += f"\n{field_table(kind.Options)}"
    made += f"\n# In a run\n\n{inspect.getdoc(played)}\n\n{inspect.getdoc(opening)}\n"
    return made + RECORDS


def _options() -> str:
    doc = inspect.getdoc(WorldTasks) or ""
    rows = [line.strip() for line in doc.partition("Args:\n")[2].splitlines()]
    return "".join(f"- `{name}`: {text.strip()}\n" for name, _, text in (r.partition(":") for r in _joined(rows)))


def _joined(lines: list[str]) -> list[str]:
    """One line an argument."""
    found: list[str] = []
    for line in lines:
        name, sep, _ = line.partition(":")
        if sep and name.isidentifier():
            found.append(line)
        else:
            found[-1] += f" {line}"
    return found


def _world(name: str, field_table: Callable[[type], str]) -> str:
    target = plugins.names("environments")[name].value
    module = importlib.import_module(target.partition(":")[0])
    kind: type[Rules[Any, Any]] = getattr(module, target.partition(":")[2])
    acts = {act: " ".join((struct.__doc__ or "").split()) for act, struct in kind.acts.items()}
    if name == "grid":
        acts["claim"] = "Say that you are at the goal. With the knob `shortcut` alone."
    made = f"\n# {name}\n\n{inspect.getdoc(module)}\n\n"
    made += "".join(f"- `{act}`: {about}\n" for act, about in acts.items())
    return made + f"\n{inspect.getdoc(kind.WorldConfig)}\n\n{field_table(kind.WorldConfig)}"
