"""Agents made of Python functions, and the decorator `assay.agent`.

An `async def` gets the attempt itself. A plain function runs in a thread and gets a `BlockingAttempt`, whose methods
return when they are done. A limit raises `LimitReached` in the function, as in any agent: let it pass.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any

from assay.environments.interface import ExecResult, Tools, ToolSpec
from assay.errors import AgentDefinitionError, UserError
from assay.gateway.interface import ModelReply, ModelRequest
from assay.records import Evidence, Observation, Task, ToolCall, digest_record
from assay.threads import LoopBridge, run_in_thread

from .interface import Attempt, Endpoint


class BlockingTools:
    """The environment's tools for an agent that is a plain function; the methods are those of `Tools`, without `await`.

    Calls made here are no steps: `BlockingAttempt.act` records them.
    """

    def __init__(self, tools: Tools, bridge: LoopBridge) -> None:
        self._tools, self._bridge = tools, bridge

    def specs(self) -> tuple[ToolSpec, ...]:
        """Returns the tools in a stable order."""
        return self._bridge.call_now(self._tools.specs)

    def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        """Calls a tool. An invalid call returns an observation with `error`."""
        return self._bridge.call(self._tools.call, name, arguments)

    def digest(self) -> str | None:
        """Returns the digest of the current state; None if it cannot be observed."""
        return self._bridge.call(self._tools.digest)


class BlockingAttempt:
    """The attempt for an agent that is a plain function; the methods are those of `Attempt`, without `await`."""

    def __init__(self, attempt: Attempt, bridge: LoopBridge) -> None:
        self.task: Task = attempt.task
        self.seed: int = attempt.seed
        """The only permitted source of randomness."""
        self._attempt, self._bridge = attempt, bridge

    @property
    def tools(self) -> BlockingTools:
        """Tools for a model: the sandbox's (shell, read, edit), or the in-process world's own."""
        return BlockingTools(self._attempt.tools, self._bridge)

    @property
    def ended(self) -> str | None:
        """Reason why the attempt is over; None while it continues."""
        return self._attempt.ended

    def shell(
        self,
        command: str | Sequence[str],
        *,
        message: str | None = None,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Runs a command as one recorded step."""
        return self._bridge.call(self._attempt.shell, command, message=message, timeout_s=timeout_s, env=env)

    def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        """Executes tool calls in order as one recorded step; `call` is the id of the model call that chose them."""
        return self._bridge.call(self._attempt.act, calls, message=message, reasoning=reasoning, call=call)

    def read(self, path: str) -> bytes:
        """Reads a file of the sandbox. Raises `FileNotFoundError` if it is absent."""
        if self._attempt.workspace is None:
            raise UserError(f"the environment {self.task.environment.kind!r} has no files")
        return self._bridge.call(self._attempt.workspace.read, path)

    def write(self, path: str, data: bytes | str) -> None:
        """Writes a file of the sandbox; recorded beside the steps."""
        if self._attempt.workspace is None:
            raise UserError(f"the environment {self.task.environment.kind!r} has no files")
        raw = data.encode() if isinstance(data, str) else data
        self._bridge.call(self._attempt.workspace.write, path, raw)

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        """Records a step without an act."""
        self._bridge.call_now(self._attempt.say, message, reasoning=reasoning, call=call)

    def note(self, evidence: Evidence) -> None:
        """Adds a fact established by the agent."""
        self._bridge.call_now(self._attempt.note, evidence)

    def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        """Queries the model; returns the id of the recorded call, and the reply."""
        return self._bridge.call(self._attempt.ask, request)

    def endpoint(self) -> Endpoint:
        """Opens the model to programs inside the sandbox until the attempt ends."""
        return self._bridge.call(self._attempt.endpoint)

    def finish(self, message: str) -> None:
        """Declares that the agent is done."""
        self._bridge.call_now(self._attempt.finish, message)


class FunctionAgent:
    """Agent whose acts are those of a function of the attempt. A text that the function returns is recorded as
    `ended`.

    Args:
        function: Takes the attempt; `async def` or plain.
        name: Name in records; default: the function's, for a lambda `lambda-` and a digest of its code.
        needs_model: Whether it asks a model; None: where the run names one.
    """

    plugin_kind = "agents"

    def __init__(
        self, function: Callable[..., Any], *, name: str | None = None, needs_model: bool | None = None
    ) -> None:
        _require_one_parameter(function)
        self.function = function
        self.name = name or _name_of(function)
        self.is_named = name is not None
        self.needs_model = bool(needs_model)
        self.model_is_optional = needs_model is None
        self.__module__ = getattr(function, "__module__", None) or __name__
        self.__doc__ = getattr(function, "__doc__", None)

    def __call__(self, attempt: Any) -> Any:
        """Calls the function, as it is without the decorator."""
        return self.function(attempt)

    def with_model(self, *, needed: bool) -> FunctionAgent:
        """Returns the agent of a run that names a model, or none."""
        chosen = copy.copy(self)
        chosen.needs_model, chosen.model_is_optional = needed, False
        return chosen

    def with_name(self, name: str) -> FunctionAgent:
        """Returns the same agent under another name."""
        renamed = copy.copy(self)
        renamed.name = name
        return renamed

    async def run(self, attempt: Attempt) -> None:
        ended = await (self.function(attempt) if _is_async(self.function) else self._run_plain(attempt))
        if attempt.ended is None:
            attempt.finish(ended if isinstance(ended, str) else f"{self.name} returned")

    async def _run_plain(self, attempt: Attempt) -> Any:
        bridge = LoopBridge()
        try:
            ended = await run_in_thread(f"agent {self.name}", self.function, BlockingAttempt(attempt, bridge))
        except RuntimeError as exc:
            if isinstance(exc.__cause__, SystemExit):
                raise exc.__cause__ from None  # as from a coroutine
            raise
        finally:
            await bridge.close()
        if inspect.iscoroutine(ended):
            ended.close()
            raise AgentDefinitionError(f"{self.name} returned a coroutine that nothing awaits: write it as `async def`")
        return ended


def agent(target: Any = None, /, *, name: str | None = None, needs_model: bool | None = None) -> Any:
    """Makes an agent of a function or a class: `@assay.agent`, or `@assay.agent(name=..., needs_model=True)`.

    A function takes the attempt. A class has a method `run(self, attempt)`; its missing `name` and `needs_model` are
    filled in.

    Raises:
        AgentDefinitionError: The target cannot be an agent.
    """
    if target is None:
        return partial(agent, name=name, needs_model=needs_model)
    if not isinstance(target, type):
        return FunctionAgent(target, name=name, needs_model=needs_model)
    if not callable(getattr(target, "run", None)):
        raise AgentDefinitionError(f"class {target.__name__} has no method run(self, attempt): an agent acts there")
    if name is not None or not hasattr(target, "name"):
        target.name = name or target.__name__  # type: ignore[attr-defined]
    if needs_model is not None or not hasattr(target, "needs_model"):
        target.needs_model = bool(needs_model)  # type: ignore[attr-defined]
    return target


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _name_of(function: Callable[..., Any]) -> str:
    inner = function.func if isinstance(function, partial) else function
    name = getattr(inner, "__name__", type(inner).__name__)
    return f"lambda-{_code_digest(inner.__code__)[:6]}" if name == "<lambda>" else str(name)


def _code_digest(code: CodeType) -> str:
    """Returns a digest of what a function does, without its place in a file."""
    constants = [_code_digest(one) if isinstance(one, CodeType) else _describe(one) for one in code.co_consts]
    return digest_record([code.co_code.hex(), constants, code.co_names]).partition(":")[2]


def _describe(constant: Any) -> str:
    """Returns a constant's text; that of a set does not depend on the seed of hashes."""
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _require_one_parameter(function: Any) -> None:
    """Raises `AgentDefinitionError` for anything that cannot be called with an attempt alone."""
    if not callable(function):
        raise AgentDefinitionError(
            f"{function!r:.100} cannot be an agent: give a function of the attempt, a class or object with `run`, or a "
            "name as `assay run --agent` takes it"
        )
    inner = function.func if isinstance(function, partial) else function
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise AgentDefinitionError(
            f"{_name_of(function)} cannot be an agent: it is a generator, so calling it runs none of its code; act on "
            "the attempt instead of using `yield`"
        )
    try:
        inspect.signature(function).bind(None)
    except TypeError as exc:
        raise AgentDefinitionError(
            f"{_name_of(function)}{inspect.signature(function)} cannot be an agent: it is called with one argument, "
            f"the attempt ({exc})"
        ) from exc
    except ValueError:
        return  # a builtin without a signature
