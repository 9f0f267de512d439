"""The verifier's sandbox: a fresh fork of the final state, with tests mounted only then and planted changes undone.

Covered: the verifier's own user, folders and environment; the agent's processes are dead before the fork; no
program of the agent's runs while its changes are undone. Not covered: a task image whose own files are hostile.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.code.suspicion import MOST_TEXT, Suspicion, decode_source, suspicions
from assay.environments.interface import Backend, Change, Mount, ProcessInfo, Snapshot, Workspace, WorkspaceSpec
from assay.errors import EnvironmentFailure, VerifierError
from assay.verify._staging import stage_programs
from assay.verify.host_load import metered_sandbox
from assay.verify.planted_files import SYSTEM_PATH, PlantedChange, find_planted, git_includes, same_pytest_settings

SUPERVISOR = "/opt/assay-verify"
TOOLS = "/opt/assay"
PYTHON = f"{TOOLS}/bin/python3"
RUNNER = (PYTHON, "-I", "-B", f"{SUPERVISOR}/runner.py")
"""Beginning of each command that runs tests."""
REWARDS, RECORDS, HOME = "/logs/verifier", "/logs/recorder", "/run/verifier"
MOST_SOURCES, MOST_OTHERS, AT_A_TIME = 3000, 400, 5000
MOST_SOURCE_BYTES = 48 << 20
"""Limit of all changed source files together that are read; each may have `MOST_TEXT`."""
LINKS_AT_A_TIME, FOLLOWING_S = 1000, 20.0
MOST_REMEMBERED = 4096
"""Bytes of a new file whose suspicions are remembered: most stand-ins for a module are shorter, and all of one text."""
MOST_COMPARED = 200
"""Changed configuration files that are read; more of them are the image's again, unread."""
MOST_RESTORED = 64 << 20
MOST_REPOSITORIES = 20
_EMPTY = (
    "BASH_ENV", "ENV", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONHOME",
    "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONBREAKPOINT", "COVERAGE_PROCESS_START",
    "GCONV_PATH", "PERL5OPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "GIT_CONFIG_GLOBAL",
)  # fmt: skip
_REMOVE = """
import json, os, shutil, sys
for path in json.load(sys.stdin):
    try:
        if os.path.isdir(path) and not os.path.islink(path): shutil.rmtree(path)
        else: os.unlink(path)
    except FileNotFoundError: pass
    except NotADirectoryError: pass
"""


_NATIVE, _BYTE_CODE = (".so", ".pyd"), (".pyc", ".pyo")
_ODD = "\ufffd"
"""Character in a path of a change for bytes that are not text."""


_FOLLOW = """
import json, os, sys
given = json.load(sys.stdin)
sys.setrecursionlimit(120)  # a call for each link of a chain: the kernel follows 40
def leads_inside(path):
    try:
        return os.path.islink(path) and (os.path.realpath(path) + "/").startswith(tuple(given["places"]))
    except RecursionError:
        return False
print(json.dumps([path for path in given["links"] if leads_inside(path)]))
"""
_OWN = ("/tests/", "/solution/", "/logs/verifier/", "/logs/recorder/", "/opt/assay", "/run/verifier/", "/proc/")
"""Paths to which no answer of an agent's may link."""


class SuspectFile(NamedTuple):
    """New suspicions about one changed file."""

    path: str
    found: tuple[Suspicion, ...]


class Findings(NamedTuple):
    planted: tuple[PlantedChange, ...]
    suspects: tuple[SuspectFile, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        names = [p.mark for p in self.planted] + [s.name for suspect in self.suspects for s in suspect.found]
        return tuple(sorted(set(names)))

    def untrusted(self, allowed: Sequence[str]) -> tuple[str, ...]:
        """Returns the names of suspicions that make a pass doubtful, except those that the task allows."""
        names = {s.name for suspect in self.suspects for s in suspect.found if s.untrustworthy}
        return tuple(sorted(names - set(allowed)))


def has_tool_layer(spec: WorkspaceSpec) -> bool:
    return any(mount.target.rstrip("/") == TOOLS for mount in spec.mounts)


class NotIsolated(VerifierError):
    """A backend without isolation cannot judge: it cannot hide the tests from the agent, nor the agent's files from the
    tests. The verdict is an `error` with these marks."""

    marks = ("not_isolated",)


def require_mounts(backend: Backend) -> None:
    """Raises `NotIsolated` if a backend has no file system of its own for mounting tests."""
    if backend.name == "process":
        raise NotIsolated(
            "not judged: the backend 'process' isolates nothing, so the tests would run among what the agent left, on "
            "the machine itself. Run again with --backend namespaces, bubblewrap, podman or docker; `assay doctor` "
            "says which works here and what the others need"
        )


def supervisor_folder() -> Path:
    """Returns the staged folder of the supervisor of test runs."""
    return stage_programs(Path(__file__).with_name("payload") / "assay_supervisor")


def verifier_spec(given: WorkspaceSpec, mounts: Sequence[Mount], env: dict[str, str]) -> WorkspaceSpec:
    """Returns the verifier's spec: its user, a clean environment, the tests and fresh folders."""
    with_tools = has_tool_layer(given)
    programs = (Mount(str(supervisor_folder()), SUPERVISOR, is_own=True),) if with_tools else ()
    front = (f"{SUPERVISOR}/bin", f"{TOOLS}/bin") if with_tools else ()
    clean = {
        **dict.fromkeys(_EMPTY, ""),
        **{name: value for name, value in given.env.items() if name not in _EMPTY},
        "HOME": HOME,
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        **env,
        "PATH": ":".join((*front, *SYSTEM_PATH)),
    }
    return msgspec.structs.replace(
        given,
        user="verifier",
        env=clean,
        mounts=(*given.mounts, *programs, *mounts),
        tmpfs=(*given.tmpfs, REWARDS, RECORDS, HOME),
    )


def runner_spec(given: WorkspaceSpec, mounts: Sequence[Mount], env: dict[str, str]) -> WorkspaceSpec:
    """Returns `verifier_spec` for a sandbox that runs tests by `RUNNER`: an interpreter that has imported it, and
    pytest, is forked where the tier can."""
    return msgspec.structs.replace(verifier_spec(given, mounts, env), preload=RUNNER)


@asynccontextmanager
async def opened(backend: Backend, spec: WorkspaceSpec, state: Snapshot | None = None) -> AsyncIterator[Workspace]:
    workspace = await backend.open(spec, state=state)
    with metered_sandbox(workspace):
        try:
            yield workspace
        finally:
            await asyncio.shield(workspace.close())


class CleanupPlan(NamedTuple):
    """Changes to undo, and the backend and spec for reading the image."""

    backend: Backend
    base: WorkspaceSpec
    """The agent's spec."""
    changes: tuple[Change, ...]
    planned: tuple[PlantedChange, ...]


async def clean(workspace: Workspace, undoing: CleanupPlan) -> Findings:
    """Undoes planted changes and inspects changed files. Call it before any other command."""
    async with _opened_image(undoing) as pristine:
        findings = await _find(workspace, pristine, undoing)
        await _undo(workspace, pristine, undoing, findings.planted)
    return findings


async def inspect_changes(workspace: Workspace, undoing: CleanupPlan) -> Findings:
    """Returns the same findings without undoing anything, for a sandbox in which nothing decides."""
    async with _opened_image(undoing) as pristine:
        return await _find(workspace, pristine, undoing)


@asynccontextmanager
async def _opened_image(undoing: CleanupPlan) -> AsyncIterator[_ImageFiles]:
    pristine = _ImageFiles(undoing.backend, undoing.base)
    try:
        yield pristine
    finally:
        await pristine.close()


class _ImageFiles:
    """Files of the initial image, which is opened only when one is needed."""

    def __init__(self, backend: Backend, spec: WorkspaceSpec) -> None:
        self._backend = backend
        self._spec = msgspec.structs.replace(spec, user="verifier")
        self._workspace: Workspace | None = None

    async def read(self, path: str) -> bytes | None:
        if self._workspace is None:
            self._workspace = await self._backend.open(self._spec)
        return await _read(self._workspace, path)

    async def close(self) -> None:
        if self._workspace is not None:
            await self._workspace.close()


async def _read(workspace: Workspace, path: str, limit: int = MOST_RESTORED) -> bytes | None:
    try:
        return await workspace.read(path, limit=limit)
    except (OSError, ValueError):
        return None


async def _find(workspace: Workspace, pristine: _ImageFiles, undoing: CleanupPlan) -> Findings:
    planned = undoing.planned
    done = [p for p in planned if p.action == "note"]
    for number, planted in enumerate(p for p in planned if p.action == "compare"):
        if number >= MOST_COMPARED or await _tables_changed(workspace, pristine, planted.path):
            done.append(planted._replace(action="restore"))
    done += [p for p in planned if p.action in ("remove", "restore")]
    done += await _included_by_git(workspace, pristine, undoing.changes)
    done += await _find_links_to(workspace, [p for p in planned if p.action == "follow"])
    gone = [p.path for p in done if p.action != "note"]
    suspects = await _suspects(workspace, pristine, undoing.changes, frozenset(gone))
    return Findings(tuple(done), suspects)


async def _undo(
    workspace: Workspace, pristine: _ImageFiles, undoing: CleanupPlan, done: tuple[PlantedChange, ...]
) -> None:
    gone = [p.path for p in done if p.action != "note"]
    await remove_paths(workspace, [*gone, *caches_of(undoing.changes)])
    for planted in done:
        original = await pristine.read(planted.path) if planted.action == "restore" else None
        if original is not None:
            await workspace.write(planted.path, original, mode=0o755)


async def _find_links_to(workspace: Workspace, links: list[PlantedChange]) -> list[PlantedChange]:
    """Returns the agent's links that lead to the verifier's files, for removal: an answer that is such a link would be
    compared with itself. So are those that take too long to follow, and all after them. Empty without the tool layer.
    """
    found: set[str] = set()
    for start in range(0, len(links) if has_tool_layer(workspace.spec) else 0, LINKS_AT_A_TIME):
        given = {"links": [p.path for p in links[start : start + LINKS_AT_A_TIME]], "places": _OWN}
        argv = [PYTHON, "-I", "-S", "-B", "-c", _FOLLOW]
        told = await workspace.exec(
            argv, stdin=json.dumps(given).encode(), timeout_s=FOLLOWING_S, cwd="/", show_bytes=16 << 20
        )
        if told.timed_out:
            found.update(p.path for p in links[start:])
            break
        try:
            found.update(msgspec.json.decode(told.stdout.encode(), type=list[str]))
        except msgspec.MsgspecError as exc:
            raise EnvironmentFailure(f"links that the agent left could not be followed: {told.stderr[-500:]}") from exc
    return [p._replace(action="remove") for p in links if p.path in found]


async def _included_by_git(
    workspace: Workspace, pristine: _ImageFiles, changes: tuple[Change, ...]
) -> list[PlantedChange]:
    """Returns changed files that the image's configuration of a repository makes git read or run."""
    inside = {c.path.partition("/.git/")[0] for c in changes if "/.git/" in c.path}
    if not changes:
        return []
    found: list[PlantedChange] = []
    for top in sorted(inside | {workspace.spec.workdir.rstrip("/")})[:MOST_REPOSITORIES]:
        if top in inside or await _read(workspace, f"{top}/.git/config") is not None:
            text = await pristine.read(f"{top}/.git/config")
            found += git_includes((text or b"").decode(errors="replace"), top, changes)
    return found


def caches_of(changes: Sequence[Change]) -> list[str]:
    """Returns folders of cached byte code with changes: usually honest, but never loaded."""
    name = "/__pycache__"
    inside = [c.path for c in changes if c.kind != "removed" and (c.path + "/").count(name + "/")]
    return list(dict.fromkeys(path[: path.index(name) + len(name)] for path in inside))


async def _tables_changed(workspace: Workspace, pristine: _ImageFiles, path: str) -> bool:
    before = await pristine.read(path)
    try:
        now = await workspace.read(path, limit=MOST_TEXT)
    except FileNotFoundError:
        now = b""
    except (OSError, ValueError):
        return True
    texts = [(data or b"").decode(errors="replace") for data in (now, before)]
    return not await asyncio.to_thread(same_pytest_settings, path, texts[0], texts[1])


async def remove_paths(workspace: Workspace, paths: list[str]) -> None:
    """Removes paths by the tool layer's Python, which is read-only in the sandbox; else by the image's `rm`."""
    if not paths:
        return
    for start in range(0, len(paths), AT_A_TIME):
        some = paths[start : start + AT_A_TIME]
        if has_tool_layer(workspace.spec):
            argv = [PYTHON, "-I", "-S", "-B", "-c", _REMOVE]
            result = await workspace.exec(argv, stdin=json.dumps(some).encode(), cwd="/")
        else:
            result = await workspace.exec(["/bin/rm", "-rf", "--", *some], cwd="/")
        if result.exit_code != 0:
            raise EnvironmentFailure(f"planted changes could not be removed: {result.stderr[-500:]}")


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py" or "/tests/" in path


async def _suspects(
    workspace: Workspace, pristine: _ImageFiles, changes: tuple[Change, ...], gone: frozenset[str]
) -> tuple[SuspectFile, ...]:
    """Returns new suspicions about changed files, except files that are undone."""
    suspects: list[SuspectFile] = []
    files = [c for c in changes if _may_hold_code(c) and c.kind != "removed" and c.path not in gone]
    sources = [c for c in files if c.path.endswith(".py")]
    others = [c for c in files if not c.path.endswith(".py")]
    for some, most in ((sources[:MOST_SOURCES], MOST_SOURCE_BYTES), (others[:MOST_OTHERS], MOST_OTHERS * MOST_TEXT)):
        reader = _BoundedReader(workspace, most)
        for change in some:
            named = await _suspicions_of(reader, pristine, change)
            if named:
                suspects.append(SuspectFile(change.path, named))
    if len(sources) > MOST_SOURCES:
        told = f"{len(sources) - MOST_SOURCES} more changed source files"
        suspects.append(SuspectFile("", (Suspicion("unread_files", told, 1),)))
    return tuple(suspects)


class _BoundedReader:
    """Reads files of at most `most` bytes together; one that is too long for the rest raises `ValueError`."""

    def __init__(self, workspace: Workspace, most: int) -> None:
        self._workspace = workspace
        self._left = most

    async def read(self, path: str) -> bytes:
        data = await self._workspace.read(path, limit=min(MOST_TEXT, self._left))
        self._left -= len(data)
        return data


def _may_hold_code(change: Change) -> bool:
    """Returns whether a change is a file, or a link with a module's name; the link's target may have any name."""
    linked = change.type == "symlink" and change.path.endswith((".py", *_NATIVE, *_BYTE_CODE))
    return change.type == "file" or linked


async def _suspicions_of(reader: _BoundedReader, pristine: _ImageFiles, change: Change) -> tuple[Suspicion, ...]:
    path = change.path
    if "/__pycache__/" in path:
        return ()
    for endings, name in ((_NATIVE, "native_code"), (_BYTE_CODE, "byte_code")):
        if path.endswith(endings):
            return (Suspicion(name, path, 1),)
    source = path.endswith(".py")
    if change.size is not None and change.size > MOST_TEXT:
        return (Suspicion("too_large", f"{change.size} bytes", 1),) if source else ()
    try:
        data = await reader.read(path)
    except FileNotFoundError:  # a mount stands there, or a link leads nowhere; of an odd name nobody can say
        return (Suspicion("unread_files", path, 1),) if source and _ODD in path else ()
    except (OSError, ValueError) as exc:
        return (Suspicion("unread_files", f"{path}: {exc}"[:200], 1),) if source else ()
    if not source:
        names = [name for name in (b"/logs/verifier", b"reward.txt", b"reward.json") if name in data]
        return tuple(Suspicion("verifier_paths", name.decode(), 1) for name in names)
    named = (
        await asyncio.to_thread(_compare, path, None, data) if len(data) > MOST_REMEMBERED else _compare_new(path, data)
    )
    before = await pristine.read(path) if named and change.kind == "changed" else None
    return named if before is None else await asyncio.to_thread(_compare, path, before, data)


def _compare_new(path: str, data: bytes) -> tuple[Suspicion, ...]:
    """As `_compare`, for a short new file. Stand-ins for many modules have one text, in attempt after attempt."""
    return tuple(s for s in _suspicions_in(data) if not (_is_test(path) and _is_ordinary_in_tests(s)))


@lru_cache(maxsize=256)
def _suspicions_in(data: bytes) -> tuple[Suspicion, ...]:
    text, hidden = decode_source(data)
    return (*hidden, *suspicions(None, text))


def _compare(path: str, before: bytes | None, after: bytes) -> tuple[Suspicion, ...]:
    """Returns new suspicions about a file, except those that are ordinary in a test."""
    text, hidden = decode_source(after)
    named = (*hidden, *suspicions(None if before is None else decode_source(before)[0], text))
    return tuple(s for s in named if not (_is_test(path) and _is_ordinary_in_tests(s)))


def _is_ordinary_in_tests(suspicion: Suspicion) -> bool:
    inner = "_pytest" in suspicion.what or "pluggy" in suspicion.what
    return suspicion.name == "test_files" or (suspicion.name == "test_runner" and not inner)


async def left_running(
    workspace: Workspace, *, polls: int = 4, apart_from: Collection[int] = ()
) -> tuple[ProcessInfo, ...]:
    """Returns the processes, apart from some, that are alive after the script's end, after a short grace period."""
    alive: tuple[ProcessInfo, ...] = ()
    for _ in range(polls):
        alive = tuple(p for p in await workspace.processes() if p.state != "Z" and p.pid not in apart_from)
        if not alive:
            break
        await asyncio.sleep(0.05)
    return alive


def select_planted(
    changes: Sequence[Change], spec: WorkspaceSpec, roots: Sequence[str], keep: Sequence[str]
) -> tuple[PlantedChange, ...]:
    """Returns the result of `find_planted` with the import roots of every check."""
    path = {**spec.image.env, **spec.env}.get("PYTHONPATH", "").split(":")
    usual = [spec.workdir, f"{spec.workdir.rstrip('/')}/src", "/home/agent", "/app"]
    every = dict.fromkeys(root for root in (*roots, *usual, *path) if root.startswith("/") and root != "/")
    return find_planted(changes, tuple(every), keep)
