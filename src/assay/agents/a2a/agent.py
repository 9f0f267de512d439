"""The agent `a2a`: a remote peer acts, over A2A, as the whole agent or as one actor of a team.

Each attempt opens a server of its own on 127.0.0.1 and writes its address and token to a file of the folder `announce`
that only the user can read. The first message of the peer returns the task and its tools; later messages make calls.
The attempt decides what the peer may do, as for any agent: a call outside its role is answered by an error.

Covered: a peer that sends nothing ends its part after `wait_s`; malformed, oversized and endless requests, wrong ids
and messages after the end are refused and counted as evidence `a2a_peer`; the record is whole whatever the peer does.
Not covered: a peer beyond this machine, which needs a tunnel with TLS of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay.agents._calls import instruction_of
from assay.agents._options import read_options
from assay.agents.interface import Attempt
from assay.errors import AgentError, UserError, boundary
from assay.http.server import HttpServer
from assay.records import Evidence

from .protocol import (
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    PeerTask,
    agent_card,
    opening_parts,
    read_turn,
    result_parts,
)
from .server import LIMITS, Pending, SeatServer

Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class Announcement(msgspec.Struct, frozen=True):
    """Content of an announced file: how a peer reaches its seat."""

    url: str
    token: str
    """Goes into the header `Authorization: Bearer TOKEN`."""
    task: str
    """Id of the task that is attempted."""
    name: str


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    announce: str = ""
    """Folder in which each attempt writes `NAME-TASK-SEED.json` with its address and token. Required."""
    name: str = "peer"
    """Name of the seat in that file and on its card."""
    wait_s: Seconds = 300.0
    """Seconds without a message of the peer after which its part ends."""
    linger_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.5
    """Seconds that the server stays open after the end, for a peer that asks how it ended."""


class A2aAgent:
    """A remote peer over A2A. Options: `announce`, `name`, `wait_s`, `linger_s`."""

    name = "a2a"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)
        if not self._options.announce:
            raise UserError("agent 'a2a': announce is missing: name a folder, in which peers find their address")

    async def run(self, attempt: Attempt) -> None:
        """Serves the peer until the attempt ends, the peer is done, or it is silent for too long."""
        task = PeerTask(f"{attempt.seed:x}", opening_parts(instruction_of(attempt.task), attempt.tools.specs()))
        token, listener = secrets.token_urlsafe(32), socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server = SeatServer(task, agent_card(self._options.name, url), token)
        path = self._announce(attempt, Announcement(url, token, attempt.task.id, self._options.name))
        try:
            async with HttpServer(server, LIMITS) as http:
                await http.listen(listener)
                await self._serve(attempt, server)
                await asyncio.sleep(self._options.linger_s)
        finally:
            _remove_own(path, token)
            attempt.note(
                Evidence("a2a_peer", "audit", "a2a_peer", {"state": task.state, "requests": dict(server.counts)})
            )

    def _announce(self, attempt: Attempt, content: Announcement) -> Path:
        folder = Path(self._options.announce)
        key = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{self._options.name}-{attempt.task.id}")[:150]
        path = folder / f"{key}-{attempt.seed:x}.json"
        with boundary(AgentError, f"writing {path}"):
            folder.mkdir(parents=True, exist_ok=True)
            # A fresh file of an unknown name: one that somebody placed there could be a link, or open to others.
            descriptor, name = tempfile.mkstemp(prefix=".seat-", dir=folder)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(content))
            Path(name).replace(path)
        return path

    async def _serve(self, attempt: Attempt, server: SeatServer) -> None:
        """Deals with the peer's messages, one after the other."""
        task, turn = server.task, 0
        try:
            while attempt.ended is None and (pending := await self._next_message(attempt, server)) is not None:
                try:
                    await self._deal_with(attempt, task, pending, turn)
                finally:
                    server.announce_change()
                    if not pending.done.done():
                        pending.done.set_result(None)
                turn += 1
        finally:
            if not task.is_over:
                task.answer(FAILED, [{"text": attempt.ended or "the attempt has ended"}])
            server.announce_change()
            while not server.queue.empty():
                server.queue.get_nowait().done.set_result(None)

    async def _next_message(self, attempt: Attempt, server: SeatServer) -> Pending | None:
        """Returns the peer's next message; None if it was silent for too long."""
        try:
            return await asyncio.wait_for(server.queue.get(), self._options.wait_s)
        except TimeoutError:
            attempt.finish(f"the peer sent nothing for {self._options.wait_s:g} seconds")
            return None

    async def _deal_with(self, attempt: Attempt, task: PeerTask, pending: Pending, turn: int) -> None:
        if pending.message is None:
            task.answer(CANCELED, [{"text": "canceled"}])
            attempt.finish("the peer canceled its task")
            return
        asked = read_turn(pending.message, turn)
        task.hear(pending.message)
        if asked.calls:
            seen = await attempt.act(asked.calls, message=asked.text or None)
            parts = result_parts(asked.calls, seen)
            if attempt.ended is not None:
                task.answer(COMPLETED, [*parts, {"text": attempt.ended}])
            else:
                task.answer(INPUT_REQUIRED, parts)
        elif turn == 0 and not pending.message.task_id:
            task.answer(INPUT_REQUIRED, task.opening)
        else:
            attempt.say(asked.text)
            attempt.finish(asked.text)
            task.answer(COMPLETED, [{"text": asked.text}])


def _remove_own(path: Path, token: str) -> None:
    """Removes an announced file, unless another run that shares folder, task and seed has replaced it."""
    with contextlib.suppress(OSError):
        if token.encode() in path.read_bytes():
            path.unlink()
