r"""Regular expressions for contracts: a subset of RE2's syntax, matched by RE2 in time linear in the text.

Contracts come with tasks and match text written by agents, while Python's `re` can take exponential time. The syntax:

- Characters; a backslash before a punctuation character makes it literal; `\n \t \r \f \v \0`.
- `.`: any character except a line feed. A character is a Unicode code point.
- Classes `[a-z]` `[^...]`; `\d`, `\w` and `\s`, of ASCII only, inside and outside a class; `\D \W \S` outside only.
- `\b \B`: a word is ASCII letters, digits and `_`. `^ $`: start and end of the text; `$` not before a last line feed.
- `* + ?` `{n}` `{n,}` `{n,m}`, also non-greedy, which changes nothing for a search. A count is at most 1000, as is the
  product of nested counts.
- Groups `(...)` and `(?:...)`; `|`.
- `(?i)`, at the start only, ignores case by Unicode's simple folding: `k` also matches the Kelvin sign.

The meaning is that of `re` with `re.ASCII`, except that `$` is `\Z`, that `(?i)` folds as above, and that `\B` matches
an empty text (in `re` from Python 3.14 on).

Refused with an error: look-around, back-references, named groups, other flags, `\x..`, `\u....`, `\p{..}`, `\A`, `\z`,
`{` as a literal, a range from or to an escape (`[\t-z]`), a range in descending order, a pattern of more than 8000
characters or more than 4000 instructions of RE2 (`[ab]{100}` has about 100, `.{100}` about 800).
"""

from __future__ import annotations

import re
from typing import Any, Final

MOST_CHARACTERS: Final = 8_000
MOST_INSTRUCTIONS: Final = 4_000
"""Maximum size of RE2's program. The worst pattern of this size took 5.3 s in 262,144 characters."""
MOST_MEMORY: Final = 1 << 20
"""Maximum bytes of a program with its state cache."""
_FOLD: Final = "(?i)"
_TOKEN: Final = re.compile(
    r"\\(?P<escape>.)"
    r"|\[(?P<negation>\^|(?!\^))(?P<members>(?:\\.|[^\\])(?:\\.|[^\]\\])*)\]"
    r"|(?P<plain>\((?:\?:|(?!\?))|\{[0-9]+(?:,[0-9]*)?\}|[^\\\[({])",
    re.DOTALL,
)
_MEMBER: Final = re.compile(
    r"(?P<range>\\.-.|[^\\]-\\.|(?P<low>[^\\])-(?P<high>.))|\\(?P<escape>.)|(?P<char>.)", re.DOTALL
)
_CLASSES: Final = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t-\r "}
_CHARACTERS: Final = {"n": r"\n", "t": r"\t", "r": r"\r", "f": r"\f", "v": r"\v", "0": r"\x00"}
_SPECIAL: Final = frozenset(".^$*+?{}[]\\|()-")
_UNREADABLE: Final = {
    "[": "the class that starts at character {} is not closed",
    "(": "the group that starts at character {} is of an unknown kind: write (...) or (?:...)",
    "{": "expected {{n}}, {{n,}} or {{n,m}} at character {}; write \\{{ for the character",
    "\\": "the backslash at character {} ends the pattern; write \\\\ for the character",
}


class PatternError(ValueError):
    """Invalid pattern; the message gives the position where possible."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, source: str, compiled: Any) -> None:
        self.source = source
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"Pattern({self.source!r})"

    def search(self, text: str) -> bool:
        """Returns whether the pattern matches anywhere in the text."""
        data = text.encode("utf-8", "surrogatepass")
        at = 0
        while (match := self._compiled.search(data, at)) is not None:
            at = match.start()
            if at == len(data) or data[at] & 0xC0 != 0x80:
                return True
            at += 1  # RE2 finds `\B` between the bytes of one character
        return False


def compile_pattern(source: str) -> Pattern:
    """Compiles a pattern. Raises `PatternError`."""
    import re2

    if len(source) > MOST_CHARACTERS:
        raise PatternError(f"{len(source)} characters: a pattern has at most {MOST_CHARACTERS}")
    options = re2.Options()
    options.max_mem = MOST_MEMORY
    options.never_capture = True
    options.log_errors = False
    try:
        compiled = re2.compile(_translate(source).encode("utf-8", "surrogatepass"), options)
    except re2.error as exc:
        raise PatternError(exc.args[0].decode("utf-8", "replace")[:200]) from exc
    if compiled.programsize > MOST_INSTRUCTIONS:
        raise PatternError(
            f"pattern too large: {compiled.programsize} instructions, at most {MOST_INSTRUCTIONS}: lower its counts"
        )
    return Pattern(source, compiled)


def _translate(source: str) -> str:
    """Returns the pattern for RE2, in which everything accepted means what this module's documentation says."""
    fold = _FOLD if source.startswith(_FOLD) else ""
    parts, at = [fold], len(fold)
    while at < len(source):
        token = _TOKEN.match(source, at)
        if token is None:
            raise PatternError(_UNREADABLE[source[at]].format(at + 1))
        escape, negation, members, plain = token.group("escape", "negation", "members", "plain")
        if members is not None:
            parts.append(f"[{negation}{_translate_members(members, token.start() + 1)}]")
        elif escape is None:
            parts.append(plain)
        elif escape in "bB":
            parts.append(f"\\{escape}")
        elif escape.lower() in _CLASSES:
            parts.append(f"[{'^' if escape.isupper() else ''}{_CLASSES[escape.lower()]}]")
        else:
            parts.append(_translate_escape(escape, token.start() + 1))
        at = token.end()
    return "".join(parts)


def _translate_members(members: str, position: int) -> str:
    parts = []
    for member in _MEMBER.finditer(members):
        low, high, escape, char = member.group("low", "high", "escape", "char")
        if low is not None:
            parts.append(f"{_literal(low)}-{_literal(high)}")
        elif member["range"] is not None:
            raise PatternError(
                f"the class at character {position} has a range from or to an escape: write its characters, "
                "or put the '-' first or last"
            )
        elif escape is None:
            parts.append(_literal(char))
        elif escape in "DWS":
            raise PatternError(f"a negated class inside the class at character {position}: write it outside, with |")
        else:
            parts.append(_CLASSES.get(escape) or _translate_escape(escape, position))
    return "".join(parts)


def _translate_escape(char: str, position: int) -> str:
    if char.isalnum() and char not in _CHARACTERS:
        raise PatternError(f"\\{char} at character {position} is not known here")
    return _CHARACTERS.get(char) or _literal(char)


def _literal(char: str) -> str:
    return f"\\{char}" if char in _SPECIAL else char
