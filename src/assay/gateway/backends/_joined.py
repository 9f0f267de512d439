"""Pieces that arrive together are given on together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from assay.gateway.interface import Delta

__all__ = ["merge_deltas"]


def merge_deltas(deltas: Iterable[Delta]) -> list[Delta]:
    """The pieces, those that go on with the one before made one with it."""
    found: list[Delta] = []
    for delta in deltas:
        last = found[-1] if found else None
        if last is None or not _continues(last, delta):
            found.append(delta)
        elif delta.index is None:
            found[-1] = Delta(text=last.text + delta.text, reasoning=last.reasoning + delta.reasoning)
        else:
            found[-1] = msgspec.structs.replace(last, arguments=last.arguments + delta.arguments)
    return found


def _continues(last: Delta, delta: Delta) -> bool:
    if last.index != delta.index or delta.id is not None or delta.name is not None:
        return False
    plain = last.sealed is None is delta.sealed and last.prompt_tokens is None is delta.prompt_tokens
    return plain and bool(last.text) == bool(delta.text) and bool(last.reasoning) == bool(delta.reasoning)
