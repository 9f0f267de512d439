"""Regular expressions for contracts: a small syntax, matched in time linear in the text.

Contracts come with tasks and match text written by agents, while Python's `re` can take exponential time. Patterns
become nondeterministic automata run over sets of states, with a transition cache.

Syntax: characters, `.` (not a line end), classes `[a-z]` `[^...]`, `\\d \\w \\s` and their capitals, `\\b \\B`, `^ $`
(of the text), `* + ?` `{n}` `{n,m}` up to 100, groups `(...)` and `(?:...)`, `|`. A leading `(?i)` ignores case. No
look-around and no back-references.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Pattern", "PatternError", "compile_pattern"]

MOST_STATES: Final = 5_000
MOST_WORK: Final = 2_000_000
"""Maximum number of states visited in one search."""
MOST_REPEATS: Final = 100
MOST_DEPTH: Final = 50
MOST_STORED: Final = 200_000
"""Maximum number of states in the transition cache; it is cleared beyond that."""
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_DIGITS: Final = frozenset("0123456789")
_SPACE: Final = frozenset(" \t\n\r\f\v")
_NAMED: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_SPECIAL: Final = frozenset(".^$*+?{}[]\\|()")


class PatternError(ValueError):
    """Invalid pattern; the message gives the position."""


class _Class(NamedTuple):
    members: frozenset[str]
    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False

    def fits(self, char: str, *, fold: bool) -> bool:
        found = self._has(char) or (fold and self._has(char.swapcase()))
        return found != self.negated

    def _has(self, char: str) -> bool:
        return char in self.members or any(low <= char <= high for low, high in self.ranges)


class _State:
    """Automaton state: reads a character, checks the position, or is an epsilon state."""

    __slots__ = ("check", "reads", "to")

    def __init__(self) -> None:
        self.reads: _Class | None = None
        self.check: str | None = None
        self.to: list[int] = []


class Pattern:
    """A compiled pattern."""

    def __init__(self, source: str, states: list[_State], ends: tuple[int, int], *, fold: bool) -> None:
        self.source = source
        self._states = states
        self._start, self._accept = ends
        self._fold = fold
        self._stored = 0
        self._left = 0
        """Remaining state visits of this search."""
        self._table: dict[tuple[frozenset[int], str, tuple[bool, bool, bool]], frozenset[int] | None] = {}

    def __repr__(self) -> str:
        return f"Pattern({self.source!r})"

    def search(self, text: str) -> bool | None:
        """Returns whether the pattern matches anywhere in the text; None if the work limit is exceeded."""
        self._left = MOST_WORK
        waiting: frozenset[int] = frozenset()
        last = len(text)
        before = False
        for at in range(last + 1):
            char = text[at] if at < last else ""
            after = char in _WORD and char != ""
            found = self._step(waiting, char, (at == 0, before, after))
            if found is None:
                return True
            if self._left < 0:
                return None
            waiting, before = found, after
        return False

    def _step(self, waiting: frozenset[int], char: str, place: tuple[bool, bool, bool]) -> frozenset[int] | None:
        """Returns the states after `char`; None if the pattern matched before it. `place` says whether this is the
        start, whether a word character precedes, and whether `char` is one.
        """
        key = (waiting, char, place)
        first, before, after = place
        if key in self._table:
            return self._table[key]
        self._left -= len(waiting) + 1
        here = self._closed(waiting | {self._start}, first=first, last=char == "", boundary=before != after)
        if self._accept in here:
            found = None
        else:
            reading = (self._states[s] for s in here)
            fitting = (s for s in reading if s.reads is not None and char and s.reads.fits(char, fold=self._fold))
            found = frozenset(to for state in fitting for to in state.to)
        self._stored += len(waiting) + 8
        if self._stored > MOST_STORED:
            self._table.clear()
            self._stored = len(waiting) + 8
        self._table[key] = found
        return found

    def _closed(self, states: frozenset[int], *, first: bool, last: bool, boundary: bool) -> set[int]:
        holds = {"^": first, "$": last, "b": boundary, "B": not boundary}
        todo, seen = list(states), set(states)
        self._left -= len(todo)
        while todo:
            state = self._states[todo.pop()]
            if state.reads is not None or (state.check is not None and not holds[state.check]):
                continue
            for to in state.to:
                if to not in seen:
                    seen.add(to)
                    todo.append(to)
                    self._left -= 1
        return seen


def compile_pattern(source: str) -> Pattern:
    """Compiles a pattern. Raises `PatternError`."""
    fold = source.startswith("(?i)")
    reader = _Reader(source[4:] if fold else source)
    ends = reader.alternatives(0)
    if reader.at < len(reader.text):
        raise PatternError(f"nothing is open that {reader.text[reader.at]!r} at character {reader.at + 1} could close")
    return Pattern(source, reader.states, ends, fold=fold)


class _Reader:
    """Compiler from text to states; each part has one entry and one exit."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.states: list[_State] = []

    def alternatives(self, depth: int) -> tuple[int, int]:
        if depth > MOST_DEPTH:
            raise PatternError(f"groups are nested more than {MOST_DEPTH} deep")
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        start, end = self._new(), self._new()
        for first, last in branches:
            self.states[start].to.append(first)
            self.states[last].to.append(end)
        return start, end

    def _sequence(self, depth: int) -> tuple[int, int]:
        start = end = self._new()
        while self._peek() not in ("", "|", ")"):
            begun = self.at
            first, last = self._repeated(self._one(depth), begun, depth)
            self.states[end].to.append(first)
            end = last
        return start, end

    def _repeated(self, part: tuple[int, int], begun: int, depth: int) -> tuple[int, int]:
        counts = self._counts()
        if counts is None:
            return part
        after, (least, most) = self.at, counts
        if self._peek() in ("*", "+", "?", "{"):
            raise PatternError(f"two repetitions follow each other at character {after + 1}: put the first in a group")
        start = end = self._new()
        for number in range(max(least, 1) if most is None else most):
            if number:
                self.at = begun
                part = self._one(depth)
            last = self._new()
            self.states[end].to.append(part[0])
            self.states[part[1]].to.append(last)
            if number >= least:
                self.states[end].to.append(last)
            end = last
        if most is None:
            self.states[part[1]].to.append(part[0])
        self.at = after
        return start, end

    def _counts(self) -> tuple[int, int | None] | None:
        char = self._peek()
        if char in ("*", "+", "?"):
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        if char != "{":
            return None
        end = self.text.find("}", self.at)
        inside = self.text[self.at + 1 : end] if end > 0 else ""
        low, comma, high = inside.partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise PatternError(
                f"expected {{n}}, {{n,}} or {{n,m}} at character {self.at + 1}; write \\{{ for the character"
            )
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise PatternError(
                f"{{{inside}}} at character {self.at + 1}: at most {MOST_REPEATS}, the smaller number first"
            )
        self.at = end + 1
        return least, most

    def _one(self, depth: int) -> tuple[int, int]:
        char = self._take()
        if char == "(":
            return self._group(depth)
        if char in ("^", "$"):
            return self._check(char)
        if char == ".":
            return self._reads(_Class(frozenset("\n"), negated=True))
        if char == "[":
            return self._reads(self._bracket())
        if char == "\\":
            return self._escaped()
        if char in _SPECIAL and char not in "]}":
            raise PatternError(
                f"{char!r} at character {self.at} has nothing to repeat; write \\{char} for the character"
            )
        return self._reads(_Class(frozenset(char)))

    def _group(self, depth: int) -> tuple[int, int]:
        opened = self.at
        if self.text.startswith("?:", self.at):
            self.at += 2
        elif self._peek() == "?":
            raise PatternError(
                f"the group at character {opened} is of a kind that is not known here: write (...) or (?:...)"
            )
        part = self.alternatives(depth + 1)
        if self._take() != ")":
            raise PatternError(f"the group that is opened at character {opened} is not closed")
        return part

    def _escaped(self) -> tuple[int, int]:
        char = self._take()
        if char in ("b", "B"):
            return self._check(char)
        return self._reads(self._escaped_class(char))

    def _escaped_class(self, char: str) -> _Class:
        if char.lower() in _NAMED:
            return _Class(_NAMED[char.lower()], negated=char.isupper())
        if char in _ESCAPES:
            return _Class(frozenset(_ESCAPES[char]))
        if char == "" or char.isalnum():
            raise PatternError(f"\\{char} at character {self.at} is not known here")
        return _Class(frozenset(char))

    def _bracket(self) -> _Class:
        opened, negated = self.at, self._peek() == "^"
        self.at += negated
        members: set[str] = set()
        ranges: list[tuple[str, str]] = []
        first = True
        while first or self._peek() != "]":
            first, char = False, self._take()
            if char == "":
                raise PatternError(f"the class that is opened at character {opened} is not closed")
            if char == "\\":
                found = self._escaped_class(self._take())
                if found.negated:
                    raise PatternError(
                        f"a negated class inside the class at character {opened}: write it outside, with |"
                    )
                members |= found.members
                continue
            if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                ranges.append((char, self._take()))
                continue
            members.add(char)
        self.at += 1
        return _Class(frozenset(members), tuple(ranges), negated)

    def _check(self, what: str) -> tuple[int, int]:
        start, end = self._new(), self._new()
        self.states[start].check = what
        self.states[start].to.append(end)
        return start, end

    def _reads(self, what: _Class) -> tuple[int, int]:
        start, end = self._new(), self._new()
        self.states[start].reads = what
        self.states[start].to.append(end)
        return start, end

    def _new(self) -> int:
        if len(self.states) >= MOST_STATES:
            raise PatternError(f"the pattern is too large: more than {MOST_STATES} states")
        self.states.append(_State())
        return len(self.states) - 1

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> str:
        char = self._peek()
        self.at += 1
        return char
