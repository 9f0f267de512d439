"""A task folder that was read: its configuration, its texts, and the parts of each of its steps.

`read_folder` does all reading and all finding of faults; `mapping` turns the result into a `records.Task`, `lint`
adds advice. The invariant: with no error among the findings, every path named in `TaskParts` exists inside the folder.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date, time
from pathlib import Path
from typing import Any, NamedTuple

from assay.validation_messages import describe_value

from .assay_config import AssayTable
from .assay_rules import check_assay_rules
from .findings import TaskFinding
from .folder import Tree, read_text, scan
from .harbor_config import EnvironmentTable, HarborTask, StepTable, VerifierTable
from .harbor_rules import check_rules, is_step_name, upgrade_deprecated
from .shape import Misfit, read_record
from .toml_source import Lines, parse_toml

_CANARY = re.compile(r"(?:<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
_INT64 = 1 << 63
FINDINGS_LIMIT = 500


class StepParts(NamedTuple):
    """Paths of one step's parts, relative to the folder; a task without steps has one with an empty name."""

    name: str
    instruction: str
    tests: str | None
    """Folder of the test script; None where the verifier's image contains the tests."""
    solution: str | None
    workdir: str | None
    """Files copied into the working directory before the step; its `setup.sh` runs then."""
    trajectory: str | None
    """Prior context of the agent."""


class TaskParts(NamedTuple):
    """Contents of a task folder. Without a valid `task.toml` it has no `config`."""

    tree: Tree
    config: HarborTask | None
    assay: AssayTable
    steps: tuple[StepParts, ...]
    findings: tuple[TaskFinding, ...]


class _Report:
    def __init__(self, text: str) -> None:
        self._lines = Lines(text)
        self.findings: list[TaskFinding] = []
        self._counts: Counter[str] = Counter()

    def add(self, rule: str, misfit: Misfit, severity: str = "error") -> None:
        """Adds a finding, up to `FINDINGS_LIMIT` for each severity."""
        self._counts[severity] += 1
        if self._counts[severity] > FINDINGS_LIMIT:
            return
        line = self._lines.of(misfit.field)
        level: Any = severity
        self.findings.append(TaskFinding(rule, level, "task.toml", misfit.message, misfit.fix, misfit.field, line))

    def shape(self, misfit: Misfit) -> None:
        """Adds a misfit from `read_record`: Harbor tolerates unknown keys, `[metadata.assay]` does not."""
        lenient = misfit.unknown and not misfit.strict
        self.add("unknown-key" if misfit.unknown else "invalid-value", misfit, "warning" if lenient else "error")

    def rules(self, misfits: Iterator[Misfit]) -> None:
        """Adds misfits of rules, unless an earlier misfit in the same table makes them doubtful."""
        doubtful = {f.field.rpartition(".")[0] for f in self.findings if f.severity == "error"}
        for misfit in misfits:
            if misfit.field.rpartition(".")[0] not in doubtful or "." not in misfit.field:
                self.add("invalid-value", misfit)


def read_folder(folder: Path) -> TaskParts:
    """Reads a task folder and finds all faults. Raises `UserError` only where the folder cannot be listed."""
    tree = scan(folder)
    findings = list(tree.findings)
    if not tree.has_file("task.toml"):
        message = "is missing"
        findings.append(
            TaskFinding("missing-file", "error", "task.toml", message, "add it, or name a folder that has one")
        )
        return TaskParts(tree, None, AssayTable(), (), tuple(findings))
    text = "" if findings else read_text(tree, "task.toml")
    if findings or isinstance(text, TaskFinding):
        more = (text,) if isinstance(text, TaskFinding) else ()
        return TaskParts(tree, None, AssayTable(), (), (*findings, *more))
    data = parse_toml(text, "task.toml")
    if isinstance(data, TaskFinding):
        return TaskParts(tree, None, AssayTable(), (), (*findings, data))
    config, assay, found = _read_config(data, text)
    findings += found
    if config is None:
        return TaskParts(tree, None, assay, (), tuple(findings))
    steps = tuple(_find_steps(tree, config, findings.append))
    return TaskParts(tree, config, assay, steps, tuple(findings))


def _read_config(data: dict[str, Any], text: str) -> tuple[HarborTask | None, AssayTable, list[TaskFinding]]:
    report = _Report(text)
    data, warnings, errors = upgrade_deprecated(data)
    for misfit in warnings:
        report.add("deprecated-key", misfit, "warning")
    for misfit in errors:
        report.add("invalid-value", misfit)
    if isinstance(data.get("metadata"), dict):
        data["metadata"] = _plain(data["metadata"], "metadata", report, 0)
    config = read_record(HarborTask, data, report.shape)
    assay = AssayTable()
    if config is not None:
        given = config.metadata.get("assay", {})
        assay = read_record(AssayTable, given, report.shape, at="metadata.assay") or assay
        report.rules(check_rules(config))
        report.rules(check_assay_rules(assay, config))
    return config, assay, report.findings


def _plain(value: Any, at: str, report: _Report, depth: int) -> Any:
    """Returns metadata as plain JSON data: dates become text; unsupported values are reported."""
    if depth > 32:
        report.add("invalid-value", Misfit(at, "is nested more than 32 deep", "flatten it"))
        return None
    if isinstance(value, dict):
        return {key: _plain(item, f"{at}.{key}", report, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, f"{at}[{index}]", report, depth + 1) for index, item in enumerate(value)]
    if isinstance(value, date | time):
        return value.isoformat()
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and (not math.isfinite(value) or (isinstance(value, int) and abs(value) >= _INT64)):
        report.add(
            "invalid-value",
            Misfit(at, f"is {describe_value(value)}, which a record cannot hold", "write it as a string"),
        )
        return None
    return value


def verifier_of(config: HarborTask, step: StepTable | None) -> tuple[str, EnvironmentTable | None]:
    """Returns the mode, `shared` or `separate`, and the verifier's own environment, by Harbor's precedence."""
    tables: list[VerifierTable] = [] if step is None else [step.verifier]
    tables.append(config.verifier)
    mode = "shared"
    for table in tables:
        own = table.environment_mode or ("separate" if table.environment is not None else None)
        if own is not None:
            mode = own
            break
    if mode == "shared":
        return mode, None
    return mode, next((table.environment for table in tables if table.environment is not None), None)


def _find_steps(tree: Tree, config: HarborTask, report: Callable[[TaskFinding], None]) -> Iterator[StepParts]:
    if "environment/docker-compose.yaml" in tree.paths:
        message = "asks for several services, and there is one sandbox here"
        fix = "write environment/Dockerfile instead, or run this task with Harbor itself"
        report(TaskFinding("compose", "error", "environment/docker-compose.yaml", message, fix))
    if not config.steps:
        yield _find_step(tree, config, None, report)
        return
    for step in config.steps:
        if not is_step_name(step.name):
            continue
        if f"steps/{step.name}" not in tree.folders:
            fix = "add the folder with its instruction.md, or remove the step"
            report(
                TaskFinding(
                    "missing-file", "error", f"steps/{step.name}", "is missing although task.toml names it", fix
                )
            )
            continue
        yield _find_step(tree, config, step, report)


def _find_step(
    tree: Tree, config: HarborTask, step: StepTable | None, report: Callable[[TaskFinding], None]
) -> StepParts:
    at = f"steps/{step.name}/" if step else ""
    folders = [f"{at}tests", "tests"] if step else ["tests"]
    tests = next((f for f in folders if tree.has_file(f"{f}/test.sh")), None)
    mode, environment = verifier_of(config, step)
    baked = environment is not None and environment.docker_image is not None
    baked = mode == "separate" and (baked or any(tree.has_file(f"{f}/Dockerfile") for f in folders))
    if tests is None and not baked:
        message = "is missing" + (" and so is tests/test.sh" if step else "")
        report(TaskFinding("missing-file", "error", f"{at}tests/test.sh", message, _tests_fix(tree, folders[0])))
    solutions = [f"{at}solution", "solution"] if step else ["solution"]
    return StepParts(
        name=step.name if step else "",
        instruction=_instruction(tree, f"{at}instruction.md", report),
        tests=tests,
        solution=next((f for f in solutions if tree.has_file(f"{f}/solve.sh")), None),
        workdir=f"{at}workdir" if step and f"{at}workdir" in tree.folders else None,
        trajectory=f"{at}trajectory.json" if tree.has_file(f"{at}trajectory.json") else None,
    )


def _tests_fix(tree: Tree, folder: str) -> str:
    if tree.has_file(f"{folder}/test.bat"):
        return "test.bat is for Windows: write a test.sh"
    return "write a script that judges and writes /logs/verifier/reward.txt"


def _instruction(tree: Tree, path: str, report: Callable[[TaskFinding], None]) -> str:
    if not tree.has_file(path):
        report(TaskFinding("missing-file", "error", path, "is missing", "write what the agent shall do"))
        return ""
    text = read_text(tree, path)
    if isinstance(text, TaskFinding):
        report(text)
        return ""
    text = strip_canary(text)
    if not text.strip():
        report(TaskFinding("empty-instruction", "error", path, "says nothing", "write what the agent shall do"))
    return text


def strip_canary(text: str) -> str:
    """Returns the instruction without leading canary lines, which agents never see."""
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.fullmatch(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])
