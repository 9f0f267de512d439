"""Every error that Assay raises on purpose.

    AssayError
      + UserError             bad input or configuration: one paragraph, exit code 2, no traceback
      |   - PluginLoadError   a plugin was found but is broken, or nothing has that name
      |   - AgentDefinitionError, CheckDefinitionError, TaskSourceError, OptionError
      |                       a Python object or an option given to `assay.run` cannot be used (a `TypeError` too)
      |   - MissingModelError   an agent asks a model and the run names none (a `ValueError` too)
      |   - StoreNotFoundError, RunNotFoundError   nothing has that name (a `LookupError` too)
      |   - MissingLibraryError   an optional library is not installed (an `ImportError` too)
      + BoundaryError         something outside our own code failed; the leaf names the boundary
          - ProviderError     a model server (status, retry_after_s and retryable say what to do)
          - TaskError         a task folder, its image or its set-up
          - EnvironmentFailure  the sandbox or its host
              - HostFailure     positive evidence that the host failed (its disk, the launcher)
              - StateLimitError the state is larger than a state may be: what the agent did, not the host
          - AgentError        the agent's own code raised
          - VerifierError     a check could not judge (never the same as a failed check)
          - UserFailure       the simulated person left their script
          - StoreError        the record could not be written or is damaged
      + LimitReached          a limit of the attempt was met: a stop, not a failure
      + BudgetExceededError   the budget of the whole run is used up; the attempt is interrupted, not stopped

`boundary()` is the one place that attributes a foreign exception to a boundary. Plugins raise plain exceptions.
`describe_os_error()` is the one place that words an error of the file system for people.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "AgentDefinitionError",
    "AgentError",
    "AssayError",
    "BoundaryError",
    "BudgetExceededError",
    "CheckDefinitionError",
    "EnvironmentFailure",
    "HostFailure",
    "LimitReached",
    "MissingLibraryError",
    "MissingModelError",
    "OptionError",
    "PluginLoadError",
    "ProviderError",
    "RunNotFoundError",
    "StateLimitError",
    "StoreError",
    "StoreNotFoundError",
    "TaskError",
    "TaskSourceError",
    "UserError",
    "UserFailure",
    "VerifierError",
    "add_filename",
    "boundary",
    "describe_os_error",
    "escape_surrogates",
    "exception_message",
    "innermost_exception",
    "remove_partial",
]


class AssayError(Exception):
    """The root of the tree. A lone surrogate in a message is escaped, so that it can be printed and recorded."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(escape_surrogates(one) if isinstance(one, str) else one for one in arguments))


class UserError(AssayError):
    """Bad input: the message says what was wrong, where, and what to do."""


class PluginLoadError(UserError):
    """A named plugin does not exist, or exists and fails to import."""


class AgentDefinitionError(UserError, TypeError):
    """An object given as an agent cannot act."""


class CheckDefinitionError(UserError, TypeError):
    """An object given as a check cannot judge."""


class TaskSourceError(UserError, TypeError):
    """An object given as tasks is neither a path, a family nor a task."""


class OptionError(UserError, TypeError):
    """An option does not exist."""


class MissingModelError(UserError, ValueError):
    """An agent asks a model, and the run names none."""


class StoreNotFoundError(UserError, LookupError):
    """A folder is not a store."""


class RunNotFoundError(UserError, LookupError):
    """A store has no run of that name."""


class MissingLibraryError(UserError, ImportError):
    """An optional library is not installed."""


class BoundaryError(AssayError):
    """Something outside our own code failed. `name` is what a record stores in `broke`."""

    name = "unknown"


class ProviderError(BoundaryError):
    """A model server refused or failed."""

    name = "provider"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        retryable: bool = True,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request: object | None = None
        """The request of an attempt at which it failed; None where that is not known."""
        self.retry_after_s = retry_after_s
        self.retryable = retryable


class TaskError(BoundaryError):
    """A task folder, its image or its set-up is broken."""

    name = "task"


class EnvironmentFailure(BoundaryError):
    """The sandbox or its host failed. Never an agent failure."""

    name = "environment"


class HostFailure(EnvironmentFailure):
    """Positive evidence that the host failed: its disk is full, or the launcher died."""


class StateLimitError(EnvironmentFailure):
    """The final state passes a bound on what can be listed and stored: the agent's doing, not the host's."""


class AgentError(BoundaryError):
    """The agent's own code raised."""

    name = "agent"


class VerifierError(BoundaryError):
    """A check could not judge."""

    name = "verifier"


class UserFailure(BoundaryError):
    """A simulated person left their script, so that the agent was not given the task. Never an agent failure."""

    name = "user"


class StoreError(BoundaryError):
    """The record could not be written, or what is stored is damaged."""

    name = "store"


class LimitReached(AssayError):
    """A limit of the attempt was met.

    Args:
        limit: Which one: the name of a field of `records.Limits`.
        value: What had been used when it was met.
        allowed: The limit.
    """

    def __init__(self, limit: str, value: float, allowed: float) -> None:
        super().__init__(f"limit {limit} reached: {value:g} of {allowed:g}")
        self.limit = limit
        self.value = value
        self.allowed = allowed


class BudgetExceededError(AssayError):
    """The budget of a run is used up: its open attempts are left interrupted, and `resume` completes them."""


class boundary:
    """Context manager that attributes any foreign exception inside the block to one boundary.

    Errors of our own tree pass unchanged, so that the innermost boundary wins.
    """

    __slots__ = ("_error", "_what")

    def __init__(self, error: type[BoundaryError], what: str) -> None:
        self._error, self._what = error, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, exc: BaseException | None, _traceback: object) -> None:
        if isinstance(exc, Exception) and not isinstance(exc, AssayError):
            inner = innermost_exception(exc)
            raise self._error(f"{self._what}: {type(inner).__name__}: {exception_message(inner)}") from exc


def innermost_exception(exc: BaseException) -> BaseException:
    """Returns the first exception in nested exception groups; any other exception as it is."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def exception_message(exc: BaseException) -> str:
    """Returns the message of a foreign exception; that it has none where its `__str__` fails."""
    try:
        return escape_surrogates(str(exc))
    except Exception as failed:
        return f"(no message: its __str__ raised {type(failed).__name__})"


def escape_surrogates(text: str) -> str:
    """Returns the text with lone surrogates as `\\udXXX`: UTF-8 has no bytes for them."""
    return text.encode("utf-8", "backslashreplace").decode()


_ELSEWHERE = "choose another folder"
_OS_ERRORS = {
    errno.ENOSPC: "the disk is full: free some space, or {elsewhere}",
    errno.EDQUOT: "the disk quota is used up: free some space, or {elsewhere}",
    errno.EFBIG: "the file is larger than the file system or `ulimit -f` allows: raise the limit, or {elsewhere}",
    errno.EROFS: "the file system is read-only: {elsewhere}",
    errno.EACCES: "permission denied: change the permissions, or {elsewhere}",
    errno.EPERM: "permission denied: change the permissions, or {elsewhere}",
    errno.ENOTDIR: "a file lies where a folder belongs: move it away, or {elsewhere}",
    errno.EEXIST: "something lies there already: move it away, or {elsewhere}",
    errno.ENOENT: "no such file or folder: check the path",
    errno.ENAMETOOLONG: "the name is too long for the file system: choose a shorter one",
    errno.EMFILE: "the process has too many open files: raise the limit with `ulimit -n`",
    errno.EIO: "the disk or its connection failed: check it, or {elsewhere}",
}


def describe_os_error(exc: OSError, path: object = None, *, elsewhere: str = _ELSEWHERE) -> str:
    """Returns the path, the cause and the remedy of an error of the file system.

    Args:
        exc: The error.
        path: The path to name; default: the one that the error names, if any.
        elsewhere: The remedy where another place would do.
    """
    named = exc.filename if path is None else path
    number = exc.errno
    if number is None and "No space left" in str(exc):  # libraries such as PyArrow keep the text alone
        number = errno.ENOSPC
    known = _OS_ERRORS.get(number) if number is not None else None
    reason = known.format(elsewhere=elsewhere) if known else exc.strerror or exception_message(exc)
    return reason if named is None else f"{named}: {reason}"


@contextmanager
def remove_partial(path: Path) -> Iterator[None]:
    """Names a file that cannot be written whole, as `add_filename`, and removes it unless it was there before."""
    is_new = not os.path.lexists(path)
    try:
        with add_filename(path):
            yield
    except BaseException:
        if is_new:
            path.unlink(missing_ok=True)
        raise


@contextmanager
def add_filename(path: object) -> Iterator[None]:
    """Adds the path to an `OSError` that names no file, such as that of a disk that is full while a file is written."""
    try:
        yield
    except OSError as exc:
        if exc.filename is None and exc.errno is not None:
            exc.filename = str(path)
        raise
