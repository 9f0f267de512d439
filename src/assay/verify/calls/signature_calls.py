"""Calls of functions with seeded arguments, as data: the request, and the result of each call.

The program that makes the calls is `CALLER`. It is copied into a sandbox and runs there as
`signature_calls.py REQUEST REPLY`, once for each version of the code. The reply was written in reach of the code under
test: a measurement, never a verdict.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

CALLER = Path(__file__).parents[1] / "payload" / "signature_calls.py"
"""Path of the program on the host."""
MAX_REPLY_BYTES = 64 * 1024 * 1024


class CalledTarget(msgspec.Struct, frozen=True):
    """Functions of one file."""

    file: str
    """Absolute, in the sandbox."""
    module: str
    """Import name; empty: it is loaded from its file."""
    functions: tuple[str, ...]
    """Qualified names, as in `f` and `Class.method`."""


class SignatureCallRequest(msgspec.Struct, frozen=True):
    """Calls to make, with their number and time limits."""

    targets: tuple[CalledTarget, ...]
    paths: tuple[str, ...] = ()
    """Paths put in front of `sys.path`."""
    seed: int = 0
    calls: int = 160
    """Number of calls of each function; without annotations, the arguments of most do not fit."""
    call_s: float = 0.5
    """Seconds for one call."""
    function_s: float = 6.0
    """Seconds for all calls of one function."""


class CallReply(msgspec.Struct, frozen=True):
    """Result of a call, or of an example in a docstring."""

    function: str
    call: str
    """The arguments as text, or the example's source; the same for both versions."""
    ended: Literal["returned", "raised", "refused", "misfit", "time"]
    """`refused`: the module's own `raise` was reached. `raised`: anything else was raised. `misfit`: an exception
    whose type indicates unsuitable arguments."""
    value: str = ""
    """The result with the arguments after the call, or the exception's type, as text; long ones are cut, with the
    digest of the whole at the end."""
    example: bool = False


class Difference(NamedTuple):
    """Call that two versions answer differently."""

    one: CallReply
    other: CallReply

    def describe(self) -> str:
        """Returns the difference in one line."""
        ends = f"{_describe_end(self.one)}, and in the other {_describe_end(self.other)}"
        return f"{self.one.function}{self.one.call}: {ends}"


def _describe_end(called: CallReply) -> str:
    if called.ended == "returned":
        return called.value[:200]
    return "no end in time" if called.ended == "time" else f"raises {called.value[:100]}"


def write_calls(request: SignatureCallRequest) -> bytes:
    """Returns the request in the program's format."""
    return msgspec.json.encode(request)


def read_calls(data: bytes) -> tuple[CallReply, ...]:
    """Returns the calls in order, without those that were not reached. Raises `ValueError` for a malformed reply."""
    if len(data) > MAX_REPLY_BYTES:
        raise ValueError(f"the reply has {len(data)} bytes; at most {MAX_REPLY_BYTES} are read")
    decoder = msgspec.json.Decoder(CallReply)
    return tuple(decoder.decode(line) for line in data.splitlines() if line.strip())


class SignatureComparison(NamedTuple):
    looked: int
    """Number of calls that the first version accepts and answers equally each time."""
    found: tuple[Difference, ...]


def differences(
    one: tuple[CallReply, ...], again: tuple[CallReply, ...], other: tuple[CallReply, ...]
) -> SignatureComparison:
    """Compares the answers of two versions to calls with the same arguments that `one` accepts and answers as `again`
    does: a version accepts a call if it returns, or refuses by a `raise` of its own."""
    repeated, others = {_key(c): c for c in again}, {_key(c): c for c in other}
    looked, found = 0, []
    for called in one:
        accepted = called.ended in ("returned", "refused")
        counterpart = others.get(_key(called))
        if not accepted or repeated.get(_key(called)) != called or counterpart is None:
            continue
        looked += 1
        if _answer(counterpart) != _answer(called):
            found.append(Difference(called, counterpart))
    return SignatureComparison(looked, tuple(found))


def _key(called: CallReply) -> tuple[str, str]:
    return called.function, called.call


def _answer(called: CallReply) -> tuple[bool, str]:
    """Returns whether a call returned, and its value. All timeouts are equal; who raised an exception is ignored."""
    return called.ended == "returned", called.value if called.ended != "time" else "no end"
