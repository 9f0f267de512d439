"""The host's end of the pipes between judge and worker, used when the judge has ended: it has tests run in
the worker's first process, which has imported the code under test and nothing else.

Everything that is read comes from the sandbox of the code under test, and raises no grade. Where it tells anything but
that all tests pass, they run again in a sandbox of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import time
from typing import Any

from assay.verify.payload.assay_supervisor.runner import Account, Stream

MOST_BYTES = 16 << 20
MOST_LINE = 1 << 20


class ConfirmingEnd:
    """Duplicates of the descriptors that write calls and read answers. The worker ends when they are closed."""

    def __init__(self, writes: int, reads: int) -> None:
        self._writes = writes
        self._reads = reads

    def close(self) -> None:
        for fd in (self._writes, self._reads):
            if fd >= 0:
                os.close(fd)
        self._writes = self._reads = -1

    async def run_tests(self, configuration: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the report of a run of tests; None where the worker cannot be asked, is late, or tells no end."""
        nonce = os.urandom(16).hex()
        seed = int.from_bytes(os.urandom(8), "big")
        config = {**configuration, "nonce": nonce, "seed": seed, "owned": [], "one_canary": True}
        message = json.dumps({"op": "confirm", "config": config}, separators=(",", ":")).encode("ascii")
        data = struct.pack(">I", len(message)) + message  # as `splice_codec` frames it, which only a sandbox can import
        os.set_blocking(self._writes, False)
        try:
            if os.write(self._writes, data) != len(data):
                return None  # more names of tests than a pipe holds
        except OSError:
            return None
        stream, started = Stream(nonce), time.monotonic()
        try:
            async with asyncio.timeout(configuration["timeout_s"]):
                code = await self._read(stream)
        except TimeoutError:
            return None
        if code is None:
            return None
        told = Account(stream, code, timed_out=False).report()
        took = time.monotonic() - started
        return {**told, "exit": code, "order": "usual", "timed_out": False, "duration_s": took, "tail": ""}

    async def _read(self, stream: Stream) -> int | None:
        """Reads lines until the one with the exit code; others than the recorder's are what the worker still sent to
        the judge."""
        reader = asyncio.StreamReader(limit=MOST_LINE)
        file = os.fdopen(self._reads, "rb", buffering=0)
        self._reads = -1
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        left = MOST_BYTES
        try:
            while left > 0 and (line := await reader.readline()):
                left -= len(line)
                stream.feed(line)
                if stream.messages and stream.messages[-1].get("kind") == "exit":
                    stream.problems.clear()
                    return int(stream.messages.pop()["code"])
        except (ValueError, TypeError, KeyError):  # a line without an end, or a message of another shape
            return None
        finally:
            transport.close()
        return None
