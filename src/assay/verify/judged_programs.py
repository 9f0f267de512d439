"""Runs the programs that a test script judges in a sandbox of their own, for `assay-judge` in the script's.

The script's sandbox stands on the task's image: nothing that the agent wrote is in it but the declared outputs, copied
as data. The judged sandbox holds the final state, without tests, rewards or the runner's folders. Before a program
starts, files of the script's that its command names by a path and the declared inputs are copied there, and nothing
else: what the script expects may lie beside them. Of the script's variables a program gets those that the task
declares: test runners write the name of the running test into others, with the parameters that are expected. When the
program has ended, everything in its sandbox is killed, and then the declared outputs are copied back. One program runs
at a time.

What a program prints can act on the script: a shell evaluates text, and a file is lent whose name is made of text. All
that the script could read is therefore in a transcript, which the caller compares with that of the reference solution.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import posixpath
import re
import stat
import tempfile
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.environments.interface import Change, ExecResult, Mount, PipedExec, Workspace, WorkspaceSpec
from assay.environments.solution import SOLUTION
from assay.errors import AssayError, TaskError, VerifierError
from assay.verify.transcript import StreamDigest, Transcript, digest_of, text_digest

JUDGE_PROGRAM = "/opt/assay-verify/bin/assay-judge"
COVERED = ("/logs", "/tests", SOLUTION, "/run/verifier")
_SPELT = ("/", "./", "../")
"""Beginnings of a word that lends: no word of a command is a path by chance, also where a file has its name."""
LENT = ("/tests/", "/tmp/")
"""Folders of the script's own files that no list of changes contains; a file is copied when a command names it."""
MOST_FILE, MOST_CHANGES, MOST_WORDS, MOST_RUNS, MOST_NAMES = 64 << 20, 2000, 5000, 200, 20
_OF_A_SHELL = frozenset({"HOME", "LANG", "LOGNAME", "OLDPWD", "PWD", "SHLVL", "TERM", "USER", "_"})
_WORDS = re.compile(r"[\s=;|&<>()\"'`]+")
_CODE = (".py", ".pyc", ".pyi", ".pth", ".so", ".sh", ".bash", ".ini", ".cfg", ".toml", ".js", ".rb", ".pl", ".jar")
_PYTHON = """\
#!/usr/bin/env python3
# Starts the judged program of this name in its own sandbox. Written by the verifier.
import os, sys
if __name__ != "__main__":
    raise ImportError("this module is judged from outside: start it as a program")
os.execv({program!r}, ["assay-judge", "run", "--", "python3", {path!r}, *sys.argv[1:]])
"""
_SHELL = """\
#!/bin/sh
# Starts the judged program of this name in its own sandbox. Written by the verifier.
exec {program} run -- {start}'{path}' "$@"
"""
_STARTS = {".sh": "sh ", ".bash": "bash "}


def stand_in(path: str) -> bytes:
    """Returns the file at a judged program's path in the script's sandbox, which starts the program in the other."""
    suffix = posixpath.splitext(path)[1]
    if suffix == ".py":
        return _PYTHON.format(program=JUDGE_PROGRAM, path=path).encode()
    return _SHELL.format(program=JUDGE_PROGRAM, start=_STARTS.get(suffix, ""), path=path).encode()


def require_data_path(path: str, *, data: bool) -> None:
    """Raises `TaskError` for a path that is not absolute and plain, or, for data, has the name of code."""
    parts = path.split("/")
    if not path.startswith("/") or {"", ".", ".."} & set(parts[1:]) or "'" in path or "\0" in path:
        raise TaskError(f"{path!r}: judged programs and their outputs are absolute paths without '..'")
    if path.startswith(tuple(f"{folder}/" for folder in (*COVERED, "/opt/assay", "/proc", "/dev"))):
        raise TaskError(f"{path!r}: the verifier's own folders hold no judged program and no output")
    if data and path.endswith(_CODE):
        raise TaskError(
            f"{path!r}: an output is data; a file of this name could be run or imported in the script's sandbox"
        )


def _require_input_path(path: str) -> None:
    """Raises `TaskError` for an input that is not a plain absolute path, or is the verifier's own but below
    `/tests`."""
    parts = path.split("/")
    if path.startswith("/tests/") and not {"", ".", ".."} & set(parts[1:]) and "\0" not in path:
        return
    require_data_path(path, data=False)


def judged_spec(given: WorkspaceSpec, mounts: tuple[Mount, ...] = ()) -> WorkspaceSpec:
    """Returns the spec of the judged programs' sandbox: the agent's, with empty folders over the verifier's."""
    env = {"HOME": "/home/agent", **given.env}
    tmpfs = (*given.tmpfs, *COVERED)
    return msgspec.structs.replace(given, user="verifier", env=env, tmpfs=tmpfs, mounts=(*given.mounts, *mounts))


class _ProgramStart(msgspec.Struct, frozen=True, tag_field="op", tag="run"):
    argv: tuple[str, ...]
    cwd: str
    env: dict[str, str] = {}


class _ProgramRead(msgspec.Struct, frozen=True, tag_field="op", tag="read"):
    """A request for a file of the judged sandbox."""

    path: str


def _decode_request(message: dict[str, Any], fds: list[int]) -> _ProgramStart | _ProgramRead:
    """Returns a request of `assay-judge`. Raises `ValueError` for another message, or other descriptors than pipes."""
    if len(fds) != 3 or not all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in fds):
        message_text = "three pipes are needed"
        raise ValueError(message_text)
    return msgspec.convert(message, _ProgramStart | _ProgramRead)


async def _write_stand_ins(script: Workspace, programs: tuple[str, ...]) -> None:
    """Puts a stand-in at the path of each judged program in the script's sandbox."""
    for path in programs:
        require_data_path(path, data=False)
        await script.write(path, stand_in(path), mode=0o755)


class ProgramRun(NamedTuple):
    argv: tuple[str, ...]
    exit_code: int
    duration_s: float


class JudgedPrograms:
    """Starts the judged programs of one script, whose sandbox stands on the task's image; `judged` has the final state.

    `outputs` are copied to the script's sandbox as data, `inputs` are files of the script that commands do not name,
    `variables` names the script's variables that its programs get, and `transcript` records everything that the script
    could read.
    """

    def __init__(
        self,
        script: Workspace,
        judged: Workspace,
        *,
        outputs: tuple[str, ...] = (),
        inputs: tuple[str, ...] = (),
        variables: tuple[str, ...] = (),
        timeout_s: float,
        transcript: Transcript,
    ) -> None:
        if not isinstance(judged, PipedExec):
            raise VerifierError("judged programs need a sandbox whose commands can be given pipes")
        self._script, self._judged, self._pipes = script, judged, judged
        self._outputs, self._inputs, self._variables = outputs, inputs, variables
        self._timeout_s, self._transcript = timeout_s, transcript
        self._own: dict[str, str | None] = {}
        """Digests of files that were copied into the script's sandbox or out of it."""
        self._running = asyncio.Lock()
        self.runs: list[ProgramRun] = []
        self.withheld: set[str] = set()
        """Names of variables that the script had set for a program and that the program did not get."""
        self.lent: set[str] = set()
        """Files and folders of the script's that programs got."""
        self.bare: set[str] = set()
        """Files of the script's that a command named by a bare word, so that its program did not get them."""
        self.cut_short = 0
        """Number of programs that the script ended early."""
        self.repeated = ""
        """Command that gave the script the content of a file which an earlier command was lent, and that file; empty if
        none did."""
        self._lent_texts: dict[bytes, str] = {}

    async def prepare(self, programs: tuple[str, ...]) -> None:
        """Writes a stand-in at each program's path, and copies the current outputs."""
        await _write_stand_ins(self._script, programs)
        for path in self._outputs:
            require_data_path(path, data=True)
        for path in self._inputs:
            _require_input_path(path)
        await self._copy_outputs()
        await self._note_own()

    async def _note_own(self) -> None:
        self._own = {change.path: change.digest for change in await self._script.diff()}

    async def answer(self, message: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        before, name = len(self._transcript.readings), str(message.get("argv") or message.get("path"))
        try:
            request = _decode_request(message, fds)
            if isinstance(request, _ProgramRead):
                return await self._read(request, fds[1])
            if self._running.locked():
                return {"error": "another judged program is running; one runs at a time"}
            async with self._running:
                return await self._run_to_end(request, fds)
        except (msgspec.ValidationError, AssayError, OSError, ValueError) as exc:
            text = str(exc)[:1000] or type(exc).__name__
            self._transcript.add_file(name, text.encode())
            return {"error": text}
        finally:
            if len(self._transcript.readings) == before:  # whoever asked is gone, or is told to wait
                self._transcript.add_file(name, None)

    async def _read(self, request: _ProgramRead, out: int) -> dict[str, Any]:
        try:
            data = await self._judged.read(request.path, limit=MOST_FILE)
        except (OSError, ValueError):
            return {"error": f"{request.path} cannot be read"}  # no word of it is chosen by who put it there
        self._transcript.add_file(request.path, data)
        self._note_repeated(request.path, [digest_of(data)], set())
        await asyncio.to_thread(_write_all, out, data)
        return {"exit": 0}

    async def _run_to_end(self, request: _ProgramStart, fds: list[int]) -> dict[str, Any]:
        try:
            return await self._run(request, fds)
        except asyncio.CancelledError:  # who asked is gone
            self.cut_short += 1
            raise

    async def _run(self, request: _ProgramStart, fds: list[int]) -> dict[str, Any]:
        given = await self._copy_inputs(request)
        own = {**self._script.spec.image.env, **self._script.spec.env}
        changed = {name for name, text in request.env.items() if own.get(name) != text}
        self.withheld |= set(sorted(changed - {*self._variables, *_OF_A_SHELL})[:MOST_NAMES])
        if request.cwd.startswith("/") and not _is_inside(request.cwd, COVERED):  # as from `cd $(mktemp -d)`
            await self._judged.exec(["/bin/mkdir", "-p", "--", request.cwd], cwd="/")
        result = await self._run_copied(request, fds, given)
        if len(self.runs) < MOST_RUNS:
            words = tuple(word[:200] for word in request.argv[:10])
            self.runs.append(ProgramRun(words, result.exit_code, round(result.duration_s, 6)))
        await self._copy_outputs(given)
        await self._note_own()
        return {"exit": result.exit_code}

    async def _run_copied(self, request: _ProgramStart, fds: list[int], given: set[str]) -> ExecResult:
        """Runs a program whose output is copied to the script's descriptors, and adds it to the transcript. `given` are
        the paths that it is lent."""
        joined = os.path.sameopenfile(fds[1], fds[2])
        copies = self._transcript.open_copies(fds[1:2] if joined else fds[1:])
        code = None
        try:
            result = await self._pipes.exec_piped(
                request.argv,
                fds[0],
                copies[0].far_end,
                stderr=copies[-1].far_end,
                cwd=request.cwd,
                env={name: request.env[name] for name in self._variables if name in request.env},
                timeout_s=self._timeout_s,
            )
            if result.exit_code in (126, 127) and result.stderr:  # it could not be started: its host says why
                _write_all(copies[-1].far_end, result.stderr.encode())
            code = result.exit_code
            return result
        finally:
            try:
                await asyncio.shield(self._judged.kill_all())
            finally:
                digests = await asyncio.shield(asyncio.gather(*(copy.finish() for copy in copies)))
                self._transcript.add(" ".join(request.argv), code, digests)
                self._note_repeated(" ".join(request.argv), digests, given)

    def _note_repeated(self, name: str, streams: Sequence[StreamDigest], given: set[str]) -> None:
        """Notes a result that is the content of a file which an earlier command was lent, and this one is not: the
        program may have kept the file, and the script may compare with it."""
        for stream in streams:
            path = self._lent_texts.get(stream.text, "") if stream.text else ""
            if path and not self.repeated and not _is_inside(path, tuple(given)):
                self.repeated = f"{name[:200]!r} gives the content of {path}, which an earlier command was lent"

    async def _copy_outputs(self, given: Set[str] = frozenset()) -> None:
        """Copies each declared output to the script's sandbox as a data file without execute permission."""
        for path in self._outputs:
            try:
                data = await self._judged.read(path, limit=MOST_FILE)
            except (OSError, ValueError):
                self._transcript.add_file(path, None)
                await self._script.exec(["/bin/rm", "-f", "--", path], cwd="/")
            else:
                self._transcript.add_file(path, data)
                self._note_repeated(path, [digest_of(data)], {*given, *self._inputs})
                await self._script.write(path, data, mode=0o644)

    async def _copy_inputs(self, request: _ProgramStart) -> set[str]:
        """Copies the files that the command names, and the declared inputs, into the judged sandbox; returns their
        paths."""
        spelt, bare = _named_paths(request.argv, request.cwd, self._script.spec.workdir)
        given = {*spelt, *self._inputs}
        written = [change for change in await self._script.diff() if self._is_input(change)]
        changed = [change for change in written if _is_inside(change.path, tuple(given))]
        if len(changed) > MOST_CHANGES:
            raise VerifierError(
                f"the script wrote {len(changed)} paths; at most {MOST_CHANGES} are copied for a program"
            )
        gone = [c.path for c in changed if c.kind == "removed"]
        made = [c.path for c in changed if c.type == "directory" and c.kind != "removed"]
        for words in (["/bin/rm", "-rf", "--", *gone], ["/bin/mkdir", "-p", "--", *made]):
            if len(words) > 3:
                await self._judged.exec(words, cwd="/")
        for change in changed:
            if change.type == "file" and change.kind != "removed":
                await self._copy(change.path, (change.mode or 0o644) & 0o777)
        for path in sorted(given):
            if path.startswith(LENT):
                await self._copy(path, 0o755)
        self.bare |= bare.difference(given).intersection(c.path for c in written if c.kind != "removed")
        self.bare |= {path for path in bare - given - self.bare if path.startswith(LENT) and await self._has(path)}
        return given

    async def _copy(self, path: str, mode: int) -> None:
        """Copies a file or folder of the script's sandbox, if it exists and can be read."""
        try:
            data = await self._script.read(path, limit=MOST_FILE)
            await self._judged.write(path, data, mode=mode)
            self._lent_texts.setdefault(text_digest(data), path)
        except IsADirectoryError:
            with tempfile.TemporaryDirectory(prefix="assay-judged-") as folder:
                await self._script.download(path, Path(folder, "tree"), limit=MOST_FILE)
                await self._judged.exec(["/bin/mkdir", "-p", "--", posixpath.dirname(path)], cwd="/")
                await self._judged.upload(Path(folder, "tree"), path)
                for file in Path(folder, "tree").rglob("*"):
                    if file.is_file() and not file.is_symlink():
                        inner = f"{path}/{file.relative_to(Path(folder, 'tree'))}"
                        self._lent_texts.setdefault(text_digest(file.read_bytes()), inner)
        except OSError:
            return
        self.lent.add(path)

    async def _has(self, path: str) -> bool:
        try:
            await self._script.read(path, limit=0)
        except (IsADirectoryError, ValueError):  # a folder, or anything with content
            return True
        except OSError:
            return False
        return True

    def _is_input(self, change: Change) -> bool:
        own = change.path in self._own and self._own[change.path] == change.digest
        return not own and not _is_inside(change.path, COVERED)


def _named_paths(argv: tuple[str, ...], cwd: str, workdir: str) -> tuple[set[str], set[str]]:
    """Returns the absolute paths in a command's words, without the working directory, its parents and the verifier's
    own: those that are spelt as paths, and those of bare words.

    A bare word is data as often as a name: `prog 1 HELLO` would otherwise be lent the case `1`, or a file `HELLO` with
    the answer.

    Raises `ValueError` if there are too many words.
    """
    words = [word for text in argv for word in _WORDS.split(text) if word]
    if len(words) > MOST_WORDS:
        raise ValueError(f"a command of {len(words)} words; the files of at most {MOST_WORDS} can be brought to it")
    spelt: set[str] = set()
    bare: set[str] = set()
    for word in words:
        path = posixpath.normpath(posixpath.join(cwd, word))
        is_own = _is_inside(path, COVERED) and not path.startswith(LENT)
        if "\0" not in word and not is_own and not _is_inside(workdir, (path,)):
            (spelt if word.startswith(_SPELT) else bare).add(path)
    return spelt, bare


def _is_inside(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _write_all(fd: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        while data:
            data = data[os.write(fd, data) :]
