"""Model access for programs: sessions of one gateway whose calls are recorded, limited and observed.

One `Gateway` serves a run and starts with the first agent that needs it. Each attempt gets its own session, whose key
expires when the agent ends. Failures that the agent did not cause (a limit, the store, the sandbox, the model server)
are kept here and decide how the attempt ended, whatever the program made of the error.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from assay.agents.interface import Endpoint
from assay.errors import AssayError, BoundaryError, BudgetExceededError, LimitReached, ProviderError
from assay.gateway.call_tree import Placement
from assay.gateway.interface import Exchange, ModelRequest, OnDeltas
from assay.gateway.metrics import GatewayLoad
from assay.gateway.model import Model, ModelAnswer
from assay.http.metrics import MetricsRegistry
from assay.records import Step
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.observed_turns import Turns
from assay.rollout.recording.recorder import Recorder

if TYPE_CHECKING:
    from assay.gateway.server import Gateway, GatewayOptions
    from assay.gateway.session import GatewaySession

PATIENCE_S = 5.0
"""Seconds that calls under way may take to be recorded once the agent has ended."""
GRACE_S = 10.0
"""Seconds that a program may take to exit after a limit was reached."""
CALL_PATIENCE_S = 0.1
"""Seconds before a call under way is noted with the step before it; a shorter call needs no note."""
_CLIENTS_FAULT = {400, 413, 422}
Observe = Callable[[], Awaitable[str | None]]


class GatewayHandle:
    """The run's gateway, started on first use."""

    def __init__(self, options: GatewayOptions | None = None, metrics: MetricsRegistry | None = None) -> None:
        """Creates a handle; `metrics` are those that the gateway serves to its sessions, None for no metrics."""
        self._options, self._metrics = options, metrics
        self._gateway: Gateway | None = None
        self._starting = asyncio.Lock()

    async def open(self) -> Gateway:
        """Returns the running gateway."""
        from assay.gateway.server import Gateway  # late: most runs need no HTTP server

        async with self._starting:
            if self._gateway is None:
                self._gateway = await Gateway(self._options, metrics=self._metrics).__aenter__()
            return self._gateway

    def load(self) -> GatewayLoad:
        """Returns what the gateway does now."""
        return GatewayLoad() if self._gateway is None else self._gateway.load()

    async def close(self) -> None:
        """Stops the gateway. Idempotent."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None:
            await gateway.__aexit__()


class SessionRecorder:
    """Records the calls of one gateway session. Implements `CallHooks`.

    `observe` returns the environment's current digest, or None; `on_stop` gets the failure that ends the attempt, once.
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
        """The failure that ended the attempt; None if there was none."""
        self.recorder = recorder
        recorder.patience_s = max(recorder.patience_s, CALL_PATIENCE_S)
        self.meter = meter
        self._observe = observe
        self._on_stop = on_stop
        self._turns = Turns(recorder, on_step)
        self._states: dict[str, str | None] = {}
        """Digest of the environment before each call under way."""
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    async def before(self, request: ModelRequest, parent: str | None) -> str:
        if self._closed and self.cause is None:
            raise AssayError("the attempt has ended")
        self._busy += 1
        self._idle.clear()
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
        self._turns.close_turn(parent, request.messages, state)
        call_id = self.recorder.begin_noted_call(parent, state)
        self._states[call_id] = state
        return call_id

    def _release(self) -> None:
        self._busy -= 1
        if not self._busy:
            self._idle.set()

    async def after(self, exchange: Exchange) -> None:
        try:
            state = self._states.pop(exchange.id, None)
            if self._closed:
                return
            call = await self.recorder.end_call(exchange, state)
            if exchange.reply is not None:
                self.meter.turns += 1
                self.meter.count(exchange.reply.usage, exchange.reply.cost_usd)
                self._turns.open_turn(call)
        except BaseException as exc:
            self._note(exc)
            raise
        finally:
            self._release()

    async def close(self) -> None:
        """Waits briefly for calls under way and closes open turns; nothing is recorded afterwards."""
        if self._closed:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), PATIENCE_S)
        self._closed = True
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
        if self.cause is None and isinstance(failure, LimitReached | BoundaryError | BudgetExceededError):
            self.cause = failure
            if self._on_stop is not None:
                self._on_stop(failure)


class LimitedModel:
    """A session's model behind the run's call slots; keeps the last call's server failure."""

    def __init__(self, model: Model, slots: asyncio.Semaphore, meter: Meter) -> None:
        self.name = model.name
        self.failure: ProviderError | None = None
        """The server failure of the last call that ended; None if it succeeded or the client was at fault."""
        self._model = model
        self._slots = slots
        self._meter = meter
        self._under_way: set[asyncio.Task[object]] = set()
        self._ended: set[asyncio.Task[object]] = set()

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        self._meter.begin_wait()
        try:
            await self._slots.acquire()
            try:
                answered = await self._model.ask(call_id, request, placement, on_deltas)
            finally:
                self._slots.release()
        except ProviderError as exc:
            exc.request = request
            self.failure = None if exc.status in _CLIENTS_FAULT else exc
            raise
        except asyncio.CancelledError as exc:
            if task not in self._ended or task.uncancel() > 0:  # cancelled from elsewhere too
                raise
            raise ProviderError("the attempt ended while the model was answering", retryable=False) from exc
        finally:
            self._meter.end_wait()
            self._under_way.discard(task)
            self._ended.discard(task)
        self.failure = None
        return answered

    def end(self) -> None:
        """Cancels the calls under way."""
        for task in self._under_way - self._ended:
            self._ended.add(task)
            task.cancel()


class OpenEndpoint:
    """A session's open endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        session: GatewaySession,
        stop_listening: Callable[[], None] | None,
        closing: Callable[[], None],
    ) -> None:
        self.endpoint = endpoint
        self.session = session
        self._stop_listening = stop_listening
        self._closing = closing

    async def finish(self, recording: SessionRecorder, model: LimitedModel) -> AssayError | None:
        """Ends the session once its calls are recorded. Returns the failure that ended the attempt, if any."""
        self._closing()
        cause = recording.cause or model.failure
        model.end()
        try:
            await recording.close()
        except (LimitReached, BoundaryError) as exc:
            cause = cause or exc
        if self._stop_listening is not None:
            self._stop_listening()
        return cause


async def open_endpoint(
    gateway: Gateway, model: LimitedModel, recording: SessionRecorder, listener: socket.socket
) -> OpenEndpoint:
    """Opens a session on its own listener and takes ownership of the listener."""
    port = listener.getsockname()[1]
    try:
        stop_listening = await gateway.listen(listener)
    except BaseException:
        listener.close()
        raise
    return open_session(gateway, model, recording, port, stop_listening)


def open_session(
    gateway: Gateway,
    model: LimitedModel,
    recording: SessionRecorder,
    port: int,
    stop_listening: Callable[[], None] | None,
) -> OpenEndpoint:
    """Opens a session on a gateway that listens at `port`; `stop_listening` is called when the session ends."""
    session = gateway.open(model, recording)
    recording.recorder.redactor.add("session_key", session.key)
    endpoint = Endpoint(f"http://127.0.0.1:{port}/s/{session.id}", session.key, model.name)
    return OpenEndpoint(endpoint, session, stop_listening, lambda: gateway.close(session))
