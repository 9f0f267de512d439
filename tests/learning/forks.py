"""Commands of `assay` as processes that find PyTorch already imported: each is a fork of one warm process.

Importing PyTorch and Transformers takes far longer than the tiny trainings of tests. A fork is a process of its own all
the same: it has a folder, standard streams and a table of signals of its own, and dies alone when it is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]


class ForkServer:
    """The warm process. Ends with `close`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.learning.forks"],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, **order: Any) -> int | None:
        """Sends one order and returns its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._process.stdout.readline())
        return answer

    def start(self, folder: Path, *arguments: str) -> Fork:
        """Starts `assay ARGUMENTS` in a folder."""
        return Fork(self, folder, arguments)

    def close(self) -> None:
        self._process.communicate(timeout=20)


class Fork:
    """One command under way; its standard output and errors go to files."""

    def __init__(self, server: ForkServer, folder: Path, arguments: tuple[str, ...]) -> None:
        self._server, self.code = server, None
        self.out, self.err = folder / "stdout.txt", folder / "stderr.txt"
        for path in (self.out, self.err):
            path.write_bytes(b"")
        pid = server.ask(run=arguments, folder=str(folder), out=str(self.out), err=str(self.err))
        assert pid is not None
        self.pid = pid

    def poll(self, *, wait: bool = False) -> int | None:
        """Returns the exit code, negative for a signal; None while it runs."""
        if self.code is None:
            self.code = self._server.ask(poll=self.pid, wait=wait)
        return self.code

    def end(self, how: signal.Signals) -> int | None:
        """Sends a signal, if it still runs, and returns the exit code."""
        if self.poll() is None:
            os.kill(self.pid, how)
        return self.poll(wait=True)


def _run(order: dict[str, Any]) -> NoReturn:
    from assay.cli import main

    code: Any = 70
    try:
        os.chdir(order["folder"])
        for path, descriptor in ((os.devnull, 0), (order["out"], 1), (order["err"], 2)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), descriptor)
        sys.argv = ["assay", *order["run"]]
        main()
        code = 0
    except SystemExit as exc:
        code = exc.code or 0
    except BaseException:  # noqa: BLE001  # what a program ends with
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


IMPORTED = ("torch", "renderers", "transformers.models.qwen3.modeling_qwen3", "assay.cli.serve", "assay.cli.training")


def _serve() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    for line in sys.stdin.buffer:
        order = json.loads(line)
        if "run" in order:
            answer: int | None = os.fork()
            if answer == 0:
                _run(order)
        else:
            pid, status = os.waitpid(order["poll"], 0 if order["wait"] else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
