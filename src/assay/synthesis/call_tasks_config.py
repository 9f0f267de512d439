"""Configurations of tasks made from the calls in a package's tests."""

from __future__ import annotations

from typing import Literal

import msgspec

from assay.errors import UserError

from .config import SynthesisConfig

QuestionKind = Literal["return", "variable"]


class CallTasksConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of both kinds of tasks."""

    source: str
    """An installed package's name, a wheel, an sdist, a folder, or a git repository's folder."""
    out: str
    """The folder that the task folders and `manifest.json` are written to."""
    count: int = 24
    """Number of tasks to keep; fewer if the functions do not suffice."""
    seed: int = 0
    """Decides which functions and calls are tried, in which order."""
    requirements: tuple[str, ...] = ()
    """Packages that the package and its tests import, pinned as `name==version`; found where it is installed."""
    test_files: int = 0
    """At most so many test files, drawn by the seed, are looked at; 0: all, but at least what `count` needs."""
    concurrency: int = 2
    """Sandboxes at work at once."""

    def __post_init__(self) -> None:
        _ = self.measuring

    @property
    def measuring(self) -> SynthesisConfig:
        """Returns the configuration for measuring the package's tests."""
        return SynthesisConfig(
            source=self.source,
            out=self.out,
            count=self.count,
            seed=self.seed,
            requirements=self.requirements,
            test_files=self.test_files,
            concurrency=self.concurrency,
            repetitions=2,
        )


class ProgramTasksConfig(CallTasksConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of tasks to write functions as programs in another language."""

    language: str = "node"
    """The language: `c`, `node`, `perl`, `python`, or a TOML file that describes one."""
    mutants: int = 20
    """Mutants of the reference, of which fresh inputs have to fail at least 95%."""
    solutions: str = ""
    """A folder of solutions in the language, each named as its function (`clamp.js`): they are judged, and become the
    tasks' solutions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mutants < 1:
            raise UserError(f"mutants is {self.mutants}: it must be at least 1")


class QuestionTasksConfig(CallTasksConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of questions about recorded calls."""

    kinds: tuple[QuestionKind, ...] = ("return", "variable")
    """`return`: the value that a call returns; `variable`: a local variable's value after a line ran for the k-th
    time."""
    per_function: int = 3
    """At most so many questions of one function."""
    source_lines: int = 150
    """A question shows at most so many lines of source; longer ones are not asked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kinds:
            raise UserError("no kinds: name at least one of return, variable")
        for name in ("per_function", "source_lines"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
