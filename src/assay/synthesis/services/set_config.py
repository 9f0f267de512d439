"""Configuration of a set of tasks in services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from assay.errors import UserError

from .difficulty import Demands

_ALWAYS: Final = {"distinct": True, "needs": True}


class ServiceSetConfig(Demands, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of a set of tasks in services."""

    apps: tuple[str, ...]
    """Applications that share one world: `shop mail`, or `path/file.py:attribute`."""
    out: str
    """The folder that `family.json` is written to."""
    count: int = 24
    """Number of tasks; fewer if the applications do not suffice."""
    seed: int = 0
    """Decides the worlds and the requests."""
    level: Literal["explicit", "implicit", "persona", "mixed"] = "mixed"
    """How the requests are said: as a list, as a person would, in a conversation, or in turn."""
    kind: str = "possible"
    """`possible`, `impossible`, `forbidden`, `ambiguous`, `question`, several joined by `+`, or `mixed`."""
    user: Literal["rules", "oracle", "none", "model"] = "rules"
    """The person of the conversations."""
    writes: int = 0
    """Requests of a task; 0 draws one to three."""
    changed: bool = False
    """The person changes one request in the middle of the work."""
    interface: Literal["tools", "pages"] = "tools"
    """How the agent reaches the applications."""
    knobs: dict[str, Any] = msgspec.field(default_factory=dict)
    """Option of an application's generator, as `shop.orders=90`; repeatable."""

    def __post_init__(self) -> None:
        if not self.apps:
            raise UserError("no applications: name one or several, as in `assay synth services shop mail`")
        if not 1 <= self.count <= 100_000:
            raise UserError(f"count is {self.count}: it must be 1 to 100,000")
        if self.seed < 0:
            raise UserError(f"seed is {self.seed}: it must be at least 0")

    @property
    def options(self) -> dict[str, Any]:
        """Returns the options of the family, without those that have their defaults."""
        apart = ("apps", "out", "count", "seed", "knobs")
        given = {
            field.name: getattr(self, field.name)
            for field in msgspec.structs.fields(self)
            if field.name not in apart and getattr(self, field.name) != field.default
        }
        found: dict[str, Any] = {"app": "+".join(self.apps), **given, **_ALWAYS}
        if self.knobs:
            found["knobs"] = _by_application(self.knobs)
        return found


def _by_application(knobs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in knobs.items():
        app, dot, knob = name.partition(".")
        if isinstance(value, Mapping) and not dot:  # a table of a file
            found.setdefault(app, {}).update(value)
        elif dot and knob:
            found.setdefault(app, {})[knob] = value
        else:
            raise UserError(f"--knob {name}={value}: write it as APP.KNOB=VALUE, as in --knob shop.orders=90")
    return found
