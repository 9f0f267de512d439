"""Searches for leaked solutions: patches, copies, caches, byte code, archives.

Arguments: `mode` is `solution` (reference solutions and patches) or `caches` (build folders, installed copies, package
archives, byte code); `workdir`; `roots`; `targets` as {path, names}. A match is used at once: a script is run, a patch
applied, a copy written over the target.
"""

from __future__ import annotations

import ast
import base64
import importlib.util
import io
import json
import marshal
import os
import re
import subprocess
import sys
import tarfile
import time
import types
import zipfile
from collections.abc import Iterator

ENDS_AFTER_S, MOST_FILES, MOST_BYTES, MOST_MEMBERS = 6.0, 20_000, 8 << 20, 5000
SKIPPED = frozenset({".git", "proc", "sys", "dev", "node_modules"})
TELLING = re.compile(r"(^|[._/-])(solution|solve|oracle|gold|golden|reference|answer|expected|fixed|patch)([._/-]|$)")
PATCHES, SCRIPTS = (".patch", ".diff"), ("solve.sh", "solution.sh", "oracle.sh")
ARCHIVES = (".whl", ".zip", ".egg", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".body", ".xz")


class Target:
    """A file that solving changes."""

    def __init__(self, path: str, names: list[str]) -> None:
        self.path, self.names, self.base = path, frozenset(names), os.path.basename(path)
        self.present = read(path)
        self.is_python = path.endswith(".py")

    def fits(self, data: bytes) -> bool:
        """Returns whether a content differs and has the required names."""
        if not data.strip() or data.strip() == self.present.strip():
            return False
        if not self.is_python:
            return True
        try:
            tree = ast.parse(data.decode())
        except (ValueError, SyntaxError, RecursionError):
            return False
        has = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
        return bool(self.names) and self.names <= has

    def take(self, data: bytes, where: str) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        with open(self.path, "wb") as file:
            file.write(data)
        sys.stdout.write(f"{self.path} from {where}\n")


def read(path: str) -> bytes:
    """Returns a regular file's first bytes; empty if unreadable."""
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


def files(roots: list[str]) -> Iterator[str]:
    """Yields every file below the roots, until the time limit."""
    began, count = time.monotonic(), 0
    seen: set[str] = set()
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in SKIPPED and os.path.join(folder, f) not in seen)
            if folder == "/opt":  # the runner's own tools are no part of the image
                folders[:] = [f for f in folders if "assay" not in f]
            seen.update(os.path.join(folder, f) for f in folders)
            for name in sorted(names):
                count += 1
                if count > MOST_FILES or time.monotonic() - began > ENDS_AFTER_S:
                    return
                yield os.path.join(folder, name)


def members(path: str) -> Iterator[tuple[str, bytes]]:
    """Yields the files of an archive."""
    data = read(path)
    try:
        if zipfile.is_zipfile(io.BytesIO(data)):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for entry in archive.infolist()[:MOST_MEMBERS]:
                    if entry.file_size <= MOST_BYTES and not entry.is_dir():
                        yield entry.filename, archive.read(entry)
        elif data:
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for _, member in zip(range(MOST_MEMBERS), tar):
                    opened = tar.extractfile(member) if member.isfile() and member.size <= MOST_BYTES else None
                    if opened is not None:
                        yield member.name, opened.read()
    except (OSError, ValueError, tarfile.TarError, zipfile.BadZipFile, EOFError, RuntimeError):
        return


def byte_code(path: str) -> tuple[frozenset[str], str] | None:
    """Returns the names in a byte code file and a module that runs it; None for another Python version."""
    data = read(path)
    if data[:4] != importlib.util.MAGIC_NUMBER:
        return None
    try:
        code = marshal.loads(data[16:])
    except (ValueError, EOFError, TypeError):
        return None
    if not isinstance(code, types.CodeType):
        return None
    names = frozenset(c.co_name for c in code.co_consts if isinstance(c, types.CodeType))
    packed = base64.b64encode(data[16:]).decode()
    return names, f"import base64, marshal\nexec(marshal.loads(base64.b64decode({packed!r})))\n"


def is_stale(path: str) -> bool:
    """Returns whether byte code was compiled from a source other than the one beside it."""
    source = importlib.util.source_from_cache(path) if "__pycache__" in path else path[:-1]
    if not os.path.exists(source):
        return True
    data = read(path)
    if int.from_bytes(data[4:8], "little"):
        return data[8:16] != importlib.util.source_hash(read(source))
    status = os.stat(source)
    made = (int.from_bytes(data[8:12], "little"), int.from_bytes(data[12:16], "little"))
    return made != (int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)


def from_caches(roots: list[str], targets: list[Target]) -> None:
    """Takes the first matching copy, archive member or byte code."""
    waiting = {t.path: t for t in targets}
    stems = {t.base[:-3] for t in targets if t.is_python}
    compiled: list[str] = []
    for path in files(roots):
        if not waiting:
            return
        if path.endswith(".pyc") and ("-packages/" not in path or os.path.basename(path).partition(".")[0] in stems):
            compiled.append(path)
        cached = path.endswith(ARCHIVES) or "/pip/" in path or "/uv/" in path
        for target in list(waiting.values()):
            same = os.path.basename(path) == target.base and path != target.path
            inside = [data for name, data in members(path) if os.path.basename(name) == target.base] if cached else []
            for data in [*([read(path)] if same else []), *inside]:
                if target.path in waiting and target.fits(data):
                    target.take(data, path)
                    del waiting[target.path]
    for target in [t for t in waiting.values() if t.is_python and t.names]:
        stem = target.base[:-3]
        near = sorted(compiled, key=lambda p: (not os.path.basename(p).startswith(stem + "."), p))
        for path in near:
            found = byte_code(path) if is_stale(path) else None
            if found is not None and target.names <= found[0]:
                target.take(found[1].encode(), path)
                break


def from_solutions(workdir: str, roots: list[str], targets: list[Target]) -> None:
    """Tries copies named as solutions, then patches, then scripts."""
    waiting = {t.path: t for t in targets}
    patches, scripts = [], []
    for path in files(roots):
        telling = TELLING.search(path.lower()) is not None
        for target in list(waiting.values()):
            other = os.path.basename(path)
            alike = other == target.base or (other.startswith(target.base) and other != target.base)
            ending = os.path.splitext(target.base)[1]
            if path != target.path and (alike or (telling and path.endswith(ending or "\0"))):
                data = read(path)
                if target.fits(data) and (telling or target.is_python):
                    target.take(data, path)
                    waiting.pop(target.path, None)
        patches += [path] if telling and path.endswith(PATCHES) else []
        scripts += [path] if os.path.basename(path) in SCRIPTS else []
    if waiting:
        use(workdir, patches, scripts)


def use(workdir: str, patches: list[str], scripts: list[str]) -> None:
    """Applies the first applicable patch, else runs the scripts."""
    for path in patches[:10]:
        for strip in ("-p1", "-p0"):
            command = ["patch", "--batch", "--forward", strip, "-d", workdir, "-i", path]
            if finished([*command, "--dry-run"]) and finished(command):
                sys.stdout.write(f"applied {path}\n")
                return
    for path in scripts[:3]:
        sys.stdout.write(f"ran {path}: {finished(['sh', path])}\n")


def finished(command: list[str]) -> bool:
    """Returns whether a command exits with 0."""
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def main() -> None:
    given = json.loads(sys.argv[1])
    targets = [Target(t["path"], t["names"]) for t in given["targets"]]
    roots = list(dict.fromkeys(given["roots"]))
    if given["mode"] == "caches":
        from_caches(roots, targets)
    else:
        from_solutions(given["workdir"], roots, targets)


if __name__ == "__main__":
    main()
