"""How results and errors reach the user: results on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from assay.errors import BoundaryError, UserError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "emit_json", "plain", "reported_errors", "say"]


def emit_json(value: Any) -> None:
    """Writes one JSON document to stdout."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2)
    sys.stdout.write(text.decode() + "\n")


def say(text: str) -> None:
    """Writes a line to stderr: progress, hints, warnings."""
    sys.stderr.write(plain(text) + "\n")


def plain(text: str) -> str:
    """Text that cannot steer a terminal: control characters of hostile text are shown escaped."""
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def console(*, stderr: bool = False) -> Console:
    """A rich console that never reads markup out of data."""
    from rich.console import Console as RichConsole

    return RichConsole(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=not sys.stdout.isatty())


@contextmanager
def reported_errors() -> Iterator[None]:
    """Bad input ends with one paragraph and exit code 2; a failed boundary with one and exit code 3."""
    try:
        yield
    except UserError as exc:
        _leave(str(exc), 2)
    except BoundaryError as exc:
        _leave(f"{exc.name} failed: {exc}", 3)
    except KeyboardInterrupt:
        _leave("interrupted; what was recorded is kept (assay ls shows it, assay resume goes on)", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)


def _leave(message: str, code: int) -> NoReturn:
    sys.stdout.flush()
    say(f"assay: {message}")
    sys.exit(code)
