"""Parser of shell text into its simple commands. Runs, expands and looks up nothing.

Parsed: quotes, escapes, comments, continued lines, lists and pipes, subshells, groups, command and process
substitution, here-documents, redirections, assignments, control flow, and scripts passed to another program (`bash -lc
'...'`, `sh <<EOF`, `timeout 60 make`, `find -exec`). Not parsed: aliases, functions by name, arithmetic, values of
variables.

Invariant: any text gives a result. Malformed text is parsed as far as possible, and nesting beyond a bound stays text,
so the work is linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cached_property
from typing import NamedTuple

import msgspec

from ._memo import cached_by_command
from ._wrappers import handed_on, without_wrappers

_DEPTH = 24
_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_PLAIN = re.compile(r"[^ \t\r\n'\"\\$`|&;()<>#]+")
_QUOTED = re.compile(r'[^"\\$`]+')
_BACKTICKS = re.compile(r"`((?>(?:[^`\\]|\\.)*))(?:`|\\?\Z)", re.DOTALL)
_ESCAPED = re.compile(r"'((?>(?:[^'\\]|\\.)*))(?:'|\\?\Z)", re.DOTALL)
_REDIRECT = re.compile(r"(\d*+)(<<<|<<-|<<|<>|<&|>&|>>|>\||&>>|&>|<(?!\()|>(?!\())")
_JOINT = re.compile(r"&&|\|\||\|&|;;&|;;|;&|;|\||&")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+(?:\[[^\]]*+\])?\+?=")
_OPENING = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "time", "{", "coproc"})
_CLOSING = frozenset({"fi", "done", "esac", "}"})
_HEADS = frozenset({"for", "select", "case", "function"})


class Redirect(NamedTuple):
    """`operator` as written without its number (`>`, `>>`, `<`, `&>`, ...), and the word after it."""

    operator: str
    target: str
    descriptor: int | None = None
    """The number written before it."""


class SimpleCommand(msgspec.Struct, frozen=True, dict=True):
    """A call of a program, builtin or function, quotes removed and expansions as written."""

    words: tuple[str, ...]
    joined: str = ""
    """Operator before the command: `&&`, `||`, `|`, `;`, `&`, or empty at the start."""
    depth: int = 0
    """0 as typed; one more inside each substitution, subshell and passed script."""
    assignments: tuple[str, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    stdin: str | None = None
    """Text of a here-document or here-string."""

    @property
    def program(self) -> str:
        """Returns the last path component of the first word; empty without one."""
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""

    @cached_property
    def effective(self) -> tuple[str, ...]:
        """Returns the words without wrapper programs (`sudo`, `env A=b`, `timeout 60`, `uv run`)."""
        return without_wrappers(self.words)


@cached_by_command
def simple_commands(command: str) -> tuple[SimpleCommand, ...]:
    """Returns the simple commands of `command` in text order, nested ones after the command that contains them.

    Malformed text is parsed too: an open quote or parenthesis reaches to the end.
    """
    return _read(command, 0)


class _Budget:
    """Characters that may still be read of the scripts inside one script of the text as typed."""

    def __init__(self, script: str) -> None:
        self._left = _DEPTH * len(script)

    def take(self, script: str) -> bool:
        """Takes the length of a script; False if not enough is left, so that it stays text."""
        self._left -= len(script)
        return self._left >= 0


def _read(
    text: str, depth: int, known: Set[str] = frozenset(), budget: _Budget | None = None
) -> tuple[SimpleCommand, ...]:
    """Parses `text`, but nothing inside the substitutions in `known`, whose commands the caller has already.

    Beyond the bound of nesting a substitution's end depends on the depth at which it is read, so that it is not known
    again: the budget bounds this, of each script of the text as typed by itself, so that none hides another.
    """
    reader = _Reader(text, known)
    reader.commands(depth, "")
    found: list[SimpleCommand] = []
    for pending in reader.begun:
        made = pending.build()
        if made is None:
            continue
        found.append(made)
        if made.depth < _DEPTH:
            handed = handed_on(made.words, made.stdin)
            for script in handed.scripts:
                left = _Budget(script) if budget is None else budget
                if left.take(script):
                    found += _read(script, made.depth + 1, pending.substitutions, left)
            found += (SimpleCommand(words, depth=made.depth + 1) for words in handed.commands)
    return tuple(found)


class _Pending:
    def __init__(self, joined: str, depth: int) -> None:
        self.joined, self.depth = joined, depth
        self.words: list[str] = []
        self.assignments: list[str] = []
        self.redirects: list[Redirect] = []
        self.stdin: str | None = None
        self.substitutions: set[str] = set()
        """Those in its words, as written. A script that is passed on has them too: parsing the commands inside in both
        places would double the work with each level."""
        self.head = False
        """True if it heads a loop, case or function, whose words are no command."""
        self.closed = False
        """True if a group ends here: the next command is joined to the group."""

    def empty(self) -> bool:
        return not (self.words or self.assignments or self.redirects or self.stdin is not None)

    def in_test(self) -> bool:
        return bool(self.words) and self.words[0] == "[[" and self.words[-1] != "]]"

    def build(self) -> SimpleCommand | None:
        if self.head or self.empty():
            return None
        parts = tuple(self.words), self.joined, self.depth, tuple(self.assignments), tuple(self.redirects)
        return SimpleCommand(*parts, self.stdin)


class _HereDocument(NamedTuple):
    """Here-document announced on the current line; its text begins on the next."""

    owner: _Pending
    delimiter: str
    indented: bool


class _Reader:
    def __init__(self, text: str, known: Set[str]) -> None:
        self.text, self.at = text, 0
        self._known = known
        self.begun: list[_Pending] = []
        self._documents: list[_HereDocument] = []

    def commands(self, depth: int, closing: str) -> None:
        """Parses up to and including `closing` (a parenthesis), or to the end."""
        pending = self._begin("", depth)
        while self._skip():
            char = self.text[self.at]
            if pending.in_test() and char in "&|()<>":
                self.at += 1
                pending.words.append(char)
                continue
            joint = self._joint(pending, char)
            if joint is not None:
                if char == ")":
                    if closing:
                        return
                    self._pattern()
                if pending.closed or pending.head or not pending.empty():
                    pending = self._begin(joint, depth)
            elif (redirect := _REDIRECT.match(self.text, self.at)) is not None:
                self._redirect(pending, redirect, depth)
            elif char == "(":
                self._parenthesis(pending, depth)
            else:
                self._take(pending, depth)

    def _pattern(self) -> None:
        """Marks the words before an unbalanced closing parenthesis as a case pattern."""
        for pending in reversed(self.begun):
            pending.head = True
            if pending.joined != "|":
                break

    def _begin(self, joined: str, depth: int) -> _Pending:
        pending = _Pending(joined, depth)
        self.begun.append(pending)
        return pending

    def _joint(self, pending: _Pending, char: str) -> str | None:
        """Consumes a command separator; None without one."""
        if char == "\n":
            self.at += 1
            self._read_documents()
            return ";"
        if char == ")":
            self.at += 1
            return ";"
        found = None if self.text.startswith("&>", self.at) else _JOINT.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return "|" if found[0] == "|&" else ";" if found[0].startswith(";") else found[0]

    def _skip(self) -> bool:
        """Skips blanks and comments; False at the end."""
        blank = _BLANK.match(self.text, self.at)
        if blank is not None:
            self.at = blank.end()
        if self.text.startswith("#", self.at):
            line = self.text.find("\n", self.at)
            self.at = len(self.text) if line < 0 else line
        return self.at < len(self.text)

    def _parenthesis(self, pending: _Pending, depth: int) -> None:
        self.at += 1
        if self.text.startswith("(", self.at) and not pending.words:
            self._over("))")
        elif self.text.startswith(")", self.at):
            self.at += 1
            pending.words.clear()  # `name ()` begins a function
        elif depth < _DEPTH:
            pending.closed = True
            self.commands(depth + 1, ")")
        # Beyond the bound what is inside is read on as if it stood here.

    def _over(self, closing: str) -> None:
        found = self.text.find(closing, self.at)
        self.at = len(self.text) if found < 0 else found + len(closing)

    def _take(self, pending: _Pending, depth: int) -> None:
        start = self.at
        word = self._word(pending, depth)
        written = self.text[start : self.at]
        keyword = word if word == written else ""
        if pending.head:
            # Nor is a case's pattern a command: its parenthesis ends the head.
            pending.head = keyword != "{"
        elif not pending.words and keyword in _OPENING:
            return
        elif not pending.words and keyword in _CLOSING:
            pending.closed = True
        elif not pending.words and keyword in _HEADS:
            pending.head = True
        elif not pending.words and _ASSIGNMENT.match(written):
            pending.assignments.append(word)
        else:
            pending.words.append(word)

    def _redirect(self, pending: _Pending, found: re.Match[str], depth: int) -> None:
        self.at = found.end()
        blank = _BLANK.match(self.text, self.at)
        self.at = self.at if blank is None else blank.end()
        target = self._word(pending, depth)
        if found[2] in ("<<", "<<-"):
            self._documents.append(_HereDocument(pending, target, found[2] == "<<-"))
        elif found[2] == "<<<":
            pending.stdin = target
        else:
            pending.redirects.append(Redirect(found[2], target, int(found[1][:4]) if found[1] else None))

    def _read_documents(self) -> None:
        waiting, self._documents = self._documents, []
        for each in waiting:
            each.owner.stdin = self._document(each)

    def _document(self, announced: _HereDocument) -> str:
        lines: list[str] = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end].rstrip("\r")
            self.at = min(end + 1, len(self.text))
            line = line.lstrip("\t") if announced.indented else line
            if line == announced.delimiter:
                break
            lines.append(line)
        return "\n".join(lines)

    def _word(self, pending: _Pending, depth: int) -> str:
        parts: list[str] = []
        while self.at < len(self.text):
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None:
                self.at = plain.end()
                parts.append(plain[0])
                continue
            char = self.text[self.at]
            if char == "'":
                parts.append(self._single())
            elif char == '"':
                parts.append(self._double(pending, depth))
            elif char in "$`" or (char in "<>" and self.text.startswith("(", self.at + 1)):
                parts.append(self._expansion(pending, depth))
            elif char == "\\":
                parts.append(self.text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at = min(self.at + 2, len(self.text))
            elif char == "#" and parts:
                parts.append(char)
                self.at += 1
            else:
                break
        return "".join(parts)

    def _single(self) -> str:
        start = self.at + 1
        end = self.text.find("'", start)
        end = len(self.text) if end < 0 else end
        self.at = min(end + 1, len(self.text))
        return self.text[start:end]

    def _double(self, pending: _Pending, depth: int) -> str:
        parts: list[str] = []
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                break
            if char == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                parts.append("" if after == "\n" else after if after in ('"', "\\", "$", "`") else char + after)
                self.at = min(self.at + 2, len(self.text))
            elif char in "$`":
                parts.append(self._expansion(pending, depth))
            elif (quoted := _QUOTED.match(self.text, self.at)) is not None:
                parts.append(quoted[0])
                self.at = quoted.end()
        return "".join(parts)

    def _expansion(self, pending: _Pending, depth: int) -> str:
        """Returns an expansion in a word of `pending` as written; commands inside it are parsed."""
        start, text, begun = self.at, self.text, len(self.begun)
        if text[start] == "`":
            self._backticks(depth)
        elif text.startswith("$((", start):
            self._over("))")
        elif text.startswith(("$(", "<(", ">("), start) and depth < _DEPTH:
            self.at += 2
            self.commands(depth + 1, ")")
        elif text.startswith("${", start):
            self._over("}")
        elif text.startswith("$'", start):
            self.at += 1
            return self._escaped()
        else:
            self.at += 1
        written = text[start : self.at]
        if len(self.begun) > begun:
            pending.substitutions.add(written)
            if written in self._known:
                del self.begun[begun:]
        return written

    def _backticks(self, depth: int) -> None:
        inner = _BACKTICKS.match(self.text, self.at)
        if inner is None or depth >= _DEPTH:
            self.at += 1
            return
        self.at = inner.end()
        within = _Reader(re.sub(r"\\([`\\$])", r"\1", inner[1]), self._known)
        within.commands(depth + 1, "")
        self.begun += within.begun

    def _escaped(self) -> str:
        inner = _ESCAPED.match(self.text, self.at)
        if inner is None:
            self.at += 1
            return ""
        self.at = inner.end()
        known = {"n": "\n", "t": "\t", "r": "\r"}
        return re.sub(r"\\(.)", lambda found: known.get(found[1], found[1]), inner[1], flags=re.DOTALL)
