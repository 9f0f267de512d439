"""Functions of a script: what their calls hand them, and those that run their arguments as a command."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .expansion import Expander
from .syntax import Node
from .words import UNKNOWN, Variables, Word, join_words

__all__ = ["FunctionTable", "arguments_word", "dropped_arguments"]

_ALL = "\0@"
"""Begins the text of the word `"$@"` in a function; the number of arguments that are left out follows."""
_ARGUMENTS = re.compile(r'"\$(?:@|\{@(?::([1-9]))?\})"\Z')


def arguments_word(node: Node, word: Word) -> Word | None:
    """Returns the word that stands for all arguments, where a node is `"$@"` or `"${@:N}"`."""
    found = _ARGUMENTS.match(node.text)
    return word._replace(text=f"{_ALL}{int(found[1] or 1) - 1}", prefix="", is_split=True) if found else None


def dropped_arguments(word: Word) -> int | None:
    """Returns how many arguments the word for all arguments leaves out; None for another word."""
    number = word.text.removeprefix(_ALL)
    return int(number) if word.text.startswith(_ALL) and number in set("012345678") else None


class FunctionTable:
    """The functions of all scripts.

    For the variables, `NAME()` is all arguments of a function, `NAME(0)` the first one, `NAME(*)` those whose place is
    not known, `NAME<` its input and `NAME>` its output.
    """

    def __init__(self, names: Iterable[str], variables: Variables, expander: Expander) -> None:
        self._names, self._variables, self._expander = frozenset(names), variables, expander
        self._runners: dict[str, int] = {}
        self._moving: set[str] = set()

    def __contains__(self, name: str | None) -> bool:
        return name in self._names

    def enter(self, name: str) -> tuple[str, int | None]:
        """Begins the walk over a function's body; returns what `leave` takes."""
        before = self._expander.function, self._expander.shifts
        self._expander.function = name
        self._expander.shifts = None if name in self._moving else 0
        return before

    def leave(self, before: tuple[str, int | None]) -> None:
        """Ends the walk over a body."""
        self._expander.function, self._expander.shifts = before

    def note_call(self, name: str, arguments: list[Word], stdin: Word) -> None:
        """Notes what a call hands to a function."""
        assign = self._variables.assign
        assign(f"{name}()", join_words(arguments, " "), whole=False)
        single = next((at for at, word in enumerate(arguments) if word.is_split), len(arguments))
        for at, word in enumerate(arguments[:single]):
            assign(f"{name}({at})", word)
        assign(f"{name}(*)", join_words(arguments[single:]), whole=False)
        assign(f"{name}<", stdin, whole=False)

    def output_of(self, name: str) -> Word:
        """Returns what a function prints."""
        return self._variables.lookup(f"{name}>")._replace(text=UNKNOWN)

    def runner_index(self, name: str) -> int | None:
        """Returns at which argument the command begins that a function runs; None where it runs none."""
        return self._runners.get(name)

    def note_runner(self, more: int) -> bool:
        """Notes that the function here runs its arguments; returns whether it is known where the command begins."""
        function, shifts = self._expander.function, self._expander.shifts
        if not function or shifts is None:
            return False
        if function not in self._runners:
            self._variables.has_grown = True
        return self._runners.setdefault(function, shifts + more) == shifts + more

    def count_shift(self, words: list[Word], *, is_certain: bool) -> None:
        """Notes that `shift` drops arguments, where it is certain that it runs once."""
        count = (words[0].known or "") if words else "1"
        shifts = self._expander.shifts
        if is_certain and shifts is not None and count.isdigit():
            self._expander.shifts = shifts + int(count)
            return
        self._expander.shifts = None
        if self._expander.function not in self._moving:
            self._moving.add(self._expander.function)
            self._variables.has_grown = True
