"""Lets a real harness act in a sandbox under a scripted model and hands back the session files that it wrote itself.

Used by tests/formats, to make a session live, and to make the fixtures there:

    python -m scripts.session_files codex openai-responses plain --fixture --out tests/formats/sessions/codex
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from assay.agents.harnesses.openhands_sdk import RECIPE, OpenHandsSdkAgent
from assay.agents.interface import Agent, Attempt
from assay.environments.interface import Backend, ResourceLimits, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.gateway.model import PlainModel
from scripts.driving import ConnectionRelay, Drive, drive
from scripts.harness_scenarios import HANDS, SCENARIOS, Player, agent_of

__all__ = ["FOLDERS", "scrubbed_file", "session_files"]

_LONG = 120
_SCHEMAS = {"input_schema", "parameters", "tools"}
_MACHINE = re.compile(r"https?://127\.0\.0\.1:[0-9]+/s/[A-Za-z0-9_-]+|OS Version: [^\n]*|Linux [0-9][^ \n]*")

FOLDERS = {
    "codex": "$HOME/.codex/sessions",
    "claude-code": "$HOME/.claude/projects",
    "mini-swe-agent": "$HOME/.config/mini-swe-agent",
    "pi": "$HOME/.pi/agent/sessions",
    "openhands-sdk": "$HOME/.openhands/conversations",
}
"""Where a harness keeps its sessions."""


class _KeepingOpenHands(OpenHandsSdkAgent):
    """OpenHands' agent, told to keep its conversation in files."""

    recipe = msgspec.structs.replace(
        RECIPE,
        files={
            path: text.replace(
                "workspace=os.getcwd()",
                "workspace=os.getcwd(), persistence_dir=os.path.dirname(__file__) + '/conversations'",
            )
            for path, text in RECIPE.files.items()
        },
    )


class _Collecting:
    """An agent whose session files are read when it has acted, while its home is still there."""

    def __init__(self, inner: Agent, folder: str) -> None:
        self._inner, self._folder = inner, folder
        self.files: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def run(self, attempt: Attempt) -> None:
        workspace = attempt.workspace
        assert workspace is not None
        await self._inner.run(attempt)
        found = await workspace.exec(["/bin/sh", "-c", f'find "{self._folder}" -type f'])
        for path in found.stdout.splitlines():
            self.files[path] = await workspace.read(path)


def _failing(shell: Callable[[str], tuple[str, dict[str, Any]]]) -> Callable[[str], tuple[str, dict[str, Any]]]:
    """The first command of the second turn says something on both streams and fails."""

    def made(command: str) -> tuple[str, dict[str, Any]]:
        return shell(f"{command}; echo said; echo wrong >&2; sh -c 'exit 3'" if "turn-1" in command else command)

    return made


def scrubbed(value: Any) -> Any:
    """A JSON value without long texts (prompts of the programs' makers) and without what names a machine."""
    if isinstance(value, dict):
        return {key: {} if key in _SCHEMAS else scrubbed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if not isinstance(value, str):
        return value
    text = _MACHINE.sub("", value)
    return text if len(text) <= _LONG else f"{text[:_LONG]} [cut]"


def scrubbed_file(data: bytes) -> bytes:
    """A session file, scrubbed line by line or as one document."""
    try:
        return msgspec.json.encode(scrubbed(msgspec.json.decode(data))) + b"\n"
    except msgspec.DecodeError:
        lines = (msgspec.json.decode(line) for line in data.splitlines() if line.strip())
        return b"".join(msgspec.json.encode(scrubbed(line)) + b"\n" for line in lines)


async def session_files(backend: Backend, harness: str, dialect: str, scenario: str) -> dict[str, bytes]:
    """The files that a harness wrote of one scenario, by path in the sandbox."""
    relays: list[ConnectionRelay] = []
    hand = msgspec.structs.replace(HANDS[harness], shell=_failing(HANDS[harness].shell))
    player = Player(hand, SCENARIOS[scenario], relays)
    inner = _KeepingOpenHands() if harness == "openhands-sdk" else agent_of(harness, dialect, {})
    agent = _Collecting(inner, FOLDERS[harness])
    what = Drive(
        "Write the lines that you are told to write.",
        spec=WorkspaceSpec(limits=ResourceLimits(memory_mib=256, processes=32, tmp_mib=64)),
        timeout_s=120.0,
    )
    driven = await drive(agent, PlainModel(player), backend, what, relays)
    if driven.error is not None:
        raise RuntimeError(driven.error)
    return agent.files


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", choices=sorted(FOLDERS))
    parser.add_argument("dialect")
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fixture", action="store_true", help="scrubbed, without the folders above")
    told = parser.parse_args()
    backend = NamespacesBackend()
    try:
        files = await session_files(backend, told.harness, told.dialect, told.scenario)
    finally:
        await backend.close()
    for path, data in files.items():
        if not path.endswith((".json", ".jsonl")):
            continue
        target = told.out / (Path(path).name if told.fixture else path.lstrip("/"))
        if told.fixture and "/events/" in path:
            target = told.out / "events" / Path(path).name
        data = scrubbed_file(data) if told.fixture else data
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


if __name__ == "__main__":
    asyncio.run(_main())
