"""The operators and the plain values of safety contracts in words, for docs/reference/contracts.md."""

from __future__ import annotations

from typing import Final

MEANINGS: Final[dict[str, str]] = {
    "always(p)": "p at this step and every later one",
    "eventually(p)": "p at this step or some later one",
    "next(p)": "there is a next step, and p at it",
    "weak_next(p)": "p at the next step, if there is one",
    "until(p, q)": "q at this step or some later one, and p at every step before that",
    "unless(p, q)": "as `until`, or p at every step to the end",
    "before(p, q)": "no q at this step or later without a p, from this step on, at a step before it",
    "within(n, p)": "p at this step or one of the n after it",
    "throughout(n, p)": "p at this step and at each of the n after it",
    "once(p)": "p at this step or some earlier one",
    "historically(p)": "p at this step and every earlier one",
    "since(p, q)": "q at this step or some earlier one, and p at every step after that, this one included",
    "earlier(p)": "p at some step before this one",
    "previous(p)": "there is a step before this one, and p at it",
    "within_last(n, p)": "p at this step or one of the n before it",
    "count(p)": "at how many steps p was, this one included; a range where it is not known at some",
    "sum(v, p)": "the sum of v over the steps, this one included, at which p was; missing where it is not known",
    "latest(v, p)": "v at the newest step before this one at which p was",
    "known(v), missing(v)": "whether the record has a value there; the one thing that can be said of a missing one",
    "len(v), lower(v)": "the length of a text or list; a text in lower case",
}
"""The operators as they are written, and what each means at a step."""
ROOT_VALUES: Final[dict[str, str]] = {
    "actor": "agent, user, environment or other_agent",
    "who": "the actor's own name, in runs of several agents",
    "message": "what was said",
    "reasoning": "what was thought, where it is recorded",
    "step": "the step's number",
    "seconds": "the time since the first step",
}
"""Meaning of roots that are values."""
