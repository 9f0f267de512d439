"""Agent that types random commands: a robustness test of sandbox and record.

The commands range from dull to odd (deep folders, names with line breaks, orphans, floods, signals to all processes),
within what a sandbox must withstand. The same seed gives the same commands. Without isolation only dull commands are
typed: a signal to all processes would reach the user's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from ._options import read_options
from .interface import Attempt

_DULL = (
    "ls -la",
    "pwd; id; env | sort | head -20",
    "find . -maxdepth 2 | head -50",
    "ps 2>/dev/null || true",
    "df . | tail -1",
    "cat {name} 2>&1 | head -c 2000",
    "echo {word} > {name}",
    "echo {word} >> {name}",
    "cp {name} {other} 2>&1",
    "mv {other} {name} 2>&1",
    "rm -f {name}",
    "mkdir -p {name}.d/{word} && ls -R {name}.d",
    "grep -rn {word} . 2>/dev/null | head",
    "test -e {name}",
    "exit {number}",
)
_ODD = (
    "ln -sf /etc/passwd {name}; cat {name} | wc -l",
    "ln -s {name} {name}; cat {name}",
    "mkdir -p $(printf 'd/%.0s' $(seq 60)) 2>&1 | head -c 300",
    "printf 'a\\nb' > \"$(printf 'line\\nbreak-{word}')\"; ls | wc -l",
    "head -c {kilobytes}k /dev/urandom > {name}; wc -c {name}",
    "head -c {kilobytes}k /dev/zero | tr '\\0' x",
    "head -c {kilobytes} /dev/urandom",
    "(sleep 300 >/dev/null 2>&1 &); echo left",
    "setsid sh -c 'sleep 300' >/dev/null 2>&1 < /dev/null & echo orphan",
    "kill -9 -1; echo survived",
    "chmod 000 {name}; cat {name}; chmod 644 {name}",
    "mkfifo {name}.pipe; ls -l {name}.pipe",
    "cd / && touch {word} 2>&1",
    "echo {word} > /proc/self/oom_score_adj",
    "ulimit -n 16; cat {name} {other} 2>&1 | tail -1",
    "kill -SEGV $$",
    "sh -c 'exec 2>&1; nosuchcommand-{word}'",
    "truncate -s {kilobytes}M {name} 2>&1; ls -ls {name}",
)
_NAMES = ("a.txt", "b.txt", "'two words'", "-dash", "ünï.txt", ".hidden", "c.py")
_WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    steps: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Number of commands."""
    timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    """Seconds per command."""
    odd: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """Share of odd commands."""


class RandomShellAgent:
    """Types `steps` random commands. Options: `steps`, `timeout_s`, `odd`."""

    name = "random-shell"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        draw, options = random.Random(attempt.seed), self._options
        bare = attempt.workspace is not None and attempt.workspace.isolation.name == "none"
        for _ in range(options.steps):
            await attempt.shell(random_command(draw, 0.0 if bare else options.odd), timeout_s=options.timeout_s)
        attempt.finish(f"typed {options.steps} random commands{', dull ones: nothing isolates' if bare else ''}")


def random_command(draw: random.Random, odd: float) -> str:
    """Returns one command; `odd` is the probability of an odd one."""
    pick: Callable[[tuple[str, ...]], str] = draw.choice
    template = pick(_ODD if draw.random() < odd else _DULL)
    name, other = f"./{pick(_NAMES)}", f"./{pick(_NAMES)}"
    if name.startswith("./'"):
        name = "'./" + name[3:]
    if other.startswith("./'"):
        other = "'./" + other[3:]
    values = {"name": name, "other": other, "word": pick(_WORDS)}
    return template.format(**values, number=draw.randrange(256), kilobytes=draw.choice((1, 16, 256, 2048)))
