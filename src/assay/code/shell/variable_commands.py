"""Rules of builtin commands that set variables, positional parameters, traps or options."""

from __future__ import annotations

import re

from .commands import SILENT, Call, Rule, skip_options
from .expansion import NAME
from .words import CLEAN, TAINTED, UNKNOWN, Word, join_words

__all__ = ["VARIABLE_RULES"]


def _print(call: Call) -> Word:
    """`printf`; a format and a variable's name are not data."""
    words = call.words
    target = None
    if words and words[0].prefix.startswith("-v"):
        target = words[1] if words[0].text == "-v" and len(words) > 1 else words[0]._replace(text=words[0].text[2:])
        words = words[2 if words[0].text == "-v" else 1 :]
    call.require_clean(words[:1], "its format is tainted")
    if call.host.is_korn and re.search(r"%[^%s]*[diouxXeEfgGc]", words[0].text if words else ""):
        call.require_clean(words[1:], "this shell evaluates numbers as arithmetic")
    printed = join_words(words)._replace(text=UNKNOWN, prefix="", is_open=False, is_split=False)
    if len(words) == 1 and not set(words[0].text) & set("%\\"):
        printed = words[0]
    if target is None:
        return printed
    if target.known is None or not NAME.match(target.known):
        call.report("the name of its variable is not known, and an index is evaluated")
    else:
        call.host.check_assignment(call.node, target.known, printed)
        call.host.variables.assign(target.known, printed)
    return SILENT


def _read(call: Call) -> Word:
    """`read` and `mapfile`: variables get lines of the input."""
    words = call.words
    lines = call.name != "read"
    start = skip_options(words, ("-d", "-n", "-O", "-s", "-u") if lines else ("-p", "-t", "-n", "-N", "-d", "-u"))
    options = "".join(word.text for word in words[:start])
    call.require_clean(words)
    if ("C" in options and lines) or (re.search(r"-\w*[ei]", options) and not lines):
        call.report("an option of it evaluates text")
    stdin = Word(UNKNOWN, call.stdin.clean and not re.search(r"-\w*u", options))
    names = words[start:]
    for word in names or [Word("MAPFILE" if lines else "REPLY")]:
        if word.known is None or not NAME.match(word.known):
            call.report("the name of its variable is not known, and an index is evaluated")
        else:
            call.host.check_assignment(call.node, word.known, stdin)
            call.host.variables.assign(word.known, stdin)
            if lines or re.search(r"-\w*a", options):
                call.host.variables.arrays.add(word.known)
    return SILENT


def _get_options(call: Call) -> Word:
    """`getopts SPEC NAME`."""
    call.require_clean(call.words)
    for word in call.words[1:2]:
        call.host.variables.assign(word.text, call.host.variables.lookup(call.host.positional()))
    return SILENT


def _set(call: Call) -> Word:
    """`set`: options, or positional parameters after `--`."""
    start = skip_options(call.words, ("-o", "+o"))
    rest = call.words[start:]
    ended = any(word.text == "--" for word in call.words[:start])
    if not ended and any(not word.clean for word in call.words):
        call.report("tainted text may be read as an option: write `set --` before it")
    if rest or ended:
        call.host.variables.assign(call.host.positional(), join_words(rest, " "), whole=False)
        call.host.count_shift([TAINTED])
    return SILENT if call.words else TAINTED


def _shift(call: Call) -> Word:
    call.host.count_shift(call.words)
    return _only_numbers(call)


def _let(call: Call) -> Word:
    for word in call.words:
        call.host.require_number(call.node, word)
    return SILENT


def _unset(call: Call) -> Word:
    for word in call.words:
        if not word.clean or ("[" in word.text and not re.search(r"\[(?:\d+|[@*])\]\Z", word.text)):
            call.report("an index in a variable's name is evaluated")
    return SILENT


def _trap(call: Call) -> Word:
    start = skip_options(call.words)
    for word in call.words[start : start + 1]:
        if word.known is None:
            call.report("it evaluates text that is not known")
        elif word.known not in ("", "-"):
            call.host.run_text(call.node, word.known, CLEAN)
    return SILENT


def _wait(call: Call) -> Word:
    if any(word.text.startswith("-p") for word in call.words):
        call.report("an index in its variable's name is evaluated")
    return _only_numbers(call)


def _options_of_shell(call: Call) -> Word:
    if any(word.known is None or "alias" in word.text for word in call.words):
        call.report("its options are not known, or they turn on aliases")
    return SILENT


def _only_numbers(call: Call) -> Word:
    """`exit` and `return`: a Korn shell evaluates their operand."""
    call.require_clean(call.words)
    return SILENT


VARIABLE_RULES: dict[str, Rule] = {
    **dict.fromkeys(("read", "mapfile", "readarray"), _read),
    **dict.fromkeys(("exit", "return", "break", "continue"), _only_numbers),
    "printf": _print,
    "getopts": _get_options,
    "set": _set,
    "shift": _shift,
    "let": _let,
    "unset": _unset,
    "trap": _trap,
    "wait": _wait,
    "shopt": _options_of_shell,
}
