"""Rules of the commands that a script may give tainted text: an allow-list, by a command's name.

A rule reports what the command would evaluate, and returns what the command prints. A command without a rule is
reported by the caller. The rules rely on three facts about the verifier's sandbox: `/tests` is read-only, the image is
the task's, and a file that a judged program wrote is not executable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from .syntax import Node
from .words import CLEAN, TAINTED, UNKNOWN, Variables, Word, is_file_of_the_task, join_words

__all__ = ["RULES", "Call", "Host", "require_data_file", "skip_options"]

SILENT = Word("")
_COUNT = re.compile(r"-[EFGivxwhHqsnz]*c[EFGivxwhHqsnz]*|--count")
_VALUE = re.compile(r"\d+|[^\w/\0]")
"""The value of an option such as `-n 1` or `-d ,`; no file that a judged program wrote has such a name."""
CODE_FILES = (
    *(".py", ".pyc", ".pyi", ".pth", ".so", ".sh", ".bash", ".ksh", ".zsh", ".bats", ".ini", ".cfg", ".toml", ".js"),
    *(".mjs", ".cjs", ".rb", ".pl", ".pm", ".jar", ".awk", ".sed", ".jq", ".lua", ".php", ".mk"),
)
SYSTEM = ("/bin/", "/etc/", "/lib", "/opt/", "/proc/", "/sbin/", "/tests/", "/usr/", "/run/")


class Host(Protocol):
    """The walk over a script, as far as rules use it."""

    variables: Variables
    programs: frozenset[str]
    is_korn: bool
    cwd: Word

    def report(self, node: Node, reason: str) -> None:
        """Notes an evaluation of tainted text."""

    def positional(self) -> str:
        """Returns the name under which the variables know the positional parameters here."""

    def require_number(self, node: Node, word: Word) -> None:
        """Reports a word that is evaluated as arithmetic and may be tainted."""

    def has_file(self, name: str) -> bool:
        """Returns whether a file of this name lies beside the scripts."""

    def start_file(self, node: Node, file: Word, arguments: list[Word], language: str) -> Word:
        """Notes that a program of the tests folder is started, and reports one that is not looked at."""

    def count_shift(self, words: list[Word]) -> None:
        """Notes that `shift` drops positional parameters."""

    def run_words(self, node: Node, words: list[Word], stdin: Word) -> Word:
        """Applies the rule of a command that another one starts."""

    def run_text(self, node: Node, text: str, stdin: Word, function: str | None = None) -> Word:
        """Walks over a script that another one holds as text; `function` is where its arguments were noted."""

    def check_assignment(self, node: Node, name: str, word: Word) -> None:
        """Reports a variable that must not be tainted."""


class Call(NamedTuple):
    """A command with its words."""

    host: Host
    node: Node
    name: str
    words: list[Word]
    stdin: Word

    def report(self, reason: str) -> None:
        """Notes that this command evaluates tainted text."""
        self.host.report(self.node, f"{self.name}: {reason}")

    def require_clean(
        self, words: Iterable[Word], reason: str = "it may read tainted text as an option or a file's name"
    ) -> bool:
        """Reports tainted words; returns whether there were none."""
        clean = all(word.clean for word in words)
        if not clean:
            self.report(reason)
        return clean


Rule = Callable[[Call], Word]


def skip_options(words: list[Word], with_value: Iterable[str] = ()) -> int:
    """Returns the index of the first operand."""
    index, valued = 0, frozenset(with_value)
    while index < len(words) and (words[index].known or "").startswith("-") and words[index].known != "-":
        text = words[index].known
        index += 2 if text in valued else 1
        if text == "--":
            break
    return min(index, len(words))


def operands_of(words: list[Word]) -> list[Word]:
    """Returns the words that are no options."""
    return [word for word in words if not word.prefix.startswith("-") or word.text == "-"]


def require_data_file(host: Host, node: Node, word: Word) -> None:
    """Reports a file to be written that could be run or imported later, or whose name is tainted."""
    name = word.text.rpartition("/")[2]
    if not word.clean:
        host.report(node, "tainted text names a file that is written")
    elif word.text.startswith("/logs/") and ".." not in word.text:
        return
    elif name.endswith(CODE_FILES) or name in host.programs or (name.startswith(".") and len(name) > 2):
        host.report(node, "a file is written that can be run, imported or read as a configuration")
    elif word.text.startswith(SYSTEM) or ".." in word.text:
        host.report(node, "a file of the system or of the tests is written")


def _data(call: Call) -> Word:
    return join_words(call.words, " ")._replace(is_split=False, is_open=False)


def _words_are_clean(call: Call) -> Word:
    """Prints what follows from its arguments and the files of the sandbox, which the script named."""
    call.require_clean(call.words)
    return Word(UNKNOWN, all(word.clean for word in call.words))


def _shows(call: Call) -> Word:
    """Prints what others hold: arguments of processes, variables, content of files."""
    call.require_clean(call.words)
    return TAINTED


def _date(call: Call) -> Word:
    shown = _words_are_clean(call)
    return TAINTED if any(re.match(r"-\w*f|--file", word.text) for word in call.words) else shown


def _silent(call: Call) -> Word:
    call.require_clean(call.words)
    return SILENT


def _path(call: Call) -> Word:
    """`dirname`, `realpath` and the like, of paths in the tests folder."""
    word = operands_of(call.words)[-1:] or [CLEAN]
    clean = all(one.clean for one in call.words)
    text = word[0].text
    if not text.startswith("/tests"):
        return Word(UNKNOWN, clean)
    return Word(text.rpartition("/")[0] or text if call.name == "dirname" and "/" in text[1:] else text, clean)


def _change_folder(call: Call) -> Word:
    if call.require_clean(call.words):
        call.host.cwd = (operands_of(call.words) or [CLEAN])[0]
    return SILENT


def _print_folder(call: Call) -> Word:
    call.require_clean(call.words)
    return call.host.cwd


def _filter(call: Call) -> Word:
    """Reads files as data, or its input."""
    call.require_clean(call.words)
    files = operands_of(call.words)
    if call.name in ("sort", "uniq") and any(
        re.match(r"-\w*[oT]|--(?:output|compress|temp|files)", w.text) for w in call.words
    ):
        call.report("it writes a file or starts a program")
    if call.name == "uniq" and len(files) > 1:
        require_data_file(call.host, call.node, files[1])
    if any(one.text == "-" for one in files) and not call.stdin.clean:
        return TAINTED
    files = [one for one in files if one.text != "-" and not _VALUE.fullmatch(one.text)]
    clean = all(map(is_file_of_the_task, files)) and (bool(files) or call.stdin.clean)
    text = call.stdin.text if call.name == "cat" and not files else UNKNOWN
    return Word(text, clean and all(word.clean for word in call.words))


def _count(call: Call) -> Word:
    """Prints numbers, whatever it reads."""
    return Word(UNKNOWN, call.require_clean(call.words))


def _grep(call: Call) -> Word:
    """Takes a pattern after `-e` or `--`, where it is read as no option; tainted text names no file."""
    words, after_option, ended, counts = call.words, False, False, False
    files: list[Word] = []
    for word in words:
        if not word.clean and (word.is_open or not (after_option or ended or word.cannot_be_option) or files):
            call.report("tainted text may be read as an option or a file's name: write `-e` before it")
        text = word.text if word.clean else ""
        if not (ended or after_option or text.startswith("-")):
            files.append(word)
        counts = counts or (not (ended or after_option) and _COUNT.fullmatch(text) is not None)
        ended = ended or (text == "--" and not after_option)
        after_option = not ended and bool(re.fullmatch(r"-[A-Za-z]*e", text))
    has_pattern = any(re.match(r"-[A-Za-z]*[ef]|--(?:regexp|file)", word.text) for word in words if word.clean)
    clean = counts or (call.stdin.clean and all(map(is_file_of_the_task, files[not has_pattern :])))
    return Word(UNKNOWN, clean and all(word.clean for word in words))


def _translate(call: Call) -> Word:
    return Word(UNKNOWN, call.stdin.clean and all(word.clean for word in call.words))


def _write(call: Call) -> Word:
    """`cp`, `mv`, `ln`, `tee` and the like: files that a judged program may have written become no program."""
    files = operands_of(call.words)
    call.require_clean(call.words)
    if call.name == "cp" and files and all(map(is_file_of_the_task, files[:-1])):
        if files[-1].text.startswith(SYSTEM):
            call.report("a file of the system or of the tests is written")
        return SILENT
    for word in files:
        require_data_file(call.host, call.node, word)
    prints = call.name == "dd" or any(word.text.startswith("/dev/") for word in files)
    return call.stdin if call.name == "tee" else TAINTED if prints else SILENT


def _change_mode(call: Call) -> Word:
    """Only a program of the task may be made executable."""
    call.require_clean(call.words)
    mode, *files = operands_of(call.words) or [CLEAN]
    names = [one.text.rpartition("/")[2] for one in files]
    own = all(
        name in call.host.programs or is_file_of_the_task(one) or one.text.startswith("/logs/")
        for name, one in zip(names, files, strict=True)
    )
    if not own and (mode.known is None or re.search(r"[1357]|[+=]\w*[xXst]", mode.known)):
        call.report("a file that is not the task's is made executable")
    return SILENT


def _refuse_programs(call: Call) -> Word:
    """`find`, without the actions that start or write something."""
    if any(re.match(r"-(?:exec|ok|fprint|fls|delete|files0)", word.text) for word in call.words):
        call.report("it starts a program or writes a file")
    return _words_are_clean(call)


def _calculate(call: Call) -> Word:
    """`bc` and `dc` evaluate their input."""
    if not call.stdin.clean or any(is_path for is_path in operands_of(call.words)):
        call.report("it evaluates text")
    return CLEAN


def _trim(call: Call) -> Word:
    """`xargs` without a command prints its input on a line."""
    if call.words:
        call.report("it makes a command of its input")
    return call.stdin


def _by_name(rule: Rule, names: str) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: dict[str, Rule] = {
    **_by_name(_shows, "ps pgrep printenv file"),
    "date": _date,
    **_by_name(_data, "echo expr : yes"),
    **_by_name(
        _words_are_clean,
        "mktemp nproc id whoami uname hostname ls stat du df type which "
        "getconf arch tput seq locale ulimit umask jobs times",
    ),
    **_by_name(_silent, "true false sleep kill pkill killall mkdir rm rmdir sync disown popd"),
    **_by_name(_path, "dirname basename realpath readlink"),
    **_by_name(_change_folder, "cd pushd"),
    **_by_name(
        _filter,
        "cat head tail cut sort uniq nl rev tac fold fmt paste comm join od hexdump strings column "
        "cmp diff base64 md5sum sha1sum sha256sum sha512sum cksum expand unexpand zcat iconv factor",
    ),
    **_by_name(_count, "wc"),
    **_by_name(_grep, "grep egrep fgrep"),
    **_by_name(_translate, "tr"),
    **_by_name(_write, "cp mv ln tee touch truncate dd"),
    "pwd": _print_folder,
    "chmod": _change_mode,
    "find": _refuse_programs,
    "bc": _calculate,
    "dc": _calculate,
    "xargs": _trim,
}
