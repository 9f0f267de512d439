"""The limit: bare asyncio, a model and a tool that are functions, one JSON line a turn."""

from __future__ import annotations

import asyncio
import json
import platform
from pathlib import Path
from typing import Any, TextIO

from episode import INSTRUCTION, SAID, TURNS, given, measure


async def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The model."""
    turn = len(messages) // 2
    call = {"id": f"call_{turn}", "name": "add", "arguments": {"by": 1}}
    return {"role": "assistant", "content": SAID, "tool_calls": [call]}


async def attempt(number: int, places: asyncio.Semaphore, log: TextIO) -> int:
    """Ten turns."""
    async with places:
        counter = 0
        messages: list[dict[str, Any]] = [{"role": "user", "content": INSTRUCTION}]
        for turn in range(TURNS):
            said = await answer(messages)
            counter += said["tool_calls"][0]["arguments"]["by"]
            seen = {"role": "tool", "content": str(counter)}
            messages += [said, seen]
            log.write(json.dumps({"attempt": number, "turn": turn, "said": said, "seen": seen}) + "\n")
        return TURNS


def run(attempts: int, folder: Path) -> int:
    """All attempts at once, as many under way as were asked for."""
    folder.mkdir(parents=True)

    async def main() -> int:
        places = asyncio.Semaphore(given().at_once)
        with (folder / "log.jsonl").open("w") as log:
            return sum(await asyncio.gather(*(attempt(n, places, log) for n in range(attempts))))

    return asyncio.run(main())


measure(f"Python {platform.python_version()}", run)
