"""A world of services behind disturbances, as agents, transports, the recorder and checks see it.

Invariant: the service's state, log and checks are its own. What another user changed is declared and taken out of the
changes that are judged; nothing else that is judged depends on a disturbance.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

import msgspec

from assay.environments.interface import ToolSpec
from assay.environments.services.conversation import SEND
from assay.environments.services.declaration import Policy
from assay.environments.services.outcome import describe_changes
from assay.environments.services.plans import PlannedCall, as_tool_calls
from assay.environments.services.transaction import Code
from assay.environments.services.world import ServiceWorld
from assay.environments.wrapping import read_wrappers
from assay.records import Observation, ToolCall

from .attack import Attack
from .changed import Changed
from .corrupted import Corrupted
from .delivery import Failures, Pages, Slow, Stale
from .follower import follow_plan
from .interface import Answer, Call, Disturbance, Inner
from .naming import Drift, Renamed
from .others import Others
from .ranked import Ranked
from .texts import Noise, Paraphrase, TextDisturbance

DISTURBANCES: Final[Mapping[str, type[Disturbance]]] = {
    one.kind: one
    for one in (
        Failures,
        Slow,
        Pages,
        Renamed,
        Drift,
        Stale,
        Corrupted,
        Ranked,
        Others,
        Noise,
        Paraphrase,
        Changed,
        Attack,
    )
}

_NAMING: Final = (Renamed.kind, Drift.kind)
"""Kinds that are outermost, in this order: the names that change are those that the agent sees."""


class _State(msgspec.Struct, frozen=True):
    """A stored state: of which disturbances, the calls so far, what the service answered, and the layers' states."""

    wrap: str
    count: int
    code: Code | None
    trace: tuple[dict[str, Any], ...]
    layers: tuple[dict[str, Any], ...]
    service: bytes


class DisturbedWorld:
    """Implements `World`, `KeepsStates`, `CodedTools` and the hooks of admission.

    Args:
        service: The world, in its initial state. This object closes it.
        wrap: The disturbances, innermost first, as data. Those of names are always outermost, because all others know
            tools by the service's names.

    Raises:
        ValueError: A disturbance or an option is unknown or invalid.
    """

    def __init__(self, service: ServiceWorld, wrap: Any) -> None:
        self.service = service
        self.count = 0
        """Number of calls so far."""
        self._wrap = msgspec.json.encode(wrap, order="sorted").decode()
        self._code: Code | None = None
        self._trace: list[dict[str, Any]] = []
        self.before_message: Callable[[dict[str, Any]], Awaitable[None]] | None = None
        """Awaited with the arguments of each message that reaches the service, by the service's names, before it."""
        specs = read_wrappers(wrap, DISTURBANCES)
        kinds = [spec.kind for spec in specs]
        if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
            raise ValueError(f"The wrapper {twice[0]!r} is given twice")
        layers = [DISTURBANCES[kind](options, service) for kind, options in specs]
        self.layers = tuple(
            sorted(layers, key=lambda layer: _NAMING.index(layer.kind) if layer.kind in _NAMING else -1)
        )
        self._specs = service.specs()
        for layer in self.layers:
            layer.prepare()
            self._specs = layer.bind(self._specs)
        for layer in self.layers:
            layer.address(partial(self.outward, has_new_names=False))

    # `World`.

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        if self.before_message is not None:
            message = self._find_message(name, arguments)
            if message is not None:
                await self.before_message(message)
        return self.act(name, arguments)

    def _find_message(self, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the arguments with which a call would send a message to the person; None if it would send none.

        The layers are tried on a fork: what they do depends on the number of the call and their state alone.
        """
        if name != self.message_tool:
            return None
        trial = self.fork()
        try:
            before = trial.service.answered
            trial.answer(name, arguments)
            sent = [one for one in trial.service.calls[before:] if one.role == "agent" and one.action == SEND]
            return sent[0].arguments if sent else None
        finally:
            trial.service.database.close()

    async def digest(self) -> str | None:
        return self.service.database.digest()

    def facts(self) -> dict[str, Any]:
        """Returns the service's facts without what another user changed, what the service answered, and what each
        disturbance did."""
        changes = self.changes()
        done = [{"kind": layer.kind, **layer.facts()} for layer in self.layers]
        return {
            **self.service.facts(),
            "changes": msgspec.to_builtins(changes),
            "difference": describe_changes(self.service.composition.tables, changes),
            "trace": list(self._trace),
            "disturbances": done,
        }

    async def close(self) -> None:
        await self.service.close()

    # `KeepsStates`.

    def snapshot(self) -> bytes:
        layers = tuple(layer.dump() for layer in self.layers)
        state = _State(self._wrap, self.count, self._code, tuple(self._trace), layers, self.service.snapshot())
        return msgspec.json.encode(state)

    def restore(self, state: bytes) -> None:
        try:
            stored = msgspec.json.decode(state, type=_State)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            raise ValueError(f"These bytes are not a state of a disturbed world: {exc}") from exc
        if stored.wrap != self._wrap or len(stored.layers) != len(self.layers):
            raise ValueError(
                f"The state is of a world behind {stored.wrap[:200]}, and this is behind {self._wrap[:200]}"
            )
        self.service.restore(stored.service)
        self.count, self._code, self._trace = stored.count, stored.code, list(stored.trace)
        for layer, kept in zip(self.layers, stored.layers, strict=True):
            layer.load(kept)

    def fork(self) -> DisturbedWorld:
        """Returns an independent world in the same state."""
        other = copy.copy(self)
        other.service = self.service.fork()
        other.before_message = None
        other._trace = list(self._trace)
        other.layers = tuple(copy.copy(layer) for layer in self.layers)
        for layer in other.layers:
            layer.state = copy.deepcopy(layer.state)
            layer.rebind(other.service)
        return other

    # `CodedTools`.

    @property
    def label(self) -> str:
        return self.service.label

    @property
    def policy(self) -> Policy:
        policy = self.service.policy
        return msgspec.structs.replace(policy, text=self._outward_text(policy.text))

    @property
    def read_only(self) -> frozenset[str]:
        return self._outward_names(self.service.read_only) | {self.outward(PlannedCall(self.page_tool)).action}

    @property
    def text_results(self) -> frozenset[str]:
        return self._outward_names(self.service.text_results)

    @property
    def answered(self) -> int:
        return self.count

    @property
    def last_code(self) -> Code | None:
        return self._code

    # Hooks of admission.

    def oracle(self) -> tuple[ToolCall, ...]:
        """Returns the plan as an agent carries it out through the disturbances."""
        return as_tool_calls(follow_plan(self, self.service.plan))

    def null(self) -> Mapping[str, tuple[ToolCall, ...]]:
        return self._follow_all(self.service.null())

    def perturb(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        return self._follow_all(self.service.perturb(seed))

    def shortcuts(self, seed: int) -> Mapping[str, tuple[ToolCall, ...]]:
        return self._follow_all(self.service.shortcuts(seed))

    def collect(self) -> dict[str, Any]:
        return {"outcome": self.service.outcome_of(self.changes())}

    # What the layers and the follower use.

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Calls a tool for the agent, as `ServiceWorld.act`. Raises `EnvironmentFailure` if the service is broken."""
        answer = self.answer(name, arguments)
        return Observation(answer.text, error=answer.code is not None)

    def answer(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Calls a tool for the agent; the answer says what withheld its result. Raises as `act`."""
        self.count += 1
        chain: Inner = self._call_service
        for layer in self.layers:
            chain = _chain_layer(layer, chain)
        answer = chain(Call(self.count, name, dict(arguments)))
        self._code = answer.code
        return answer

    def _call_service(self, call: Call) -> Answer:
        observation = self.service.act(call.name, call.arguments)
        logged = self.service.calls[-1]
        self._trace.append(
            {
                "action": logged.action,
                "arguments": logged.arguments,
                "content": observation.content,
                "error": observation.error,
            }
        )
        return Answer(observation.content, logged.code)

    @property
    def page_tool(self) -> str:
        """Name of the tool that turns pages, as the layer calls it; empty without one."""
        return next((layer.tool for layer in self.layers if isinstance(layer, Pages)), "")

    @property
    def message_tool(self) -> str:
        """Name by which the agent knows the tool that sends a message."""
        return self.outward(PlannedCall(SEND)).action

    def outward(self, call: PlannedCall, *, has_new_names: bool = True) -> PlannedCall:
        """Returns a call of the service's as the agent has to make it next.

        Args:
            call: The call by the service's names.
            has_new_names: Whether the caller knows names that changed on the way.
        """
        number = self.count + 1 if has_new_names else 0
        return reduce(lambda made, layer: layer.outward(made, number), self.layers, call)

    def rewrite(self, instruction: str) -> str:
        """Returns an instruction as the agent reads it: with the names of tools that it sees, and with what it says
        outside the policies in other words where texts are disturbed."""
        policies = [service.policy.text.strip() for service in self.service.composition.services]
        parts = _split_at(instruction, [text for text in policies if text])
        for layer in self.layers:
            parts = [
                (part if isinstance(layer, TextDisturbance) and is_policy else layer.rewrite(part), is_policy)
                for part, is_policy in parts
            ]
        return "".join(part for part, _ in parts)

    def changes(self) -> tuple[Any, ...]:
        """Returns the net changes of the judged tables without those of another user."""
        changes = self.service.database.changes(judged_only=True)
        for layer in self.layers:
            if isinstance(layer, Others):
                changes = layer.subtract(changes)
        return changes

    def _outward_text(self, text: str) -> str:
        return reduce(lambda made, layer: layer.outward_text(made), self.layers, text)

    def _outward_names(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(self.outward(PlannedCall(name), has_new_names=False).action for name in names)

    def _follow_all(self, plans: Mapping[str, Sequence[ToolCall]]) -> dict[str, tuple[ToolCall, ...]]:
        return {
            name: as_tool_calls(follow_plan(self, [PlannedCall(call.name, call.parsed or {}) for call in calls]))
            for name, calls in plans.items()
        }


def _chain_layer(layer: Disturbance, inner: Inner) -> Callable[[Call], Answer]:
    return lambda call: layer.call(call, inner)


def _split_at(text: str, marks: Sequence[str]) -> list[tuple[str, bool]]:
    """Splits a text at some others, which are parts of their own: each part with whether it is one of them."""
    parts = [(text, False)]
    for mark in marks:
        grown: list[tuple[str, bool]] = []
        for part, is_mark in parts:
            pieces = [part] if is_mark else part.split(mark)
            for at, piece in enumerate(pieces):
                grown += [(mark, True)] if at else []
                grown.append((piece, is_mark))
        parts = grown
    return [(part, is_mark) for part, is_mark in parts if part]
