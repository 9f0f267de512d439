"""The instant upstream: a model server that answers at once, whole or in 200 pieces, with as little work as can be.

python gateway_upstream.py PORT
"""

from __future__ import annotations

import asyncio
import sys

PIECES = 200
WORDS = [b"word%03d " % number for number in range(PIECES)]
MESSAGE = b'{"role":"assistant","content":"' + b"".join(WORDS) + b'"}'
USAGE = b'{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}'
WHOLE = (
    b'{"id":"x","object":"chat.completion","created":0,"model":"mock","choices":[{"index":0,"message":'
    + MESSAGE
    + b',"finish_reason":"stop"}],"usage":'
    + USAGE
    + b"}"
)
HEAD = b'data: {"id":"x","object":"chat.completion.chunk","created":0,"model":"mock","choices":'
EVENTS = [HEAD + b'[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % word for word in WORDS]
LAST = [
    HEAD + b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    HEAD + b'[],"usage":' + USAGE + b"}\n\n",
    b"data: [DONE]\n\n",
]
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(WHOLE) + WHOLE
PER_WRITE = 4
"""Pieces that leave together; a model server under load sends a few at once."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


BURSTS = [chunk(b"".join(EVENTS[at : at + PER_WRITE])) for at in range(0, PIECES, PER_WRITE)]
BURSTS[-1] += chunk(b"".join(LAST)) + b"0\r\n\r\n"


class Upstream(asyncio.Protocol):
    """HTTP/1.1 with a body of known length, one request after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.held = bytearray()

    def data_received(self, data: bytes) -> None:
        self.held += data
        while (end := self.held.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.held[:end]).lower()
            mark = head.find(b"content-length:")
            length = int(head[mark + 15 :].split(b"\r\n", 1)[0]) if mark >= 0 else 0
            if len(self.held) < end + 4 + length:
                return
            body = bytes(self.held[end + 4 : end + 4 + length])
            del self.held[: end + 4 + length]
            if b'"stream":true' in body or b'"stream": true' in body:
                self.burst(iter(BURSTS), first=True)
            else:
                self.transport.write(PLAIN)

    def burst(self, left, *, first: bool = False) -> None:  # type: ignore[no-untyped-def]
        if self.transport.is_closing():
            return
        if first:
            self.transport.write(STREAM)
        data = next(left, None)
        if data is not None:
            self.transport.write(data)
            asyncio.get_running_loop().call_soon(self.burst, left)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


asyncio.run(main())
