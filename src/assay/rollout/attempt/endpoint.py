"""Lets programs ask the run's model: sessions of one gateway, whose every call is recorded, limited and observed.

One `Gateway` serves a run, started when the first agent asks for it. Each attempt gets a session of its own, whose key
is dead when the attempt's agent has ended. What went wrong with a call that was not the agent's doing (a limit, the
store, the sandbox, the model's server) is kept here and decides how the attempt ended, whatever its program made of
the error that it was shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from assay.agents.interface import Endpoint
from assay.errors import AssayError, BoundaryError, LimitReached, ProviderError
from assay.gateway.call_tree import Placement
from assay.gateway.interface import Exchange, ModelRequest, OnDeltas
from assay.gateway.model import Model, ModelAnswer
from assay.records import Step
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.observed_turns import Turns
from assay.rollout.recording.recorder import Recorder

if TYPE_CHECKING:
    from assay.gateway.server import Gateway, GatewayOptions
    from assay.gateway.session import GatewaySession

__all__ = ["GRACE_S", "GatewayDoor", "Served", "Traffic", "WatchedModel", "attach", "serve"]

PATIENCE_S = 5.0
"""How long calls under way may take to be recorded once the agent has ended."""
GRACE_S = 10.0
"""How long a program that was told of a spent limit may take to end by itself."""
CALL_PATIENCE_S = 0.1
"""How long it may take until a call under way is noted, with the step before it; one that ends sooner needs no note."""
_CLIENTS_FAULT = {400, 413, 422}
Observe = Callable[[], Awaitable[str | None]]


class GatewayDoor:
    """The run's gateway, started when it is first needed."""

    def __init__(self, options: GatewayOptions | None = None) -> None:
        self._options = options
        self._gateway: Gateway | None = None
        self._starting = asyncio.Lock()

    async def open(self) -> Gateway:
        """The gateway, running."""
        from assay.gateway.server import Gateway  # late: most runs serve nobody, and it brings an HTTP server

        async with self._starting:
            if self._gateway is None:
                self._gateway = await Gateway(self._options).__aenter__()
            return self._gateway

    async def close(self) -> None:
        """Ends it. Idempotent."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.__aexit__()


class Traffic:
    """What the gateway tells of one session. See `CallHooks`.

    Args:
        recorder: The try's record.
        meter: The try's limits.
        observe: The environment's digest now; None where it cannot be seen.
        on_stop: Told of what ends the attempt, once, when it happens.
        on_step: Told of each step that is recorded.
    """

    def __init__(
        self,
        recorder: Recorder,
        meter: Meter,
        observe: Observe,
        on_stop: Callable[[AssayError], None] | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> None:
        self.cause: AssayError | None = None
        """What ended the attempt from here, if anything did."""
        self.recorder = recorder
        recorder.patience_s = max(recorder.patience_s, CALL_PATIENCE_S)
        self.meter = meter
        self._observe = observe
        self._on_stop = on_stop
        self._turns = Turns(recorder, on_step)
        self._states: dict[str, str | None] = {}
        """Of the calls under way, the environment's digest before each."""
        self._busy = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._deaf = False

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        if self._deaf and self.cause is None:
            raise AssayError("the attempt has ended")
        self._busy += 1
        self._quiet.clear()
        try:
            return await self._begin(request, parent)
        except BaseException as exc:
            self._release()
            self._note(exc)
            raise

    async def _begin(self, request: ModelRequest, parent: str | None) -> str:
        if self.cause is not None:
            raise self.cause
        self.meter.check_turns()
        self.meter.check_use()
        self.meter.begin_call()
        state = await self._observe()
        self._turns.asked(parent, request.messages, state)
        call_id = self.recorder.begin_noted_call(parent, state)
        self._states[call_id] = state
        return call_id

    def _release(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._quiet.set()

    async def after(self, exchange: Exchange) -> None:
        try:
            state = self._states.pop(exchange.id, None)
            if self._deaf:
                return
            call = await self.recorder.end_call(exchange, state)
            if exchange.reply is not None:
                self.meter.turns += 1
                self.meter.count(exchange.reply.usage, exchange.reply.cost_usd)
                self._turns.answered(call)
        except BaseException as exc:
            self._note(exc)
            raise
        finally:
            self._release()

    async def close(self) -> None:
        """Waits a little for calls under way, and closes the turns that are open; afterwards nothing is recorded."""
        if self._deaf:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), PATIENCE_S)
        self._deaf = True
        state = None
        with contextlib.suppress(BoundaryError):
            state = await self._observe()
        try:
            self._turns.close(state)
            self.recorder.flush()
        except BaseException as exc:
            self._note(exc)
            raise

    def _note(self, failure: BaseException) -> None:
        """Keeps the first failure that ends the attempt, and tells of it."""
        if self.cause is None and isinstance(failure, LimitReached | BoundaryError):
            self.cause = failure
            if self._on_stop is not None:
                self._on_stop(failure)


class WatchedModel:
    """A session's model, within the run's places for calls; remembers whether its server failed for good."""

    def __init__(self, model: Model, places: asyncio.Semaphore, meter: Meter) -> None:
        self.name = model.name
        self.failure: ProviderError | None = None
        """Of the last call that ended, if the server was the cause."""
        self._model = model
        self._places = places
        self._meter = meter
        self._under_way: set[asyncio.Task[object]] = set()
        self._ended: set[asyncio.Task[object]] = set()

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        self._meter.begin_wait()
        try:
            await self._places.acquire()
            try:
                answered = await self._model.ask(call_id, request, placement, on_deltas)
            finally:
                self._places.release()
        except ProviderError as exc:
            self.failure = None if exc.status in _CLIENTS_FAULT else exc
            raise
        except asyncio.CancelledError as exc:
            if task not in self._ended or task.uncancel() > 0:  # somebody else cancelled it, too
                raise
            raise ProviderError("the attempt ended while the model was answering", retryable=False) from exc
        finally:
            self._meter.end_wait()
            self._under_way.discard(task)
            self._ended.discard(task)
        self.failure = None
        return answered

    def end(self) -> None:
        """Ends the calls under way."""
        for task in self._under_way - self._ended:
            self._ended.add(task)
            task.cancel()


class Served:
    """An endpoint that is open."""

    def __init__(
        self,
        endpoint: Endpoint,
        session: GatewaySession,
        deafen: Callable[[], None] | None,
        closing: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self.session = session
        self._deafen = deafen
        self._closing = closing

    async def finish(self, traffic: Traffic, model: WatchedModel) -> AssayError | None:
        """Ends the session once its calls are recorded; what ended the attempt from here, if anything did."""
        self._closing()
        cause = traffic.cause or model.failure
        model.end()
        try:
            await traffic.close()
        except (LimitReached, BoundaryError) as exc:
            cause = cause or exc
        if self._deafen is not None:
            self._deafen()
        return cause


async def serve(gateway: Gateway, model: WatchedModel, traffic: Traffic, listener: socket.socket) -> Served:
    """Opens a session on a listener of its own, which it takes over."""
    port = listener.getsockname()[1]
    try:
        deafen = await gateway.listen(listener)
    except BaseException:
        listener.close()
        raise
    return attach(gateway, model, traffic, port, deafen)


def attach(
    gateway: Gateway, model: WatchedModel, traffic: Traffic, port: int, deafen: Callable[[], None] | None
) -> Served:
    """Opens a session where the gateway listens at `port`; `deafen` ends that with the session, if it is given."""
    session = gateway.open(model, traffic)
    traffic.recorder.redactor.add("session_key", session.key)
    endpoint = Endpoint(f"http://127.0.0.1:{port}/s/{session.id}", session.key, model.name)
    return Served(endpoint, session, deafen, lambda: gateway.close(session))
