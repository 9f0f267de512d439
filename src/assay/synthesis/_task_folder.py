"""Writes an accepted candidate as a self-contained Harbor task folder.

`environment/` contains the tree without history, byte code or installed copies: `source.tar.gz` is what all tasks of a
set share (so that its image layer is built once), `changed/` the files that differ. No file that any task of the
set breaks or shortens is in the shared part, so no lower layer contains the answer.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from assay.code.batches import RunOutcome
from assay.environments.workspace.toolchain import PYTHON
from assay.tasks.assay_config import AssayTable, CheckTable, WorkspaceTable
from assay.tasks.harbor_config import EnvironmentTable, HarborAgentTable, HarborTask, PackageTable, VerifierTable
from assay.tasks.lint import MORE_TESTS
from assay.tasks.write import TaskDraft, write_task
from assay.verify.calls import span_fix
from assay.verify.separation_plan import PLAN_PATH, encode_plan

from ._candidates import TaskCandidate
from ._gates import GateOutcome, normalise_message
from ._laboratory import import_paths
from ._split import Split
from ._tree import SourceTree

TIMEOUT_S = 600.0
_MOST_NAMED_TESTS = 5
"""Failing tests that an instruction names; it counts the others."""

# The host's tools are the base of every task, and its Python may have the package installed. Always
# the same list, whatever the host has, so that a task's bytes do not depend on where it was made.
_INSTALLED_AT = (
    "/usr/lib/python3/dist-packages",
    *(f"/usr/lib/python3/dist-packages/{name}/_vendor" for name in ("pip", "pkg_resources", "setuptools")),
    *(f"/usr/lib/python3.{minor}/site-packages" for minor in range(9, 16)),
    *(f"/usr/local/lib/python3.{minor}/{name}-packages" for minor in range(9, 16) for name in ("dist", "site")),
)
_SOLVE = """#!/bin/sh
set -e
python3 "$(dirname "$0")/solve.py"
"""
_SOLVE_PY = '''"""Restores what was changed: each file's one span, which must still be there."""

import json
import pathlib

here = pathlib.Path(__file__).parent
for fix in json.loads((here / "fix.json").read_text(encoding="utf-8")):
    path = pathlib.Path("/workspace") / fix["path"]
    text = path.read_bytes().decode()
    start, end = fix["start"], fix["start"] + len(fix["broken"])
    if text[start:end] != fix["broken"]:
        raise SystemExit(f"{path} is not as the task left it")
    path.write_bytes((text[:start] + fix["right"] + text[end:]).encode())
'''
_TEST = """#!/bin/sh
# Runs the tests that decide and writes the reward.
mkdir -p /logs/verifier
cp -R /tests/files/. /workspace/ && cd /workspace || exit 1
export PYTHONPATH={paths} PYTHONDONTWRITEBYTECODE=1
if python3 -m pytest -q -p no:cacheprovider -c /dev/null --rootdir=. --import-mode=importlib \\
    $(cat /tests/deciding.txt); then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""
# Unpacked by a RUN, not by ADD: a RUN that was made before is found by its inputs, without writing hundreds of files.
_DOCKERFILE = """FROM scratch
WORKDIR /workspace
COPY source.tar.gz /workspace/
RUN {python} -m tarfile -e source.tar.gz . && rm source.tar.gz && \\
    ({python} -m compileall -q --invalidation-mode checked-hash . || true)
COPY changed/ /workspace/
ENV PYTHONPATH={paths} PYTHONDONTWRITEBYTECODE=1
"""


class SharedParts(NamedTuple):
    """Content shared by all tasks of a set."""

    tree: SourceTree
    archive: bytes
    archived: frozenset[str]
    """The files in the archive."""
    requirements: tuple[str, ...]
    masked: tuple[str, ...]
    """Distributions that requirements would install but that must be absent: the package itself."""
    cases: Mapping[str, tuple[str, ...]]
    """Test to its cases."""


class TaskMaterial(NamedTuple):
    candidate: TaskCandidate
    outcome: GateOutcome
    split: Split


def name_task(tree: SourceTree, candidate: TaskCandidate) -> str:
    """Returns a task id that names the package and reveals nothing of the change."""
    return f"{re.sub(r'[^a-z0-9]+', '-', tree.name.lower()).strip('-')}-{candidate.digest[:10]}"


def pack_archive(files: Mapping[str, bytes], left_out: Iterable[str]) -> bytes:
    """Returns a `.tar.gz` whose bytes depend only on names and contents."""
    hidden, plain = set(left_out), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in sorted(set(files) - hidden):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o644
            archive.addfile(entry, io.BytesIO(files[name]))
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6, mtime=0) as stream:
        stream.write(plain.getvalue())
    return packed.getvalue()


def write_folder(out: Path, shared: SharedParts, parts: TaskMaterial) -> str:
    """Writes `<out>/<task id>/`, replacing an existing folder, and returns the task's digest."""
    tree, (one, outcome, _) = shared.tree, parts
    identity = name_task(tree, one)
    paths = ":".join(import_paths(tree))
    deciding = (*sorted(outcome.flipped), *sorted(outcome.passing))
    files: dict[str, str | bytes] = {
        "instruction.md": write_instruction(tree, parts),
        "environment/Dockerfile": _DOCKERFILE.format(python=PYTHON, paths=paths),
        "environment/source.tar.gz": shared.archive,
        "solution/solve.sh": _SOLVE,
        "solution/solve.py": _SOLVE_PY,
        "solution/fix.json": json.dumps(_list_fixes(tree, one), indent=1, ensure_ascii=False) + "\n",
        "tests/test.sh": _TEST.format(paths=paths),
        "tests/deciding.txt": "".join(f"{test}\n" for test in deciding),
    }
    if outcome.plan is not None:
        files[PLAN_PATH] = encode_plan(outcome.plan)
    for path in {*tree.files, *one.base} - shared.archived:
        broken = _broken_content(tree, parts, path)
        if broken is not None:
            files[f"environment/changed/{path}"] = broken
    for path in sorted({test.partition("::")[0] for test in deciding}):
        files[f"tests/files/{path}"] = right_content(tree, one, path)
    draft = TaskDraft(files=files, config=_harbor_config(tree, identity), assay=_assay_table(shared, parts))
    return write_task(out / identity, draft, replace=True).task.digest


def right_content(tree: SourceTree, one: TaskCandidate, path: str) -> bytes:
    """Returns what a file holds before the candidate breaks it."""
    return (one.base[path] or "").encode() if path in one.base else tree.files[path]


def _broken_content(tree: SourceTree, parts: TaskMaterial, path: str) -> str | bytes | None:
    for texts in (parts.split.texts, parts.candidate.changes, parts.candidate.base):
        if path in texts:
            return texts[path]
    return tree.files[path]


def _list_fixes(tree: SourceTree, one: TaskCandidate) -> list[dict[str, object]]:
    fixes: list[dict[str, object]] = []
    for path, broken in sorted(one.changes.items()):
        right = right_content(tree, one, path).decode()
        fixes.append(msgspec.to_builtins(span_fix(path, broken, right)))
    return fixes


def _harbor_config(tree: SourceTree, identity: str) -> HarborTask:
    return HarborTask(
        task=PackageTable(name=f"assay/{identity}", description=f"Repair {tree.name}", keywords=("python", "repair")),
        agent=HarborAgentTable(timeout_sec=TIMEOUT_S),
        verifier=VerifierTable(timeout_sec=TIMEOUT_S),
        environment=EnvironmentTable(memory_mb=2048, workdir="/workspace", network_mode="no-network"),
    )


def build_check(
    tree: SourceTree, one: TaskCandidate, outcome: GateOutcome, cases: Mapping[str, tuple[str, ...]]
) -> CheckTable:
    """Builds the check that judges the task: failing tests must pass, passing tests must continue to pass.

    All failing tests are `expected`: the verdict has the weakest of their grades. A candidate's own cases take
    precedence over `cases`.
    """
    cases = one.cases or cases
    files = sorted({test.partition("::")[0] for test in (*outcome.flipped, *outcome.passing)})
    also = set(outcome.passing) - set(outcome.flipped)
    return CheckTable(
        name="tests",
        kind="pytest",
        parameters={
            "tests": [{"source": f"tests/files/{path}", "target": path} for path in files],
            "expected": [case for test in sorted(outcome.flipped) for case in cases[test]],
            "also": [case for test in sorted(also) for case in cases[test]],
            "roots": list(tree.roots),
            "timeout_s": 120.0,
        },
    )


def _assay_table(shared: SharedParts, parts: TaskMaterial) -> AssayTable:
    tree = shared.tree
    return AssayTable(
        tags=("synthesised", "feature" if parts.candidate.kind == "feature" else "bug"),
        source=f"{_package_name(tree, parts.candidate)} ({tree.kind})",
        environment=WorkspaceTable(
            requirements=shared.requirements, masked_packages=shared.masked, masks=package_masks(tree)
        ),
        checks=(build_check(tree, parts.candidate, parts.outcome, shared.cases),),
        provenance={"made_by": "assay synth repository", **tree.provenance},
    )


def package_masks(tree: SourceTree) -> tuple[str, ...]:
    """Returns the places in a sandbox where the host may have the package installed."""
    names = [PurePosixPath(package).name for package in tree.packages]
    return tuple(f"{folder}/{name}" for name in names for folder in _INSTALLED_AT)


def _package_name(tree: SourceTree, one: TaskCandidate) -> str:
    """Returns the package's name and version; without the version for a commit, which is older than the tree."""
    return tree.name if one.kind == "commit" else tree.title


def write_instruction(tree: SourceTree, parts: TaskMaterial) -> str:
    """Returns the instruction: the visible failures, without their place or cause."""
    name = _package_name(tree, parts.candidate)
    shown = sorted(parts.outcome.shown.items())[:_MOST_NAMED_TESTS]
    files = sorted({test.partition("::")[0] for test in parts.outcome.shown})
    if parts.candidate.kind == "feature":
        opening = (
            f"The source of {name} is in `/workspace`. A part of it is not written yet: what the tests below call ends "
            "in `NotImplementedError`. Its docstring says what it has to do."
        )
    elif parts.candidate.kind == "commit":
        opening = (
            f"The source of {name}, as it once was, is in `/workspace`. Something in it is wrong or not there yet: "
            "tests fail that should pass."
        )
    else:
        opening = f"The source of {name} is in `/workspace`. Something in it is wrong: tests fail that should pass."
    failures = "\n\n".join(f"    {test}\n{_quote_failure(result)}" for test, result in shown)
    more = len(parts.outcome.shown) - len(shown)
    count = f"\n\n{more} {MORE_TESTS}." if more > 0 else ""
    return f"""{opening}

This is seen:

{failures}{count}

Run the visible tests with

    python3 -m pytest {" ".join(files)}

Correct the package's source so that they pass. More tests of the same behaviour, which are not visible here, decide;
what works now must go on working. Changes to test files count for nothing.
"""


def _quote_failure(result: RunOutcome) -> str:
    text = normalise_message(f"{result.type}: {result.message}" if result.message else result.type)
    lines = [line.rstrip()[:160] for line in text.replace("\t", " ").splitlines() if line.strip()][:8]
    clean = ["".join(c if c.isprintable() else "?" for c in line) for line in lines]
    return "\n".join(f"        {line}" for line in clean)
