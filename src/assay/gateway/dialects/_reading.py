"""Checks a decoded body against what a dialect expects, with the field named as the client wrote it."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .interface import BadRequest

__all__ = ["checked", "kept", "require"]

Shape = TypeVar("Shape")


def checked(body: dict[str, Any], shape: type[Shape], where: str = "") -> Shape:
    """The body as `shape`; unknown fields are ignored. `where` is the body's own path, if it is a part of one.

    Raises:
        BadRequest: With the path of what does not fit.
    """
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as exc:
        message, _, path = str(exc).partition(" - at `")
        field = where + path.removesuffix("`").removeprefix("$")
        raise BadRequest(f"{message[:1].lower()}{message[1:]}", field.removeprefix(".") or None) from exc


def kept(part: dict[str, Any], where: str) -> dict[str, Any]:
    """A part that is passed on as it is; not one that would be taken for a canonical part."""
    require(part.get("type") not in {"text", "image_url"}, "no such type in this dialect", f"{where}.type")
    return part


def require(ok: object, message: str, field: str | None = None) -> None:
    """Raises `BadRequest` unless `ok`."""
    if not ok:
        raise BadRequest(message, field)
