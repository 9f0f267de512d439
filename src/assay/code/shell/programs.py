"""Rules of commands that start other programs, or that hold a program: wrappers, interpreters, `awk`, `sed` and `jq`.

A program is the task's own where it is a file of the tests folder, a judged program's stand-in, or a text that the
script writes out whole. Python programs are looked at by `python_evaluation`; of other languages, a few words are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from assay.code.python_evaluation import find_python_evaluations

from .commands import CODE_FILES, SILENT, Call, skip_options
from .expansion import NAME
from .words import CLEAN, TAINTED, UNKNOWN, Word, is_file_of_the_task, join_words

__all__ = ["PROGRAM_RULES", "basename", "is_file_of_tests"]

SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
_PYTHON = re.compile(r"python(?:[23](?:\.\d+)?)?\Z|pypy3?\Z")
_OTHER = {"perl": "-e", "ruby": "-e", "node": "-e", "nodejs": "-e"}
_MODULES = frozenset({"pytest", "unittest", "json.tool"})
_STARTS_OTHERS = re.compile(
    r"eval|exec|system|spawn|popen|open|require|import|`|\bqx\b|%x|child_process|Function|load|send|instance|binding|syscall"
)
_AWK_STARTS = re.compile(r"system|getline|@|(?<!\|)\|(?!\|)|print[^;{}\n]*>|printf[^;{}\n]*>")
_ADDRESS = r"(?:\d+|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED = re.compile(
    rf"(?:\s*(?:{_ADDRESS}(?:,{_ADDRESS})?)?!?(?:[pdqDPNGHghxn=]|s([/|,#:@])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpIi\d]*"
    r"|y/(?:[^/\\]|\\.)*/(?:[^/\\]|\\.)*/)[ \t]*(?:[;\n]|\Z))+\Z",
    re.DOTALL,
)


def basename(word: Word) -> str:
    """Returns the last part of a path; empty where it is not known."""
    name = word.text.rpartition("/")[2] if word.clean else ""
    return "" if UNKNOWN in name else name


def _start(call: Call, words: list[Word]) -> Word:
    return call.host.run_words(call.node, words, call.stdin) if words else SILENT


def _after_options(*with_value: str) -> Callable[[Call], Word]:
    def rule(call: Call) -> Word:
        return _start(call, call.words[skip_options(call.words, with_value) :])

    return rule


def _timeout(call: Call) -> Word:
    start = skip_options(call.words, ("-k", "-s", "--kill-after", "--signal"))
    call.require_clean(call.words[start : start + 1])
    return _start(call, call.words[start + 1 :])


def _command(call: Call) -> Word:
    if call.words and re.match(r"-\w*[vV]", call.words[0].text):
        call.require_clean(call.words)
        return CLEAN
    return _start(call, call.words[skip_options(call.words) :])


def _environment(call: Call) -> Word:
    """`env`: assignments, then a command."""
    start = skip_options(call.words, ("-u",))
    for word in call.words[:start]:
        if word.text not in ("-i", "-", "-u", "--", "-0") and word.text.startswith("-"):
            call.report("its options are not known, or split text into a command")
    rest = call.words[start:]
    while rest and (found := re.match(r"([A-Za-z_]\w*)=", rest[0].prefix)):
        value = rest[0]._replace(text=rest[0].text[found.end() :]) if rest[0].clean else rest[0]
        call.host.check_assignment(call.node, found[1], value)
        call.host.variables.assign(found[1], value)
        rest = rest[1:]
    return _start(call, rest) if rest else TAINTED


def _judge(_: Call) -> Word:
    """`assay-judge` hands its words to another sandbox."""
    return TAINTED


def _source(call: Call) -> Word:
    """`.`: a script of the tests folder, which is looked at by itself."""
    file, *rest = call.words or [TAINTED]
    if not is_file_of_tests(call, file):
        call.report("the file may hold tainted text: name one of the tests folder")
        return TAINTED
    call.host.start_file(call.node, file, rest, "shell")
    return TAINTED


def is_file_of_tests(call: Call, word: Word) -> bool:
    """Returns whether a program is a file of the tests folder, or lies where the script has gone and has its name."""
    name = basename(word)
    if not word.clean or ".." in word.text:
        return False
    if word.text.startswith("/tests/"):
        return True
    return name.endswith(CODE_FILES) and not word.text.startswith(("/", UNKNOWN)) and call.host.has_file(name)


def _file(call: Call, word: Word, arguments: list[Word]) -> Word:
    """A program that an interpreter reads from a file."""
    if basename(word) in call.host.programs:
        return TAINTED
    if not is_file_of_tests(call, word):
        call.report("the program may be tainted: name a file of the tests folder, or one of `programs`")
        return TAINTED
    language = "python" if call.name.startswith("python") else "shell" if call.name in SHELLS else "other"
    call.host.start_file(call.node, word, arguments, language)
    return TAINTED


def _shell(call: Call) -> Word:
    index, inline = 0, False
    while index < len(call.words) and call.words[index].prefix[:1] in ("-", "+") and len(call.words[index].text) > 1:
        option = call.words[index].known or ""
        if not re.fullmatch(r"[-+][euxvcfo]+|--|-o|--posix|--norc|--noprofile", option):
            call.report("its options are not known")
        inline = inline or bool(re.match(r"-\w*c", option))
        index += 2 if option.endswith("o") and not option.startswith("--") else 1
    rest = call.words[index:]
    if not rest:
        return _standard_input(call, lambda text: call.host.run_text(call.node, text, CLEAN))
    if not inline:
        return _file(call, rest[0], rest[1:])
    if rest[0].known is None:
        call.report("tainted or unknown text is run as a script")
        return TAINTED
    call.host.variables.assign("-c()", join_words(rest[1:]))
    return call.host.run_text(call.node, rest[0].known, call.stdin, "-c")


def _standard_input(call: Call, look: Callable[[str], object]) -> Word:
    """A program that an interpreter reads from its input."""
    if not call.stdin.clean:
        call.report("tainted text is its program")
    elif UNKNOWN in call.stdin.text:
        call.report("its program is not known: write it into a here-document with a quoted end")
    else:
        look(call.stdin.text)
    return TAINTED


def _python(call: Call) -> Word:
    index = 0
    while index < len(call.words) and re.fullmatch(r"-[IBEsSuqbdOPv]+|-[WX].*", call.words[index].known or ""):
        index += 2 if call.words[index].known in ("-W", "-X") else 1
    rest = call.words[index:]
    first = rest[0].known if rest else "-"
    if first == "-":
        return _standard_input(call, lambda text: _look_at_python(call, text))
    if first == "-c":
        if len(rest) < 2 or not rest[1].clean:
            call.report("tainted text is part of its program")
        else:
            _look_at_python(call, rest[1].text.replace(UNKNOWN, "0"))
    elif first == "-m":
        return _module(call, rest[1:])
    elif first in ("-V", "--version"):
        return CLEAN
    else:
        return _file(call, rest[0], rest[1:])
    return TAINTED


def _module(call: Call, rest: list[Word]) -> Word:
    name = rest[0].known if rest else None
    if name is not None and {f"{name}.py", name} & call.host.programs:
        return TAINTED
    if name not in _MODULES:
        call.report("the module is not known to the analysis")
    call.require_clean(rest)
    for before, word in itertools.pairwise(rest):
        if before.text in ("-c", "--config-file") and not is_file_of_the_task(word):
            call.report("its configuration may be tainted")
    return TAINTED


def _look_at_python(call: Call, text: str) -> None:
    for _, reason in find_python_evaluations(text):
        call.report(reason)


def _other(call: Call) -> Word:
    """An interpreter of another language: one of its programs that is a file, or a short text."""
    inline = _OTHER[call.name]
    start = skip_options(call.words)
    texts = [index for index, word in enumerate(call.words[:start]) if re.fullmatch(rf"-\w*{inline[1]}", word.text)]
    if not texts:
        if any(word.known != "--" for word in call.words[:start]):
            call.report("its options are not known")
        return _file(call, call.words[start], call.words[start + 1 :]) if start < len(call.words) else _refuse(call)
    index = texts[0] + 1
    text = call.words[index].known if index < len(call.words) else None
    if text is None or call.name == "perl" or _STARTS_OTHERS.search(text):
        call.report("its program is not known, or may evaluate text")
    if call.name == "ruby":
        call.require_clean(call.words, "it may open its arguments")
    return TAINTED


def _refuse(call: Call) -> Word:
    call.report("its program is not known")
    return TAINTED


def _awk(call: Call) -> Word:
    words, index, program = call.words, 0, None
    while index < len(words) and re.match(r"-[Fvf]", words[index].prefix):
        option = words[index]
        value = words[index + 1] if len(option.prefix) == 2 and index + 1 < len(words) else option
        if option.prefix.startswith("-f") and not is_file_of_the_task(value):
            call.report("its program may be tainted")
        program = value if option.prefix.startswith("-f") else program
        if option.prefix.startswith("-v") and not re.match(r"(?:-v)?[A-Za-z_]\w*=", value.prefix):
            call.report("tainted text names a variable")
        index += 1 if value is option else 2
    if program is None:
        program, index = (words[index] if index < len(words) else TAINTED), index + 1
        if program.known is None or program.text.startswith("-") or _AWK_STARTS.search(program.known):
            call.report("its program is not known, or may start commands or write files")
    call.require_clean(words[index:])
    clean = call.stdin.clean and len(words) == index and all(word.clean for word in words)
    return Word(UNKNOWN, clean)


def _sed(call: Call) -> Word:
    call.require_clean(call.words, "tainted text is part of its program")
    options = [word for word in call.words if word.text.startswith("-")]
    if any(not re.fullmatch(r"-[nErsuzei]+|--", word.text) for word in options):
        call.report("its options are not known")
    operands = [word for word in call.words if not word.text.startswith("-")]
    inline = [
        w for before, w in zip([CLEAN, *call.words], call.words, strict=False) if re.fullmatch(r"-\w*e", before.text)
    ]
    scripts = inline or operands[:1]
    for script in scripts:
        if script.known is None or not _SED.match(script.known):
            call.report("its program is not known, or may start commands or write files")
    files = operands[len(scripts) :]
    clean = all(map(is_file_of_the_task, files)) if files else call.stdin.clean
    return Word(UNKNOWN, clean and all(word.clean for word in call.words))


def _json(call: Call) -> Word:
    """`jq`: values by `--arg`; its programs start nothing."""
    values: set[int] = set()
    for index, word in enumerate(call.words):
        if word.known in ("--arg", "--argjson"):
            values.add(index + 2)
        if word.known in ("-L", "--from-file", "-f", "--slurpfile", "--rawfile"):
            call.report("it reads more than its input and its arguments")
    call.require_clean([word for index, word in enumerate(call.words) if index not in values])
    return TAINTED


def _declare(call: Call) -> Word:
    """A declaration whose names are words: each must be a name, or a name and a value that is no list."""
    for word in call.words:
        name = word.prefix.partition("=")[0]
        if word.text.startswith("-") and word.clean:
            continue
        if not NAME.match(name):
            call.report("the name of its variable is not known, and an index is evaluated")
        elif "=" in word.prefix:
            if not word.clean and call.name != "export":
                call.report("it evaluates a value that is written as a list: write the name and `=` without quotes")
            call.host.check_assignment(call.node, name, word)
            call.host.variables.assign(name, word, whole=False)
    return TAINTED if any(re.match(r"-\w*p", word.text) for word in call.words) else SILENT


PROGRAM_RULES: dict[str, Callable[[Call], Word]] = {
    "timeout": _timeout,
    "nice": _after_options("-n"),
    "nohup": _after_options(),
    "setsid": _after_options(),
    "stdbuf": _after_options("-o", "-i", "-e"),
    "time": _after_options(),
    "exec": _after_options("-a"),
    "builtin": _after_options(),
    "command": _command,
    "env": _environment,
    "assay-judge": _judge,
    ".": _source,
    "source": _source,
    "pytest": lambda call: _module(call, [Word("pytest"), *call.words]),
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "sed": _sed,
    "jq": _json,
    **dict.fromkeys(("declare", "typeset", "local", "export", "readonly"), _declare),
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(_OTHER, _other),
    **{f"python{version}": _python for version in ("", "2", "3", *(f"3.{minor}" for minor in range(6, 20)))},
}
