"""The program `assay` in processes of its own, which end with the test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ASSAY = [sys.executable, "-c", "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"]
"""Command line of the program as this Python imports it."""
Start = Callable[..., "subprocess.Popen[bytes]"]


@contextmanager
def assay_processes(folder: Path) -> Iterator[Start]:
    """Yields a function that starts the program in a folder, with its output in `NAME.log`; kills all in the end."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(name: str, words: Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("ab") as log:
            env = {**os.environ, **variables}
            started.append(subprocess.Popen([*ASSAY, *words], cwd=folder, stdout=log, stderr=log, env=env))
        return started[-1]

    try:
        yield begin
    finally:
        for process in started:
            process.kill()
            process.wait()


def wait_for(look: Callable[[], Any], within_s: float = 40.0) -> Any:
    """Returns the first true result of a look at what processes do."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it took too long")
