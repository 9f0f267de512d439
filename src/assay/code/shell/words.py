"""Words of a script as far as they are known before it runs, and what is known of its variables.

A word is clean where every byte of it follows from the task alone, or is a number that the shell counts. Everything
else is tainted: whoever wrote a judged program may choose it. A variable is clean where all its assignments are.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CLEAN", "TAINTED", "UNKNOWN", "Variables", "Word", "is_file_of_the_task", "join_words"]

UNKNOWN = "\0"
"""Stands for clean text that is not known."""
TESTS = "/tests"
TASK_FOLDERS = ("/tests/", "/etc/", "/usr/", "/bin/", "/opt/")
ALWAYS_TAINTED = frozenset({"_", "REPLY", "MAPFILE", "OPTARG", "BASH_REMATCH", "BASH_ARGV", "COPROC"})
MOST_KNOWN = 4096


class Word(NamedTuple):
    """A word, or what a command prints.

    Attributes:
        text: Its text, with `UNKNOWN` for each part that is not known; meaningless where it is not clean.
        clean: Nothing of it can be chosen by a judged program.
        is_split: It has an expansion outside of quotes, so it can be any number of words.
        is_open: Part of it is tainted and outside of quotes.
        prefix: Its known text before anything that is expanded.
    """

    text: str = ""
    clean: bool = True
    is_split: bool = False
    is_open: bool = False
    prefix: str = ""

    @property
    def known(self) -> str | None:
        """The whole text, where it is known."""
        return self.text if self.clean and UNKNOWN not in self.text else None

    @property
    def cannot_be_option(self) -> bool:
        """Whatever it expands to, it is not read as an option."""
        return (self.prefix != "" and not self.prefix.startswith(("-", "+"))) or (
            self.known is not None and not self.known.startswith(("-", "+"))
        )


CLEAN = Word(UNKNOWN)
TAINTED = Word(UNKNOWN, clean=False, is_open=True)


def join_words(words: list[Word], separator: str = "") -> Word:
    """Returns one word from its parts."""
    text = separator.join(word.text for word in words)
    prefix = ""
    for word in words:
        prefix += word.prefix
        if word.prefix != word.text or not word.clean:
            break
    return Word(
        text if len(text) <= MOST_KNOWN else UNKNOWN,
        all(word.clean for word in words),
        any(word.is_split for word in words),
        any(word.is_open for word in words),
        prefix,
    )


def is_file_of_the_task(word: Word) -> bool:
    """Returns whether a path surely names a file that no judged program wrote."""
    return word.clean and word.text.startswith((*TASK_FOLDERS, "/dev/null")) and ".." not in word.text


class Variables:
    """What is known of variables, and of the inputs and outputs of functions, which have names that no variable has.

    The texts are found first, by `begin_texts` and a walk over the script; the taint then grows with each walk until
    `has_grown` stays false.
    """

    def __init__(self) -> None:
        self.tainted: set[str] = set()
        self.arrays: set[str] = set()
        self.has_grown = False
        self._texts: dict[str, str] = {}
        self._earlier_texts: dict[str, str] = {}
        self._is_reading_texts = False

    def begin_texts(self) -> None:
        """Starts a walk that finds texts; those of the walk before are used until they are found again."""
        self._earlier_texts, self._texts, self._is_reading_texts = self._texts, {}, True

    def begin_taint(self) -> None:
        """Starts a walk that finds tainted names."""
        self._is_reading_texts = self.has_grown = False

    def assign(self, name: str, word: Word, *, whole: bool = True) -> None:
        """Notes an assignment; `whole` is false where it adds to an earlier value or sets an element."""
        if self._is_reading_texts:
            text = word.text if whole else UNKNOWN
            if self._texts.setdefault(name, text) != text:
                both_of_tests = all(one.startswith(f"{TESTS}/") for one in (text, self._texts[name]))
                self._texts[name] = f"{TESTS}/{UNKNOWN}" if both_of_tests else UNKNOWN
        elif not word.clean and name not in self.tainted:
            self.tainted.add(name)
            self.has_grown = True

    def is_assigned(self, name: str) -> bool:
        """Returns whether the script assigns the variable anywhere."""
        return name in self._texts or name in self._earlier_texts

    def is_tainted(self, name: str) -> bool:
        """Returns whether a judged program may choose the value."""
        return not self._is_reading_texts and (name in ALWAYS_TAINTED or name in self.tainted)

    def lookup(self, name: str) -> Word:
        """Returns a variable's value, as within quotes."""
        if self.is_tainted(name):
            return Word(UNKNOWN, clean=False)
        text = self._texts.get(name)
        return Word(self._earlier_texts.get(name, UNKNOWN) if text is None else text)
