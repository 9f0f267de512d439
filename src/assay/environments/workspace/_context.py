"""Build context: the files that COPY and ADD may use, without those that `.dockerignore` names.

Invariant: no pattern and no link leads outside the folder, and ignored files cannot be copied by name.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
import shutil
import tempfile
from pathlib import Path

from assay.environments.workspace import _layers

Rule = tuple[bool, re.Pattern[str]]


class MissingFileError(ValueError):
    """Nothing matches a source pattern."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}: {fix}")
        self.problem, self.fix = problem, fix


class Context:
    """Folder of a build context."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        ignore = self._folder / ".dockerignore"
        self._rules = ignore_rules(ignore.read_text(encoding="utf-8")) if ignore.is_file() else []

    def find(self, pattern: str, work: Path) -> list[Path]:
        """Returns what matches a source pattern of COPY, without ignored files: the path itself, or a copy in `work` of
        a folder that holds some. Raises as `match`."""
        return [self._copy_visible(path, work) for path in self.match(pattern)]

    def match(self, pattern: str) -> list[Path]:
        """Returns the paths that match a source pattern of COPY and are not ignored. Raises `ValueError` if none is."""
        if "://" in pattern or pattern.startswith("git@"):
            raise ValueError(f"{pattern} is not a local file: fetch it with RUN, or put it into the folder")
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ValueError(f"{pattern} leads outside the folder")
        matches = [self._folder]
        for part in parts:
            matches = [inner for outer in matches for inner in _match_names(outer, part)]
        visible = [path for path in matches if not self._is_hidden(path)]
        if not visible:
            raise self._missing(pattern, parts, ignored=bool(matches))
        return [self._resolve_inside(path, pattern) for path in visible]

    def _missing(self, pattern: str, parts: list[str], *, ignored: bool) -> MissingFileError:
        name = f"{self._folder.name}/"
        if ignored:
            return MissingFileError(f"{pattern} is left out by {name}.dockerignore", "correct one of the two")
        parent = self._folder.joinpath(*parts[:-1])
        names = [path.name for path in parent.iterdir()] if parent.is_dir() else []
        near = difflib.get_close_matches(parts[-1], names, n=1) if parts else []
        fix = f"did you mean {'/'.join([*parts[:-1], near[0]])}?" if near else "put it there, or correct the path"
        return MissingFileError(f"{pattern} is not in {name}, from which the Dockerfile copies", fix)

    def _is_hidden(self, path: Path) -> bool:
        name = path.relative_to(self._folder).as_posix()
        return name != "." and not path.is_dir() and is_ignored(name, self._rules)

    def _resolve_inside(self, path: Path, pattern: str) -> Path:
        real = path.resolve()
        if self._folder not in (real, *real.parents):
            raise ValueError(f"{pattern} is a link that leads outside the folder")
        if not real.exists():
            raise ValueError(f"{pattern} is a link to nothing")
        return real

    def _copy_visible(self, path: Path, work: Path) -> Path:
        """Returns the path itself, or a copy of the folder without ignored files."""
        if not path.is_dir() or not self._rules:
            return path
        copy = Path(tempfile.mkdtemp(dir=work)) / (path.name or "context")
        for source in _layers.walk(path):
            name = source.host.relative_to(self._folder).as_posix()
            if source.host.is_dir() and not source.host.is_symlink():
                if not source.path or not is_ignored(name, self._rules):
                    _copy_folder(source.host, copy / source.path)
            elif not is_ignored(name, self._rules):
                _make_parents(path, copy, source.path)
                shutil.copy2(source.host, copy / source.path, follow_symlinks=False)
        return copy


def _copy_folder(source: Path, copy: Path) -> None:
    copy.mkdir(parents=True, exist_ok=True)
    copy.chmod(source.stat().st_mode & 0o777)


def _make_parents(source: Path, copy: Path, inner: str) -> None:
    for parent in reversed(Path(inner).parents):
        if not (copy / parent).exists():
            _copy_folder(source / parent, copy / parent)


def _match_names(folder: Path, part: str) -> list[Path]:
    if not any(char in part for char in "*?["):
        return [folder / part] if (folder / part).exists() or (folder / part).is_symlink() else []
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if fnmatch.fnmatchcase(path.name, part))


def ignore_rules(text: str) -> list[Rule]:
    """Parses a `.dockerignore`: a pattern a line, `!` includes again, `**` is any number of folders; the last wins."""
    rules: list[Rule] = []
    for line in text.splitlines():
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        visible = pattern.startswith("!")
        parts = [part for part in pattern.removeprefix("!").strip().split("/") if part not in ("", ".")]
        if parts:
            rules.append((not visible, re.compile(_translate_parts(parts))))
    return rules


def _translate_parts(parts: list[str]) -> str:
    out = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out += ".*" if last else "(?:[^/]+/)*"
        else:
            body = fnmatch.translate(part).removeprefix("(?s:").removesuffix(r")\Z").replace(".*", "[^/]*")
            out += body + ("" if last else "/")
    return f"(?s:{out})(?:/.*)?\\Z"


def is_ignored(name: str, rules: list[Rule]) -> bool:
    """Returns True if a path relative to the context is ignored."""
    ignored = False
    for is_hidden, expression in rules:
        if expression.match(name):
            ignored = is_hidden
    return ignored
