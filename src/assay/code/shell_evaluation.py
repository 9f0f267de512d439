"""Places where a shell script evaluates text as arithmetic or as code.

bash, ksh and zsh evaluate the text of an operand of `[[ a -eq b ]]`, `((...))`, `let` and an array index again: with
`got=n*n` or `got='x[$(command)]'` the text calculates, assigns, or starts commands. Text that is pasted into a program
(`python3 -c "..."`) is code, and an unquoted operand of `[` can be several words. Scripts are read as text, so a
place that a script composes at run time is missed, and some that are harmless are reported.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Evaluation", "find_evaluations"]

MOST_TEXT, MOST_LINE = 1 << 18, 4096
_COUNTED = re.compile(r"\$\([^()`]*(?:[|<][^()`|]*\bwc\s+-\w|\bwc\s+-\w+\s*<|\bgrep\s+-c)[^()`|]*\)")
"""Substitutions that yield a number whatever the text is."""
_LENGTH = re.compile(r"\$\{#[^}]*\}|\$[?#$!]|(?<=\s)-(?:eq|ne|lt|le|gt|ge)\b")
_ARITHMETIC = re.compile(
    r"\[\[([^\n]*?\s-(?:eq|ne|lt|le|gt|ge)\s[^\n]*?)\]\]"
    r"|\(\(([^\n]*?)\)\)"
    r"|\blet\s+([^\n;]*)"
    r"|\b(?:declare|typeset|local)\s+-[A-Za-z]*i[A-Za-z]*\s+([^\n;]*)"
    r"|\b\w+\[([^\]\n]*\$[^\]\n]*)\]"
    r"|\$\{\w+:(?![-+=?])([^}\n]*)\}"
)
_CODE = re.compile(
    r"\beval\b[^\n]*[$`]|\|\s*(?:\S*/)?(?:ba|da|z|k)?sh\b(?!\s+-c)|(?:\bsource|(?:^|[;&|\s])\.)\s+<\("
    r"|(?:^|[;&|]|\bthen\b|\bdo\b|\belse\b)\s*(?:source|\.)\s+(?![\"']?/(?:etc|opt|root|tests|usr)/)\S"
    r"|\b(?:ba|da|z|k)?sh\s+-\w*c\s+\"[^\"\n]*[$`]|\s-v\s+\"?\$"
    r"|\b(?:python[\d.]*|perl|ruby|node)(?:\s+-\w+)*\s+-\w*[ceE]\s+\"[^\"]*[$`]"
    r"|\b[gm]?awk\s+(?:-[Fv]\s*\S+\s+)*\"[^\"]*[$`]|\|\s*(?:\S*/)?[bd]c\b|\b[bd]c\b[^\n;|]*<<<",
    re.MULTILINE,
)
_TEST = re.compile(r"(?<![\[\w$])\[\s+([^\]\n]*)\s\](?!\])|(?:^|[;&|!]|\bif|\bwhile)\s*test\s([^\n;&|]*)", re.MULTILINE)
_QUOTED = re.compile(r"\"\$\([^()]*\)[^\"]*\"|\"[^\"]*\"|'[^']*'")
"""A quoted word; a substitution in it may hold quotes of its own."""
_EXPANSION = re.compile(r"\$\([^()]*\)|`[^`]*`|\$\{?\w+\}?")
_NAME = re.compile(r"[A-Za-z_]\w*|\$[1-9@*{]")
_NUMBER = re.compile(r"[\"']?-?\d*[\"']?(?=[\s;&|)}]|$)|\$\(\(")


class Evaluation(NamedTuple):
    """A place where a script evaluates text."""

    line: int
    text: str


def find_evaluations(script: str) -> tuple[Evaluation, ...]:
    """Returns the places of a script that evaluate text which the script does not count itself, in order.

    A line that is too long to look at is such a place; a script that is too long is one from its first line.
    """
    if len(script) > MOST_TEXT:
        return (Evaluation(1, f"a script of more than {MOST_TEXT} characters"),)
    lines = [line if not line.lstrip().startswith("#") else "" for line in script.splitlines()]
    text = _COUNTED.sub("0", "\n".join(line if len(line) <= MOST_LINE else 'eval "$long"' for line in lines))
    starts = {match.start() for match in _CODE.finditer(text)}
    for match in _ARITHMETIC.finditer(text):
        if any(group and _is_open(group, text) for group in match.groups()):
            starts.add(match.start())
    for match in _TEST.finditer(text):
        words = " ".join(_EXPANSION.findall(_QUOTED.sub(" ", match[1] or match[2])))
        if words and _is_open(words, text):
            starts.add(match.start())
    numbers = sorted({text.count("\n", 0, start) + (text[start] == "\n") for start in starts})
    return tuple(Evaluation(number + 1, lines[number].strip()[:200]) for number in numbers)


def _is_open(operand: str, text: str) -> bool:
    """Returns whether an operand holds a substitution, or a variable that is no counter of the script's."""
    operand = _LENGTH.sub(" ", operand)
    if "$(" in operand.replace("$((", "((") or "`" in operand:
        return True
    return any(name.startswith("$") or not _is_counter(name, text) for name in set(_NAME.findall(_unbraced(operand))))


def _unbraced(operand: str) -> str:
    return re.sub(r"\$\{(\w+)\}", r"\1", operand)


@lru_cache(maxsize=4096)
def _is_counter(name: str, text: str) -> bool:
    """Returns whether everything that is assigned to a variable is a number or the result of arithmetic."""
    if re.search(rf"\b(?:read|mapfile|readarray|printf\s+-v)\b[^\n;|]*\b{name}\b", text):
        return False
    for words in re.findall(rf"\bfor\s+{name}\s+in\s+([^\n;]*)", text):
        if re.search(r"[$`*?\[]", words):
            return False
    values = re.finditer(rf"(?<![\w$]){name}\+?=(?!=)", text)
    return all(_NUMBER.match(text, value.end()) for value in values)
