"""The in-process world of benchmarks that measure recording: a number that a tool changes."""

from __future__ import annotations

from typing import Any, Final

from assay.environments.interface import ToolSpec
from assay.records import Observation, digest_record

ADD: Final = ToolSpec(
    "add",
    "Adds to the counter.",
    {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
)


class Counter:
    """A number that the tool `add` changes."""

    def __init__(self, parameters: dict[str, Any], seed: int) -> None:
        self.value = 0

    def specs(self) -> tuple[ToolSpec, ...]:
        return (ADD,)

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        self.value += arguments["by"]
        return Observation(str(self.value))

    async def digest(self) -> str:
        return digest_record(self.value)

    def facts(self) -> dict[str, Any]:
        return {"value": self.value}

    async def close(self) -> None:
        return None
