"""Nodes on the machine of the run's command: processes that it starts, and that end with it.

A node reads its orders as one line of JSON from standard input, so that no token is in an argument or a variable. When
that pipe closes, because the command ended in whatever way, the node uploads what is under way and leaves.

A node that a signal kills or that crashes is started again, a bounded number of times; one that was told to leave, or
that ends with an error of its own, is not: the error would be the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import msgspec

from assay.errors import AssayError, EnvironmentFailure
from assay.rollout.telemetry.opening import LOSS_PREFIX
from assay.settings import Settings

from .node_config import NodeConfig

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
    store: str
    cache: str


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
        clock, restarts = asyncio.get_running_loop().time, 0
        while True:
            began = clock()
            code = await self.processes[number].wait()
            if clock() - began >= STABLE_S:
                restarts = 0
            again = code not in (0, FAILED) and restarts < MOST_RESTARTS
            restarts += 1
            self._report(number, code, f"it is started again ({restarts} of {MOST_RESTARTS})" if again else None)
            if not again:
                return
            await asyncio.sleep(self._restart_wait_s * 2.0 ** (restarts - 1))
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


async def _serve(orders: NodeOrders) -> int:
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
    settings = msgspec.structs.replace(settings, store=Path(orders.store), cache=Path(orders.cache))
    return await serve_node(orders.config, orders.token, settings, leave)


def main() -> int:
    """Runs one node by the orders on standard input; returns the exit code."""
    line = bytearray()
    while not line.endswith(b"\n"):  # unbuffered, so that the closing of the pipe stays to be seen
        piece = os.read(sys.stdin.fileno(), 1 << 16)
        if not piece:
            return 0
        line += piece
    try:
        return min(1, asyncio.run(_serve(msgspec.json.decode(line, type=NodeOrders))))
    except AssayError as exc:
        sys.stderr.write(f"assay: {exc}\n")
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
