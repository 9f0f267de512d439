"""Records a person's browsing. A script takes the person's place here: it sends what their page would send."""

import asyncio
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore

ADDRESS = Path("address")


def ask(path: str, act: dict[str, Any] | None = None) -> Any:
    body = None if act is None else json.dumps(act).encode()
    with urllib.request.urlopen(ADDRESS.read_text(encoding="utf-8") + path, body, timeout=60) as response:
        return json.load(response)


def click(state: Any, name: str) -> Any:
    element = next(one for one in state["elements"] if one["name"] == name)
    return ask("act", {"name": "click", "arguments": {"bid": str(element["number"])}})


def browse() -> None:
    until = time.monotonic() + 60
    while not ADDRESS.exists():
        if time.monotonic() > until:
            raise TimeoutError("the page did not begin")
        time.sleep(0.1)
    state = click(ask("state"), "Museum")
    print(state["task"].partition("\n")[0])
    for _ in range(2):
        button = next(one["name"] for one in state["elements"] if one["role"] == "button")
        state = click(state, button)
        print(f"clicked {button}, and the page is {state['title']}")
    ask("act", {"name": "done"})


async def main(settings: Settings) -> None:
    tasks = "family:sites,site=museum,n=1,seed=1"
    config = RunConfig(tasks=(tasks,), agent="person", agent_options={"address_file": str(ADDRESS)}, run="by-hand")
    recording = asyncio.ensure_future(start_run(config, settings, Tally()))
    await asyncio.to_thread(browse)
    await recording
    with RunStore.open(settings.store, "by-hand") as store:
        trajectory = store.trajectory(store.attempts()[0].chain)
    completed = next(one.data for one in trajectory.evidence if one.kind == "completed")
    for step in completed["steps"]:
        print(f"{step['by']}: {step['text']}")
    print(f"{len(trajectory.steps)} steps, {trajectory.outcome}; words made by {completed['made_by']}")


asyncio.run(main(Settings(Path("cache"), Path(".assay"))))
