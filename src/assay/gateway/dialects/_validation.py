"""Validates a decoded body against a dialect's types; errors name the field as the client wrote it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .interface import BadRequest

Shape = TypeVar("Shape")


def convert_part(body: dict[str, Any], shape: type[Shape], where: str = "") -> Shape:
    """Converts the body to `shape`, ignoring unknown fields. `where` is the path of a nested body."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as exc:
        message, _, path = str(exc).partition(" - at `")
        field = where + path.removesuffix("`").removeprefix("$")
        raise BadRequest(f"{message[:1].lower()}{message[1:]}", field.removeprefix(".") or None) from exc


def require_foreign_part(part: dict[str, Any], where: str) -> dict[str, Any]:
    """Returns a dialect-specific part unchanged; rejects types that canonical parts use."""
    require(part.get("type") not in {"text", "image_url"}, "no such type in this dialect", f"{where}.type")
    return part


def require(ok: object, message: str, field: str | None = None) -> None:
    """Raises `BadRequest` unless `ok`."""
    if not ok:
        raise BadRequest(message, field)
