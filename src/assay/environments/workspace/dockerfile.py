"""Parses Dockerfiles: the subset that can be built without a container engine.

Not a builder: `images` executes the result. Invariant: every instruction is either understood, ignored on
purpose with a note, or refused by a `UserError` with file and line; none is dropped silently. The text is
hostile: parsing runs nothing, reads no other file, and is linear in the text.

Understood: FROM, WORKDIR, COPY, ADD, ENV, ARG, RUN, USER, SHELL; comments, continuations, the `escape` directive, exec
and shell form, here-documents. Noted: CMD, ENTRYPOINT, HEALTHCHECK, VOLUME. Without effect here: LABEL, EXPOSE,
MAINTAINER, STOPSIGNAL. Refused: ONBUILD and everything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NoReturn

import msgspec

from assay.errors import UserError

MAX_BYTES = 1024 * 1024
_BUILD = frozenset({"WORKDIR", "COPY", "ADD", "ENV", "ARG", "RUN", "USER", "SHELL"})
_NOTED = frozenset({"CMD", "ENTRYPOINT", "HEALTHCHECK", "VOLUME"})
_SILENT = frozenset({"LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL"})
_HERE = re.compile(r"""(?:^|(?<=\s))\d*<<(?P<dash>-?)(?P<quote>["']?)(?P<word>[A-Za-z_][A-Za-z0-9_]*)(?P=quote)""")
_DIRECTIVE = re.compile(r"^#\s*([A-Za-z]+)\s*=\s*(.*?)\s*$")
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S*))?(?:\s+|$)")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-+])((?:[^{}])*))?\})")


class Heredoc(msgspec.Struct, frozen=True):
    """A here-document. `quoted` means that variables in it stay as they are."""

    word: str
    text: str
    quoted: bool = False


class Instruction(msgspec.Struct, frozen=True):
    """One instruction. `text` is its arguments as written, on one line; `words` are set for the exec (JSON) form."""

    name: str
    text: str
    line: int
    words: tuple[str, ...] | None = None
    flags: tuple[tuple[str, str], ...] = ()
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def before_documents(self) -> str:
        """Returns the arguments without the markers of here-documents."""
        return _HERE.sub("", self.text).strip() if self.heredocs else self.text


class Stage(msgspec.Struct, frozen=True):
    """A FROM with its instructions. `base` is as written, variables unexpanded."""

    base: str
    line: int
    name: str | None = None
    instructions: tuple[Instruction, ...] = ()


class Dockerfile(msgspec.Struct, frozen=True):
    """A whole file. `arguments` are the ARG instructions before the first FROM."""

    file: str
    stages: tuple[Stage, ...]
    arguments: tuple[Instruction, ...] = ()
    notes: tuple[str, ...] = ()
    escape: str = "\\"


class DockerfileError(UserError):
    """A line that cannot be built; the message begins with `file:line`."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}")
        self.line = line
        self.problem = problem


def parse(text: str, file: str = "Dockerfile") -> Dockerfile:
    """Parses a Dockerfile. Raises `DockerfileError` for the first line that cannot be built."""
    if len(text) > MAX_BYTES:
        _refuse(file, 1, f"longer than {MAX_BYTES} characters")
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    escape, notes = _parse_directives(lines, file)
    arguments: list[Instruction] = []
    stages: list[Stage] = []
    for instruction in _parse_instructions(lines, escape, file):
        if instruction.name == "FROM":
            stages.append(_parse_stage(instruction, stages, file))
        elif not stages and instruction.name == "ARG":
            arguments.append(instruction)
        elif not stages:
            _refuse(file, instruction.line, f"{instruction.name} before the first FROM")
        elif instruction.name in _BUILD:
            last = stages[-1]
            stages[-1] = msgspec.structs.replace(last, instructions=(*last.instructions, instruction))
        else:
            notes += _note_ignored(instruction, file)
    if not stages:
        _refuse(file, len(lines), "no FROM: start with `FROM scratch` for the host's tools")
    return Dockerfile(file, tuple(stages), tuple(arguments), tuple(notes), escape)


def _refuse(file: str, line: int, problem: str) -> NoReturn:
    raise DockerfileError(file, line, problem)


def _parse_directives(lines: list[str], file: str) -> tuple[str, list[str]]:
    escape, notes, names = "\\", [], set()
    for number, line in enumerate(lines, 1):
        match = _DIRECTIVE.match(line)
        if match is None or match[1].lower() in names:
            break
        name, value = match[1].lower(), match[2]
        names.add(name)
        if name == "escape":
            if value not in ("\\", "`"):
                _refuse(file, number, f"escape={value}: the escape character is a backslash or a backtick")
            escape = value
        elif name == "syntax":
            notes.append(f"{file}:{number}: the syntax directive is ignored")
        elif name != "check":
            break
    return escape, notes


def _parse_instructions(lines: list[str], escape: str, file: str) -> list[Instruction]:
    match, position = [], 0
    while position < len(lines):
        if not lines[position].strip() or lines[position].lstrip().startswith("#"):
            position += 1
            continue
        start = position
        logical, position = _logical_line(lines, position, escape)
        name, _, rest = logical.strip().partition(" ")
        name, rest = (name, rest) if "\t" not in name else (name.split("\t", 1)[0], logical.strip().split("\t", 1)[1])
        upper = name.upper()
        if upper not in _BUILD | _NOTED | _SILENT | {"FROM"}:
            _refuse(file, start + 1, _describe_unknown(upper))
        documents: tuple[Heredoc, ...] = ()
        if upper in ("RUN", "COPY", "ADD"):
            documents, position = _read_heredocs(rest, lines, position, file)
        match.append(_parse_instruction(upper, rest.strip(), start + 1, documents))
    return match


def _describe_unknown(name: str) -> str:
    if name == "ONBUILD":
        return "ONBUILD is not supported: write its instruction where it is to run"
    name_text = name[:40] if name.isprintable() else "this"
    return f"{name_text!r} is not a supported instruction; supported are FROM, {', '.join(sorted(_BUILD))}"


def _logical_line(lines: list[str], position: int, escape: str) -> tuple[str, int]:
    """Joins continued lines; comment lines and empty lines between them are skipped."""
    parts: list[str] = []
    while position < len(lines):
        line = lines[position]
        position += 1
        if parts and (not line.strip() or line.lstrip().startswith("#")):
            continue
        stripped = line.rstrip(" \t")
        if stripped.endswith(escape) and not stripped.endswith(escape * 2):
            parts.append(stripped[:-1])
            continue
        parts.append(line)
        break
    return "".join(parts), position


def _read_heredocs(text: str, lines: list[str], position: int, file: str) -> tuple[tuple[Heredoc, ...], int]:
    documents = []
    for match in [] if text.lstrip().startswith("[") else _HERE.finditer(text):
        body, opened = [], position
        while True:
            if position >= len(lines):
                _refuse(file, opened, f"the here-document {match['word']} does not end")
            line = lines[position].lstrip("\t") if match["dash"] else lines[position]
            position += 1
            if line == match["word"]:
                break
            body.append(line + "\n")
        documents.append(Heredoc(match["word"], "".join(body), bool(match["quote"])))
    return tuple(documents), position


def _parse_instruction(name: str, text: str, line: int, documents: tuple[Heredoc, ...]) -> Instruction:
    flags = []
    if name in ("COPY", "ADD", "RUN", "FROM", "HEALTHCHECK"):
        while match := _FLAG.match(text):
            flags.append((match[1], match[2] or ""))
            text = text[match.end() :].lstrip()
    words = _json_words(text) if name in ("RUN", "COPY", "ADD", "SHELL") else None
    return Instruction(name, text, line, words, tuple(flags), documents)


def _json_words(text: str) -> tuple[str, ...] | None:
    """Returns the words of the exec form, a JSON list of strings; None for the shell form, which is anything else."""
    if not text.startswith("["):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(value) if isinstance(value, list) and all(isinstance(word, str) for word in value) else None


def _parse_stage(instruction: Instruction, earlier: list[Stage], file: str) -> Stage:
    words = instruction.text.split()
    name = None
    if len(words) == 3 and words[1].upper() == "AS":
        name = words[2].lower()
        if not re.fullmatch(r"[a-z][a-z0-9._-]*", name) or name in {s.name for s in earlier} | {"scratch"}:
            _refuse(file, instruction.line, f"{words[2]!r} is invalid or already used as the name of a stage")
    elif len(words) != 1:
        _refuse(file, instruction.line, "FROM takes an image and, optionally, AS and a name")
    if unknown := [flag for flag, _ in instruction.flags if flag != "platform"]:
        _refuse(file, instruction.line, f"FROM --{unknown[0]} is not supported")
    return Stage(words[0], instruction.line, name)


def _note_ignored(instruction: Instruction, file: str) -> list[str]:
    if instruction.name not in _NOTED:
        return []
    return [f"{file}:{instruction.line}: {instruction.name} has no effect: commands are executed one by one"]


def split_words(text: str, escape: str = "\\") -> list[str]:
    """Splits at white space outside quotes; quotes and escapes are kept for `expand` to remove."""
    words, current, quote, position = [], "", "", 0
    while position < len(text):
        char = text[position]
        if char == escape and quote != "'" and position + 1 < len(text):
            current += text[position : position + 2]
            position += 2
            continue
        if char in "\"'" and quote in ("", char):
            quote = "" if quote else char
        if char in " \t" and not quote:
            if current:
                words.append(current)
            current = ""
        else:
            current += char
        position += 1
    if quote:
        raise ValueError(f"the quote {quote} is not closed")
    return [*words, current] if current else words


def expand(word: str, variables: Mapping[str, str], escape: str = "\\", *, quotes: bool = True) -> str:
    """Removes quotes and escapes from a word and expands its variables. Raises `ValueError` for an unsupported form.

    Without `quotes` (in a here-document) they are ordinary characters, and an escape applies only to `$` or itself.
    """
    out, quote, position = "", "", 0
    marks = "\"'" if quotes else ""
    while position < len(word):
        char = word[position]
        if char == escape and quote != "'" and position + 1 < len(word):
            following = word[position + 1]
            is_kept = (quote == '"' and following not in f'"${escape}') or (
                not quotes and following not in f"${escape}"
            )
            out += (escape if is_kept else "") + following
            position += 2
        elif char in marks and quote in ("", char):
            quote = "" if quote else char
            position += 1
        elif char == "$" and quote != "'":
            match = _VARIABLE.match(word, position)
            if match is None and word.startswith("${", position):
                raise ValueError(f"{word[position : position + 30]!r} is not a supported form of a variable")
            out += _expand_variable(match, variables) if match else "$"
            position = match.end() if match else position + 1
        else:
            out += char
            position += 1
    return out


def _expand_variable(match: re.Match[str], variables: Mapping[str, str]) -> str:
    name, form, other = match[1] or match[2], match[3], match[4]
    value = variables.get(name)
    if form is None:
        return value or ""
    is_set = bool(value) if form.startswith(":") else value is not None
    if form.endswith("-"):
        return (value or "") if is_set else other
    return other if is_set else ""
