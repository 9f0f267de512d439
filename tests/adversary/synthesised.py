"""Reads a synthesised repair task: its package as the agent finds it, the reference repair, and what that changes."""

from __future__ import annotations

import base64
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from assay.code.source import FunctionInfo, functions, parse
from assay.verify.separation_plan import SeparationPlan, load_plan

__all__ = ["RepairTask", "function_at", "script_of_edits"]

WORKDIR = "/workspace"
_WRITER = """import base64, json, pathlib, zlib
for path, start, end, new in json.loads(zlib.decompress(base64.b64decode(EDITS))):
    file = pathlib.Path("/workspace", path)
    text = file.read_bytes().decode() if file.exists() else ""
    file.write_bytes((text[:start] + new + text[end:]).encode())
"""


class RepairTask:
    """One task folder. Texts are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name

    @cached_property
    def broken(self) -> dict[str, str]:
        """Returns every Python file below the working folder, as the agent finds it."""
        files = {}
        with tarfile.open(self.folder / "environment" / "source.tar.gz") as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.name.endswith(".py") and member.isfile() else None
                if stream is not None:
                    files[str(PurePosixPath(member.name))] = stream.read().decode()
        changed = self.folder / "environment" / "changed"
        for path in sorted(changed.rglob("*.py")):
            files[path.relative_to(changed).as_posix()] = path.read_bytes().decode()
        return files

    @cached_property
    def fixes(self) -> list[dict[str, object]]:
        """Returns the reference's replaced spans: `path`, `start`, `broken`, `right`."""
        fixes: list[dict[str, object]] = json.loads((self.folder / "solution" / "fix.json").read_text("utf-8"))
        return fixes

    @cached_property
    def repaired(self) -> dict[str, str]:
        """Returns the files that the reference changes, repaired."""
        files: dict[str, str] = {}
        for fix in self.fixes:
            path, start = str(fix["path"]), int(str(fix["start"]))
            text = files.get(path, self.broken[path])
            end = start + len(str(fix["broken"]))
            if text[start:end] != fix["broken"]:
                raise ValueError(f"{self.id}: {path} is not as the task left it")
            files[path] = text[:start] + str(fix["right"]) + text[end:]
        return files

    @cached_property
    def plan(self) -> SeparationPlan:
        """Returns the separation plan."""
        plan = load_plan(self.folder)
        if plan is None:
            raise ValueError(f"{self.id} has no separation plan")
        return plan

    def repaired_functions(self) -> Iterator[tuple[str, FunctionInfo]]:
        """Yields path and function of each repaired place, as in the repaired text."""
        seen = set()
        for fix in self.fixes:
            path = str(fix["path"])
            program = parse(self.repaired[path])
            first = program.line_of(int(str(fix["start"])))
            found = function_at(self.repaired[path], first)
            if found is not None and (path, found.name) not in seen:
                seen.add((path, found.name))
                yield path, found

    def entry_functions(self) -> Iterator[tuple[str, FunctionInfo]]:
        """Yields path and function of each entry point of the plan, as in the repaired text."""
        for entry in self.plan.entries:
            stem = entry.module.replace(".", "/")
            path = next((p for p in (f"{stem}.py", f"{stem}/__init__.py", f"src/{stem}.py") if p in self.broken), None)
            if path is None:
                continue
            for function in functions(parse(self.repaired.get(path, self.broken[path]))):
                if function.name == entry.qualname:
                    yield path, function
                    break


def function_at(text: str, line: int) -> FunctionInfo | None:
    """Returns the outermost function that holds a line; None where none does."""
    every = [f for f in functions(parse(text)) if f.line <= line <= f.end_line and "<locals>" not in f.name]
    return every[0] if every else None


def script_of_edits(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Returns a shell script that turns the files `before` into those `after`, one replaced span a file."""
    edits = []
    for path, new in sorted(after.items()):
        old = before.get(path, "")
        start = _common(old, new)
        tail = _common(old[start:][::-1], new[start:][::-1])
        edits.append([path, start, len(old) - tail, new[start : len(new) - tail]])
    packed = base64.b64encode(zlib.compress(json.dumps(edits).encode(), 9)).decode()
    return f"python3 -I - <<'PYTHON'\nEDITS = '{packed}'\n{_WRITER}PYTHON\n"


def _common(one: str, two: str) -> int:
    """Returns how many characters two texts begin with in common."""
    most = min(len(one), len(two))
    return next((n for n in range(most) if one[n] != two[n]), most)
