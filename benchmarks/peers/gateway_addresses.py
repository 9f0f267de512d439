"""What every server of the gateway benchmark does once it listens: write where its sessions are reached, then wait."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

__all__ = ["address", "announce"]

PATH = "/v1/chat/completions"


def address(port: int, path: str = PATH, key: str = "sk-benchmark") -> dict[str, Any]:
    """Where one session is reached."""
    return {"host": "127.0.0.1", "port": port, "path": path, "key": key}


async def announce(folder: Path, addresses: list[dict[str, Any]]) -> None:
    """Writes the addresses, says so, and waits to be ended."""
    (folder / "addresses.json").write_text(json.dumps(addresses), encoding="utf-8")
    print("ready", flush=True)
    await asyncio.Event().wait()
