"""Output conventions: results on stdout, everything else on stderr."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

from assay.api.tables import plain as plain
from assay.errors import BoundaryError, BudgetExceededError, UserError, describe_os_error

if TYPE_CHECKING:
    from types import FrameType

    from rich.console import Console

INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT."""


def emit_json(value: Any) -> None:
    """Writes one JSON document to stdout."""
    import msgspec

    try:
        text = msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2)
    except (TypeError, ValueError, OverflowError) as exc:
        raise UserError(
            f"the result contains a value that JSON cannot represent ({exc}): omit --json, or cast it to text"
        ) from exc
    sys.stdout.write(text.decode() + "\n")


def say(text: str) -> None:
    """Writes a line to stderr: progress, hints, warnings."""
    sys.stderr.write(plain(text) + "\n")


_LONG_WORD = re.compile(r"\S{300,}")
_PLURALS = {"addendum": "addenda", "pass": "passes", "process": "processes", "trajectory": "trajectories"}


def quantity(number: int, noun: str) -> str:
    """Returns a number with its noun, in the singular for 1."""
    return f"{number:,} {noun if number == 1 else _PLURALS.get(noun, f'{noun}s')}"


def format_seconds(seconds: float) -> str:
    """Returns a duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def sparse_lines(what: str, *, every_s: float) -> Callable[[int, int], None]:
    """Returns a progress callback `(done, total)` that prints to stderr at most once per interval."""
    last = time.monotonic()

    def report_progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            say(f"{done}/{total} {what}")

    return report_progress


def console(*, stderr: bool = False) -> Console:
    """Returns a rich console with markup disabled."""
    from rich.console import Console as RichConsole

    return RichConsole(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=not sys.stdout.isatty())


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Maps bad input to exit code 2 and failed boundaries to exit code 3, each with one paragraph."""
    try:
        yield
        sys.stdout.flush()
    except UserError as exc:
        _leave(str(exc), 2)
    except BoundaryError as exc:
        _leave(f"{exc.name} failed: {exc}", 3)
    except BudgetExceededError as exc:
        _leave(f"{exc}; what was recorded is kept", 3)
    except KeyboardInterrupt:
        _leave(
            "interrupted. What was recorded is kept: `assay ls --runs` names the runs and `assay resume RUN` finishes "
            "one; `assay import`, `improve`, `synth repository`, `setup` and `store copy` go on when the same command "
            "is given again, and other tasks are made again",
            INTERRUPTED,
        )
    except BrokenPipeError:
        # The interpreter flushes stdout again at exit, which needs an open reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as exc:
        if exc.errno is None or exc.strerror is None:
            raise
        _leave(describe_os_error(exc), 2 if exc.errno == errno.ENAMETOOLONG else 3)


@contextmanager
def explain_interruption(kept: str) -> Iterator[None]:
    """On Ctrl-C says what is kept and how to continue, and exits with `INTERRUPTED`."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"interrupted. {kept}")
        sys.exit(INTERRUPTED)


@contextmanager
def interrupt_on_termination() -> Iterator[None]:
    """Ends the program on SIGTERM and SIGHUP as on Ctrl-C, with the exit code 143 or 129 in place of 130.

    A repeated signal is ignored, because `timeout` sends each twice. A signal that is ignored (`nohup`) stays so, and a
    command that handles one itself replaces this handler.
    """
    received: list[int] = []
    terminals = [fd for fd in (1, 2) if os.isatty(fd)]

    def interrupt(number: int, frame: FrameType | None) -> None:
        if received:
            return
        received.append(number)
        for fd in terminals:
            if not os.isatty(fd):  # the terminal was closed, and writing to it would fail
                os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        on_interrupt = signal.getsignal(signal.SIGINT)
        if not callable(on_interrupt):  # a shell starts background commands with SIGINT ignored
            raise KeyboardInterrupt
        on_interrupt(signal.SIGINT, frame)

    is_main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGTERM, signal.SIGHUP) if is_main else ()
    replaced = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, interrupt)
    try:
        yield
    except SystemExit as exc:
        if received and exc.code == INTERRUPTED:
            sys.exit(128 + received[0])
        raise
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _leave(message: str, code: int) -> NoReturn:
    with suppress(OSError):  # closed pipe or full disk: the message matters more
        sys.stdout.flush()
    say(f"assay: {_LONG_WORD.sub(_shorten_word, message)}")
    sys.exit(code)


def _shorten_word(found: re.Match[str]) -> str:
    word = found[0]
    return f"{word[:60]}...({len(word):,} characters)...{word[-20:]}"
