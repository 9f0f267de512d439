"""Records a command that asks a model, then reads back what it sent: no task, no sandbox, no API key."""

import asyncio
import sys
from pathlib import Path

from assay.rollout.exchange.config import RecordConfig
from assay.rollout.exchange.standalone_gateway import record_command
from assay.settings import Settings
from assay.store import RunStore, restore_body, restore_messages

PROGRAM = """
import json, os, urllib.request
asked = {"model": "any", "messages": [{"role": "user", "content": "Say hello."}]}
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
print(urllib.request.urlopen(urllib.request.Request(url, json.dumps(asked).encode(), headers)).status)
"""

if __name__ == "__main__":
    Path("replies.json").write_text('["Hello!"]', encoding="utf-8")
    config = RecordConfig(command=(sys.executable, "-c", PROGRAM), model="scripted:replies.json")
    recorded = asyncio.run(record_command(config, Settings(Path("cache"), Path(".assay")), Path.cwd()))
    with RunStore.open(recorded.store, recorded.run) as run:
        trajectory = run.trajectory(f"{recorded.attempts[0]}.0")
        calls = {call.id: call for call in trajectory.calls}
        for call in trajectory.calls:
            print(call.id, call.dialect, restore_messages(calls, call), "before it the folder was", call.state)
            print(restore_body(calls, call, "request", run.blobs))
    print("exit code", recorded.exit_code)
