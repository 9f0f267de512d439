"""Recognises interpreters and the source of the program that such a process runs."""

from __future__ import annotations

import os
import re

_INTERPRETERS = re.compile(rb"(?:python|perl|ruby|php|lua)[\d.]*|[bd]?a?sh|zsh|ksh|node|deno|bun|Rscript")
_INLINE_CODE = re.compile(rb"-\w*[cm]")
_INLINE_SCRIPT = re.compile(rb"-\w*[cme]")
_INPUTS = frozenset({b"-", b"/dev/stdin", b"/dev/fd/0", b"/proc/self/fd/0"})


def is_interpreter(program: bytes) -> bool:
    """Returns True if a program is a known interpreter."""
    return _INTERPRETERS.fullmatch(os.path.basename(program)) is not None


def find_program_word(words: list[bytes]) -> int | None:
    """Returns the index of the program file in an interpreter's command line; None for inline code."""
    place = next((place for place, word in enumerate(words) if place and not word.startswith(b"-")), None)
    inline = place is not None and any(_INLINE_CODE.fullmatch(word) for word in words[1:place])
    return None if inline else place


def reads_program_from_input(program: bytes, words: list[bytes]) -> bool:
    """Returns True if a process is an interpreter that reads its program from standard input."""
    if not is_interpreter(program):
        return False
    is_shell = program.endswith(b"sh")
    for word in words[1:]:
        if word in _INPUTS or (is_shell and re.fullmatch(rb"-\w*s\w*", word)):
            return True
        if not word.startswith(b"-") or (_INLINE_CODE if is_shell else _INLINE_SCRIPT).fullmatch(word):
            return False
    return True
