"""Host end of a message socket: concurrent requests on one event loop, each answered by its id.

Used for the launcher's socket and every sandbox's. Answers from a sandbox are untrusted: what does not decode or names
no open request is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any, NamedTuple

from assay.environments.workspace.launcher.protocol import receive, send
from assay.errors import EnvironmentFailure


class Answer(NamedTuple):
    """A message and its descriptors, which the caller owns."""

    body: dict[str, Any]
    fds: list[int]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()


class Channel:
    """Sends requests and returns answers over a connected SOCK_SEQPACKET socket, which it owns.

    Created and used on one running event loop. `what` names the other end in messages.
    """

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self._sock = sock
        self._peer = peer
        self._next = 0
        self._open: dict[int, asyncio.Future[Answer]] = {}
        self._greeting: asyncio.Future[Answer] | None = None
        self.ended = False
        self._loop = asyncio.get_running_loop()
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 512 * 1024)
        self._loop.add_reader(sock.fileno(), self._read)

    async def receive_greeting(self, timeout_s: float) -> Answer:
        """Returns the one message without an id: the greeting. Raises `EnvironmentFailure` if it does not arrive."""
        self._greeting = self._loop.create_future()
        try:
            return await asyncio.wait_for(self._greeting, timeout_s)
        except TimeoutError as exc:
            raise EnvironmentFailure(f"{self._peer} did not start within {timeout_s:g} s") from exc

    def post(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> asyncio.Future[Answer]:
        """Sends a request; the future gives its answer. Raises `OSError` when it is too large to send."""
        if self.ended:
            raise EnvironmentFailure(f"{self._peer} is gone")
        self._next += 1
        future = self._loop.create_future()
        self._open[self._next] = future
        try:
            send(self._sock, {**message, "id": self._next}, fds)
        except BlockingIOError as exc:
            del self._open[self._next]
            raise EnvironmentFailure(f"{self._peer} does not read its messages") from exc
        except OSError as exc:
            del self._open[self._next]
            if exc.errno == 90:
                raise
            self._finish()
            raise EnvironmentFailure(f"{self._peer} is gone") from exc
        return future

    @property
    def last_id(self) -> int:
        return self._next

    async def ask(self, message: dict[str, Any], fds: tuple[int, ...] = (), timeout_s: float = 30.0) -> Answer:
        """Sends a request and waits for its answer. An answer with `errno` raises `OSError`."""
        future = self.post(message, fds)
        try:
            answer = await asyncio.wait_for(future, timeout_s)
        except TimeoutError as exc:
            raise EnvironmentFailure(
                f"{self._peer} did not answer {message.get('op')!r} within {timeout_s:g} s"
            ) from exc
        if "errno" in answer.body or "error" in answer.body:
            answer.close()
            number = answer.body.get("errno")
            raise OSError(number if isinstance(number, int) else 5, str(answer.body.get("error"))[:500])
        return answer

    def close(self) -> None:
        """Closes the socket, which the peer observes. Idempotent."""
        self._finish()

    def _read(self) -> None:
        while not self.ended:
            try:
                body, fds = receive(self._sock)
            except BlockingIOError:
                return
            except (OSError, ValueError):
                body, fds = None, []
            if body is None:
                self._finish()
                return
            self._deliver(Answer(body, fds))

    def _deliver(self, answer: Answer) -> None:
        number = answer.body.get("id")
        future = self._open.pop(number, None) if isinstance(number, int) else self._greeting
        if future is None or future.done():
            answer.close()
        else:
            future.set_result(answer)

    def _finish(self) -> None:
        if self.ended:
            return
        self.ended = True
        self._loop.remove_reader(self._sock.fileno())
        self._sock.close()
        text = f"{self._peer} is gone"
        for future in (*self._open.values(), *([self._greeting] if self._greeting else [])):
            if not future.done():
                future.set_exception(EnvironmentFailure(text))
                future.exception()  # possibly without a waiter
        self._open.clear()
