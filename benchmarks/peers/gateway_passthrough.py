"""The bare pass-through: aiohttp in, aiohttp out, each exchange appended to a JSON-lines file; nothing is understood.

python gateway_passthrough.py PORT UPSTREAM_PORT FOLDER SESSIONS
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web
from gateway_addresses import address, announce


async def main() -> None:
    port, upstream, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    log = (folder / "log.jsonl").open("ab", buffering=0)
    encode = msgspec.json.Encoder().encode
    client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
    url = f"http://127.0.0.1:{upstream}/v1/chat/completions"

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        async with client.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
            if answer.content_type != "text/event-stream":
                data = await answer.read()
                log.write(encode({"request": body.decode(), "response": data.decode()}) + b"\n")
                return web.Response(body=data, content_type="application/json")
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            sent = []
            async for piece in answer.content.iter_any():
                sent.append(piece)
                await response.write(piece)
            log.write(encode({"request": body.decode(), "response": b"".join(sent).decode()}) + b"\n")
            await response.write_eof()
            return response

    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await announce(folder, [address(port)] * int(sys.argv[4]))


asyncio.run(main())
