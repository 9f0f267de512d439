"""A request that its person changes in the middle of the work."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from .interface import Answer, Call, Disturbance, DisturbanceOptions, Inner


class _ChangedOptions(DisturbanceOptions, frozen=True):
    text: Annotated[str, Meta(max_length=20_000)] = ""
    """Message of the person; the plan and the outcome are those of the changed request."""


class Changed(Disturbance):
    """Stops the first write with a message that changes the request: nothing is done that cannot be undone.

    `state` says whether the message was given.
    """

    kind = "changed"
    Options = _ChangedOptions

    def call(self, call: Call, inner: Inner) -> Answer:
        if self.state.get("told") or not self.options.text or not self.is_write(call.name):
            return inner(call)
        self.state["told"] = call.number
        text = "Error (conflict): This was not done, because the person has just changed the request: "
        return Answer(text + self.options.text, "conflict", self.kind)

    def facts(self) -> dict[str, Any]:
        return {"told": self.state.get("told", 0)}
