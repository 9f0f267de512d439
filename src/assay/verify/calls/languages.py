"""Programming languages as short TOML files: commands to compile and run a program, and to check that this is possible.

Nothing here runs a command. Built-in descriptions are in `languages/`; a user's file has the same fields.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import msgspec

from assay.errors import UserError
from assay.limited_file import parse_file, read_toml

BUILT_IN = Path(__file__).with_name("languages")
BRIDGED = "@PROGRAM@"
"""Placeholder of a bridge for the path of the Python program that it starts."""
MAX_FILE_BYTES = 64 << 10
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
Command = Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class ProgramLanguage(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Programming language. Commands are lists of words, started in the task's working directory without a shell."""

    name: str
    """Name used in the instruction."""
    file: str
    """Name of the program's source file in the working directory."""
    run: Command
    """Command that starts the program."""
    compile: tuple[str, ...] = ()
    """Command that builds the program, if the language needs it; outside the working directory (`/tmp/program`)."""
    probe: tuple[str, ...] = ()
    """Command that ends with exit code 0 if the language is installed; run in a sandbox when tasks are made."""
    compile_s: float = 60.0
    """Seconds that `compile` may take."""
    bridge: str = ""
    """A program in the language that starts `python3 @PROGRAM@` in its own place. With it a task gets a solution that
    shows that building, starting and reading work, and nothing about the language's expressiveness."""

    def __post_init__(self) -> None:
        """Refuses file names that leave the working directory."""
        if not _FILE.fullmatch(self.file):
            raise ValueError(f"file is {self.file!r}: it must be a plain file name, such as main.js")


def load_language(name: str) -> ProgramLanguage:
    """Returns a built-in language, or the one that a TOML file describes. Blocking. Raises `UserError` for neither."""
    path = Path(name) if name.endswith(".toml") else BUILT_IN / f"{name}.toml"
    known = sorted(file.stem for file in BUILT_IN.glob("*.toml"))
    if not name.endswith(".toml") and name not in known:
        raise UserError(
            f"no language {name!r}: name one of {', '.join(known)}, or a TOML file that describes another one"
        )
    hint = "it needs name, file and run, as in `assay synth --help`"
    return parse_file(path, _parse_language, holding="the description of a language", limit=MAX_FILE_BYTES, hint=hint)


def _parse_language(data: bytes) -> ProgramLanguage:
    return msgspec.convert(read_toml(data), ProgramLanguage)
