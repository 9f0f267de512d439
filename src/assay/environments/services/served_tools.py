"""Tools as transports offer them: one call at a time, with a typed kind of refusal.

MCP (`mcp`), HTTP (`http`) and the command in a sandbox reach the same object, so that one plan gives one state through
each. A failing call is a result; it never ends a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from assay.environments.interface import Tools, ToolSpec
from assay.errors import AssayError, EnvironmentFailure, boundary
from assay.records import Observation

from .declaration import Policy
from .transaction import Code

CallTool = Callable[[str, dict[str, Any]], Awaitable[Observation]]


class ToolResult(NamedTuple):
    """Result of a call."""

    text: str
    code: Code | None
    """Kind of refusal; None if the call succeeded."""


@runtime_checkable
class CodedTools(Tools, Protocol):
    """Tools that say of what kind their refusals are, and what transports show of them."""

    @property
    def label(self) -> str:
        """Names of the services, for clients."""
        ...

    @property
    def policy(self) -> Policy:
        """Rules for the agent."""
        ...

    @property
    def read_only(self) -> frozenset[str]:
        """Names of the tools that only read."""
        ...

    @property
    def text_results(self) -> frozenset[str]:
        """Names of the tools whose results are plain text; those of others are JSON."""
        ...

    @property
    def answered(self) -> int:
        """Number of calls that were answered."""
        ...

    @property
    def last_code(self) -> Code | None:
        """Kind of refusal of the last call; None if it succeeded."""
        ...


class ServedTools:
    """Tools behind any number of transports.

    Args:
        tools: The world, or other tools.
        call: What a call runs, such as a recorder around `tools.call`; default: `tools.call` itself.
        on_failure: Called with the exception of a call that failed without being refused: the world is broken, or the
            attempt is over.

    Attributes:
        name: Names of the services, for clients.
        policy: Rules for the agent; empty without any.
        specs: The tools, in a stable order.
        read_only: Names of the tools that only read.
    """

    def __init__(
        self, tools: Tools, call: CallTool | None = None, on_failure: Callable[[AssayError], None] | None = None
    ) -> None:
        self.specs: tuple[ToolSpec, ...] = tools.specs()
        self.names = frozenset(spec.name for spec in self.specs)
        self.read_only: frozenset[str] = frozenset()
        self.name, self.policy = "tools", ""
        self._text_results: frozenset[str] = frozenset()
        self._world = tools if isinstance(tools, CodedTools) else None
        self._call = tools.call if call is None else call
        self._on_failure = on_failure
        self._turn = asyncio.Lock()
        if self._world is not None:
            self.name, self.policy = self._world.label, self._world.policy.text
            self.read_only = self._world.read_only & self.names
            self._text_results = self._world.text_results & self.names

    def returns_text(self, name: str) -> bool:
        """Returns whether a tool's results are plain text; those of other actions are JSON."""
        return self._world is None or name in self._text_results

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Calls a tool; calls wait for each other. Never raises but for cancellation."""
        async with self._turn:
            answered = 0 if self._world is None else self._world.answered
            try:
                with boundary(EnvironmentFailure, f"the tool {name[:80]!r}"):
                    observation = await self._call(name, arguments)
            except AssayError as exc:
                if self._on_failure is not None:
                    self._on_failure(exc)
                return ToolResult("Error (unavailable): The service is not available.", "unavailable")
            return ToolResult(observation.content, self._code(name, answered) if observation.error else None)

    def _code(self, name: str, answered: int) -> Code:
        """Returns the kind of a refusal: the world's own; a call that did not reach the world was forbidden."""
        if self._world is None:
            return "invalid" if name in self.names else "not_found"
        if self._world.answered == answered:
            return "forbidden"
        return self._world.last_code or "invalid"
