"""Proves a plan: spliced and plain test runs must agree on the reference, the unrepaired state and mutants.

The program is `payload/splice_proof.py`, with the verifier's own plugin, codec and worker. A test whose spliced outcome
differs from its plain one on any version, or that no version reaches through a splice, is not carried.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import assay.verify.payload
from assay.code.batches import Job
from assay.code.function_changes import FunctionChanges
from assay.code.operators import Site, apply, find_sites
from assay.code.source import SourceError, functions, parse
from assay.environments.payload import FORKED_TESTS
from assay.verify.separation_plan import CollectedTest, SeparationPlan
from assay.verify.splice import configure_splice

from ._entry_trace import PAYLOAD, TRACER, describe_batch
from ._laboratory import WORKSPACE, Laboratory, absolute_texts, read_results
from ._tree import SourceTree

_SPLICE = (
    *(
        "plain_values",
        "splice_plugin",
        "splice_changes",
        "splice_kinds",
        "splice_client",
        "splice_codec",
        "splice_decoder",
        "splice_import",
    ),
    "splice_worker",
)
_VERIFIER = Path(assay.verify.payload.__file__).parent
PROVER = (PAYLOAD / "splice_proof.py", PAYLOAD / "worker_template.py", *(_VERIFIER / f"{name}.py" for name in _SPLICE))


class ProofJob(NamedTuple):
    """A plan to be proven; names are relative to the tree."""

    id: str
    plan: SeparationPlan
    base: Mapping[str, str | None]
    """Texts of the reference, where they differ from the tree's."""
    broken: Mapping[str, str]
    """Texts of the unrepaired version."""
    mutants: tuple[Mapping[str, str], ...]
    """Texts of the reference with one change each."""
    cpu_s: float
    parts: tuple[Mapping[str, str], ...] = ()
    """Texts of the versions in which one part of the change is left unrepaired."""
    needed: frozenset[str] = frozenset()
    """Cases without which the proof is worth nothing: it ends where one of them fails, spliced, on the reference."""
    shared: bool = True
    """Versions other than the reference answer all tests in one process, as plain runs do."""
    slow_s: float = 0.0
    """As in `DecidingTests`."""


class VersionResult(msgspec.Struct, frozen=True):
    """The spliced tests on one version of the package."""

    tests: dict[str, str] = {}
    calls: dict[str, int] = {}
    refused: tuple[tuple[str, str], ...] = ()
    texts: tuple[str, ...] = ()


class ProofResult(msgspec.Struct, frozen=True):
    id: str
    ended: str = "died"
    problems: tuple[str, ...] = ()
    collected: tuple[CollectedTest, ...] = ()
    versions: dict[str, VersionResult] = {}


class SpliceProof(NamedTuple):
    objections: dict[str, str]
    """Test to the reason that it is not carried."""
    collected: tuple[CollectedTest, ...]
    killed: dict[str, tuple[str, ...]]
    """Mutant to the tests that fail on it, spliced."""
    detail: tuple[str, ...] = ()


def draw_mutants(
    right: Mapping[str, str], changes: Mapping[str, FunctionChanges], seed: str, count: int
) -> tuple[Mapping[str, str], ...]:
    """Returns versions of the reference with one change inside a changed function each, drawn by a seed."""
    sites = []
    for path, changed in sorted(changes.items()):
        names = {one.name for one in changed.functions}
        try:
            found, bodies = _sites_and_bodies(right[path])
        except SourceError:
            continue
        for site in found:
            function = site.function.partition(".<locals>")[0]
            # Signatures and decorators of entry points are the task's own: no version of a worker changes them.
            if function in names and site.line >= bodies.get(function, 0):
                sites.append((path, site))
    drawn = random.Random(f"{seed} mutants").sample(sites, min(count, len(sites)))
    return tuple({path: apply(right[path], site)} for path, site in drawn)


@functools.lru_cache(maxsize=64)
def _sites_and_bodies(text: str) -> tuple[tuple[Site, ...], dict[str, int]]:
    """Returns the sites of a text and the first line of each function's body; mutants of one text are drawn often."""
    return find_sites(text), {one.name: one.body_line for one in functions(parse(text))}


async def prove_splices(laboratory: Laboratory, tree: SourceTree, jobs: Sequence[ProofJob]) -> dict[str, SpliceProof]:
    """Runs the plans' spliced tests on all versions, spliced and plain, and compares."""
    if not jobs:
        return {}
    request = {**describe_batch(tree), "jobs": [_request(job) for job in jobs]}
    wall_s = 120.0 + sum(60 * job.cpu_s for job in jobs)
    programs = (*PROVER, *TRACER, *FORKED_TESTS)
    reply = await laboratory.run_program(programs, msgspec.json.encode(request), wall_s, "plain")
    known = {result.id: result for result in read_results(reply, ProofResult)}
    proofs = {}
    for job in jobs:
        result = known.get(job.id) or ProofResult(job.id)
        if job.needed and len(result.versions) == 1:
            proofs[job.id] = await _prove_on_reference(laboratory, tree, job, result)
            continue
        plain = await _run_plain(laboratory, job)
        proofs[job.id] = compare_versions(job, result, plain)
        alone = compare_versions(job._replace(broken={}, mutants=(), parts=()), result, plain)
        if job.shared and proofs[job.id].objections.keys() - alone.objections.keys():
            # What one test left to the next may be the reason: proven anew, each test by itself.
            proofs |= await prove_splices(laboratory, tree, [job._replace(shared=False)])
    return proofs


async def _prove_on_reference(
    laboratory: Laboratory, tree: SourceTree, job: ProofJob, result: ProofResult
) -> SpliceProof:
    """Compares the runs on the reference, on which a needed case failed; runs all versions if it fails plain, too."""
    alone = job._replace(broken={}, mutants=(), parts=())
    proof = compare_versions(alone, result, await _run_plain(laboratory, alone))
    if job.needed & proof.objections.keys():
        return proof
    return (await prove_splices(laboratory, tree, [job._replace(needed=frozenset())]))[job.id]


def _versions(job: ProofJob) -> dict[str, Mapping[str, str]]:
    mutants = {f"mutant {number}": mutant for number, mutant in enumerate(job.mutants, 1)}
    parts = {f"part {number}": part for number, part in enumerate(job.parts, 1)}
    return {"reference": {}, "unrepaired": job.broken, **parts, **mutants}


def _representatives(job: ProofJob) -> dict[str, str]:
    """Returns for each version the first one with the same texts, which alone is run: a drawn mutant can be the change
    that the task asks to repair."""
    firsts: dict[tuple[tuple[str, str], ...], str] = {}
    return {name: firsts.setdefault(tuple(sorted(texts.items())), name) for name, texts in _versions(job).items()}


def _cases(job: ProofJob) -> tuple[str, ...]:
    return tuple(test.id for test in job.plan.of_method("splice"))


def _request(job: ProofJob) -> dict[str, Any]:
    plan, versions = job.plan, _versions(job)
    return {
        "id": job.id,
        # Selected one by one in the plan's order, as the judge does.
        "tests": [f"{WORKSPACE}/{case}" for case in _cases(job)],
        "only": _cases(job),
        "base": absolute_texts(job.base),
        "write": absolute_texts({**job.base, **job.broken}),
        "splice": configure_splice(plan, plan.of_method("splice")),
        "versions": [
            {"name": name, "write": absolute_texts(versions[name])}
            for name in dict.fromkeys(_representatives(job).values())
        ],
        "cpu_s": job.cpu_s,
        "needed": sorted(job.needed),
        "shared": job.shared,
    }


async def _run_plain(laboratory: Laboratory, job: ProofJob) -> dict[str, dict[str, str]]:
    """Returns each version's test outcomes in one process with the package; a run that did not end has none."""
    versions, firsts = _versions(job), _representatives(job)
    jobs = [
        Job(f"{job.id} {name}", _cases(job), write={**job.base, **versions[name]}, cpu_s=job.cpu_s, slow_s=job.slow_s)
        for name in dict.fromkeys(firsts.values())
    ]
    # What one version leaves to the next shows: the spliced runs of the versions have nothing in common.
    together = job.shared and not job.base
    results = await laboratory.run(jobs, repetition=0, warm=True, together=together)
    done = {name: results[f"{job.id} {first}"] for name, first in firsts.items()}
    return {
        name: {case: outcome.outcome for case, outcome in result.tests.items()} if result.ended == "done" else {}
        for name, result in done.items()
    }


def compare_versions(job: ProofJob, result: ProofResult, plain: Mapping[str, Mapping[str, str]]) -> SpliceProof:
    """Compares spliced test outcomes with those in one process, version by version."""
    objections: dict[str, str] = {}
    killed: dict[str, tuple[str, ...]] = {}
    for name, first in _representatives(job).items():
        spliced = result.versions.get(first, VersionResult())
        passed = {case for case, outcome in spliced.tests.items() if outcome == "passed"}
        refused = dict(spliced.refused)
        killed[name] = tuple(case for case in _cases(job) if case not in passed)
        for case in _cases(job):
            reason = ""
            if case in refused and name == "reference":
                reason = f"an answer of the reference cannot be taken ({refused[case]})"
            elif (case in passed) != (plain[name].get(case) == "passed"):
                reason = f"spliced and plain outcomes differ on the {name.partition(' ')[0]}"
            elif name == "reference" and not spliced.calls.get(case):
                reason = "its entry points are not called where they are spliced"
            if reason:
                objections.setdefault(case, reason)
    if result.ended != "done" or result.problems:
        objections = dict.fromkeys(_cases(job), "the spliced tests do not run")
    texts = tuple(text for version in result.versions.values() for text in version.texts)
    return SpliceProof(objections, result.collected, killed, (*result.problems, *texts))
