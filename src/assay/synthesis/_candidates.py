"""Generates candidate changes in a reproducible order: the same seed and reference give the same list.

Functions come first, operators second: every function is broken once before any is broken twice, and of the operators
that fit, the ones tried least are the likeliest. Only lines that a test ran are changed.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from assay.code.operators import FEATURE, Site, apply_all, find_sites
from assay.code.source import FunctionInfo, SourceError, functions_of
from assay.code.spectra import CoverageRun, Line, covering_tests
from assay.records import digest_record

from ._reference import Reference
from ._tree import SourceTree
from .config import Kind, SynthesisConfig

# Features nearly always become tasks, single changes about half the time, so features are tried least.
PATTERN: tuple[Kind, ...] = (
    "operator", "operator", "combination", "operator", "operator", "operator", "feature",
    "operator", "operator", "operator", "combination", "operator", "operator",
)  # fmt: skip
FEATURE_STATEMENTS = (3, 60)
"""Minimum and maximum number of statements of a function whose body is removed as a feature."""


class TaskCandidate(msgspec.Struct, frozen=True):
    """A way to break the tree."""

    digest: str
    kind: Kind
    changes: dict[str, str]
    """File to its broken text."""
    operators: tuple[str, ...]
    functions: tuple[str, ...]
    """`path::qualified.name`."""
    lines: tuple[tuple[str, int], ...]
    """Changed lines of the unbroken text: file and line number."""
    tests: tuple[str, ...]
    """The tests that run what is changed."""
    base: dict[str, str | None] = {}
    """File to the text that it has in the unbroken tree of this candidate, where that differs from the tree's; None
    where it is not there."""
    passing: dict[str, float] = {}
    """The tests that pass in that tree, with their CPU milliseconds; empty where they are the tree's."""
    cases: dict[str, tuple[str, ...]] = {}
    """Their cases."""


class CoveredFunction(NamedTuple):
    """A function that tests run."""

    path: str
    function: FunctionInfo
    tests: tuple[str, ...]

    @property
    def key(self) -> str:
        """Returns `path::qualified.name`, as in `TaskCandidate.functions`."""
        return f"{self.path}::{self.function.name}"


def build_candidate(
    kind: Kind, tree: SourceTree, path: str, sites: Sequence[Site], tests: Sequence[str]
) -> TaskCandidate:
    """Builds a candidate that applies some changes to one file. Raises `SourceError` if they overlap."""
    text = tree.files[path].decode()
    changes = {path: apply_all(text, sites)}
    return TaskCandidate(
        digest=digest_record([tree.digest, kind, changes]).partition(":")[2][:16],
        kind=kind,
        changes=changes,
        operators=tuple(sorted(s.operator for s in sites)),
        functions=tuple(sorted({f"{path}::{s.function}" for s in sites})),
        lines=tuple(sorted({(path, s.line) for s in sites})),
        tests=tuple(sorted(set(tests))),
    )


def find_targets(tree: SourceTree, reference: Reference, config: SynthesisConfig) -> tuple[CoveredFunction, ...]:
    """Returns the functions covered by 1 to `covering_tests` tests, ordered by file and line."""
    runs = [
        CoverageRun(test, False, frozenset(Line(path, n) for path, lines in files.items() for n in lines))
        for test, files in sorted(reference.covered.items())
    ]
    known = {line.path for run in runs for line in run.lines}
    found: list[tuple[str, FunctionInfo]] = []
    for path in tree.modules:
        if path in known:
            with contextlib.suppress(SourceError, UnicodeDecodeError):
                found += [(path, f) for f in functions_of(tree.files[path].decode())]
    tests = covering_tests(runs, {f"{path}::{f.name}": (path, f.body_line, f.end_line) for path, f in found})
    results = (CoveredFunction(path, f, tests[f"{path}::{f.name}"]) for path, f in found)
    return tuple(one for one in results if 1 <= len(one.tests) <= config.covering_tests)


class _Pool:
    """Changes that have not been tried yet."""

    def __init__(self, tree: SourceTree, reference: Reference) -> None:
        self._tree = tree
        self._sites: dict[str, dict[str, list[Site]]] = {}
        self._features: dict[str, dict[str, Site]] = {}
        self._uses: Counter[str] = Counter()
        self._lines: dict[str, set[int]] = {}
        for files in reference.covered.values():
            for path, numbers in files.items():
                self._lines.setdefault(path, set()).update(numbers)

    def draw(self, target: CoveredFunction, rng: random.Random) -> Site | None:
        """Removes a change inside the function from the pool and returns it; None if the function has no more."""
        self._load(target.path)
        sites = self._sites[target.path].get(target.function.name, [])
        operators = sorted({s.operator for s in sites})
        if not operators:
            return None
        weights = [1 / (1 + self._uses[name]) ** 2 for name in operators]
        chosen = rng.choices(operators, weights)[0]
        site = rng.choice([s for s in sites if s.operator == chosen])
        sites.remove(site)
        self._uses[chosen] += 1
        return site

    def feature(self, target: CoveredFunction) -> Site | None:
        """Returns the removal of the function's body; None if it does not qualify or was returned before."""
        self._load(target.path)
        low, high = FEATURE_STATEMENTS
        if not target.function.documented or not low <= target.function.statements <= high:
            return None
        return self._features[target.path].pop(target.function.name, None)

    def _load(self, path: str) -> None:
        if path in self._sites:
            return
        text = self._tree.files[path].decode()
        lines = self._lines.get(path, set())
        by_function: dict[str, list[Site]] = {}
        for site in find_sites(text):
            covered = any(n in lines for n in range(site.line, site.line + 1 + site.before.count("\n")))
            if site.function and covered:
                by_function.setdefault(site.function, []).append(site)
        self._sites[path] = by_function
        self._features[path] = {s.function: s for s in find_sites(text, [FEATURE.name])}


def generate_candidates(tree: SourceTree, reference: Reference, config: SynthesisConfig) -> Iterator[TaskCandidate]:
    """Yields all candidates except commits, in the order in which they are tried."""
    rng = random.Random(f"{config.seed} candidates")
    pool, shuffled = _Pool(tree, reference), list(find_targets(tree, reference, config))
    pattern = [kind for kind in PATTERN if kind in config.kinds]
    digests: set[str] = set()
    step = 0
    while pattern:
        rng.shuffle(shuffled)
        drawn = 0
        for target in shuffled:
            results = _draw_candidate(pattern[step % len(pattern)], tree, target, shuffled, pool, rng)
            step += 1
            if results is not None and results.digest not in digests:
                drawn += 1
                digests.add(results.digest)
                yield results
        if not drawn:
            return


def _draw_candidate(
    kind: Kind,
    tree: SourceTree,
    target: CoveredFunction,
    shuffled: Sequence[CoveredFunction],
    pool: _Pool,
    rng: random.Random,
) -> TaskCandidate | None:
    if kind == "feature":
        feature = pool.feature(target)
        return build_candidate(kind, tree, target.path, [feature], target.tests) if feature is not None else None
    site = pool.draw(target, rng)
    if site is None or kind == "operator":
        return build_candidate("operator", tree, target.path, [site], target.tests) if site is not None else None
    near = [t for t in shuffled if t.path == target.path and (t.key == target.key or set(t.tests) & set(target.tests))]
    sites, tests = [site], set(target.tests)
    for other in sorted(rng.sample(near, min(len(near), rng.choice((1, 1, 2)))), key=lambda t: t.key):
        more = pool.draw(other, rng)
        if more is not None and all(more.end <= s.start or s.end <= more.start for s in sites):
            sites.append(more)
            tests.update(other.tests)
    return build_candidate(kind if len(sites) > 1 else "operator", tree, target.path, sites, sorted(tests))
