"""Agents that hand in nothing that works: an empty answer, comments, a crash. A sound verifier fails each.

They know the files that solving changes and write those without the solution. `null` hands in nothing.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator

from assay.code.source import parse_tree
from assay.environments.interface import Workspace
from assay.errors import AgentError

from .cheats.interface import Knowledge, SolutionFile
from .interface import Attempt

_HASH = (".bash", ".cfg", ".conf", ".ini", ".pl", ".py", ".r", ".rb", ".sh", ".toml", ".yaml", ".yml", ".mk", ".txt")
_SLASHES = (".c", ".cc", ".cpp", ".go", ".h", ".hpp", ".java", ".js", ".kt", ".php", ".rs", ".scala", ".swift", ".ts")
_TAGS = (".html", ".md", ".svg", ".xml")
_CRASHES = {
    ".py": b'raise SystemExit("crashed at once")\n',
    ".sh": b"exit 70\n",
    ".bash": b"exit 70\n",
    ".js": b"process.exit(70);\n",
    ".rb": b"exit 70\n",
    ".pl": b"exit 70;\n",
}
_SHEBANGS = {b"python": ".py", b"bash": ".sh", b"/sh": ".sh", b"node": ".js", b"ruby": ".rb", b"perl": ".pl"}


class _FileWritingAgent:
    needs_model = False
    name = "null"
    finish_message = ""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def files(self) -> Iterator[tuple[SolutionFile, bytes]]:
        """Returns the files to write; empty if none is suitable."""
        raise NotImplementedError

    async def run(self, attempt: Attempt) -> None:
        written = [await _write(attempt.workspace, known, data) for known, data in self.files()]
        attempt.finish(f"{self.finish_message} in {len(written)} files")


async def _write(workspace: Workspace | None, known: SolutionFile, data: bytes) -> str:
    if workspace is None:
        raise AgentError("the environment has no files to write")
    try:
        await workspace.write(known.path, data, mode=known.mode & 0o777)
    except OSError as exc:
        raise AgentError(f"{known.path} cannot be written: {exc.strerror or exc}") from exc
    return known.path


class EmptyAnswerAgent(_FileWritingAgent):
    """Leaves every expected file without content: `{}`, an empty table, functions that return None."""

    name = "null:empty-answer"
    finish_message = "left an empty answer"

    def files(self) -> Iterator[tuple[SolutionFile, bytes]]:
        for known in self._knowledge.judged:
            data = _empty_answer(known)
            if data is not None and data not in (known.after, known.before):
                yield known, data


class CommentsAgent(_FileWritingAgent):
    """Adds only comments or blank lines."""

    name = "null:comments"
    finish_message = "left comments or blank lines"

    def files(self) -> Iterator[tuple[SolutionFile, bytes]]:
        for known in self._knowledge.judged:
            base = (known.before or b"").rstrip(b"\n")
            if _removed(known) or b"\0" in base:
                continue
            yield known, base + (b"\n" if base else b"") + _comment(known.path)


class CrashAgent(_FileWritingAgent):
    """Leaves programs that exit with an error; if the task wants no program, the agent itself crashes."""

    name = "null:crash"
    finish_message = "left programs that crash at once"

    def files(self) -> Iterator[tuple[SolutionFile, bytes]]:
        for known in self._knowledge.judged:
            kind = posixpath.splitext(known.path)[1] or _shebang(known)
            if kind in _CRASHES and not _removed(known):
                first = (known.after or b"").partition(b"\n")[0]
                yield known, (first + b"\n" if first.startswith(b"#!") else b"") + _CRASHES[kind]

    async def run(self, attempt: Attempt) -> None:
        """Raises `AgentError` if the task wants no program."""
        if not any(True for _ in self.files()):
            raise AgentError("crashed at once, on purpose")
        await super().run(attempt)


NULLS: dict[str, Callable[[Knowledge], _FileWritingAgent]] = {
    "empty": EmptyAnswerAgent,
    "comments": CommentsAgent,
    "crash": CrashAgent,
}
"""Maps a probe's name to its agent."""


def _removed(known: SolutionFile) -> bool:
    """Returns whether solving removes the file (or it is too large to know)."""
    return known.after is None


def _shebang(known: SolutionFile) -> str:
    first = (known.after or b"").partition(b"\n")[0]
    return next((kind for word, kind in _SHEBANGS.items() if first.startswith(b"#!") and word in first), "")


def _comment(path: str) -> bytes:
    ending = posixpath.splitext(path)[1].lower()
    if ending in _HASH or posixpath.basename(path) in ("Makefile", "Dockerfile"):
        return b"# to be done\n"
    if ending in _SLASHES:
        return b"// to be done\n"
    if ending in _TAGS:
        return b"<!-- to be done -->\n"
    return b"\n"


def _empty_answer(known: SolutionFile) -> bytes | None:
    """Returns the file without its answer; None if impossible."""
    if _removed(known):
        return None
    ending = posixpath.splitext(known.path)[1].lower()
    if ending == ".py":
        return (
            _stub_functions(known.before or b"")
            if known.before is not None
            else _stub_functions(known.after or b"", bare=True)
        )
    if known.before is not None:
        return None  # what is there already is no answer yet
    if ending == ".json":
        return b"[]\n" if (known.after or b"").lstrip().startswith(b"[") else b"{}\n"
    return b""


_SHAPE = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _stub_functions(source: bytes, *, bare: bool = False) -> bytes | None:
    """Returns a module whose functions keep names and parameters and return None; with `bare`, nothing else, since the
    top-level code of a new program is the answer itself."""
    try:
        tree = parse_tree(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if bare:
        tree.body = [node for node in tree.body if isinstance(node, _SHAPE)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Return(ast.Constant(None))]
    try:
        return (ast.unparse(ast.fix_missing_locations(tree)) + "\n").encode()
    except (RecursionError, ValueError):
        return None
