"""Writes a function as a task: a program in some language that answers requests as the function does.

The agent's environment holds nothing of the package. Invariant: neither the plan nor the reference is in a part of the
folder that an agent sees.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from assay.records import canonical_bytes
from assay.tasks.assay_config import AssayTable, CheckTable, WorkspaceTable
from assay.tasks.harbor_config import EnvironmentTable, HarborAgentTable, HarborTask, PackageTable, VerifierTable
from assay.tasks.write import TaskDraft
from assay.verify.calls import BRIDGED, CalledProgram, CallPlan, ProgramLanguage
from assay.verify.calls_check import PLAN_FILE, REFERENCE_FOLDER

from ._laboratory import WORKSPACE
from ._opening import OpenedSource
from ._plain_calls import PlainFunction
from ._task_folder import package_masks
from ._tree import SourceTree, is_test_file

ANSWERS = "reference_answers.py"
DESCRIPTION = "reference_call.json"
PAYLOAD = Path(__file__).with_name("payload")
TIMEOUT_S = 600.0
BRIDGE = ProgramLanguage("Python", ANSWERS, ("python3", ANSWERS))
"""The reference itself as a program; it also answers for a task's mutants."""
_DOCKERFILE = "FROM scratch\nWORKDIR /workspace\n"
_SOLVE = '#!/bin/sh\nset -e\ncp -R "$(dirname "$0")/files/." /workspace/\n'
_TEST = """#!/bin/sh
echo 'This task is judged by the check "calls" of Assay, which starts the program apart from its reference.' >&2
exit 1
"""


class ProgramParts(NamedTuple):
    function: PlainFunction
    plan: CallPlan
    examples: tuple[tuple[str, str], ...]
    """Requests with their answers, to be shown."""
    solution: str
    """A program in the language; empty for a task without a solution."""
    bridged: bool
    """The solution starts the reference."""


def describe_call(one: PlainFunction, language: ProgramLanguage) -> CalledProgram | None:
    """Returns how the function is called as a program; None if it takes `**kwargs`, which have no fixed names."""
    arguments = one.node.args
    if arguments.kwarg is not None:
        return None
    names = tuple(one.arg for one in (*arguments.posonlyargs, *arguments.args))
    rest = arguments.vararg.arg if arguments.vararg else ""
    return CalledProgram(language, f"{one.module}:{one.name}", names, rest)


def collect_adapter_files(tree: SourceTree, one: PlainFunction, called: CalledProgram) -> dict[str, bytes]:
    """Returns the two files that, beside the package, answer requests by the reference."""
    description = {
        "module": one.module,
        "name": one.name,
        "parameters": list(called.parameters),
        "positional_only": [argument.arg for argument in one.node.args.posonlyargs],
        "rest": called.rest,
        "roots": list(tree.roots),
    }
    return {ANSWERS: (PAYLOAD / ANSWERS).read_bytes(), DESCRIPTION: json.dumps(description, indent=1).encode() + b"\n"}


def collect_package_files(tree: SourceTree) -> dict[str, bytes]:
    """Returns the package's own files, without tests."""
    inside = tuple(f"{package}/" for package in tree.packages)
    return {
        path: data
        for path, data in tree.files.items()
        if (path in tree.packages or path.startswith(inside))
        and not is_test_file(path)
        and not {"test", "tests"} & set(PurePosixPath(path).parts[:-1])
    }


def draft_program_task(source: OpenedSource, parts: ProgramParts, identity: str, language: str) -> TaskDraft:
    called = parts.plan.program
    assert called is not None, "a plan of a program"
    tree, one = source.tree, parts.function
    package = collect_package_files(tree)
    files: dict[str, str | bytes] = {
        "instruction.md": write_instruction(tree, parts, called),
        "environment/Dockerfile": _DOCKERFILE,
        "tests/test.sh": _TEST,
        PLAN_FILE: msgspec.json.format(canonical_bytes(parts.plan), indent=1) + b"\n",
        **{f"{REFERENCE_FOLDER}/{path}": data for path, data in package.items()},
    }
    if parts.solution:
        files["solution/solve.sh"] = _SOLVE
        files[f"solution/files/{called.language.file}"] = parts.solution
    if parts.bridged:
        beside = {**package, **collect_adapter_files(tree, one, called)}
        files.update({f"solution/files/{path}": data for path, data in beside.items()})
    description = PackageTable(name=f"assay/{identity}", description=f"Write {one.name} in {called.language.name}")
    config = HarborTask(
        task=description,
        agent=HarborAgentTable(timeout_sec=TIMEOUT_S),
        verifier=VerifierTable(timeout_sec=TIMEOUT_S),
        environment=EnvironmentTable(memory_mb=2048, workdir=WORKSPACE, network_mode="no-network"),
    )
    return TaskDraft(files=files, config=config, assay=_assay_table(source, parts, language))


def _assay_table(source: OpenedSource, parts: ProgramParts, language: str) -> AssayTable:
    tree = source.tree
    return AssayTable(
        tags=("synthesised", "program", language),
        source=f"{tree.title} ({tree.kind})",
        environment=WorkspaceTable(
            requirements=source.pins, masked_packages=source.masked, masks=package_masks(tree), tmp_mb=512
        ),
        checks=(CheckTable("calls", "calls", {"source": parts.function.path}),),
        provenance={
            "made_by": "assay synth programs",
            **tree.provenance,
            "solution": "bridge" if parts.bridged else "program" if parts.solution else "none",
        },
    )


def collect_solution_files(parts: ProgramParts, tree: SourceTree) -> Mapping[str, bytes]:
    """Returns the files that a solution copies into the working directory, except the package's."""
    called = parts.plan.program
    assert called is not None, "a plan of a program"
    beside = collect_adapter_files(tree, parts.function, called) if parts.bridged else {}
    return {called.language.file: parts.solution.encode(), **beside}


def render_bridge(language: ProgramLanguage) -> str:
    """Returns the program that starts the reference; empty where the language has none."""
    return language.bridge.lstrip("\n").replace(BRIDGED, f"{WORKSPACE}/{ANSWERS}")


def write_instruction(tree: SourceTree, parts: ProgramParts, called: CalledProgram) -> str:
    """Returns the instruction: signature, docstring, protocol and examples; never the source."""
    one, language = parts.function, called.language
    head = f"{one.name}({ast.unparse(one.node.args)})"
    described = "\n".join(f"    {line}".rstrip() for line in (ast.get_docstring(one.node) or "").splitlines())
    build = f"It is compiled by `{' '.join(language.compile)}` and started" if language.compile else "It is started"
    errors = ", ".join(f"`{name}`" for name in parts.plan.exceptions)
    refusal = f'\n- Where the function raises an exception ({errors}): `{{"error": "NAME"}}`.' if errors else ""
    rest = f"; `{called.rest}` is an array of the further ones" if called.rest else ""
    examples = "\n\n".join(f"    {request}\n    {answer}" for request, answer in parts.examples)
    return f"""Write a function of the Python package {tree.title} as a program in {language.name}.

The function, with its docstring:

    def {head}

{described}

Write the program to `{WORKSPACE}/{language.file}`. {build} by `{" ".join(language.run)}` in `{WORKSPACE}`.

- It reads requests from standard input until the end, one a line. A request is a JSON object: the arguments by the
  names of the parameters{rest}. What is not in it has its default.
- For each request, in their order, it writes one line to standard output: `{{"result": VALUE}}`.{refusal}
- Lists and tuples are JSON arrays, dictionaries are objects, None is null. An iterator is the array of all its items.
  Floats are compared to the last digits: write all 17 that matter.

Requests, each with its answer on the line below:

{examples}

The program is judged by other requests, and each answer must be the function's. Nothing else is written to standard
output. Use the language's standard library alone.
"""
