"""Serves the tools of a world as an MCP server on standard input and output, for any MCP client.

python -m assay.environments.services '{"services": ["path/to/shop.py:shop"]}' --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from assay.errors import UserError

from .served_tools import ServedTools
from .serving import serve_lines
from .world import ServiceWorld


async def serve(world: ServiceWorld) -> None:
    """Serves a world until the input ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def write(line: bytes) -> None:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    await serve_lines(ServedTools(world), reader, write)


def main() -> int:
    """Returns the exit code: 2 for a world that cannot be opened."""
    parser = argparse.ArgumentParser(prog="python -m assay.environments.services", description=__doc__)
    parser.add_argument("parameters", help="parameters of the world as a JSON object")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generators")
    given = parser.parse_args()
    try:
        parameters = msgspec.json.decode(given.parameters, type=dict)
        world = ServiceWorld(parameters, given.seed)
    except (msgspec.DecodeError, ValueError, UserError) as exc:
        sys.stderr.write(f"The world cannot be opened: {exc}\n")
        return 2
    asyncio.run(serve(world))
    return 0


if __name__ == "__main__":
    sys.exit(main())
