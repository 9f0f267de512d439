"""Mutation operators on text, for languages without a parser here: shell, C-like languages, SQL, Ruby and similar.

Conservative: comments and strings stay, and a line is removed only if it is a whole statement. A mutant may not
compile, or may change no executed code. Pure and deterministic. Invariant: every span is a pair of character offsets
into the given text, within one line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from .operators import Site


class _Language(NamedTuple):
    comments: tuple[str, ...]
    strings: str
    """Characters that open and close a string."""
    statement: str
    """Regular expression of a line that is one simple statement; empty if unknown."""
    comparisons: tuple[tuple[str, str], ...]
    logic: tuple[tuple[str, str], ...]
    arithmetic: bool = True


_C_COMPARISONS = (("===", "!=="), ("==", "!="), ("<=", "<"), (">=", ">"))
_C_LOGIC = (("&&", "||"),)
_C_STATEMENT = r"\s*[A-Za-z_][\w.\->\[\]]*\s*(\(.*\)|[-+*/|&^]?=[^=].*);\s*"
_C = _Language(("//", "/*", "*"), "\"'`", _C_STATEMENT, _C_COMPARISONS, _C_LOGIC)
# In a shell `<` and `>` are redirections and `+` is text, so that only words that mean one thing are touched.
_SHELL_TESTS = (("-eq", "-ne"), ("-lt", "-le"), ("-gt", "-ge"), ("-z", "-n"), ("-f", "-d"), ("==", "!="))
_SHELL_STATEMENT = (
    r"\s*(?!(?:if|then|else|elif|fi|for|while|until|do|done|case|esac|in|function|return|exit|set|local|export)\b)"
    r"[A-Za-z_./$\"'][^{}()`|&;\\]*"
)
_SHELL = _Language(("#",), "\"'", _SHELL_STATEMENT, _SHELL_TESTS, _C_LOGIC, arithmetic=False)
_RUBY = _Language(("#",), "\"'", "", (("==", "!="), ("<=", "<"), (">=", ">")), (("&&", "||"), (" and ", " or ")))
_SQL = _Language(("--",), "\"'", "", (("<>", "="), ("<=", "<"), (">=", ">")), ((" AND ", " OR "), (" and ", " or ")))
_NAMES: dict[str, _Language] = {"c": _C, "shell": _SHELL, "ruby": _RUBY, "sql": _SQL}
LANGUAGES: dict[str, str] = {
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".hpp", ".go", ".rs", ".java"), "c"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", ".cs", ".kt", ".php", ".swift"), "c"),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".ksh"), "shell"),
    **dict.fromkeys((".rb", ".pl", ".jl", ".r", ".awk"), "ruby"),
    ".sql": "sql",
}  # fmt: skip
"""File extension to language family."""
_SHEBANG = re.compile(rb"#!\s*\S*?(?:/env\s+)?(?:\S*/)?(bash|sh|dash|zsh|ksh|node|ruby|perl)\b")
_NUMBER = re.compile(r"(?<![\w.$&-])\d{1,6}(?![\w.])")
_TRUTH = re.compile(r"\b(true|false)\b")
_PLUS_MINUS = re.compile(r" ([+-]) (?=[\w(])")


def language_of(path: str, data: bytes) -> str | None:
    """Returns the language family of a file, by name or first line; None without rules."""
    ending = "." + path.rpartition("/")[2].rpartition(".")[2].lower()
    if ending in LANGUAGES:
        return LANGUAGES[ending]
    shebang = _SHEBANG.match(data[:200])
    if shebang is None:
        return None
    return {b"node": "c", b"ruby": "ruby", b"perl": "ruby"}.get(shebang[1], "shell")


def textual_sites(text: str, family: str, lines: Collection[int] | None = None) -> tuple[Site, ...]:
    """Returns every site on one of `lines` (default: anywhere), in text order.

    Raises:
        KeyError: `language_of` does not return this family.
    """
    language = _NAMES[family]
    found: list[Site] = []
    at = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if lines is None or number in lines:
            found += (_placed(site, number, at, line) for site in _on_line(line, language))
        at += len(line)
    return tuple(dict.fromkeys(found))


_TEST = re.compile(r"\[\s|\btest\s")
"""Elsewhere `-f` and `-n` are options of a command."""
_FILTERS = "sort|head|tail|uniq|grep|cut|ls"
_OPTION = re.compile(rf"\b(?:{_FILTERS})\b(?:\s+-\w+)*?(\s+-[A-Za-z])(?=\s|$|\))")
_SORT = re.compile(r"\bsort\b(?P<options>(?:\s+-\w+)*)")
_ENDS = re.compile(r"(?<![\w./-])(head|tail)(?=\s)")
_STAGE = re.compile(r"\s+\|\s[^|&;()`]*[^|&;()`\s](?=\s*(?:\|\s|$|\)))")
_QUOTED = re.compile(r"\"(\$(?:\w+|\{[^}\"]*\}|\([^()\"]*\)))\"")
_REDIRECTION = re.compile(r"(?<=\s)(>>?)(?=\s)")
_PATTERN = re.compile(r"(?<=\*)[\w.-]+(?=\s|$|\))")


def _in_shell(line: str, bare: str) -> Iterator[_Change]:
    """Yields shell-specific changes; `bare` is the line with comments and strings blanked."""
    for match in _OPTION.finditer(bare):
        yield _Change("shell_option", match.start(1), match.end(1), "")
    for match in _SORT.finditer(bare):
        options = match["options"].split()
        for option in ("-r", "-n"):
            if not any(option[1] in given[1:] for given in options):
                yield _Change("shell_order", match.end(), match.end(), f" {option}")
    for match in _ENDS.finditer(bare):
        yield _Change("shell_order", match.start(), match.end(), "tail" if match[1] == "head" else "head")
    for match in _STAGE.finditer(bare.rstrip("\r\n")):
        yield _Change("shell_stage", match.start(), match.end(), "")
    for match in _QUOTED.finditer(line):
        if bare[match.start()] == '"':
            yield _Change("shell_quote", match.start(), match.end(), match[1])
    for match in _REDIRECTION.finditer(bare):
        yield _Change("shell_redirection", match.start(), match.end(), ">" if match[1] == ">>" else ">>")
    for match in _PATTERN.finditer(bare):
        yield _Change("shell_pattern", match.start(), match.end(), "")
    for match in _NUMBER.finditer(bare):
        if int(match[0]):
            yield _Change("shell_number", match.start(), match.end(), str(int(match[0]) - 1))


class _Change(NamedTuple):
    operator: str
    start: int
    end: int
    text: str


def _placed(change: _Change, number: int, at: int, line: str) -> Site:
    before = line[change.start : change.end]
    return Site(change.operator, number, "", at + change.start, at + change.end, before, change.text)


def _on_line(line: str, language: _Language) -> Iterator[_Change]:
    bare = _blanked(line, language)
    if not bare.strip():
        return
    if language is not _SHELL or _TEST.search(bare):
        yield from _pairs("text_comparison", bare, language.comparisons)
    yield from _pairs("text_logic", bare, language.logic)
    for match in _NUMBER.finditer(bare):
        yield _Change("text_number", match.start(), match.end(), str(int(match[0]) + 1))
    for match in _TRUTH.finditer(bare):
        yield _Change("text_truth", match.start(), match.end(), "false" if match[0] == "true" else "true")
    for match in _PLUS_MINUS.finditer(bare) if language.arithmetic else ():
        yield _Change("text_arithmetic", match.start(1), match.end(1), "-" if match[1] == "+" else "+")
    if language is _SHELL:
        yield from _in_shell(line, bare)
    if language.statement and re.fullmatch(language.statement, bare.rstrip("\r\n")):
        yield _Change("text_line", 0, len(line), "")


def _pairs(operator: str, bare: str, pairs: tuple[tuple[str, str], ...]) -> Iterator[_Change]:
    """Yields swaps of paired operators as whole words: `<` does not match in `<<`, `<=` or `<-`."""
    taken: set[int] = set()
    for one, two in pairs:
        for old, new in sorted(((one, two), (two, one)), key=lambda pair: -len(pair[0])):
            for match in re.finditer(_word_pattern(old), bare):
                if match.start() not in taken:
                    taken.update(range(match.start(), match.end()))
                    yield _Change(operator, match.start(), match.end(), new)


def _word_pattern(word: str) -> str:
    if word.startswith("-"):
        return rf"(?<=[\s\[]){re.escape(word)}(?=\s)"
    if word.strip().isalpha():
        return re.escape(word)
    # Spaces around it: generics, pointers, redirections and shifts are written without.
    return rf"(?<=\s){re.escape(word)}(?=\s)"


def _blanked(line: str, language: _Language) -> str:
    """Returns the line with comments and string contents replaced by spaces."""
    if line.lstrip().startswith(language.comments):
        return " " * len(line)
    out, quote, at = [], "", 0
    while at < len(line):
        char = line[at]
        if quote:
            out.append(char if char == quote else " ")
            if char == "\\" and at + 1 < len(line):
                out.append(" ")
                at += 1
            elif char == quote:
                quote = ""
        elif any(line.startswith(mark, at) and (at == 0 or line[at - 1].isspace()) for mark in language.comments[:2]):
            out.append(" " * (len(line) - at))
            break
        else:
            quote = char if char in language.strings else ""
            out.append(char)
        at += 1
    return "".join(out)
