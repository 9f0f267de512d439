"""Finds files of an agent's that would change how it is judged: configuration, hooks, programs, replaced modules.

Pure: from the list of changes it derives the changes to undo in the judging fork. `sanitise` undoes them.

Covered: files that pytest, Python's start-up, the dynamic loader or a shell read by themselves, programs and libraries
of the image that were changed, modules at import roots that would go before the standard library's or the runner's,
links that lead to the verifier's files, what git runs or includes by the configuration of the image's repositories.
Configuration of the image that was removed is brought back like configuration that was changed.
Not covered: what the task's own script chooses to read or run from the workspace; configuration in a folder that was
removed whole; the configuration of repositories that the agent made itself.
"""

from __future__ import annotations

import posixpath
import re
import sys
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from assay.environments.interface import Change

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_LIBRARIES = ("/lib/", "/lib32/", "/lib64/", "/libx32/", "/usr/lib/", "/usr/lib32/", "/usr/lib64/", "/usr/libexec/")
_LOADER = ("/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d/", "/etc/ld.so.cache")
_PROGRAMS = frozenset({
    "[", "ash", "awk", "basename", "bash", "busybox", "cargo", "cat", "chmod", "chown", "cmp", "cp", "curl", "cut",
    "dash", "date", "diff", "dirname", "echo", "env", "expr", "false", "find", "gcc", "git", "go", "grep", "gzip",
    "head", "install", "java", "kill", "ln", "ls", "make", "mkdir", "mktemp", "mv", "node", "npm", "nproc", "perl",
    "pip", "pip3", "printf", "ps", "pwd", "py.test", "pytest", "python", "python3", "readlink", "realpath", "rm",
    "rmdir", "sed", "seq", "sh", "sleep", "sort", "stat", "sudo", "sync", "tail", "tar", "tee", "test", "time",
    "timeout", "touch", "tr", "true", "uname", "uniq", "unzip", "uv", "uvx", "wc", "wget", "which", "xargs", "xz",
})  # fmt: skip
_CONFIGURATION = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", ".coveragerc"})
_SHARED_CONFIGURATION = frozenset({"pyproject.toml", "setup.cfg", "tox.ini"})
_HOOKS = frozenset({"sitecustomize", "usercustomize"})
_RUNNER = {"_pytest", "coverage", "exceptiongroup", "iniconfig", "packaging", "pluggy", "py", "pygments", "pytest"}
_PROTECTED = sys.stdlib_module_names | _RUNNER
_VERIFIER = ("/logs/", "/tests/", "/solution/", "/opt/assay")


class PlantedChange(NamedTuple):
    """A change to undo: `restore` brings back the image's file, `remove` deletes it, `note` only marks."""

    path: str
    mark: str
    action: Literal["remove", "restore", "note", "compare", "follow"]
    """`compare`: a file with other uses, restored only if its tables for pytest changed. `follow`: a link, removed only
    if it leads to the verifier's files."""


def find_planted(
    changes: Sequence[Change], roots: Sequence[str], keep: Sequence[str] = ()
) -> tuple[PlantedChange, ...]:
    """Returns the changes to undo. `roots` are absolute folders that the verifier imports from; `keep` holds patterns
    (as in `fnmatch`) of paths that the task expects to change."""
    found: dict[str, PlantedChange] = {}
    new_folders = {change.path for change in changes if change.kind == "added" and change.type == "directory"}
    for change in changes:
        if any(fnmatchcase(change.path, pattern) for pattern in keep):
            continue
        planted = _configuration(change) or _git(change, new_folders)
        if change.kind != "removed":
            planted = planted or _system(change) or _stand_in(change, roots) or _verifier(change) or _link(change)
        if planted is not None:
            found.setdefault(planted.path, planted)
    return tuple(found.values())


def _undo(change: Change) -> Literal["remove", "restore"]:
    return "remove" if change.kind == "added" else "restore"


def _configuration(change: Change) -> PlantedChange | None:
    name = posixpath.basename(change.path)
    stem = name.partition(".")[0]
    if name == "conftest.py":
        return PlantedChange(change.path, "conftest", _undo(change))
    if name in _CONFIGURATION:
        return PlantedChange(change.path, "pytest_configuration", _undo(change))
    if name in _SHARED_CONFIGURATION:
        return PlantedChange(change.path, "pytest_configuration", "compare")
    if stem in _HOOKS or (name.endswith(".pth") and change.type != "directory"):
        return PlantedChange(change.path, "start_up_hook", _undo(change))
    return None


def _git(change: Change, new_folders: set[str]) -> PlantedChange | None:
    """Returns a change of the git configuration of the image's repositories; the agent's own ones are its work."""
    top = _git_folder(change.path)
    if top is None or top in new_folders or change.type == "directory":
        return None
    return PlantedChange(change.path, "git_configuration", _undo(change))


def _git_folder(path: str) -> str | None:
    """Returns the innermost folder `.git` whose configuration, hooks or attributes a path is: its own, or those of a
    submodule or work tree inside it. Takes time linear in the path, which an agent chooses."""
    parts = path.split("/")
    last, end = len(parts) - 1, 0
    if parts[last] in ("config", "config.worktree"):
        end = last
    elif parts[-2:] == ["info", "attributes"]:
        end = last - 1
    hooks = [place for place, part in enumerate(parts[:last]) if part == "hooks"]
    ends = {end, *hooks}
    latest = max(ends)
    for place in range(last - 1, 0, -1):
        if parts[place] == ".git":
            is_inner = parts[place + 1] in ("modules", "worktrees") and latest >= place + 3
            if place + 1 in ends or is_inner:
                return "/".join(parts[: place + 1])
    return None


_INCLUDES = re.compile(
    r"^[^\S\n]*(?P<name>path|hookspath|attributesfile)\s*=\s*\"?(?P<path>[^\n\"]+?)\"?\s*$",
    re.MULTILINE | re.IGNORECASE,
)


def git_includes(text: str, top: str, changes: Sequence[Change]) -> tuple[PlantedChange, ...]:
    """Returns the agent's changes to files that the image's configuration of a repository, `text`, names.

    `top` is the repository's work tree, absolute.
    """
    places = []
    for found in _INCLUDES.finditer(text):
        folder = f"{top}/.git" if found["name"].lower() == "path" else top
        places.append(posixpath.normpath(posixpath.join(folder, found["path"])))
    return tuple(
        PlantedChange(change.path, "git_configuration", _undo(change))
        for change in changes
        if change.type != "directory" and any((change.path + "/").startswith(place + "/") for place in places)
    )


def _system(change: Change) -> PlantedChange | None:
    folder, name = posixpath.split(change.path)
    if change.type == "directory":
        return None
    if change.path.startswith(_LOADER):
        return PlantedChange(change.path, "replaced_library", _undo(change))
    if folder in SYSTEM_PATH and (change.kind == "changed" or name in _PROGRAMS):
        return PlantedChange(change.path, "replaced_program", _undo(change))
    if change.kind == "changed" and change.path.startswith(_LIBRARIES):
        return PlantedChange(change.path, "replaced_library", "restore")
    return None


def _stand_in(change: Change, roots: Sequence[str]) -> PlantedChange | None:
    """Returns a new module at an import root that shadows one of the standard library or of the runner."""
    if change.kind != "added":
        return None
    for root in roots:
        inside = change.path.removeprefix(root.rstrip("/") + "/")
        if inside == change.path:
            continue
        first, _, rest = inside.partition("/")
        stem = first.partition(".")[0]
        module = first.endswith((".py", ".pyc", ".so")) and not rest
        package = "." not in first and (rest == "__init__.py" or rest.startswith("__init__."))
        if stem in _PROTECTED and (module or package):
            return PlantedChange(f"{root.rstrip('/')}/{first}", "shadowed_module", "remove")
    return None


def _verifier(change: Change) -> PlantedChange | None:
    if change.path.startswith(_VERIFIER) and change.type != "directory":
        return PlantedChange(change.path, "verifier_paths", "note")
    return None


def _link(change: Change) -> PlantedChange | None:
    return PlantedChange(change.path, "verifier_link", "follow") if change.type == "symlink" else None


MOST_SETTINGS, MOST_PAIRED_DOTS = 128 << 10, 200_000
"""Limits of a `pyproject.toml` that is parsed: its characters, and the sum over its lines of the square of their dots:
the parser takes the square of the parts of a dotted key."""
_LINE_ENDS = re.compile(r"\r\n|\r|\n")


def same_pytest_settings(path: str, one: str, other: str) -> bool:
    """Returns whether pytest reads the same settings from two texts of a configuration file; False for a changed one
    that may hold settings and cannot be read."""
    read = _toml_settings if path.endswith(".toml") else _ini_settings
    try:
        return one == other or read(one) == read(other)
    except (ValueError, RecursionError):
        return False


def _toml_settings(text: str) -> str:
    """Returns the tables of pytest as text. Raises `ValueError` or `RecursionError` if they cannot be read."""
    if "pytest" not in text and "\\" not in text:  # no escape that spells it
        return ""
    if len(text) > MOST_SETTINGS or sum(line.count(".") ** 2 for line in text.split("\n")) > MOST_PAIRED_DOTS:
        raise ValueError("too large to be parsed")
    tool = tomllib.loads(text).get("tool")
    found = tool.get("pytest") if isinstance(tool, dict) else None
    return "" if found is None else repr(found)


def _ini_settings(text: str) -> str:
    """Returns the sections of pytest. A section ends only where every reader sees a line that begins another one."""
    parts: list[str] = []
    is_inside = False
    for line in _LINE_ENDS.split(text):
        names = [piece for piece in line.splitlines() if piece.startswith("[")]
        if any("pytest" in name for name in names):
            is_inside = True
        elif line.startswith("[") and "]" in line:
            is_inside = False
        if is_inside:
            parts.append(line.rstrip())
    return "\n".join(parts).rstrip()
