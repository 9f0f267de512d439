"""Specifications of wrappers, which change the path through an environment and not what is judged, and noise in texts.

A specification is a table with `kind` and the options of that kind; `failures:rate=0.1:in_row=2+noise` is a list of two
in one word. Text worlds, worlds of services and sandboxes each have kinds of their own.
"""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from assay.pairs import read_pairs
from assay.validation_messages import describe_invalid

WRAP: Final = "wrap"
"""Parameter of an environment that lists its wrappers, innermost first."""
MOST_WRAPPERS: Final = 16

Rate = Annotated[float, Meta(ge=0, le=1)]
NoiseKind = Literal["any", "typos", "gaps", "chatter"]


class WrapperSpec(NamedTuple):
    """A checked specification."""

    kind: str
    options: Any


def read_wrappers(specs: Any, kinds: Mapping[str, type[Any]]) -> tuple[WrapperSpec, ...]:
    """Checks `[{"kind": "failures", "rate": 0.1}, ...]`.

    Args:
        specs: The list, as data.
        kinds: The classes by name; each has its options as `Options`, a Struct.

    Raises:
        ValueError: A wrapper or an option is unknown or invalid; the message lists the known ones.
    """
    if not isinstance(specs, list | tuple) or len(specs) > MOST_WRAPPERS:
        raise ValueError(
            f"wrap must be a list of at most {MOST_WRAPPERS} tables with 'kind', and not {str(specs)[:80]!r}"
        )
    found = []
    for spec in specs:
        kind = kinds.get(str(spec.get("kind"))) if isinstance(spec, dict) else None
        if kind is None:
            name = str(spec.get("kind") if isinstance(spec, dict) else spec)[:80]
            near = difflib.get_close_matches(name, kinds, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"its 'kind' is one of {', '.join(kinds)}"
            raise ValueError(f"{name!r} is not a wrapper; {hint}")
        given = {name: value for name, value in spec.items() if name != "kind"}
        try:
            options = msgspec.convert(given, kind.Options)
        except msgspec.ValidationError as exc:
            field, problem = describe_invalid(exc, kind.Options, given, "option")
            raise ValueError(f"the wrapper {spec['kind']!r}: {f'{field}: ' if field else ''}{problem}") from exc
        found.append(WrapperSpec(str(spec["kind"]), options))
    return tuple(found)


def parse_wrappers(text: str) -> list[dict[str, Any]]:
    """Parses `failures:rate=0.1:in_row=2+twin`, which needs no quoting in any shell. Raises `UserError`."""
    specs: list[dict[str, Any]] = []
    for part in text.split("+"):
        kind, *pairs = part.split(":")
        form = "write failures:rate=0.1+twin"
        specs.append({"kind": kind} | read_pairs(pairs, f"wrap={text!r}", form))
    return specs


TROUBLES: Final = ("the tool timed out", "the service is busy", "the connection was lost", "internal error 500")
"""Causes of failures that a retry overcomes."""

TEMPORARY_FAILURE: Final = 75
"""Exit code of a command that a disturbed sandbox did not run (`EX_TEMPFAIL` of sysexits.h)."""


def _any_word(_word: str) -> bool:
    return True


def disturb_text(text: str, how: NoiseKind, draw: random.Random, may_change: Callable[[str], bool] = _any_word) -> str:
    """Returns the text with swapped letters, a missing word, or an unrelated sentence.

    Args:
        text: The text.
        how: Kind of noise; `any` draws one.
        draw: Source of randomness.
        may_change: Decides which words may be disturbed; default: all.
    """
    chosen = draw.choice(("typos", "gaps", "chatter")) if how == "any" else how
    if chosen == "typos":
        return _swap_letters(text, draw, may_change)
    return _drop_word(text, draw, may_change) if chosen == "gaps" else f"{draw.choice(CHATTER)} {text}"


def _swap_letters(text: str, draw: random.Random, may_change: Callable[[str], bool]) -> str:
    places = [
        at
        for word in re.finditer(r"\S+", text)
        if may_change(word[0])
        for at in range(word.start(), word.end() - 1)
        if text[at].isalpha() and text[at + 1].isalpha()
    ]
    if not places:
        return text
    at = draw.choice(places)
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _drop_word(text: str, draw: random.Random, may_change: Callable[[str], bool]) -> str:
    words = list(re.finditer(r"\S+", text))
    allowed = [word for word in words if may_change(word[0])]
    if len(words) < 2 or not allowed:
        return text
    gone = draw.choice(allowed)
    return text[: gone.start()] + "..." + text[gone.end() :]


CHATTER: Final = (
    "It looks like rain.",
    "A newer version is available.",
    "Somebody hums a tune next door.",
    "Note: this log may be recorded for training.",
)


def replace_words(
    text: str, synonyms: Mapping[str, Sequence[str]], choose: Callable[[str, Sequence[str]], str | None]
) -> str:
    """Replaces words by synonyms, with the same first capital.

    Args:
        text: The text.
        synonyms: Replacements by lower-case word.
        choose: Returns one of a word's replacements, or None to leave it.
    """

    def replace(found: re.Match[str]) -> str:
        word = found[0]
        other = choose(word.lower(), synonyms[word.lower()])
        if other is None:
            return word
        return other.capitalize() if word[0].isupper() else other

    pattern = rf"\b(?:{'|'.join(sorted(synonyms, key=len, reverse=True))})\b"
    return re.sub(pattern, replace, text, flags=re.IGNORECASE)
