"""The clients: sessions that each ask one call after the other over their own connection, and time what they get.

    python gateway_load.py ADDRESSES_JSON CALLS_EACH stream|whole

ADDRESSES_JSON is a list of `{"host", "port", "path", "key"}`, one a session. Prints one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

TURNS = 10
"""A conversation grows by a turn with each call, and a new one begins after so many."""
SYSTEM = {"role": "system", "content": "You count. " * 200}
SAID = {"role": "assistant", "content": "".join(f"word{number:03d} " for number in range(200))}
"""What the upstream says; the client sends it back."""
GO_ON = {"role": "user", "content": "Add one to the counter, then say what it is. " * 3}


def request_bytes(address: dict[str, str], number: int, *, stream: bool) -> bytes:
    """Call `number` of a session."""
    conversation, turn = divmod(number, TURNS)
    messages = [SYSTEM, {"role": "user", "content": f"Count to {conversation}. " + "Take your time. " * 20}]
    messages += [SAID, GO_ON] * turn
    body = {"model": "mock", "messages": messages, "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    data = json.dumps(body).encode()
    head = (
        f"POST {address['path']} HTTP/1.1\r\nHost: {address['host']}\r\nAuthorization: Bearer {address['key']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


async def read_answer(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """Status line and how many words of the answer came."""
    head = await reader.readuntil(b"\r\n\r\n")
    lowered = head.lower()
    if b"transfer-encoding: chunked" in lowered:
        pieces = []
        while length := int(await reader.readuntil(b"\r\n"), 16):
            pieces.append(await reader.readexactly(length + 2))
        await reader.readexactly(2)
        return head.split(b"\r\n", 1)[0], b"".join(pieces).count(b"word")
    mark = lowered.find(b"content-length:")
    length = int(lowered[mark + 15 :].split(b"\r\n", 1)[0])
    return head.split(b"\r\n", 1)[0], (await reader.readexactly(length)).count(b"word")


async def session(address: dict[str, str], calls: int, times: list[float], errors: list[str], *, stream: bool) -> None:
    reader, writer = await asyncio.open_connection(address["host"], int(address["port"]))
    for number in range(calls):
        data = request_bytes(address, number, stream=stream)
        began = time.perf_counter()
        writer.write(data)
        try:
            async with asyncio.timeout(120):
                status, words = await read_answer(reader)
        except (OSError, EOFError, ValueError, TimeoutError) as exc:
            errors.append(f"{type(exc).__name__}: {exc}")
            return
        times.append(time.perf_counter() - began)
        if b" 200 " not in status + b" " or words != 200:
            errors.append(f"{status.decode()}, {words} words")
    writer.close()


async def main() -> None:
    addresses = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    calls, stream = int(sys.argv[2]), sys.argv[3] == "stream"
    times: list[float] = []
    errors: list[str] = []
    began = time.perf_counter()
    await asyncio.gather(*(session(a, calls, times, errors, stream=stream) for a in addresses))
    wall = time.perf_counter() - began
    ordered = sorted(times) or [float("nan")]
    print(
        json.dumps(
            {
                "calls": len(times),
                "errors": len(errors),
                "first_error": errors[0] if errors else None,
                "wall_s": wall,
                "p50_ms": ordered[len(ordered) // 2] * 1e3,
                "p99_ms": ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3,
            }
        )
    )


asyncio.run(main())
