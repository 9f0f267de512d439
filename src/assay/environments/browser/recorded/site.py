"""World that plays a recorded attempt in a browser to another agent, without the site: semi-online replay.

The agent acts as on the live site. An act that matches the next recorded step shows the recorded page after it. One
that does not is a divergence: while patches are left, the recorded step takes its place and the replay goes on from the
page after that; then it ends. What the agent itself said and did stays in its own history, which is what distinguishes
this from scoring each recorded step by itself (UI-S1: Advancing GUI Automation via Semi-online Reinforcement Learning).

Covered: links, forms and the history, by what they do; other calls word for word. Not covered: what the live site would
have shown after another act, so a detour that the site would have forgiven is a divergence here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from assay.environments.browser.page_moves import FILLS, LOOKS, WORDS
from assay.environments.browser.page_text import SKIP_LINK, PageView, Part, read_view
from assay.environments.browser.random_acts import Control, choose_act
from assay.environments.browser.tools import BrowserTools
from assay.environments.interface import ToolSpec
from assay.records import Observation, ToolCall, canonical_bytes, digest_record

from .record import MOST_STEPS, RecordedCall, RecordedStep, StepKey, read_pages, step_key
from .tree_text import CHOICES, LISTS, TEXT_FIELDS, form_values, set_value, toggle

KIND: Final = "recorded-pages"
"""Name of the environment."""
PatchStrategy = Literal["thought-free", "off-policy", "on-policy"]
_OVER: Final = "The replay is over: the recorded attempt went on otherwise."
_TURNS_A_STEP: Final = 20


class RecordedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of the environment."""

    calls: Annotated[tuple[RecordedCall, ...], Meta(min_length=1)]
    """Calls of the recorded attempt that did not fail, the first of them a look at the first page."""
    patches: Annotated[int, Meta(ge=0, le=MOST_STEPS)] = 0
    """Divergences that are repaired by the recorded step; the next one ends the replay."""
    strategy: PatchStrategy = "thought-free"
    """Thought beside a step that takes the place of an agent's act in its history: none, that of the recorded attempt,
    or one that the agent's own model is asked for."""
    source: str = ""
    """Run, attempt and head of the record."""


class Patch(NamedTuple):
    """A recorded step that took the place of an agent's act."""

    calls: tuple[RecordedCall, ...]
    strategy: PatchStrategy

    @property
    def thought(self) -> str:
        """Thought that was recorded with it; empty unless the strategy takes it."""
        return self.calls[-1].thought if self.strategy == "off-policy" else ""


class RecordedSite:
    """Implements `World`, `Episodic` and the advice that `oracle`, `expert` and `random-world` follow.

    Args:
        parameters: Fields of `RecordedOptions`.
        seed: Not used: everything is in the record.

    Raises:
        ValueError: A parameter is invalid, or the record cannot be replayed.
    """

    def __init__(self, parameters: Mapping[str, Any], seed: int) -> None:
        try:
            self.options = msgspec.convert(parameters, RecordedOptions)
        except msgspec.ValidationError as exc:
            allowed = ", ".join(RecordedOptions.__struct_fields__)
            raise ValueError(f"the world {KIND!r}: {exc}; known options: {allowed}") from exc
        pages = read_pages(self.options.calls)
        self.steps: tuple[RecordedStep, ...] = pages.steps
        self.step = 0
        """Index of the current step of the attempt; set by the recorder."""
        self.patches: list[Patch | None] = []
        """For each call, the recorded step that took its place; None where none did."""
        self._page = pages.first
        self._outcomes: list[str] = []
        self._divergences: list[dict[str, Any]] = []
        self._rewards: list[tuple[int, float, bool]] = []
        self._messages: list[str] = []
        self._is_over = self._has_overrun = False
        self._tools = {spec.name for spec in BrowserTools.specs()}

    # `World`.

    def specs(self) -> tuple[ToolSpec, ...]:
        return BrowserTools.specs()

    async def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        self.patches.append(None)
        if self.terminated or self.truncated:
            return Observation(_OVER, error=True)
        before = len(self._matched)
        observation = self._act(name, arguments)
        gained = (len(self._matched) - before) / len(self.steps)
        self._rewards.append((self.step, gained, observation.error))
        return observation

    async def digest(self) -> str | None:
        return digest_record([self._page, self._outcomes, self._is_over])

    def facts(self) -> dict[str, Any]:
        """Returns the result of the replay: each recorded step is `matched`, `patched` or missing at the end of
        `outcomes`, where the replay ended."""
        completed = self._is_at_end and not self._has_overrun
        return {
            "completed": completed,
            "unaided": completed and "patched" not in self._outcomes,
            "steps": len(self.steps),
            "outcomes": [*self._outcomes],
            "divergences": [*self._divergences],
            "overrun": self._has_overrun,
            "patches": self.options.patches,
            "strategy": self.options.strategy,
            "source": self.options.source,
            "messages": [*self._messages],
        }

    async def close(self) -> None:
        """Does nothing: no resources are held."""

    # `Episodic`.

    @property
    def terminated(self) -> bool:
        return self._is_over

    @property
    def truncated(self) -> bool:
        return not self._is_over and len(self._rewards) >= _TURNS_A_STEP * (len(self.steps) + 1)

    def episode(self) -> dict[str, Any]:
        steps, rewards, errors = ([one[at] for one in self._rewards] for at in range(3))
        done, progress = 0.0, []
        for reward in rewards:
            done += float(reward)
            progress.append(done)
        return {
            "terminated": self.terminated,
            "truncated": self.truncated,
            "reward": done,
            "steps": steps,
            "rewards": rewards,
            "progress": progress,
            "errors": errors,
        }

    # Acting.

    @property
    def _matched(self) -> list[str]:
        return [one for one in self._outcomes if one == "matched"]

    @property
    def _is_at_end(self) -> bool:
        return len(self._outcomes) == len(self.steps)

    def _act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        if name not in self._tools:
            return Observation(f"Unknown tool {name[:80]!r}.", error=True)
        if name in WORDS:
            self._messages.append(str(arguments.get("text", arguments.get("reason", "")))[:2_000])
            return Observation("It was noted.")
        view, bid = read_view(self._page), arguments.get("bid")
        element = view.element(str(bid)) if bid is not None else None
        if bid is not None and element is None:
            return Observation(f"No element of the page has the number {str(bid)[:20]!r}.", error=True)
        if name in FILLS or (name in ("click", "dblclick") and element is not None and element.role in CHOICES):
            return self._set(name, arguments, element)
        is_skip = element is not None and element.role == "link" and element.name == SKIP_LINK
        key = None if is_skip or name in LOOKS else step_key(view, name, arguments)
        return Observation(self._page) if key is None else self._advance(key)

    def _set(self, name: str, arguments: Mapping[str, Any], element: Part | None) -> Observation:
        """Sets a field of a form, which is no step."""
        if element is None:
            return Observation(f"Wrong arguments for {name}: it takes bid.", error=True)
        value = "" if name == "clear" else arguments.get("value", arguments.get("options"))
        if isinstance(value, list | tuple) and len(value) == 1:
            (value,) = value
        if name == "select_option":
            if element.role not in LISTS or value not in element.options:
                return Observation(f"The element {element.number} has no option {str(value)[:80]!r}.", error=True)
        elif name in FILLS and (element.role not in TEXT_FIELDS or not isinstance(value, str)):
            return Observation(f"The element {element.number} takes no text.", error=True)
        number = element.number
        self._page = toggle(self._page, number) if name not in FILLS else set_value(self._page, number, str(value))
        return Observation(self._page)

    def _advance(self, key: StepKey) -> Observation:
        """Takes a step that the agent made."""
        at = len(self._outcomes)
        expected = None if self._is_at_end else self.steps[at]
        if expected is not None and expected.key == key:
            return self._show(expected, "matched")
        told = None if expected is None else expected.key.describe()
        self._divergences.append({"step": at, "expected": told, "made": key.describe()})
        if expected is not None and self._outcomes.count("patched") < self.options.patches:
            self.patches[-1] = Patch(expected.calls, self.options.strategy)
            return self._show(expected, "patched")
        self._is_over, self._has_overrun = True, expected is None
        return Observation(_OVER, error=True)

    def _show(self, step: RecordedStep, outcome: str) -> Observation:
        self._outcomes.append(outcome)
        self._page = step.after
        return Observation(self._page)

    # Advice.

    def advice(self) -> ToolCall | None:
        """Returns the next recorded call, after those that bring a form to what was recorded; None at the end."""
        if self._is_at_end or self._is_over:
            return None
        step, view = self.steps[len(self._outcomes)], read_view(self._page)
        last = step.calls[-1]
        element = view.element(str(last.arguments.get("bid", "")))
        if element is not None and step.key.kind == "button":
            parts = view.form_parts(element)
            for held, wanted in zip(form_values(view, parts), step.key.values, strict=False):
                call = None if held == wanted else _setting(view, parts, wanted.label, wanted.value)
                if call is not None:
                    return self._as_call(*call)
        return self._as_call(last.name, last.arguments)

    def any_act(self, draw: random.Random) -> ToolCall | None:
        """Returns a random act that the page offers; None once the replay is over."""
        if self._is_over:
            return None
        view = read_view(self._page)
        controls = {int(part.number): Control(part.role, part.options) for part in view.parts if part.number}
        return choose_act(controls, [part.name for part in view.parts], draw)

    def _as_call(self, name: str, arguments: dict[str, Any]) -> ToolCall:
        return ToolCall(f"r{len(self._rewards)}", name, canonical_bytes(arguments).decode(), arguments)


def _setting(view: PageView, parts: tuple[Part, ...], label: str, value: str) -> tuple[str, dict[str, Any]] | None:
    """Returns the call that gives a field a value; None if none does."""
    for part in parts:
        if view.label_of(part) != label:
            continue
        if part.role in TEXT_FIELDS:
            return "fill", {"bid": part.number, "value": value}
        if part.role in LISTS and value in part.options:
            return "select_option", {"bid": part.number, "options": value}
        if part.role == "checkbox" or (part.role == "radio" and part.name == value):
            return "click", {"bid": part.number}
    return None
