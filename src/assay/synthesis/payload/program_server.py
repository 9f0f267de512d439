"""Runs programs one after another, each in a fork of one process that has imported pytest.

    program_server.py BATCH   (on standard input a JSON list [PROGRAM, REQUEST, REPLY, LOADED] a line; on standard
                               output its status; of the batch, JSON, `root`, `paths`, `preload`, `tests` and `seed`
                               are read)

Importing pytest costs about as much as a program of the planner then does. A fork starts as a fresh process would,
apart from what it shares with this one: the hash seed, the modules of pytest and of the standard library, and the
configuration of pytest (`shared_session`). Programs that are LOADED, `plain` or `explain`, are forks of a process that
has imported the package, too (`loaded_package`); one that cannot run there runs as the others do. What a program leaves
running is ended before the next one starts. For making tasks, never for judging.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any

import forked_tests  # type: ignore[import-not-found]  # copied beside this file, as are the next
from loaded_package import LoadedPackage  # type: ignore[import-not-found]
from shared_session import SharedSession  # type: ignore[import-not-found]

PRELOADED = ("pytest", "_pytest.python", "_pytest.unittest", "_pytest.subtests", "unittest")
PR_SET_CHILD_SUBREAPER = 36
READY, LOADING_S = b"ready\n", 120.0
START = forked_tests.start_pytest
IMPORT_NEEDED = 75
"""Status of a program that cannot run in a fork of the package's process."""


def adopt_orphans() -> None:
    """Makes processes whose parents end children of this one."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> list[int]:
    """Returns the processes that this one is the parent of."""
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 - a program on its own
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):
                text = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace")
                if int(text.rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(entry))
    return found


def end_orphans(spared: set[int]) -> None:
    """Ends every process that a program left; their own children become ours, and are ended in turn."""
    while left := [child for child in children() if child not in spared]:
        for child in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def run(program: str, request: str, reply: str, package: LoadedPackage | None) -> None:
    """Runs the `main` of a module beside this file, and ends the process."""
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(nowhere, descriptor)
        sys.argv[:] = [f"{sys.path[0]}/{program}.py", request, reply]
        importlib.import_module(program).main(request, reply)
        # A batch says itself which of its jobs were refused.
        is_refused = package is not None and package.has_refused and program != "forked_tests"
        status = IMPORT_NEEDED if is_refused else 0
    finally:
        os._exit(status)


class PackageProcess:
    """A fork of this process that imports the package and then runs programs in forks of its own."""

    def __init__(self, batch: dict[str, Any], *, explain: bool, collects: bool, held: list[int]) -> None:
        self.is_gone, self.collects = False, collects
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            for descriptor in (self._commands, self._answers, *held):
                os.close(descriptor)
            _serve_loaded(batch, commands, answers, explain=explain, collects=collects)
        os.close(commands)
        os.close(answers)
        self.descriptors = [self._commands, self._answers]
        is_answering = bool(select.select([self._answers], [], [], LOADING_S)[0])
        if not is_answering or os.read(self._answers, len(READY)) != READY:
            os.kill(self.process, signal.SIGKILL)

    def run(self, line: str) -> int:
        """Runs a program; returns its status, `IMPORT_NEEDED` if there is no process to run it in."""
        try:
            os.write(self._commands, line.encode())
            answer = os.read(self._answers, 64)
            self.is_gone = not answer
            return int(answer or IMPORT_NEEDED)
        except (OSError, ValueError):
            self.is_gone = True
            return IMPORT_NEEDED

    def close(self) -> None:
        """Ends the process and waits for it: the kernel counts the CPU time of no other."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        os.waitpid(self.process, 0)


def _serve_loaded(batch: dict[str, Any], commands: int, answers: int, *, explain: bool, collects: bool) -> None:
    try:
        adopt_orphans()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(nowhere, descriptor)
        forked_tests.start_pytest = START
        package = LoadedPackage(batch, explain=explain, collects=collects)
        if package.load():
            end_orphans(set())
            os.write(answers, READY)
            serve(commands, answers, package=package)
            end_orphans(set())
    finally:
        os._exit(0)


def serve(
    commands: int, answers: int, batch: dict[str, Any] | None = None, package: LoadedPackage | None = None
) -> None:
    """Runs programs until the commands end; with a batch, in the package's processes where they ask for it."""
    loaded: dict[str, PackageProcess] = {}
    is_ready = False
    with os.fdopen(commands, encoding="utf-8") as lines:
        for line in lines:
            program, request, reply, kind = json.loads(line)
            for leftover in Path(reply).parent.glob(Path(reply).name + "*"):
                leftover.unlink()
            held = [answers, lines.fileno(), *(fd for process in loaded.values() for fd in process.descriptors)]
            status = IMPORT_NEEDED
            if kind and batch:
                status = _run_loaded(loaded, kind, line, batch, held)
            if status == IMPORT_NEEDED:
                if package is not None:
                    package.share(program, request)
                elif not is_ready:
                    get_ready(batch or {})
                    is_ready = True
                status = _run_in_fork((program, request, reply), held, package)
                end_orphans({process.process for process in loaded.values()} | (package.spared if package else set()))
            os.write(answers, f"{status}\n".encode())
    for process in loaded.values():
        process.close()


def _run_loaded(loaded: dict[str, PackageProcess], kind: str, line: str, batch: dict[str, Any], held: list[int]) -> int:
    """Runs a program where the package is imported. If that process ends by itself, one that collects no tests follows
    it: to import a test file may end a process, or leave threads."""
    status = IMPORT_NEEDED
    for collects in (True, False):
        if kind not in loaded:
            loaded[kind] = PackageProcess(batch, explain=kind == "explain", collects=collects, held=held)
        status = loaded[kind].run(line)
        if not (loaded[kind].is_gone and loaded[kind].collects):
            break
        loaded.pop(kind).close()
    return status


def get_ready(batch: dict[str, Any]) -> None:
    """Imports what the package imports of the standard library, and configures pytest, before the first program that
    imports the package itself."""
    forked_tests.preload(batch, Path(__file__).with_name("preloaded.json"))
    forked_tests.start_pytest = SharedSession(batch, START).start
    gc.collect()
    gc.freeze()


def _run_in_fork(command: tuple[str, str, str], held: list[int], package: LoadedPackage | None) -> int:
    child = os.fork()
    if child == 0:
        for descriptor in held:
            os.close(descriptor)
        run(*command, package)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    """Serves until standard input ends."""
    adopt_orphans()
    commands, answers = os.dup(0), os.dup(1)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    serve(commands, answers, json.loads(sys.argv[1]))


if __name__ == "__main__":
    main()
