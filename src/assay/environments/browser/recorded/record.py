"""Reads the calls of a recorded attempt as steps between pages, each with what must be done to match it. Pure.

A step is a link that was followed, a button that was pressed with the values that its form held, a step in the
history, or any other call that changes a page, word for word. Filling a field in is no step: what counts is what the
form held when it was sent, so that order and detours within a form do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.browser.page_moves import CLICKS, FILLS, HISTORY, LOOKS, WORDS
from assay.environments.browser.page_text import PageView, Part, read_view
from assay.records import canonical_bytes

from .tree_text import CHOICES, FormValue, form_values

MOST_STEPS: Final = 500


class RecordedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call that did not fail, and what it returned."""

    name: str
    arguments: dict[str, Any]
    page: str
    """The tree that it returned."""
    thought: str = ""
    """Message and reasoning that were recorded with it."""


class StepKey(NamedTuple):
    """The act that matches a step."""

    kind: str
    """`link`, `button`, `history` or `call`."""
    label: str
    form: str = ""
    values: tuple[FormValue, ...] = ()

    def describe(self) -> str:
        """Returns it in words."""
        held = ", ".join(f"{one.label}={one.value}" for one in self.values)
        return " ".join(filter(None, (self.kind, repr(self.label), self.form and f"of {self.form!r}", held)))[:500]


class RecordedStep(NamedTuple):
    """A step between two pages."""

    key: StepKey
    calls: tuple[RecordedCall, ...]
    """Fields that were filled in for it with the call that did it, in order."""
    after: str
    """The tree after it."""


class RecordedPages(NamedTuple):
    """A recorded attempt as pages and the steps between them."""

    first: str
    """The tree of the first page."""
    steps: tuple[RecordedStep, ...]


def read_pages(calls: Sequence[RecordedCall]) -> RecordedPages:
    """Returns the pages and steps of recorded calls.

    Raises:
        ValueError: The first page was not recorded, a tree is missing, no page was left, or there are too many steps.
    """
    if not calls or calls[0].name not in LOOKS:
        raise ValueError("the record does not begin with a look at its first page")
    shown, pending, steps = calls[0].page, list[RecordedCall](), list[RecordedStep]()
    for call in calls:
        if call.name in WORDS:
            continue
        if not read_view(call.page).parts:
            raise ValueError(f"the page after {call.name} was not recorded as a tree")
        key = step_key(read_view(shown), call.name, call.arguments)
        if call.name not in LOOKS:
            pending.append(call)
        if key is not None:
            steps.append(RecordedStep(key, tuple(pending), call.page))
            pending = []
        shown = call.page
    if not steps or len(steps) > MOST_STEPS:
        raise ValueError(f"the record has {len(steps)} steps between pages, expected 1 to {MOST_STEPS}")
    return RecordedPages(calls[0].page, tuple(steps))


def step_key(view: PageView, name: str, arguments: Mapping[str, Any]) -> StepKey | None:
    """Returns what a call does on a page; None if it leaves the page or only fills a form in."""
    if name in LOOKS or name in WORDS or name in FILLS:
        return None
    if name in HISTORY:
        return StepKey("history", name)
    element = view.element(str(arguments.get("bid", "")))
    if element is not None and name in CLICKS:
        if element.role in CHOICES:
            return None
        return StepKey("link", element.name) if element.role == "link" else _press(view, element, element.name)
    if element is not None and name == "press" and arguments.get("key_comb") == "Enter":
        button = next((part.name for part in view.form_parts(element) if part.role == "button"), "")
        return _press(view, element, button)
    return StepKey("call", f"{name} {canonical_bytes(dict(arguments)).decode()}")


def _press(view: PageView, element: Part, label: str) -> StepKey:
    return StepKey("button", label, view.form_of(element), form_values(view, view.form_parts(element)))
