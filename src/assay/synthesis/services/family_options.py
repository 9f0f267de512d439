"""Checks the options of the family `services`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from assay.environments.services.clock import MOST_DAYS
from assay.environments.services.declaration import Service
from assay.errors import UserError

from .difficulty import Harder

_OWN: Final = (
    *("app", "level", "kind", "changed", "user", "writes", "interface", "knobs"),
    *("marks", "picture_type", "computer", "n", "seed"),
)
_MOST_WRONG: Final = 4
_MOST_PATIENCE: Final = 1_000
_RESEMBLING: Final = {"lookalikes": 60, "decoys": 100}
"""Options of generators that make records resemble each other, and their values where `distractors` is given."""


def read_harder(given: Mapping[str, Any], *, level: str, kind: str, user: str, changed: bool, pages: bool) -> Harder:
    """Returns the options of `Harder` among those of the family. Raises `UserError` for what cannot be."""
    names = Harder.__struct_fields__
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, (*_OWN, *names), 1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join((*_OWN, *names))}"
            raise UserError(f"the family 'services' does not take this option ({name}); {hint}")
    try:
        harder = msgspec.convert(dict(given), Harder)
    except msgspec.ValidationError as exc:
        raise UserError(f"an option of the family 'services': {exc}") from exc
    _require_bounds(harder)
    if harder.has_person and (level not in ("persona", "mixed") or user not in ("rules", "model")):
        raise UserError(
            "mood, patience, disclosure, wrong and tell of the family 'services' need a person who can be asked: "
            "level=persona (or mixed) and user=rules or model"
        )
    if harder.has_person and pages:
        raise UserError("mood, patience, disclosure, wrong and tell of the family 'services' need interface=tools")
    if harder.days and (kind != "possible" or changed or harder.twins):
        raise UserError("days of the family 'services' needs kind=possible, changed=false and twins=false")
    if harder.files and (kind != "possible" or changed or harder.days):
        raise UserError("files=true of the family 'services' needs kind=possible, changed=false and days=0")
    if harder.twins and (kind not in ("ambiguous", "impossible", "forbidden") or changed):
        raise UserError("twins=true of the family 'services' needs kind=ambiguous, impossible or forbidden")
    if harder.twins and kind == "ambiguous" and (level != "persona" or user not in ("rules", "model")):
        raise UserError(
            "twins=true,kind=ambiguous of the family 'services' needs level=persona and user=rules or model"
        )
    return harder


def require_interface(interface: str, *, user: str, changed: bool) -> None:
    """Raises `UserError` for an unknown interface, and for what pages do not offer."""
    if interface not in ("tools", "pages"):
        raise UserError(f"interface={interface} of the family 'services': expected tools or pages")
    if interface == "pages" and (changed or user == "model"):
        raise UserError(
            "interface=pages of the family 'services' goes with changed=false and user=rules, oracle or none"
        )


def require_types(**options: Any) -> None:
    """Refuses options of another type than the family's, as a command line may give them. Raises `UserError`."""
    for name, value in options.items():
        expected = "a text"
        is_right = isinstance(value, str)
        if name == "writes":
            expected, is_right = "a whole number", type(value) is int
        elif name == "changed":
            expected, is_right = "true or false", isinstance(value, bool)
        elif name == "knobs":
            expected = 'a table of tables, as {"shop":{"orders":90}}'
            tables = value.values() if isinstance(value, Mapping) else [value] if value is not None else []
            is_right = all(isinstance(table, Mapping) for table in tables)
        if not is_right:
            raise UserError(f"{name}={value} of the family 'services': expected {expected}")


def _require_bounds(harder: Harder) -> None:
    bounds = (("days", 0, MOST_DAYS // 2), ("distractors", 0, 100), ("reads", 0, 20), ("wrong", 0, _MOST_WRONG))
    for name, least, most in (*bounds, ("patience", 1, _MOST_PATIENCE)):
        if not least <= getattr(harder, name) <= most:
            raise UserError(f"{name}={getattr(harder, name)} of the family 'services': expected {least} to {most}")


def resembling_knobs(
    services: tuple[Service, ...], knobs: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Returns the options of the generators with more records that resemble each other; what is given stays."""
    found = {name: dict(table) for name, table in knobs.items()}
    for service in services:
        more = {name: value for name, value in _RESEMBLING.items() if name in _fields(service)}
        if more:
            found[service.name] = more | found.get(service.name, {})
    return found


def _fields(service: Service) -> tuple[str, ...]:
    return tuple(service.knobs.__struct_fields__)
