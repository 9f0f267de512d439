"""Advice on a task folder beyond whether it loads: what makes a verdict weak, a run irreproducible, or an answer leak.

Everything that loading finds comes first; a key that loading tolerates is an error here. Nothing is executed, and
scripts are read as text, so a rule can miss what a script composes at run time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from assay.errors import UserError
from assay.plugins import names_code

from .assay_rules import is_pinned
from .findings import TaskFinding
from .folder import file_digest, read_text, require_folder
from .harbor_config import Artifact, HarborTask
from .parts import StepParts, TaskParts, read_folder, verifier_of
from .toml_source import line_of

_INSTALL = re.compile(r"\b(?:pip3?|uv|npm|apt|apt-get|apk|dnf|yum|conda)\s+(?:pip\s+)?(?:install|add|i)\b|\buvx\b")
_DOWNLOAD = re.compile(r"\b(?:curl|wget)\b.*https?://|\bgit\s+clone\b")
_PIP = re.compile(r"\b(?:pip3?|uv\s+pip)\s+install\s+([^;&|\n]*)")
_REWARD = re.compile(r"reward\.(?:txt|json)")
_JUDGE = re.compile(r"\bassay-judge (?:run|read)\b")
_COPIES = "tests/files/"
_LOGS = (PurePosixPath("/logs/verifier"), PurePosixPath("/logs/agent"))
MORE_TESTS = "more tests of these files fail, too"
"""Words after the number of failing tests that an instruction counts and does not name."""
_COUNTED_TESTS = re.compile(rf"(?<!\S)(\d{{1,6}}) {MORE_TESTS}")
Found = Iterator[TaskFinding]


FindBuildProblems = Callable[[Path], Iterable[tuple[str, int | None, str, str]]]
"""Returns rule, line, message and fix for each reason why a folder's Dockerfile cannot be built, such as
`assay.environments.workspace.images.find_build_problems`."""


def lint_task(folder: Path, find_build_problems: FindBuildProblems | None = None) -> tuple[TaskFinding, ...]:
    """Returns all findings on a task folder, errors first.

    Args:
        folder: The folder.
        find_build_problems: Looks at each Dockerfile; without it, only unpinned packages are looked for in these.

    Raises:
        UserError: The folder does not exist or cannot be read.
    """
    folder = Path(folder)
    require_folder(folder)
    parts = read_folder(folder)
    found = [_raised(finding) for finding in parts.findings]
    try:
        if parts.config is not None:
            for rule in _RULES:
                found += rule(parts, parts.config)
        if find_build_problems is not None:
            found += _build_problems(parts, find_build_problems)
    except OSError as exc:
        raise UserError(f"{exc.filename} cannot be read: {exc.strerror}; check its permissions") from exc
    order = {"error": 0, "warning": 1, "note": 2}
    unique = dict.fromkeys(found)
    return tuple(sorted(unique, key=lambda f: (order[f.severity], f.path, f.line or 0, f.field, f.rule)))


def _raised(finding: TaskFinding) -> TaskFinding:
    return msgspec.structs.replace(finding, severity="error") if finding.rule == "unknown-key" else finding


def _scripts(parts: TaskParts) -> Iterator[tuple[str, str, StepParts]]:
    for step in parts.steps:
        if step.tests is not None:
            text = read_text(parts.tree, f"{step.tests}/test.sh")
            if isinstance(text, str):
                yield f"{step.tests}/test.sh", text, step


def _rewards(parts: TaskParts, _: HarborTask) -> Found:
    for path, text, step in _scripts(parts):
        names = [path, *(e.path for e in parts.tree.entries if e.path.startswith(f"{step.tests}/"))]
        texts = [text, *(t for name in names if isinstance(t := read_text(parts.tree, name), str))]
        if parts.assay.checks or any(_REWARD.search(t) for t in texts):
            continue
        message = "nothing here mentions reward.txt or reward.json"
        yield TaskFinding("no-reward", "warning", path, message, "write the reward to /logs/verifier/reward.txt")


def _script_lines(parts: TaskParts, _: HarborTask) -> Found:
    for path, text, _step in _scripts(parts):
        for number, line in enumerate(text.splitlines(), start=1):
            if line.lstrip().startswith("#") or len(line) > 4096:
                continue
            if _INSTALL.search(line):
                fix = "name it in [metadata.assay.environment].requirements, or install it in a Dockerfile"
                message = "installs packages while judging, without a network by default"
                yield TaskFinding("verifier-install", "warning", path, message, fix, line=number)
            elif _DOWNLOAD.search(line):
                message = "downloads while judging; the verdict then depends on a remote server"
                yield TaskFinding(
                    "verifier-download", "warning", path, message, "put the file into tests/", line=number
                )


def _line_ends(parts: TaskParts, _: HarborTask) -> Found:
    for entry in parts.tree.entries:
        if entry.kind == "file" and entry.path.endswith((".sh", "Dockerfile")) and entry.size <= 1 << 20:
            with (parts.tree.root / entry.path).open("rb") as file:
                if b"\r\n" in file.read():
                    message = "has Windows line ends; shells read the carriage return as part of the command"
                    yield TaskFinding("line-ends", "error", entry.path, message, "save it with Unix line ends")


def _oracle(parts: TaskParts, _: HarborTask) -> Found:
    for step in parts.steps:
        if step.solution is None:
            at = f"steps/{step.name}/" if step.name else ""
            message = "is missing, so nothing shows that the task can be solved"
            if _judges_apart(parts, step):
                message += ", and without its output to compare with, a pass is at most `same-process`"
            yield TaskFinding("no-oracle", "warning", f"{at}solution/solve.sh", message, "write a reference solution")


def _judges_apart(parts: TaskParts, step: StepParts) -> bool:
    """Returns whether a step's script runs apart from the programs that it judges."""
    if any(check.parameters.get(name) for check in parts.assay.checks for name in ("programs", "outputs")):
        return True
    text = read_text(parts.tree, f"{step.tests}/test.sh") if step.tests is not None else None
    lines = text.splitlines() if isinstance(text, str) else ()
    return any(_JUDGE.search(line) for line in lines if not line.lstrip().startswith("#"))


def _limits(parts: TaskParts, config: HarborTask) -> Found:
    text = _toml(parts)
    for index, step in enumerate(config.steps or (None,)):
        own = step.agent.timeout_sec if step else None
        if own is None and config.agent.timeout_sec is None:
            field = f"steps[{index}].agent.timeout_sec" if step else "agent.timeout_sec"
            message = "is not given, so the agent may act for ever"
            line = line_of(text, field)
            yield TaskFinding("no-timeout", "note", "task.toml", message, "write for example 600", field, line)
    if config.environment.network_mode is None and config.agent.network_mode is None:
        message = "is not given: Harbor gives the public network then, Assay none"
        fix = 'write "no-network" or "public"; or ask for Harbor\'s with [metadata.assay] harbor_literal = ["network"]'
        yield TaskFinding("network-unstated", "note", "task.toml", message, fix, "environment.network_mode")


def _toml(parts: TaskParts) -> str:
    text = read_text(parts.tree, "task.toml")
    return text if isinstance(text, str) else ""


def _image(parts: TaskParts, config: HarborTask) -> Found:
    image = config.environment.docker_image
    built = parts.tree.has_file("environment/Dockerfile")
    if image is None and "environment" not in parts.tree.folders:
        message = "is missing, and no docker_image is named; Harbor refuses such a task"
        yield TaskFinding("no-environment", "warning", "environment", message, "add environment/Dockerfile")
    if image is not None and built:
        message = "is built by Assay, while Harbor takes docker_image"
        yield TaskFinding("image-twice", "note", "environment/Dockerfile", message, "keep one of the two")
    if image is not None and "@sha256:" not in image:
        message = f"{image!r} may mean another image tomorrow"
        fix = "add the digest, as in name@sha256:..."
        yield TaskFinding("unpinned-image", "note", "task.toml", message, fix, "environment.docker_image")


def _dockerfiles(parts: TaskParts, _: HarborTask) -> Found:
    for entry in parts.tree.entries:
        if entry.path.rpartition("/")[2] != "Dockerfile":
            continue
        text = read_text(parts.tree, entry.path)
        for number, line in enumerate(text.splitlines() if isinstance(text, str) else (), start=1):
            loose = [w for w in _packages(line) if not is_pinned(w)]
            if loose:
                message = f"installs {', '.join(loose)} without a version"
                fix = f"write {loose[0]}==VERSION"
                yield TaskFinding("unpinned-package", "warning", entry.path, message, fix, line=number)


def _build_problems(parts: TaskParts, find: FindBuildProblems) -> Found:
    for entry in parts.tree.entries:
        if entry.path.rpartition("/")[2] == "Dockerfile":
            for rule, line, message, fix in find((parts.tree.root / entry.path).parent):
                yield TaskFinding(rule, "error", entry.path, message, fix, line=line)


def _packages(line: str) -> list[str]:
    """Returns names that a pip command installs; empty for files, options with values, or paths."""
    found = _PIP.search(line)
    words = found[1].replace("'", "").replace('"', "").split() if found else []
    if any(word.startswith("-") and word != "--no-cache-dir" for word in words):
        return []
    return [w for w in words if re.fullmatch(r"[A-Za-z][A-Za-z0-9._\[\],<>=!~*-]*", w)]


def _leaks(parts: TaskParts, _: HarborTask) -> Found:
    """Reports files of the solution or the tests that the agent can read too, except tests that it is shown."""
    files = [e for e in parts.tree.entries if e.kind == "file" and e.size > 64 and "/" in e.path]
    given = [e for e in files if _is_agent_file(e.path)]
    sizes = {e.size for e in given}
    private: dict[bytes, list[str]] = {}
    for entry in files:
        if entry.size in sizes and not _is_agent_file(entry.path):
            private.setdefault(file_digest(parts.tree.root / entry.path), []).append(entry.path)
    shared = {e.size for e in files if not _is_agent_file(e.path)}
    copies = {e.path: private.get(file_digest(parts.tree.root / e.path), []) for e in given if e.size in shared}
    shown = _shown_tests(parts, {path for paths in copies.values() for path in paths})
    for path, originals in copies.items():
        other = next((original for original in originals if original not in shown), None)
        if other:
            message = f"is the same file as {other}, which the agent must not see"
            yield TaskFinding("leak", "warning", path, message, "remove it from what the agent is given")


def _shown_tests(parts: TaskParts, given: set[str]) -> set[str]:
    """Returns the copied test files that the agent may read; empty where something else than `pytest` judges too.

    A check `pytest` names its deciding tests. A file that holds none of them may be read. One that holds some may be
    read if the instruction names the file and names or counts these tests, while the agent has no copy, or only a
    shortened one, of another test file: something hidden then still decides. `given` are the files of which it has a
    copy.
    """
    checks = parts.assay.checks
    if not checks or any(check.kind != "pytest" for check in checks):
        return set()
    deciding: dict[str, set[str]] = {}
    for name in (name for check in checks for name in check.parameters.get("expected") or ()):
        if isinstance(name, str):
            deciding.setdefault(name.partition("::")[0], set()).add(name.partition("[")[0])
    copied = {e.path.removeprefix(_COPIES) for e in parts.tree.entries if e.path.startswith(_COPIES)}
    readable = copied - deciding.keys()
    withheld = copied - {path.removeprefix(_COPIES) for path in given}
    endings = tuple(f"/{name}" for name in withheld)
    has_shortened = any(_is_agent_file(e.path) and e.path.endswith(endings) for e in parts.tree.entries)
    if has_shortened or withheld & deciding.keys():
        readable |= _announced_files(parts, {path: deciding[path] for path in deciding.keys() - withheld})
    return {f"{_COPIES}{path}" for path in readable}


def _announced_files(parts: TaskParts, deciding: dict[str, set[str]]) -> set[str]:
    """Returns the files that the instruction names, if it names or counts each of their deciding tests."""
    text = read_text(parts.tree, "instruction.md")
    if not isinstance(text, str):
        return set()
    words = set(re.findall(r"[^\s`]+", text))
    unnamed = {path: len(tests - words) for path, tests in deciding.items() if path in words}
    counted = sum(map(int, _COUNTED_TESTS.findall(text)))
    if sum(unnamed.values()) <= counted:
        return set(unnamed)
    return {path for path, number in unnamed.items() if not number}


def _is_agent_file(path: str) -> bool:
    parts = path.split("/")
    return parts[0] == "environment" or (parts[0] == "steps" and len(parts) > 2 and parts[2] == "workdir")


def _leftovers(parts: TaskParts, _: HarborTask) -> Found:
    for entry in parts.tree.entries:
        name = entry.path.rpartition("/")[2]
        if name.endswith((".pyc", ".pyo")):
            message = "is compiled Python, which is executed in place of its source and changes the task's digest"
            yield TaskFinding("bytecode", "warning", entry.path, message, "remove it; find . -name __pycache__")
        if name == ".harborignore":
            message = "hides files from Harbor only; here all of the folder belongs to the task"
            yield TaskFinding("ignore-file", "warning", entry.path, message, "remove the files that it names")


def _artifact_rules(parts: TaskParts, config: HarborTask) -> Found:
    separate = verifier_of(config, config.steps[0] if config.steps else None)[0] == "separate"
    listed = [(f"artifacts[{i}]", a) for i, a in enumerate(config.artifacts)]
    for index, step in enumerate(config.steps):
        listed += [(f"steps[{index}].artifacts[{i}]", a) for i, a in enumerate(step.artifacts)]
    text = _toml(parts)
    declared: dict[str, str] = {}
    for field, entry in listed:
        artifact = Artifact(entry) if isinstance(entry, str) else entry
        source = PurePosixPath(artifact.source)
        if separate and any(source.is_relative_to(p) or p.is_relative_to(source) for p in _LOGS):
            message = f"{artifact.source!r} overlaps the logs, which are no artifacts"
            line = line_of(text, field)
            yield TaskFinding("artifact-logs", "warning", "task.toml", message, "choose another folder", field, line)
        target = (artifact.destination or artifact.source).strip("/")
        if declared.setdefault(target, artifact.source) != artifact.source:
            message = f"is kept as {target!r}, and so is {declared[target]!r}; only the first will be"
            line = line_of(text, field)
            yield TaskFinding("artifact-overlap", "warning", "task.toml", message, "give it a destination", field, line)


def _separate(parts: TaskParts, config: HarborTask) -> Found:
    """Reports files that a separate verifier cannot see: it receives artifacts alone."""
    for index, step in enumerate(config.steps or (None,)):
        mode, _ = verifier_of(config, step)
        own = step.artifacts if step else ()
        if mode == "separate" and not config.artifacts and not own:
            field = f"steps[{index}].artifacts" if step else "artifacts"
            message = "is empty, and a separate verifier sees artifacts and /logs/artifacts alone"
            fix = "list what the tests look at"
            yield TaskFinding("no-artifacts", "note", "task.toml", message, fix, field, line_of(_toml(parts), field))


def _named_code(parts: TaskParts, _: HarborTask) -> Found:
    for index, check in enumerate(parts.assay.checks):
        if names_code("checks", check.kind):
            field = f"metadata.assay.checks[{index}].kind"
            message = f"{check.kind!r} is Python code that runs in Assay's process, not in a sandbox"
            fix = "run the task with --allow-task-code, or install the check as a plugin"
            yield TaskFinding("named-code", "note", "task.toml", message, fix, field, line_of(_toml(parts), field))


_RULES: tuple[Callable[[TaskParts, HarborTask], Found], ...] = (
    _rewards,
    _script_lines,
    _line_ends,
    _oracle,
    _limits,
    _image,
    _dockerfiles,
    _leaks,
    _leftovers,
    _artifact_rules,
    _separate,
    _named_code,
)
