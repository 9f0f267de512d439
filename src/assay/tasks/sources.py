"""Resolves task names: a folder, or `family:NAME,n=20,seed=3,key=value`.

Commas need no quoting in any shell. `n` and `seed` select tasks; every other key is an option of the family. A value
may be JSON with commas of its own: `knobs={"shop":{"orders":90},"mail":{"messages":20}}`, quoted for the shell.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from assay.errors import UserError
from assay.pairs import read_pairs
from assay.plugins import names_code

from .families import family_tasks
from .family_folder import FAMILY_FILE, first_unplain, load_family_folder, read_family_folder
from .load import LoadedTask, load_tasks, require_distinct

PREFIX = "family:"
COUNT = 10
"""Default number of tasks of a family."""
MOST = 1_000_000
_FORM = "write family:NAME,n=20,seed=3 (options of the family as further key=value)"


class _Family(NamedTuple):
    name: str
    number: int
    seed: int
    options: dict[str, Any]


def find_tasks(names: Iterable[str]) -> tuple[LoadedTask, ...]:
    """Loads named tasks: folders first, then families, each in the given order.

    Args:
        names: Task folders, folders of task folders or with a `family.json`, or `family:NAME`: a family by its short
            name, as `module:Class`, or as `path/file.py`. Then `,n=` how many (default 10), `,seed=` (default 0), and
            the family's options.

    Raises:
        UserError: A name is wrong, a folder or family does not exist, a task has errors, or two share an id.
        TaskError: A family itself failed.
    """
    named = list(dict.fromkeys(names))  # what is named twice is meant once
    families = [_taken_apart(name) for name in named if name.startswith(PREFIX)]
    folders = [Path(name) for name in named if not name.startswith(PREFIX)]
    loaded = list(load_tasks(path for path in folders if not names_family(path)))
    for folder in filter(names_family, folders):
        loaded += load_family_folder(folder)
    for family in families:
        loaded += family_tasks(family.name, family.number, family.seed, family.options)
    require_distinct(loaded)
    return tuple(loaded)


def names_family(folder: Path) -> bool:
    """Returns whether a folder names tasks of a family instead of holding them."""
    return (folder / FAMILY_FILE).is_file() and not (folder / "task.toml").is_file()


def names_family_code(name: str) -> bool:
    """Returns whether the name of tasks stands for a family that is Python code, not an installed plugin, or names
    code in one of its options: `app=file.py:shop`, or `allow_code=true` for tasks of a file."""
    if not name.startswith(PREFIX):
        return False
    family, *pairs = name.removeprefix(PREFIX).split(",")
    values = [part for pair in pairs for part in pair.partition("=")[2].split("+")]
    return (
        names_code("tasks", family)
        or any(names_code("services", value) for value in values)
        or any(pair.partition("=")[0].strip() == "allow_code" for pair in pairs)
    )


def with_listed_options(name: str, listed: str) -> str:
    """Returns a family's name with the options with which the user listed it, `NAME,key=value`, after its own.

    Raises:
        UserError: The name is invalid, sets a listed option, or has an option that is no number and no plain word,
            and so might lead to code or files that the user did not list.
    """
    own = _taken_apart(name)
    fixed = read_pairs(_split(listed)[1:], repr(listed), _FORM)
    twice = sorted(fixed.keys() & own.options.keys())
    if twice:
        raise UserError(f"option {twice[0]} of the family {own.name!r} is set by the service: leave it out")
    unplain = first_unplain(own.options)
    if unplain is not None:
        raise UserError(
            f"{unplain[:80]!r} of the family {own.name!r} may name code or a file, and is only for whoever runs the "
            f"service to list: --family {own.name},OPTION=VALUE"
        )
    whole = ",".join((name, *_split(listed)[1:]))
    _taken_apart(whole)
    return whole


def task_count(name: str) -> int:
    """Returns the maximum number of tasks that `find_tasks` returns, without making them. Raises `UserError` for an
    invalid name."""
    if name.startswith(PREFIX):
        return _taken_apart(name).number
    folder = Path(name)
    if names_family(folder):
        return len(read_family_folder(folder).tasks)
    return max(1, sum(1 for path in folder.iterdir() if (path / "task.toml").is_file())) if folder.is_dir() else 1


def _taken_apart(text: str) -> _Family:
    name, *pairs = _split(text.removeprefix(PREFIX))
    if not name:
        raise UserError(f"{text!r} names no family: {_FORM}; `assay plugins` lists families")
    options = read_pairs(pairs, repr(text), _FORM)
    count, seed = options.pop("n", COUNT), options.pop("seed", 0)
    for key, number, least in (("n", count, 1), ("seed", seed, 0)):
        if type(number) is not int or not least <= number <= (MOST if key == "n" else 2**63 - 1):
            raise UserError(f"{key}={number} in {text!r}: expected a whole number, at least {least}; {_FORM}")
    return _Family(name, count, seed, options)


def _split(text: str) -> list[str]:
    """Returns the parts between commas that are outside of JSON's brackets; between all, if a bracket is left open."""
    parts, depth, is_quoted, is_escaped = [""], 0, False, False
    for character in text:
        if character == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += character
        if is_quoted:
            is_quoted, is_escaped = is_escaped or character != '"', not is_escaped and character == "\\"
        elif depth and character == '"':
            is_quoted = True
        else:
            depth += (character in "{[") - (character in "}]")
    return parts if depth == 0 and not is_quoted else text.split(",")
