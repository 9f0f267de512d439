"""Nodes on the machine of the run's command: processes that it starts, and that end with it.

A node reads its orders as one line of JSON from standard input, so that no token is in an argument or a variable. When
that pipe closes, because the command ended in whatever way, the node uploads what is under way and leaves.

With `--detach` a node leaves its parent's process tree, and reports its URL and its end as lines of JSON: an actor of
Ray starts it so (`ray_actor.py`).

A node that a signal kills or that crashes is started again, a bounded number of times; one that was told to leave, or
that ends with an error of its own, is not: the error would be the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from assay.errors import AssayError, EnvironmentFailure
from assay.rollout.telemetry.opening import LOSS_PREFIX
from assay.settings import Settings

from .node_config import NodeConfig

if TYPE_CHECKING:
    from .place_records import AgentAnnouncement

DRAIN_S = 10.0
MOST_LOG_BYTES = 2_000
MOST_RESTARTS = 3
"""Times in a row that a node is started again."""
RESTART_WAIT_S = 1.0
"""Wait before the first of these; doubles each time."""
STABLE_S = 600.0
"""The count of restarts begins anew for a node that lived for so long."""
FAILED = 3
"""Exit code of a node that ends with an error of its own."""
COMMAND = (sys.executable, "-P", "-m", __name__)


class NodeOrders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The line that a node reads."""

    config: NodeConfig
    token: str
    store: str | None
    """Folder of the node's store; None: that of the machine's variables, else a new one in its folder for temporary
    files."""
    cache: str | None
    """None: that of the machine's variables."""
    address: str | None = None
    """Is announced in the place instead of the node's URL."""


class NodeEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a detached node."""

    code: int | None
    """Exit code; None if it was killed."""
    error: str = ""


class NodeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line that a detached node writes."""

    url: str | None = None
    """Where it listens."""
    end: NodeEnd | None = None


class Restarts:
    """Decides whether a node that ended is started again, and when."""

    def __init__(self, first_wait_s: float = RESTART_WAIT_S) -> None:
        self._first_wait_s, self.count = first_wait_s, 0
        """Restarts in a row."""

    def next_wait(self, code: int | None, lived_s: float) -> float | None:
        """Returns the seconds to wait before a restart; None if the node is not started again.

        Args:
            code: Its exit code; None or below 0 if it was killed.
            lived_s: Seconds for which it lived.
        """
        if lived_s >= STABLE_S:
            self.count = 0
        if code in (0, FAILED) or self.count >= MOST_RESTARTS:
            return None
        self.count += 1
        return self._first_wait_s * 2.0 ** (self.count - 1)


class LocalNodes:
    """Node processes. Use as a context manager, which ends them."""

    def __init__(
        self,
        count: int,
        orders: NodeOrders,
        folder: Path,
        warn: Callable[[str], None],
        *,
        command: Sequence[str] = COMMAND,
        restart_wait_s: float = RESTART_WAIT_S,
    ) -> None:
        """Creates the nodes, which write their logs to `folder`. A node that ends is reported by `warn`.

        Args:
            count: Number of nodes.
            orders: What they have in common.
            folder: Where their logs are.
            warn: Takes a sentence for a person.
            command: Starts one node.
            restart_wait_s: Wait before the first restart of a node.
        """
        self._count, self._orders, self._folder, self._warn = count, orders, folder, warn
        self._command, self._restart_wait_s = tuple(command), restart_wait_s
        self.processes: dict[int, asyncio.subprocess.Process] = {}
        """The latest process of each node, by its number."""
        self._log_starts: dict[int, int] = {}
        """Size of each node's log before it was first started."""

    async def __aenter__(self) -> Self:
        try:
            for number in range(self._count):
                await self._start(number)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _start(self, number: int) -> None:
        config = msgspec.structs.replace(self._orders.config, name=f"local-{number}")
        line = msgspec.json.encode(msgspec.structs.replace(self._orders, config=config)) + b"\n"
        with self._log(number).open("ab") as log:
            self._log_starts.setdefault(number, log.tell())
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the command alone
            )
        self.processes[number] = process
        assert process.stdin is not None
        with contextlib.suppress(ConnectionError):  # it ended; `watch` says why
            process.stdin.write(line)
            await process.stdin.drain()

    async def watch(self) -> None:
        """Reports nodes that end, and starts those that died again. Raises `EnvironmentFailure` when none is left."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._watch(number))
        raise EnvironmentFailure(f"all local nodes have ended; their logs are in {self._folder}")

    async def _watch(self, number: int) -> None:
        clock, restarts = asyncio.get_running_loop().time, Restarts(self._restart_wait_s)
        while True:
            began = clock()
            code = await self.processes[number].wait()
            wait_s = restarts.next_wait(code, clock() - began)
            again = None if wait_s is None else f"it is started again ({restarts.count} of {MOST_RESTARTS})"
            self._report(number, code, again)
            if wait_s is None:
                return
            await asyncio.sleep(wait_s)
            await self._start(number)

    def _report(self, number: int, code: int, remedy: str | None) -> None:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        last = self._last_line(number)
        remedy = remedy or "its attempts are run elsewhere"
        self._warn(f"local node {number} ended ({how}); {remedy}{f': {last}' if last else ''}")

    def _last_line(self, number: int) -> str:
        lines = self._log(number).read_bytes()[-MOST_LOG_BYTES:].decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")

    def _log(self, number: int) -> Path:
        return self._folder / f"node-{number}.log"

    async def __aexit__(self, *_: object) -> None:
        """Lets all nodes leave, and kills those that take too long."""
        processes = self.processes.values()
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * DRAIN_S):
                for process in processes:
                    await process.wait()
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
        self._pass_on_losses()

    def _pass_on_losses(self) -> None:
        """Reports spans and metrics that nodes could not send; their logs are removed with a complete run."""
        for number, start in self._log_starts.items():
            with self._log(number).open("rb") as log:
                log.seek(start)
                lines = log.read(MOST_LOG_BYTES * 100).decode("utf-8", "replace").split("\n")
            for line in lines:
                if line.startswith(LOSS_PREFIX):
                    self._warn(f"local node {number}: {line}")


async def _serve(orders: NodeOrders, report: Callable[[NodeReport], None]) -> int:
    from .node import LeaveRequest, serve_node  # late: the parent needs no agent

    leave = LeaveRequest()
    loop = asyncio.get_running_loop()
    pipe = sys.stdin.fileno()

    def on_closed() -> None:
        loop.remove_reader(pipe)  # a closed pipe stays readable
        leave.set("alone")

    loop.add_reader(pipe, on_closed)
    loop.add_signal_handler(signal.SIGTERM, lambda: leave.set("told"))
    settings = Settings.from_environment()
    if orders.cache is not None:
        settings = msgspec.structs.replace(settings, cache=Path(orders.cache))
    with contextlib.ExitStack() as stack:
        store = orders.store or Settings.named(["ASSAY_STORE"]).get("ASSAY_STORE")
        if store is None:
            store = tempfile.mkdtemp(prefix="assay-node-")
            stack.callback(_remove_without_trials, Path(store))
        settings = msgspec.structs.replace(settings, store=Path(store))

        def on_open(announced: AgentAnnouncement) -> None:
            report(NodeReport(url=announced.url))

        return await serve_node(orders.config, orders.token, settings, leave, on_open, orders.address)


def _remove_without_trials(store: Path) -> None:
    """Removes the temporary store of a node, unless trials are left in it."""
    if not any(store.glob("nodes/*/*/")):
        shutil.rmtree(store, ignore_errors=True)


def main(words: Sequence[str] = ()) -> int:
    """Runs one node by the orders on standard input; returns the exit code."""
    report = _detach() if "--detach" in words else _discard
    line = bytearray()
    while not line.endswith(b"\n"):  # unbuffered, so that the closing of the pipe stays to be seen
        piece = os.read(sys.stdin.fileno(), 1 << 16)
        if not piece:
            return 0
        line += piece
    code, error = FAILED, ""
    try:
        code = min(1, asyncio.run(_serve(msgspec.json.decode(line, type=NodeOrders), report)))
    except AssayError as exc:
        error = str(exc)
        sys.stderr.write(f"assay: {exc}\n")
    report(NodeReport(end=NodeEnd(code, error)))
    return code


def _discard(_: NodeReport) -> None:
    """Drops the report of a node whose parent waits for its exit code."""


def _detach() -> Callable[[NodeReport], None]:
    """Goes on in a child in a session of its own; returns what writes reports to standard output, which no program that
    the node starts inherits.

    What an actor in uvloop passes on is closed: copies of both pipes, and what Ray has left inheritable.
    """
    for fd in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        with contextlib.suppress(OSError):  # the folder, which was open while it was read
            if fd > 2 and os.get_inheritable(fd):
                os.close(fd)
    if os.fork():
        os._exit(0)
    os.setsid()
    output = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)

    def write(report: NodeReport) -> None:
        with contextlib.suppress(OSError):  # the actor is gone
            os.write(output, msgspec.json.encode(report) + b"\n")

    return write


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
