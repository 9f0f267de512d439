"""Our gateway as a run opens it: keys, placement, limits, redaction, and every call committed to the hash chain.

python gateway_ours.py PORT UPSTREAM_PORT FOLDER SESSIONS
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path

from gateway_addresses import address, announce

from assay.gateway.backends.openai_chat import OpenAIChatBackend
from assay.gateway.model import open_session_model
from assay.gateway.server import Gateway
from assay.records import AttemptStarted, Limits
from assay.rollout.attempt.endpoint import LimitedModel, SessionRecorder
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.recorder import Recorder
from assay.store import RunStore


async def unseen() -> None:
    """No workspace stands behind these sessions."""


async def main() -> None:
    port, upstream, folder, sessions = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    backend = OpenAIChatBackend("mock", f"http://127.0.0.1:{upstream}/v1", "sk-benchmark")
    places = asyncio.Semaphore(10_000)
    with RunStore.create(folder / "store", "benchmark", {}) as store:
        async with Gateway() as gateway:
            await gateway.listen(socket.create_server(("127.0.0.1", port), backlog=1024))
            found = []
            for number in range(sessions):
                recorder = Recorder(store, f"a{number}.0")
                recorder.add(
                    AttemptStarted("benchmark", f"a{number}", "t", "", "external", "mock", 0, number, at=time.time())
                )
                meter = Meter(Limits(tokens=10**12, wall_s=10**6))
                model = LimitedModel(open_session_model(backend), places, meter)
                session = gateway.open(model, SessionRecorder(recorder, meter, unseen))
                recorder.redactor.add("session_key", session.key)
                found.append(address(port, f"/s/{session.id}/v1/chat/completions", session.key))
            await announce(folder, found)


asyncio.run(main())
