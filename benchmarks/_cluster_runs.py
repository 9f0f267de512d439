"""Runs of `assay run` in processes of their own, whose finals are counted in the place while they go on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.rollout.cluster.commits import list_finals
from assay.store.objects import open_place

__all__ = ["Command", "Site", "call"]

PROGRAM = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
PATIENCE_S = 30.0


class Site(NamedTuple):
    """Where runs are done."""

    folder: Path
    """Working directory; its folder `.assay` is the store."""
    url: str
    """The place."""

    @property
    def store(self) -> Path:
        return self.folder / ".assay"

    def finals(self, run: str) -> int:
        """Returns the number of decided attempts."""
        return len(asyncio.run(list_finals(open_place(self.url), run, PATIENCE_S)))


class Command:
    """`assay WORDS` as a process. Lines of its standard error are kept with the time at which they came."""

    def __init__(self, site: Site, *words: str) -> None:
        self.words, self.began = words, time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            cwd=site.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        self.lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line.decode("utf-8", "replace").rstrip()))

    def wait(self, within_s: float = 600.0) -> float:
        """Waits for the end, and returns the CPU seconds of the process. Raises `AssertionError` if it failed."""
        ended = threading.Timer(within_s, self.process.kill)
        ended.start()
        _, status, usage = os.wait4(self.process.pid, 0)
        ended.cancel()
        self._reader.join(10)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            text = "\n".join(line for _, line in self.lines[-20:])
            raise AssertionError(f"{' '.join(self.words)} ended with {self.process.returncode}:\n{text}")
        return usage.ru_utime + usage.ru_stime

    def has_ended(self) -> bool:
        """Tells whether the process has ended; leaves it to `wait` or `end`."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> int:
        """Returns the exit code of the process, which has ended; negative for a signal."""
        code = self.process.wait()
        self._reader.join(10)
        return code

    def kill(self) -> None:
        """Kills the command."""
        self.process.kill()
        self.process.wait()

    def wait_for_finals(self, site: Site, run: str, count: int, within_s: float = 300.0) -> None:
        """Waits until so many attempts are decided."""
        until = time.monotonic() + within_s
        while site.finals(run) < count:
            if time.monotonic() > until or self.process.poll() is not None:
                text = "\n".join(line for _, line in self.lines[-20:])
                raise AssertionError(f"{site.finals(run)} of {count} finals of {run} in time:\n{text}")
            time.sleep(0.2)

    def time_of(self, text: str, after: float) -> float | None:
        """Returns when a line with this text came, in seconds after a moment; None if none did."""
        return next((at - after for at, line in self.lines if at >= after and text in line), None)


def call(site: Site, *words: str) -> Any:
    """Calls `assay WORDS --json` and returns what it prints, whatever its exit code."""
    command: Sequence[str] = [sys.executable, "-c", PROGRAM, *words, "--json"]
    done = subprocess.run(command, cwd=site.folder, capture_output=True, timeout=600)
    try:
        return json.loads(done.stdout)
    except ValueError as exc:
        raise AssertionError(f"{' '.join(words)} printed no JSON: {done.stderr.decode()[-2000:]}") from exc
