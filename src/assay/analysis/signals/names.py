"""The 25 triage signals by their published names (arXiv 2604.00356), with their triggers.

Names, thresholds and the order of the failure patterns are as published; phrases and patterns are ours. Where the
published code and its documentation differ, ours follows the code and says so.
"""

from __future__ import annotations

from typing import NamedTuple


class Signal(NamedTuple):
    """One signal."""

    name: str
    """`layer.category.type`."""
    raised: str


SIGNALS: tuple[Signal, ...] = (
    Signal("interaction.misalignment.correction", "the user says that something was wrong or not meant"),
    Signal(
        "interaction.misalignment.rephrase",
        "the user asks again in other words: at most 3 user turns apart, 0.75 of the smaller set of words shared, at "
        "least 4 of them, at most 0.5 of the later ones new",
    ),
    Signal("interaction.misalignment.clarification", "the user explains what was meant, or asks what is meant"),
    Signal(
        "interaction.stagnation.dragging",
        "1 / (1 + 0.25 (user turns - 5)) is below 0.5, so more than 9 user turns; the published documentation "
        "says 0.3, its code 0.5",
    ),
    Signal(
        "interaction.stagnation.repetition",
        "an agent's message is as one of the two before it: Jaccard of trigrams at least 0.85, 5 words or more",
    ),
    Signal("interaction.disengagement.escalation", "the user asks for a person or for somebody in charge"),
    Signal("interaction.disengagement.quit", "the user gives up"),
    Signal(
        "interaction.disengagement.negative_stance",
        "the user is angry: in words, or in capitals (10 letters or more, 80% of them upper case)",
    ),
    Signal("interaction.satisfaction.gratitude", "the user thanks"),
    Signal("interaction.satisfaction.confirmation", "the user agrees"),
    Signal("interaction.satisfaction.success", "the user says that it worked"),
    Signal("execution.failure.invalid_args", "a result names a missing, unexpected or invalid argument"),
    Signal("execution.failure.bad_query", "a result says that a query or an expression is malformed or finds nothing"),
    Signal("execution.failure.tool_not_found", "a result says that a tool, command or function does not exist"),
    Signal("execution.failure.auth_misuse", "a result refuses for want of permission or credentials"),
    Signal(
        "execution.failure.state_error", "a result says that the state does not allow it, or that a thing is not there"
    ),
    Signal("execution.loops.retry", "the same call with the same arguments 3 times in a row or more"),
    Signal(
        "execution.loops.parameter_drift", "the same tool 3 times in a row or more, with 2 sets of arguments or more"
    ),
    Signal("execution.loops.oscillation", "a pattern of 2 to 5 tools, 2 of them different, 3 times in a row or more"),
    Signal("environment.exhaustion.api_error", "a result tells of a server's error"),
    Signal("environment.exhaustion.timeout", "a result tells of a time-out"),
    Signal("environment.exhaustion.rate_limit", "a result tells of a rate limit or a quota"),
    Signal("environment.exhaustion.network", "a result tells of a connection that failed"),
    Signal("environment.exhaustion.malformed_response", "a result tells of an answer that could not be parsed"),
    Signal("environment.exhaustion.context_overflow", "a result tells of a context that is too long"),
)


def category_of(name: str) -> str:
    """Returns the `layer.category` of a signal's name."""
    return name.rsplit(".", 1)[0]


CATEGORIES: tuple[str, ...] = tuple(dict.fromkeys(category_of(signal.name) for signal in SIGNALS))
"""The seven categories, in order. The keys for OpenTelemetry are `signals.<category>.count` and `.severity`."""
