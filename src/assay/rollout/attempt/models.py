"""From `--model` to a backend, where that takes the store: `replay:ATTEMPT` and `replay:RUN:ATTEMPT`."""

from __future__ import annotations

from assay.errors import UserError
from assay.gateway.backends import open_backend
from assay.gateway.interface import ModelBackend
from assay.settings import Settings
from assay.store import RunStore, assistant_message, list_runs, newest_run, restore_messages

__all__ = ["open_model", "settled_model"]


def open_model(model: str, settings: Settings) -> ModelBackend:
    """Makes the backend for `--model`. The caller closes it.

    Raises:
        UserError: No such form, no such attempt, or nothing in it to replay.
        StoreError: The run cannot be read.
    """
    kind, _, rest = model.partition(":")
    if kind != "replay":
        return open_backend(model, settings)
    from assay.gateway.backends.replay import RecordedCall, ReplayBackend

    run, attempt = _split(rest, settings)
    with RunStore.open(settings.store, run) as store:
        trajectory = store.trajectory(store.find(attempt).chain)
    calls = {call.id: call for call in trajectory.calls}
    kept = [
        RecordedCall(call, restore_messages(calls, call), answer)
        for call in trajectory.calls
        if call.delivered and (answer := assistant_message(call)) is not None
    ]
    if not kept:
        raise UserError(
            f"--model {model}: attempt {trajectory.attempt} of run {run} holds no answered model call to replay"
        )
    kept.sort(key=lambda one: one.call.started or 0.0)
    return ReplayBackend(kept, f"replay:{run}:{trajectory.attempt}")


def settled_model(model: str | None, settings: Settings) -> str | None:
    """The model's name with everything in it that may mean something else tomorrow: the newest run."""
    if model is None or not model.startswith("replay:"):
        return model
    return ":".join(("replay", *_split(model.partition(":")[2], settings)))


def _split(rest: str, settings: Settings) -> tuple[str, str]:
    if not rest:
        raise UserError(
            "--model replay: which attempt? Name it as `assay ls` does: replay:ATTEMPT, or replay:RUN:ATTEMPT"
        )
    run, colon, attempt = rest.partition(":")
    if colon and attempt and run in list_runs(settings.store):
        return run, attempt
    return newest_run(settings.store), rest
