"""A gateway in a process of its own, impatient, for attacks: prints its two sessions, then a line for each call."""

from __future__ import annotations

import asyncio
import socket
import sys

from assay.gateway.backends.scripted import ScriptedBackend
from assay.gateway.interface import Exchange, ModelRequest
from assay.gateway.model import PlainModel
from assay.gateway.server import Gateway, GatewayOptions

OPTIONS = GatewayOptions(header_s=1.0, body_s=4.0, max_connections=50, max_bytes_at_once=160 * 1024 * 1024)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Hooks:
    """Says on standard output that a call was begun."""

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        _say("call")
        return "c"

    async def after(self, exchange: Exchange) -> None:
        """Keeps nothing."""


async def main() -> None:
    """Serves until it is killed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=200)
    async with Gateway(OPTIONS) as gateway:
        await gateway.listen(listener)
        for _ in range(2):
            session = gateway.open(PlainModel(ScriptedBackend(lambda request: "fine")), Hooks())
            _say(f"{listener.getsockname()[1]} {session.id} {session.key}")
        await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main())
