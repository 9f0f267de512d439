"""Runs programs one after another, each in a fork of one process that has imported pytest.

    program_server.py BATCH   (on standard input a JSON list [PROGRAM, REQUEST, REPLY] a line; on standard output its
                               status; of the batch, JSON, `root`, `paths` and `preload` are read)

Importing pytest costs about as much as a program of the planner then does. A fork starts as a fresh process would,
apart from what it shares with this one: the hash seed, the modules of pytest and of the standard library, and the
configuration of pytest (`shared_session`). What a program leaves running is ended before the next one starts. For
making tasks, never for judging.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import sys
from pathlib import Path

import forked_tests  # type: ignore[import-not-found]  # copied beside this file, as is the next
from shared_session import SharedSession  # type: ignore[import-not-found]

PRELOADED = ("pytest", "_pytest.python", "_pytest.unittest", "_pytest.subtests", "unittest")
PR_SET_CHILD_SUBREAPER = 36


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


def end_orphans() -> None:
    """Ends every process that a program left; their own children become ours, and are ended in turn."""
    with contextlib.suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                for child in children():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                os.waitpid(-1, 0)


def run(program: str, request: str, reply: str) -> None:
    """Runs the `main` of a module beside this file, and ends the process."""
    status = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(nowhere, descriptor)
        sys.argv[:] = [f"{sys.path[0]}/{program}.py", request, reply]
        importlib.import_module(program).main(request, reply)
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    """Serves until standard input ends."""
    adopt_orphans()
    commands, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.dup(1)
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    batch = json.loads(sys.argv[1])
    forked_tests.preload(batch, Path(__file__).with_name("preloaded.json"))
    forked_tests.start_pytest = SharedSession(batch, forked_tests.start_pytest).start
    end_orphans()
    gc.collect()
    gc.freeze()
    for line in commands:
        program, request, reply = json.loads(line)
        for leftover in Path(reply).parent.glob(Path(reply).name + "*"):
            leftover.unlink()
        child = os.fork()
        if child == 0:
            os.close(answers)
            os.close(commands.fileno())
            run(program, request, reply)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        end_orphans()
        os.write(answers, f"{status}\n".encode())


if __name__ == "__main__":
    main()
