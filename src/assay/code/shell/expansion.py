"""Expands words, patterns and arithmetic of a syntax tree symbolically, and reports what evaluates tainted text."""

from __future__ import annotations

import re
from collections.abc import Callable

from .syntax import Node, has_expansion
from .words import CLEAN, TAINTED, UNKNOWN, Variables, Word, join_words

__all__ = ["EXPANSIONS", "NAME", "Expander"]

NAME = re.compile(r"[A-Za-z_]\w*\Z")
_NAMES = re.compile(r"[A-Za-z_]\w*")
MOST_INDIRECTIONS, MOST_NAMES = 3, 50
_SIMPLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})
_TRANSFORMS = frozenset({"Q", "U", "u", "L", "a"})
_COUNTS = frozenset("?#$!-")
_OF_THE_SCRIPT = re.compile(r"BASH_SOURCE(?:\[0\])?\Z|0\Z")
_HERE = "/tests"
"""Folder of every script that is looked at, or what that lies in."""


class Expander:
    """Expands the nodes of one script.

    Args:
        variables: What is known of variables.
        report: Takes a node that evaluates tainted text, and the reason.
        run: Walks over the commands of a substitution; returns what they print.
    """

    def __init__(
        self, variables: Variables, report: Callable[[Node, str], None], run: Callable[[Node, Word], Word]
    ) -> None:
        self._variables, self._report, self._run = variables, report, run
        self.function = ""
        """The function whose body is walked over; `FUNCTION()` is all its arguments, `FUNCTION(0)` the first one."""
        self.shifts: int | None = 0
        """Number of arguments that are dropped here; None where it is not known."""

    def expand(self, node: Node) -> Word:
        """Returns the word that a node stands for."""
        kind = node.kind
        if kind in ("string", "translated_string", "heredoc_body"):
            return self._quoted(node)
        if kind == "raw_string":
            return _literal(node.text[1:-1])
        if kind == "ansi_c_string":
            text = node.text[2:-1]
            return _literal(text) if "\\" not in text else CLEAN
        if kind == "process_substitution":
            self._run(node, CLEAN)
            return CLEAN
        if kind in EXPANSIONS:
            word = self._expansion(node)
            return word._replace(is_split=kind != "arithmetic_expansion", is_open=not word.clean)
        if kind == "array":
            return join_words([self._element(one) for one in node.children[1:-1]], " ")
        if kind == "concatenation" or (node.children and kind in ("command_name", "extglob_pattern", "regex")):
            return join_words([self.expand(one) for one in node.children])
        if node.children:
            self._report(node, f"the analysis does not know a {kind} here")
            return TAINTED
        return self._leaf(node)

    def _element(self, node: Node) -> Word:
        """Returns an element of an array; `[index]=value` has an index that is evaluated."""
        word = self.expand(node)
        if node.text.startswith("[") and "]=" in node.text:
            self.require_number(node, word._replace(text=word.text.partition("]=")[0]))
        return word

    def _leaf(self, node: Node) -> Word:
        if node.has_hidden_expansion:
            word = self._hidden(node, node.text)
            return word._replace(is_split=True, is_open=not word.clean)
        return _literal(re.sub(r"\\(.)", r"\1", node.text, flags=re.DOTALL))

    def _hidden(self, node: Node, text: str) -> Word:
        """Returns a text with expansions that the grammar does not resolve; only plain variables are accepted."""
        names = _SIMPLE.findall(text)
        if "`" in text or text.count("$") != len(names):
            self._report(node, "the parser does not resolve an expansion in it")
            return TAINTED
        return Word(UNKNOWN, all(self._parameter(one or other).clean for one, other in names))

    def _quoted(self, node: Node) -> Word:
        """Returns a quoted text; what lies between its expansions belongs to it, whatever the grammar makes of it."""
        inside = [one for one in node.children if one.kind not in ('"', "$")]
        quotes = 1 if node.kind != "heredoc_body" else 0
        if node.kind == "translated_string" or (quotes and any(one.kind == "string" for one in inside)):
            return join_words([self.expand(one) for one in inside])
        parts: list[Word] = []
        at, last = node.start + quotes, node.end - quotes
        for one in (one for one in inside if one.kind in EXPANSIONS):
            text = one.text
            blanks = len(text) - len(text.lstrip())
            parts.append(self._text(node, node.between(at, one.start) + text[:blanks]))
            parts.append(self._expansion(one))
            at = one.end
        parts.append(self._text(node, node.between(at, last)))
        return join_words([_unescaped(one) for one in parts])._replace(is_split=False, is_open=False)

    def _text(self, node: Node, text: str) -> Word:
        """Returns a literal piece of a quoted text, in which the grammar may have missed an expansion."""
        return self._hidden(node, text) if has_expansion(text) else _literal(text)

    def _expansion(self, node: Node) -> Word:
        """Returns the value of an expansion."""
        if node.kind == "arithmetic_expansion":
            for one in node.children[1:-1]:
                self.calculate(one)
            return CLEAN
        if node.kind == "command_substitution":
            word = self._run(node, CLEAN)
            return word._replace(text=word.text.rstrip("\n"))
        if node.kind == "simple_expansion":
            return self._parameter(node.text.strip().removeprefix("$"))
        return self._braced(node)

    def _parameter(self, name: str) -> Word:
        if _OF_THE_SCRIPT.match(name):
            return Word(f"{_HERE}/{UNKNOWN}")
        if name in _COUNTS:
            return CLEAN
        if name.isdigit() and self.function and self.shifts is not None:
            some = [self._variables.lookup(f"{self.function}({n})") for n in (self.shifts + int(name) - 1, "*")]
            return some[0] if some[1].clean else some[1]
        if name.isdigit() or name in ("@", "*"):
            name = f"{self.function}()"
        return self._variables.lookup(name)._replace(prefix="")

    def _braced(self, node: Node) -> Word:
        """Returns the value of `${...}`."""
        operators = [one.text for one in node.children if one.field == "operator"]
        inner = [one for one in node.children if one.kind not in ("${", "}") and one.field != "operator"]
        if any(one.text == "!" for one in node.children[1:2]):
            return self._indirect(node, inner)
        name, is_element = self._name_of(inner[0]) if inner else ("", False)
        value = self._parameter(name)
        if operators[:1] == ["#"] and len(inner) == 1:
            return CLEAN
        first = operators[0] if operators else ""
        if first == "@" and not set(operators[1:]) <= _TRANSFORMS:
            self._report(node, "a transformation of a value can expand it again")
        if first == ":" and len(inner) >= 1:
            for one in inner[1:]:
                self.calculate(one)
            return value._replace(text=UNKNOWN)
        words = [self.expand(one) for one in inner[1:]]
        if first in ("=", ":="):
            self._variables.assign(name, join_words(words))
        if not operators:
            whole = not is_element or node.text.endswith(("[@]}", "[*]}")) or name == "BASH_SOURCE"
            return value if whole else value._replace(text=UNKNOWN)
        if (
            first in ("-", ":-", "=", ":=")
            and not self._variables.is_assigned(name)
            and value.clean
            and NAME.match(name)
        ):
            return join_words(words)._replace(prefix="")  # the task's author set it, or the script does here
        if first in ("%", "%%") and value.text.startswith(f"{_HERE}/") and inner[1:] and inner[1].text == "/*":
            return Word(value.text.rpartition("/")[0], value.clean)
        return join_words([value, *words])._replace(text=UNKNOWN, prefix="")

    def _indirect(self, node: Node, inner: list[Node]) -> Word:
        """Returns the value of `${!x}`, which can be any variable's; `${!x[@]}` and `${!x*}` list names."""
        value = self._parameter(self._name_of(inner[0])[0]) if inner else TAINTED
        if "@]" not in node.text and (not value.clean or "[" in value.text):
            self._report(node, "tainted text names a variable, and with an index it starts commands")
        return Word(UNKNOWN, clean=False)

    def _name_of(self, node: Node) -> tuple[str, bool]:
        """Returns the name of a variable, and that it is an element; checks the index."""
        if node.kind != "subscript":
            return node.text, False
        name = node.of_field("name")
        for index in node.of_field("index"):
            if index.text not in ("@", "*"):
                self.calculate(index)
        return (name[0].text if name else ""), True

    def target_of(self, node: Node) -> tuple[str, bool]:
        """Returns the name that an assignment sets, and whether it sets all of it."""
        name, is_element = self._name_of(node)
        return name, not is_element

    def calculate(self, node: Node) -> None:
        """Reports tainted text that is evaluated as arithmetic anywhere in a node."""
        pending = [node]
        while pending:
            one = pending.pop()
            if one.kind in EXPANSIONS or one.kind in ("string", "raw_string", "ansi_c_string"):
                word = self.expand(one)
                if one.kind != "arithmetic_expansion":
                    self.require_number(one, word)
            elif one.children:
                pending.extend(one.children)
            elif one.kind in ("variable_name", "word"):
                self.require_number(one, self.expand(one))
            elif one.has_hidden_expansion:
                self._report(one, "the parser does not resolve an expansion in it")

    def require_number(self, node: Node, word: Word) -> None:
        """Reports a word that is evaluated as arithmetic and is tainted, or names a variable that is."""
        if not word.clean:
            self._report(node, "the shell evaluates it as arithmetic, which runs commands in it")
            return
        names = dict.fromkeys(_NAMES.findall(word.text))
        for _ in range(MOST_INDIRECTIONS):  # the text of a variable that is evaluated is evaluated too
            names |= dict.fromkeys(name for one in list(names)[:MOST_NAMES] for name in self._names_in(one))
        if any(self._variables.is_tainted(name) for name in names):
            self._report(node, "the shell evaluates a variable's text as arithmetic, which runs commands in it")

    def _names_in(self, variable: str) -> list[str]:
        return _NAMES.findall(self._variables.lookup(variable).text)


def _literal(text: str) -> Word:
    return Word(text, prefix=text)


def _unescaped(word: Word) -> Word:
    if "\\" not in word.prefix or word.prefix != word.text:
        return word
    return _literal(re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), word.text))
