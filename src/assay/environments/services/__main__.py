"""Serves the tools of a world: as an MCP server on standard input and output, or with web pages on a port.

python -m assay.environments.services '{"services": ["path/to/shop.py:shop"]}' --seed 1
python -m assay.environments.services '{"services": ["shop"]}' --port 8080
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys

import msgspec

from assay.errors import UserError

from .pages.site import Site
from .served_tools import ServedTools
from .serving import MCP_PATH, SITE_PATH, serve_http, serve_lines
from .world import ServiceWorld


async def serve(world: ServiceWorld) -> None:
    """Serves a world until the input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    await serve_lines(ServedTools(world), reader, write)


async def serve_port(world: ServiceWorld, port: int, theme: int) -> None:
    """Serves a world with its pages on a port of 127.0.0.1 until it is interrupted. Raises `OSError` if it is taken."""
    tools = ServedTools(world)
    site = Site(world, tools, theme, SITE_PATH)
    listener = socket.create_server(("127.0.0.1", port))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with serve_http(tools, listener, site):
        sys.stdout.write(f"Pages at {address}{SITE_PATH}/, MCP at {address}{MCP_PATH}; Ctrl-C ends it.\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> int:
    """Returns the exit code: 2 for a world that cannot be opened."""
    parser = argparse.ArgumentParser(prog="python -m assay.environments.services", description=__doc__)
    parser.add_argument("parameters", help="parameters of the world as a JSON object")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generators")
    parser.add_argument("--port", type=int, help="serve on this port of 127.0.0.1, with web pages; 0 chooses one")
    parser.add_argument("--theme", type=int, help="seed of the looks of the pages (default: --seed)")
    given = parser.parse_args()
    try:
        parameters = msgspec.json.decode(given.parameters, type=dict)
        world = ServiceWorld(parameters, given.seed)
    except (msgspec.DecodeError, ValueError, UserError) as exc:
        sys.stderr.write(f"The world cannot be opened: {exc}\n")
        return 2
    if given.port is None:
        asyncio.run(serve(world))
        return 0
    try:
        asyncio.run(serve_port(world, given.port, given.seed if given.theme is None else given.theme))
    except (OSError, OverflowError) as exc:
        sys.stderr.write(f"Port {given.port} cannot be used: {exc}\n")
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
