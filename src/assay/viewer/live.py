"""Live updates of a page: server-sent events of one run, or of the list of runs.

Invariant: messages are bounded; after larger changes the page reloads everything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from assay.store import ADMISSION, RunStore, current_verdicts_by_chain, list_runs

from .interface import json_bytes
from .rows import attempt_columns
from .runs import current_state

EVERY_S = 0.7
QUIET_S = 15.0
"""Longest time between messages, so that a closed page is noticed."""
MOST_ROWS = 1000


class _Change(NamedTuple):
    """Messages to send, and the last event in them."""

    messages: tuple[bytes, ...]
    seq: int
    ended: bool


async def watch(root: Path, run: str, after: int, makers: Executor) -> AsyncIterator[bytes]:
    """Yields messages about a run, or the list of runs if it is empty, while the page is open.

    `after` is the last event that the page knows; `makers` are the threads that read the store.

    Raises:
        UserError: The run's name is invalid.
        StoreError: The run does not exist, or cannot be read.
    """
    last_state, last = "", time.monotonic()
    while True:
        poll = partial(_run_changes, root, run, after) if run else partial(_list_changes, root)
        change = await asyncio.get_running_loop().run_in_executor(makers, poll)
        after = change.seq
        fresh = [m for m in change.messages if not m.startswith(b"event: state\n") or last_state != m.decode()]
        for message in fresh:
            if message.startswith(b"event: state\n"):
                last_state = message.decode()
            yield message
            last = time.monotonic()
        if change.ended:
            return
        if time.monotonic() - last >= QUIET_S:
            yield b": still here\n\n"
            last = time.monotonic()
        await asyncio.sleep(EVERY_S)


def _run_changes(root: Path, run: str, after: int) -> _Change:
    with RunStore.open(root, run) as store, store.snapshot():
        if store.is_sealed:
            return _Change((_message("ended", {"why": "sealed"}),), after, ended=True)
        until = store.live.last_seq()
        rows = store.live.changed(after, until) if until > after else []
        shown = [row for row in rows if row.agent != ADMISSION][:MOST_ROWS]
        stands = current_verdicts_by_chain(store, shown) if shown else {}
    messages = [_message("state", {"state": current_state(root, run)})]
    if len(rows) > MOST_ROWS:
        messages.append(_message("rows", {"seq": until, "reload": True}))
    elif until > after:
        messages.append(_message("rows", {"seq": until} | attempt_columns(shown, stands)))
    return _Change(tuple(messages), until, ended=False)


def _list_changes(root: Path) -> _Change:
    names = list_runs(root)
    state: dict[str, Any] = {"runs": len(names), "newest": names[-20:]}
    return _Change((_message("state", state),), 0, ended=False)


def _message(name: str, data: dict[str, Any]) -> bytes:
    """Encodes a server-sent event. JSON has no bare newline, so no recorded text can end it."""
    return b"event: " + name.encode() + b"\ndata: " + json_bytes(data) + b"\n\n"
