"""Specification of a team: who acts, in which order, with which tools, and who reads whose messages.

It is the same table in a team file, in `agent_options` of a run's configuration and in Python. The runner reads it when
the attempt begins, records it as evidence `team`, and enforces it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from assay.errors import UserError
from assay.limited_file import parse_file, read_toml
from assay.validation_messages import describe_invalid

ALL = "all"
_NAME = r"^[A-Za-z][A-Za-z0-9_-]{0,39}\Z"
Name = Annotated[str, msgspec.Meta(pattern=_NAME)]
MOST_FILE = 256 * 1024


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One actor of a team."""

    name: Name
    """Letters, digits, `_` and `-`; every step and model call of the actor carries it."""
    agent: Annotated[str, msgspec.Meta(min_length=1)] = "loop"
    """Any agent whose program runs in the runner's process, by the name that `--agent` takes."""
    options: dict[str, Any] = {}
    """Options of that agent."""
    instructions: str = ""
    """Text that this actor reads after the task."""
    tools: tuple[str, ...] = ("*",)
    """Tools of the environment that the actor may use; `*` stands for any characters. Any other call is refused."""
    view: Annotated[int, msgspec.Meta(ge=0)] | Literal["all"] | None = None
    """Part of the task's knowledge in a world that splits it: its number from 1, 0 for none, `all` for the whole.
    Default: the role's own position, and none beyond the last part."""
    hand_off_to: tuple[Name, ...] | None = None
    """Roles to which the actor may hand off; default: all others with the order `hand-off`, none otherwise."""
    turns: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Most turns that it takes, for an adviser on a budget: acts with the order `round-robin`, and times that it is
    handed to with `hand-off`. Default: no bound of its own."""
    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Turns of the team before its first one; with the order `round-robin`."""
    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Turns of the team from one of its turns to the next, at least; with the order `round-robin`."""


class TeamChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A channel for messages."""

    name: Name
    writers: tuple[Name, ...] | None = None
    """Roles that may write; default: all."""
    readers: tuple[Name, ...] | None = None
    """Roles that read; default: all. A sender does not read its own messages."""


class TeamSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A team."""

    roles: Annotated[tuple[Role, ...], msgspec.Meta(min_length=1, max_length=16)]
    channels: Annotated[tuple[TeamChannel, ...], msgspec.Meta(max_length=64)] = ()
    order: Literal["round-robin", "hand-off"] = "round-robin"
    """`round-robin`: each actor takes one turn after the other. `hand-off`: the first role acts until it hands off or
    ends; one that was handed to and ends returns the turn."""
    absent: tuple[Name, ...] = ()
    """Roles that do nothing, to measure what they contribute."""
    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.+-]{0,60}\Z")] = ""
    """Name of the team in the record; default: its roles."""

    def __post_init__(self) -> None:
        names = [role.name for role in self.roles]
        _require_unique("role", names)
        _require_unique("channel", [channel.name for channel in self.channels])
        mentioned = {f"absent: {name}": name for name in self.absent}
        for channel in self.channels:
            for kind in ("writers", "readers"):
                for name in getattr(channel, kind) or ():
                    mentioned[f"channel {channel.name!r}: {kind}: {name}"] = name
        for role in self.roles:
            mentioned |= {f"role {role.name!r}: hand_off_to: {name}": name for name in role.hand_off_to or ()}
            if self.order == "hand-off" and (role.after, role.every) != (0, 1):
                raise ValueError(f"role {role.name!r}: after and every are for the order 'round-robin'")
            if role.name in (role.hand_off_to or ()):
                raise ValueError(f"role {role.name!r} hands off to itself")
        for place, name in mentioned.items():
            if name not in names:
                raise ValueError(f"{place}: no role has this name; there are {', '.join(names)}")

    def writers(self, channel: TeamChannel) -> tuple[str, ...]:
        """Returns the roles that may write to a channel."""
        return channel.writers if channel.writers is not None else tuple(role.name for role in self.roles)

    def readers(self, channel: TeamChannel, sender: str) -> tuple[str, ...]:
        """Returns the roles that get a sender's messages in a channel."""
        readers = channel.readers if channel.readers is not None else tuple(role.name for role in self.roles)
        return tuple(name for name in readers if name != sender)

    def receivers_of_hand_off(self, role: Role) -> tuple[str, ...]:
        """Returns the roles to which a role may hand off."""
        if role.hand_off_to is not None:
            return role.hand_off_to
        others = tuple(other.name for other in self.roles if other.name != role.name)
        return others if self.order == "hand-off" else ()


def may_use(role: Role, tool: str) -> bool:
    """Returns whether a role may use a tool of the environment."""
    return any(fnmatchcase(tool, pattern) for pattern in role.tools)


def read_team(options: dict[str, Any]) -> TeamSpec:
    """Reads the options of the agent `team`: `file`, or the fields of `TeamSpec`.

    Raises `UserError` that names the file and the field.
    """
    table, place = dict(options), "agent 'team'"
    if "file" in table:
        path = Path(str(table.pop("file")))
        table, place = _read_file(path) | table, str(path)
    for name in ("roles", "channels", "absent"):
        if isinstance(table.get(name), str):
            table[name] = _parse_json(name, table[name])
    if "roles" not in table:
        raise UserError(f"{place}: a team has roles: give file=TEAM.toml with [[roles]], or roles as a table")
    try:
        return msgspec.convert(table, TeamSpec)
    except msgspec.ValidationError as exc:
        invalid = describe_invalid(exc, TeamSpec, table, "toml" if "file" in options else "option")
        raise UserError(f"{place}: {invalid.field or 'the team'}: {invalid.message}") from exc


def _read_file(path: Path) -> dict[str, Any]:
    return parse_file(path, read_toml, holding="a team as TOML", limit=MOST_FILE)


def _parse_json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise UserError(f"agent 'team': {name} is not JSON ({exc}); a team file is easier: file=TEAM.toml") from exc


def _require_unique(kind: str, names: list[str]) -> None:
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"two {kind}s are called {doubled[0]!r}: give each its own name")
