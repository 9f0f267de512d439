"""Writes docs/reference/worlds.md from the worlds themselves: docstrings, options, acts, wrappers, properties."""

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

- Each act is a step; its `state` is the world's name of the resulting state, the same in every attempt that reaches it.
- Evidence of kind `episode`, once an attempt: the columns `steps`, `rewards`, `progress` and `errors`, one entry an act
  (`steps` has the step of each act), and `terminated`, `truncated` and `reward`, the sum.
- Evidence of kind `facts`: the final facts that the check judges, and the digest that a repetition of the acts
  must reach (`assay verify --again`).
- A world that terminates ends the attempt (`ended`); one without turns left stops it (`stopped`: `turns`).
- With the agent `expert` and `noise`, evidence of kind `expert_noise`: the random steps.
"""


def worlds_page(field_table: Callable[[type], str]) -> str:
    """docs/reference/worlds.md."""
    made = (
        "# Text worlds\n\nTurn-based worlds in this process, for `assay run family:NAME,n=20,seed=3,option=value`. "
        "[How to write one](../how-to/write-a-world.md).\n\n## Properties of a world\n\n"
        f"{inspect.getdoc(interface)}\n\n`assay check environment NAME` tests, on several seeds:\n\n"
    )
    made += "".join(f"- {trial.__name__.replace('_', ' ')}\n" for trial in conformance.PROPERTIES)
    made += f"\n## Options of every family\n\n{_options()}\n## Options of every world\n\n{field_table(WorldConfig)}"
    made += "".join(_world(name, field_table) for name in ORDER)
    made += f"\n# Wrappers\n\n{inspect.getdoc(wrappers)}\n"
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
        acts["claim"] = "Claim to be at the goal. Only with the option `shortcut`."
    made = f"\n# {name}\n\n{inspect.getdoc(module)}\n\n"
    made += "".join(f"- `{act}`: {about}\n" for act, about in acts.items())
    return made + f"\n{inspect.getdoc(kind.WorldConfig)}\n\n{field_table(kind.WorldConfig)}"
