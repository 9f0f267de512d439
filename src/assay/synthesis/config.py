"""One typed configuration of making tasks from real code: the command line, the TOML file and the record of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from assay.errors import UserError

Kind = Literal["operator", "feature", "combination", "commit"]


class SynthesisConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Source, number and acceptance criteria of the tasks to make."""

    source: str
    """An installed package's name, a wheel, an sdist, a folder, or a git repository's folder."""
    out: str
    """The folder that the task folders and `manifest.json` are written to."""
    count: int = 24
    """Number of tasks to keep; fewer if the candidates do not suffice."""
    seed: int = 0
    """Decides which tests are looked at and which candidates are tried, in which order."""
    kinds: tuple[Kind, ...] = ("operator", "feature", "combination", "commit")
    """`operator`: one change; `combination`: two or three in one file; `feature`: a function's body is taken out;
    `commit`: a commit of the repository is taken back (git repositories alone)."""
    requirements: tuple[str, ...] = ()
    """Packages that the package and its tests import, pinned as `name==version`; found where it is installed."""
    test_files: int = 0
    """At most so many test files, drawn by the seed, are looked at; 0: all, but at least what `count` needs."""
    concurrency: int = 2
    """Sandboxes at work at once."""
    repetitions: int = 3
    """Number of observations of each outcome, each with another hash seed; all must agree."""
    run_cpu_s: float = 20.0
    """CPU seconds that one run of a task's tests may take."""
    test_cpu_s: float = 5.0
    """CPU seconds that a single test may take; slower ones are left out."""
    file_calls: int = 0
    """A test file whose tests make more function calls than this is left out, so that tasks are quick to judge; 0: no
    limit. Calls are counted, up to 300,000 a test, and not timed, so that the same files are left out each time."""
    covering_tests: int = 60
    """A function that more tests than this run is too central to break."""
    per_function: int = 3
    """At most so many kept tasks of each kind on one function."""
    separation: Literal["required", "recorded", "off"] = "required"
    """`required`: a candidate is kept only where deciding tests that are hidden can be judged apart from what an agent
    writes; `recorded`: the task says how, and is kept in any case; `off`: it is not looked at."""
    separation_mutants: int = 20
    """Mutants of the reference on which a test must end in the same way, judged apart and in one process."""
    separation_calls: bool = False
    """If splicing carries no hidden test, try to judge by calls on fresh inputs; takes minutes for each candidate."""
    releases: tuple[str, ...] = ()
    """Other releases of the package (sdists, wheels or folders): fresh inputs that a release which passes a task's
    tests answers otherwise than the reference are not compared. For `separation_calls` alone."""
    candidates: int = 0
    """At most so many candidates are tried; 0: forty for each task wanted."""

    def __post_init__(self) -> None:
        for name in ("count", "concurrency", "repetitions", "per_function", "covering_tests"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("test_files", "candidates", "run_cpu_s", "test_cpu_s", "file_calls", "separation_mutants"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} is {getattr(self, name)}: it must be 0 or more")
        if not self.kinds:
            raise UserError("no kinds: name at least one of operator, feature, combination, commit")

        if self.releases and (not self.separation_calls or self.separation == "off"):
            raise UserError(
                "releases are compared by calls on fresh inputs alone: add separation_calls, or leave them out"
            )

    @property
    def candidate_limit(self) -> int:
        """Returns the maximum number of candidates."""
        return self.candidates or 40 * self.count
