"""Redirections of a statement: the input that they give, and the files that they write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .commands import Host, require_data_file
from .expansion import Expander
from .syntax import Node
from .words import CLEAN, TAINTED, UNKNOWN, Word, is_file_of_the_task, join_words

__all__ = ["Redirected", "RedirectionReader"]

_DEVICES = ("/dev/null", "/dev/std", "/dev/fd/", "/dev/tty")


class Redirected(NamedTuple):
    """A statement without its redirections.

    Attributes:
        stdin: What it reads.
        bodies: The nodes that the redirections belong to.
        words: Words of the command that stand behind a redirection.
        later: Statements that stand behind it in the line that a here-document begins in.
        reads_file: A redirection sets its input.
    """

    stdin: Word
    bodies: list[Node]
    words: list[Node]
    later: list[Node]
    reads_file: bool


class RedirectionReader:
    """Reads redirections for a walk over a script."""

    def __init__(self, host: Host, expander: Expander, run: Callable[[Node, Word], Word]) -> None:
        self._host, self._expander, self._run = host, expander, run

    def read(self, children: list[Node], stdin: Word) -> Redirected:
        """Returns a statement's parts and its input."""
        bodies: list[Node] = []
        words: list[Node] = []
        later: list[Node] = []
        before, source = "", stdin
        for one in children:
            words += one.of_field("destination")[1:]
            if one.kind == "file_redirect":
                stdin = self._redirect(one, stdin, is_text=before == "<<")
            elif one.kind == "herestring_redirect":
                stdin = join_words([self._expander.expand(word) for word in one.children if word.kind != "<<<"])
            elif one.kind == "heredoc_redirect":
                stdin, inner = self._here_document(one, stdin)
                words += [word for word in inner.bodies if word.field == "argument"] + inner.words
                later += [each for each in (*inner.bodies, *inner.later) if each.field not in ("argument", "operator")]
            elif not (one.kind == "ERROR" and one.text.strip() == "<<"):  # the grammar's reading of `2>&1 <<<`
                bodies.append(one)
            before = one.text.strip() if one.kind == "ERROR" else ""
        return Redirected(stdin, bodies, words, later, stdin is not source)

    def read_file(self, redirect: Node) -> Word:
        """Returns the content of the file that `< FILE` names."""
        targets = redirect.of_field("destination")[:1]
        if [one.kind for one in targets] == ["process_substitution"]:
            return self._run(targets[0], CLEAN)
        words = [self._expander.expand(one) for one in targets]
        if not all(word.clean for word in words):
            self._host.report(redirect, "tainted text names a file that is read")
        return Word(UNKNOWN, bool(words) and all(map(is_file_of_the_task, words)))

    def _redirect(self, node: Node, stdin: Word, *, is_text: bool) -> Word:
        operator = next((one.text for one in node.children if not one.field), "")
        if is_text and operator == "<":
            return join_words([self._expander.expand(one) for one in node.of_field("destination")[:1]])
        if operator == "<":
            return self.read_file(node)
        if operator in ("<&", "<&-"):
            return TAINTED
        for one in node.of_field("destination")[:1]:
            word = self._expander.expand(one)
            is_stream = one.kind == "process_substitution" or (operator in (">&", ">&-") and one.kind == "number")
            if not is_stream and not (word.clean and word.text.startswith(_DEVICES)):
                require_data_file(self._host, one, word)
        return stdin if operator != "<>" else TAINTED

    def _here_document(self, node: Node, stdin: Word) -> tuple[Word, Redirected]:
        """Returns the text of a here-document, and what stands behind its operator in the line."""
        start, body = node.child("heredoc_start"), node.child("heredoc_body")
        is_literal = start is not None and re.search(r"['\"\\]", start.text) is not None
        text = CLEAN
        if body is not None:
            text = Word(body.text) if is_literal else self._expander.expand(body)
        rest = [one for one in node.children if not one.kind.startswith("heredoc") and one.kind not in ("<<", "<<-")]
        if any(one.kind == "file_descriptor" for one in rest):
            text = stdin
        return text, self.read([one for one in rest if one.kind != "file_descriptor"], stdin)
