"""Files that a command writes, reads and removes, according to its text.

Only literal names count, not those held by a variable, a pattern or a running program. Paths are as written, not joined
with an earlier `cd`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ._memo import cached_by_command
from .commands import SimpleCommand, simple_commands

_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_NO_FILE = re.compile(r"^(?:\d*|-|[<>$]\(.*|/dev/(?:null|stdout|stderr|stdin|tty|fd/\d+))$", re.DOTALL)
_PATCH_LINE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$|^\*\*\* (Move) to: (.+?)\s*$", re.MULTILINE)
_DIFF_LINE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+?)(?:\t.*)?$", re.MULTILINE)
_OPEN = re.compile(
    r"""\bopen\(\s*[rbuf]?(['"])([^'"\n]{1,512})\1\s*(?:,\s*(?:mode\s*=\s*)?['"]([rwaxbt+]{1,4})['"])?"""
)
_PATH_CALL = re.compile(r"""\bPath\(\s*[rbuf]?(['"])([^'"\n]{1,512})\1\s*\)\s*\.\s*(write|read|open|unlink)""")
_REMOVE_CALL = re.compile(r"""\b(?:os\.(?:remove|unlink)|shutil\.rmtree)\(\s*[rbuf]?(['"])([^'"\n]{1,512})\1""")
_READER_NAMES = """cat tac head tail less more nl od xxd hexdump strings wc diff cmp sort uniq cut base64 md5sum
    sha256sum file jq source . readelf objdump nm python python3 node ruby perl sh bash zcat zless bat batcat column rev
    fold vim vi nano view gzip gunzip unzip tar"""
_READERS = frozenset(_READER_NAMES.split())
_PATTERN_FIRST = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "ack", "awk", "gawk", "sed"})
_VALUED = {
    "head": {"-n", "-c", "--lines", "--bytes"},
    "tail": {"-n", "-c", "--lines", "--bytes"},
    "grep": {"-A", "-B", "-C", "-m", "-e", "-f", "-d", "-D", "--include", "--exclude", "--exclude-dir"},
    "rg": {"-A", "-B", "-C", "-m", "-e", "-f", "-g", "-t", "-T", "-j"},
    "awk": {"-F", "-v", "-f"},
    "sed": {"-e", "-f", "-l"},
    "sort": {"-k", "-t", "-o", "-S"},
    "cut": {"-d", "-f", "-c", "-b"},
    "xxd": {"-s", "-l", "-c"},
    "od": {"-t", "-N", "-A", "-j"},
    "curl": {"-H", "-X", "-d", "-u", "-A", "-o", "--data", "--header", "--output"},
    "cp": {"-t", "--target-directory", "-S"},
    "mv": {"-t", "--target-directory", "-S"},
    "install": {"-m", "-o", "-g", "-t"},
    "touch": {"-d", "-t", "-r"},
    "truncate": {"-s", "--size", "-r"},
    "patch": {"-i", "--input", "-d", "-o", "-B", "-z"},
    "git": {"-C", "-c", "--git-dir", "--work-tree"},
}
_VALUED |= {"egrep": _VALUED["grep"], "fgrep": _VALUED["grep"], "gawk": _VALUED["awk"], "ag": _VALUED["rg"]}
_INTERPRETERS = frozenset({"python", "python3", "python2", "node", "ruby", "perl", "sh", "bash"})


class FileUse(NamedTuple):
    """Paths as written, in order, each once."""

    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class _Uses:
    def __init__(self) -> None:
        self._paths: tuple[dict[str, None], dict[str, None], dict[str, None]] = ({}, {}, {})

    def writes(self, paths: Iterable[str]) -> None:
        self._paths[0].update((path, None) for path in paths if path and not _NO_FILE.match(path))

    def reads(self, paths: Iterable[str]) -> None:
        self._paths[1].update((path, None) for path in paths if path and not _NO_FILE.match(path))

    def removes(self, paths: Iterable[str]) -> None:
        self._paths[2].update((path, None) for path in paths if path)

    def add(self, use: FileUse) -> None:
        self.writes(use.written)
        self.reads(use.read)
        self.removes(use.removed)

    def build(self) -> FileUse:
        return FileUse(*(tuple(each) for each in self._paths))


@cached_by_command
def command_files(command: str) -> FileUse:
    """Returns the files that the simple commands of a shell text write, read and remove."""
    uses = _Uses()
    for simple in simple_commands(command):
        for redirect in simple.redirects:
            (uses.writes if redirect.operator in _WRITING else uses.reads)((redirect.target,))
        words = simple.effective
        if words:
            _by_program(simple, words, uses)
    return uses.build()


def _by_program(simple: SimpleCommand, words: tuple[str, ...], uses: _Uses) -> None:
    name = words[0].rsplit("/", 1)[-1]
    operands = tuple(_operands(name, words[1:]))
    if name in ("apply_patch", "applypatch"):
        uses.add(patch_files("\n".join((*words[1:], simple.stdin or ""))))
    elif name in ("tee", "touch", "truncate"):
        uses.writes(operands)
    elif name in ("rm", "unlink", "shred", "rmdir"):
        uses.removes(operands)
    elif name in ("cp", "mv", "install", "ln", "rsync"):
        _copied(name, words, operands, uses)
    elif name == "dd":
        uses.writes(word[3:] for word in words if word.startswith("of="))
        uses.reads(word[3:] for word in words if word.startswith("if="))
    elif name in ("curl", "wget"):
        uses.writes(
            _values(words, {"-o", "-O", "--output", "--output-document"} - ({"-O"} if name == "curl" else set()))
        )
    elif name == "patch":
        uses.writes(operands[:1])
        uses.add(patch_files(simple.stdin or ""))
    elif name == "git":
        _git(operands, simple, uses)
    elif name in _PATTERN_FIRST:
        _patterned(name, words, operands, uses)
    elif name in _INTERPRETERS:
        _interpreted(simple, words, operands, uses)
    elif name in _READERS:
        uses.reads(operands)


def _operands(name: str, words: tuple[str, ...]) -> Iterator[str]:
    valued: set[str] = _VALUED.get(name, set())
    at, options = 0, True
    while at < len(words):
        word = words[at]
        at += 1
        if options and word == "--":
            options = False
        elif options and word in valued:
            at += 1
        elif not options or not word.startswith("-") or word == "-":
            yield word


def _values(words: tuple[str, ...], options: set[str]) -> Iterator[str]:
    for word, after in pairwise(words):
        if word in options:
            yield after


def _copied(name: str, words: tuple[str, ...], operands: tuple[str, ...], uses: _Uses) -> None:
    into = tuple(_values(words, {"-t", "--target-directory"}))
    sources, target = (operands, into) if into else (operands[:-1], operands[-1:])
    if not sources:
        return
    uses.writes(target)
    (uses.removes if name == "mv" else uses.reads)(sources)


def _git(operands: tuple[str, ...], simple: SimpleCommand, uses: _Uses) -> None:
    verb, rest = (operands[0], operands[1:]) if operands else ("", ())
    if verb == "apply":
        uses.add(patch_files(simple.stdin or ""))
    elif verb == "rm":
        uses.removes(rest)
    elif verb in ("restore", "checkout") and "--" in simple.words:
        uses.writes(simple.words[simple.words.index("--") + 1 :])
    elif verb == "show":
        uses.reads(each.split(":", 1)[1] for each in rest if ":" in each)


def _patterned(name: str, words: tuple[str, ...], operands: tuple[str, ...], uses: _Uses) -> None:
    given = any(word in ("-e", "-f", "--regexp", "--file", "--expression") for word in words)
    files = operands if given else operands[1:]
    in_place = name == "sed" and any(word.startswith(("-i", "--in-place")) or _clustered(word) for word in words[1:])
    (uses.writes if in_place else uses.reads)(files)


def _clustered(word: str) -> bool:
    """Returns whether sed's options are clustered with `i`, as in `-Ei`, `-ni.bak`."""
    return re.match(r"-[nErsuz]+i", word) is not None


def _interpreted(simple: SimpleCommand, words: tuple[str, ...], operands: tuple[str, ...], uses: _Uses) -> None:
    name = words[0].rsplit("/", 1)[-1]
    if name == "perl" and any(re.match(r"-\w*i", word) for word in words[1:]):
        uses.writes(operands[1:])
        return
    code = next(_values(words, {"-c", "-e"}), None)
    if code is not None:
        if name not in ("sh", "bash"):
            uses.add(code_files(code))
    elif "-m" not in words:
        uses.reads(operands[:1])
    if simple.stdin is not None and name not in ("sh", "bash"):
        uses.add(code_files(simple.stdin))


def patch_files(text: str) -> FileUse:
    """Returns the files of a patch: in the form of `apply_patch`, or a unified diff."""
    uses = _Uses()
    for found in _PATCH_LINE.finditer(text):
        path = found[2] or found[4]
        (uses.removes if found[1] == "Delete" else uses.writes)((path,))
    uses.writes(path for path in _DIFF_LINE.findall(text) if path != "/dev/null")
    return uses.build()


def code_files(code: str) -> FileUse:
    """Returns the files that Python text opens, writes or removes by a literal name."""
    uses = _Uses()
    for found in _OPEN.finditer(code):
        (uses.writes if set(found[3] or "r") & set("wax+") else uses.reads)((found[2],))
    for found in _PATH_CALL.finditer(code):
        {"write": uses.writes, "unlink": uses.removes}.get(found[3], uses.reads)((found[2],))
    uses.removes(path for _, path in _REMOVE_CALL.findall(code))
    return uses.build()
