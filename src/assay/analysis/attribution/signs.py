"""Signs that a step went wrong, each derived from the steps up to it.

A `Watcher` is fed steps one at a time and never sees later ones, so everything built on it is causal. Supports English
words and common error texts only. Labels have the published names of AgentErrorTaxonomy (arXiv 2509.25370): five
modules, each with its modes; the mapping of signs to them is ours.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, Literal, NamedTuple

import msgspec

from assay.analysis.actors import who
from assay.records import Step

Module = Literal["memory", "reflection", "planning", "action", "system", "others"]
MODES: Final[dict[Module, tuple[str, ...]]] = {
    "memory": ("over_simplification", "memory_retrieval_failure", "hallucination"),
    "reflection": ("progress_misjudge", "outcome_misinterpretation", "causal_misattribution", "hallucination"),
    "planning": ("constraint_ignorance", "impossible_action", "inefficient_plan"),
    "action": ("misalignment", "invalid_action", "format_error", "parameter_error"),
    "system": ("step_limit", "tool_execution_error", "llm_limit", "environment_error"),
    "others": ("other",),
}


class Label(msgspec.Struct, frozen=True, order=True):
    """A module and one of its modes."""

    module: Module
    mode: str

    def __post_init__(self) -> None:
        """Rejects a mode of another module."""
        if self.mode not in MODES[self.module]:
            raise ValueError(f"{self.module} has no mode {self.mode!r}; it has {', '.join(MODES[self.module])}")


_TEXT: Final = 20_000
_FLAGS: Final = re.IGNORECASE
_ASSUMES: Final = re.compile(
    r"\b(?:assum(?:e|ing|ption)|hypothetical(?:ly)?|let's say|suppose|mock|simulat(?:ed?|ing) (?:data|the|result)"
    r"|placeholder|dummy|example data|for (?:the sake|demonstration)|pretend|sample data|likely that|typically)\b",
    _FLAGS,
)
_CLAIMS: Final = re.compile(
    r"\b(?:i|we) have (?:now )?(?:verified|confirmed|checked|reviewed|identified|found|calculated|searched|gathered"
    r"|validated)\b|\bhere (?:are|is) the (?:details|results?|findings|information|list)\b|\bbased on (?:my|the) "
    r"(?:search|review|analysis|knowledge|research)\b",
    _FLAGS,
)
_AGREES: Final = re.compile(
    r"\b(?:is|are|seems?|looks?|appears?) (?:to be )?(?:correct|accurate|valid|reliable|sound)\b|\bi agree\b"
    r"|\b(?:concur|confirmed that)\b",
    _FLAGS,
)
_FAILED: Final = re.compile(
    r"exitcode: [1-9]|execution failed|Traceback \(most recent call last\)|^[^\S\n]*(?:\w+)?(?:Error|Exception)\b[: ]",
    re.MULTILINE,
)
_NOTHING: Final = re.compile(
    r"\b(?:not found|no such file|no results?|could not|cannot|unable to|does not (?:exist|contain)|None|empty)\b",
    _FLAGS,
)
_CODE: Final = re.compile(r"```")
_EXECUTES: Final = re.compile(r"^(?:\s*exitcode:|\s*Traceback|There is no code from)", _FLAGS)
_REPEATED: Final = 3


class SignKind(NamedTuple):
    """A kind of sign."""

    weight: float
    label: Label
    means: str


SIGNS: Final[dict[str, SignKind]] = {
    "assumes": SignKind(1.4, Label("memory", "hallucination"), "goes on with something that it assumes or made up"),
    "unsupported-claim": SignKind(
        1.0, Label("reflection", "hallucination"), "says what it found or checked though nothing was executed since"
    ),
    "uncritical-agreement": SignKind(
        0.4, Label("reflection", "progress_misjudge"), "accepts a result as right without having looked at it"
    ),
    "ignores-a-failure": SignKind(
        0.9, Label("reflection", "outcome_misinterpretation"), "goes on after a failure without saying a word of it"
    ),
    "malformed-call": SignKind(1.2, Label("action", "format_error"), "a call whose arguments are no arguments"),
    "unknown-tool": SignKind(1.2, Label("action", "invalid_action"), "calls a tool that there is not"),
    "failed-act": SignKind(1.0, Label("action", "parameter_error"), "what it did failed"),
    "empty-result": SignKind(0.5, Label("planning", "impossible_action"), "what it looked for was not there"),
    "repeats-itself": SignKind(0.8, Label("planning", "inefficient_plan"), "does the same again and again"),
    "changes-the-world": SignKind(0.6, Label("action", "misalignment"), "an act that cannot be taken back"),
    "writes-code": SignKind(1.0, Label("action", "misalignment"), "the code that a result rests on"),
    "timed-out": SignKind(0.8, Label("system", "environment_error"), "what it did was cut by its time"),
}
"""Kinds of signs. Weights were set by hand on the development half of Who&When (docs/explanation/attribution.md)."""


class Sign(NamedTuple):
    """A sign at a step."""

    step: int
    who: str
    kind: str


_CHANGES: Final = re.compile(
    r"^(?:cancel|return|exchange|modify|update|delete|book|send|transfer|pay|create|remove|buy)_"
)


class Watcher:
    """Detects signs step by step."""

    def __init__(self) -> None:
        self._executed = False
        """True if anything was executed since results were last mentioned."""
        self._failed = False
        self._asked: Step | None = None
        """Author of the code or call that is executed next."""
        self._done: Counter[str] = Counter()

    def see(self, step: Step) -> tuple[Sign, ...]:
        """Returns the signs of this step, and of the step whose result it shows."""
        text = (step.message or "")[:_TEXT]
        if self._is_execution(step, text):
            return self._execution(step, text)
        if step.actor not in ("agent", "other_agent"):
            return ()
        names = [*self._in_words(step, text), *self._in_calls(step)]
        if _CODE.search(text) or step.tool_calls:
            self._asked = step
        return tuple(Sign(step.index, who(step), name) for name in dict.fromkeys(names))

    def _is_execution(self, step: Step, text: str) -> bool:
        return step.actor == "environment" or (not step.tool_calls and bool(_EXECUTES.match(text)))

    def _execution(self, step: Step, text: str) -> tuple[Sign, ...]:
        shown = text + "\n".join(seen.content for seen in step.observations)[:_TEXT]
        if "There is no code from" in shown:
            return ()
        asked = self._asked
        self._executed = True
        self._failed = bool(_FAILED.search(shown)) or any(seen.error for seen in step.observations)
        if asked is None:
            return ()
        names = ["failed-act"] if self._failed else ["empty-result"] if _NOTHING.search(shown[:2_000]) else []
        self._asked = None
        return tuple(Sign(asked.index, who(asked), name) for name in names)

    def _in_words(self, step: Step, text: str) -> list[str]:
        found = []
        if step.index > 0 and _ASSUMES.search(text):
            found.append("assumes")
        if _CODE.search(text):
            found.append("writes-code")
        elif _CLAIMS.search(text) and not self._executed:
            found.append("unsupported-claim")
        if _AGREES.search(text) and not _CODE.search(text):
            found.append("uncritical-agreement")
        if (
            self._failed
            and text
            and not re.search(r"error|fail|issue|problem|wrong|correct|fix|sorry|apolog", text, _FLAGS)
        ):
            found.append("ignores-a-failure")
        if text:
            self._failed = False
            self._executed = self._executed and bool(_CODE.search(text))
        return found

    def _in_calls(self, step: Step) -> list[str]:
        found = []
        for call in step.tool_calls:
            if call.error is not None:
                found.append("malformed-call")
            if _CHANGES.match(call.name):
                found.append("changes-the-world")
            self._done[f"{call.name} {call.arguments}"] += 1
            if self._done[f"{call.name} {call.arguments}"] >= _REPEATED:
                found.append("repeats-itself")
        for seen in step.observations:
            self._executed = True
            if seen.timed_out:
                found.append("timed-out")
            if re.match(r"(?:unknown|no such|there is no) (?:tool|function)|unknown action", seen.content, _FLAGS):
                found.append("unknown-tool")
            elif seen.error or bool(seen.exit_code) or re.match(r"error\b", seen.content, _FLAGS):
                found.append("failed-act")
        self._failed = self._failed or "failed-act" in found
        return found
