"""Heuristics over the task's own text: demands that the instruction omits, and answers that it leaks.

If the verifier needs a name (path, function, key, format, word) that neither the instruction nor a file in the image
mentions, an agent has to guess it. If the instruction or the image holds the answer, the solution or the tests, an
agent need not solve the task. Names that follow from context and facts in other words are false positives.
Deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from blake3 import blake3

from assay.agents.cheats.interface import Knowledge
from assay.tasks import LoadedTask

from ._agent_texts import AgentTexts, collect_agent_texts, folder_files
from ._changes import ChangedFile, changed_files, hunks_of, lines_of
from ._demands import Demand, parse_python_demands, parse_shell_demands
from .findings import AdmissionFinding, Severity

MOST_OF_A_KIND = 12
LINE_CHARS = 24
"""Shorter program lines are too common to count as an answer."""
RUN_CHARS = 60
_WORDS = {
    "path": "the verifier names the path {0!r}",
    "name": "the verifier uses the name {0!r}",
    "key": "the verifier reads the key {0!r}",
    "format": "the verifier reads with the format {0!r}",
    "literal": "the verifier looks for the text {0!r}",
}
_COPIES = re.compile(r"^\s*(?:COPY|ADD)\s+(?:--\S+\s+)*(.+)$", re.IGNORECASE | re.MULTILINE)
_NAMED_SOLUTION = re.compile(r"(?:^|[/\s])(?:solve\.(?:sh|py)|solutions?(?:[/\s.]|$)|answer_?key\b|oracle(?:[/\s.]|$))")
_TRIVIAL = re.compile(r"#!|#|//|\s*$|set -|import |from \S+ import|cd |exit|mkdir|echo |fi$|done$|[{}()\[\]]+$")


def review(loaded: LoadedTask, knowledge: Knowledge | None) -> tuple[AdmissionFinding, ...]:
    """Returns the findings on a task with a folder; without `knowledge`, leaks are only told from the solution's
    files."""
    if loaded.folder is None:
        return ()
    texts = collect_agent_texts(loaded, knowledge)
    tests = {
        f"{top}/{path}": data
        for top in _list_folders(loaded, "tests")
        for path, data in folder_files(loaded.folder / top)
    }
    solution = {
        f"{t}/{path}": data for t in _list_folders(loaded, "solution") for path, data in folder_files(loaded.folder / t)
    }
    authors = "\n".join([*(data.decode(errors="replace") for data in solution.values()), *_solution_texts(knowledge)])
    found = [*_unmentioned_findings(loaded, texts, tests, authors), *_copy_findings(loaded, texts, tests, solution)]
    for file in changed_files(knowledge) if knowledge is not None else ():
        found += _leak_findings(loaded, texts, file)
    return tuple(dict.fromkeys(found))


def _solution_texts(knowledge: Knowledge | None) -> Iterator[str]:
    for file in changed_files(knowledge) if knowledge is not None else ():
        yield file.path
        yield file.after or ""


def _list_folders(loaded: LoadedTask, name: str) -> list[str]:
    return [name, *(f"steps/{step.name}/{name}" for step in loaded.steps if step.name)]


def _finding(
    loaded: LoadedTask, kind: str, text: str, closed_by: str, evidence: str, *, note: bool
) -> AdmissionFinding:
    severity: Severity = "note" if note else "weak"
    where = (evidence,) if evidence else ()
    return AdmissionFinding(kind, loaded.task.id, None, severity, text, (closed_by,), heuristic=True, evidence=where)


def _unmentioned_findings(
    loaded: LoadedTask, texts: AgentTexts, tests: dict[str, bytes], authors: str
) -> Iterator[AdmissionFinding]:
    count: dict[str, int] = {}
    seen: set[tuple[str, str]] = set()
    for demand in _parse_demands(tests):
        key = (demand.kind, demand.value)
        if key in seen or _is_mentioned(demand, texts) or _is_of_the_tests(demand, tests):
            continue
        seen.add(key)
        if not _author_has(demand, authors):
            continue
        count[demand.kind] = count.get(demand.kind, 0) + 1
        if count[demand.kind] <= MOST_OF_A_KIND:
            text = f"{_WORDS[demand.kind].format(demand.value)}, which neither the instruction nor the image mentions"
            yield _finding(loaded, f"untold-{demand.kind}", text, "say it in the instruction", demand.where, note=True)


def _parse_demands(tests: dict[str, bytes]) -> Iterator[Demand]:
    for path, data in sorted(tests.items()):
        text = data.decode(errors="replace")
        if path.endswith(".py"):
            yield from parse_python_demands(text, path)
        elif path.endswith(".sh") or data.startswith(b"#!"):
            yield from parse_shell_demands(text, path)


def _is_mentioned(demand: Demand, texts: AgentTexts) -> bool:
    if demand.kind == "path":
        return texts.mentions(demand.value) or texts.mentions(demand.value.rstrip("/").rpartition("/")[2])
    if demand.kind == "format":
        chunks = re.findall(r"[A-Za-z]{4,}", re.sub(r"\\[A-Za-z]|%[A-Za-z]|\[[^\]]*\]", " ", demand.value))
        return texts.mentions(demand.value) or all(texts.mentions(chunk) for chunk in chunks)
    return texts.mentions(demand.value)


def _is_of_the_tests(demand: Demand, tests: dict[str, bytes]) -> bool:
    name = demand.value.rpartition("/")[2]
    return any(name in (path.rpartition("/")[2], path.rpartition("/")[2].partition(".")[0]) for path in tests)


def _author_has(demand: Demand, authors: str) -> bool:
    """Returns whether the author's solution contains the demand literally. Only then was it known to the author alone:
    a string in a test may be an answer that follows from the task, a name may belong to the verifier's own library, and
    a path may be written by the verifier."""
    if demand.kind == "path":
        return demand.value.rstrip("/").rpartition("/")[2] in authors
    if demand.kind == "name":
        name = re.escape(demand.value.rpartition(".")[2])
        made = (
            rf"\b(?:def|class|function|func|fn|struct|const|let|var)\s+{name}\b|(?<![\w.]){name}\s*=|\b{name}(?:\.py|/)"
        )
        return re.search(made, authors) is not None
    chunks = [demand.value] if demand.kind != "format" else re.findall(r"[A-Za-z]{4,}", demand.value)
    return bool(chunks) and all(chunk in authors for chunk in chunks)


def _copy_findings(
    loaded: LoadedTask, texts: AgentTexts, tests: dict[str, bytes], solution: dict[str, bytes]
) -> Iterator[AdmissionFinding]:
    digests = {blake3(data).hexdigest(): path for path, data in texts.image.items() if len(data) > 40}
    twins = {path: digests.get(blake3(data).hexdigest()) for path, data in sorted((tests | solution).items())}
    for path in sorted(solution):
        if twins[path] is not None:
            text = f"the image holds the solution: environment/{twins[path]} is the same as {path}"
            yield _finding(loaded, "solution-in-image", text, "leave it out of environment/", path, note=False)
    deciding = _deciding_files(loaded)
    shown = [(p, t) for p in sorted(tests) if (t := twins[p]) and not _is_shown(p, t, texts) and deciding.get(p, True)]
    if shown:
        names = ", ".join(f"environment/{twin}" for _, twin in shown[:4]) + (" ..." if len(shown) > 4 else "")
        text = f"the image holds {len(shown)} of the verifier's {len(tests)} files as they are: {names}"
        yield _finding(loaded, "tests-in-image", text, "leave them out of environment/", shown[0][0], note=True)
    for path, data in texts.image.items():
        if path.rpartition("/")[2].startswith("Dockerfile"):
            yield from _dockerfile_findings(loaded, path, data.decode(errors="replace"))
        elif ":" not in path and _NAMED_SOLUTION.search(path) and twins.get(f"solution/{path}") is None:
            text = f"the image holds a file that is called like a solution: environment/{path}"
            yield _finding(loaded, "solution-in-image", text, "leave it out of environment/", path, note=False)
    for path, data in sorted(solution.items()):
        run = [line for line in data.decode(errors="replace").splitlines() if not _TRIVIAL.match(line.strip())]
        twin = _find_holder("\n".join(run[:3]), texts) if len(run) >= 3 else None
        if twin is not None and blake3(data).hexdigest() not in digests:
            text = f"the image holds lines of the solution: environment/{twin} has those of {path}"
            yield _finding(loaded, "solution-in-image", text, "leave it out of environment/", twin, note=False)


def _is_shown(path: str, twin: str, texts: AgentTexts) -> bool:
    """Returns whether a test file is public on purpose: the instruction names it, or it is an empty package file."""
    name = path.rpartition("/")[2]
    return (
        name in ("__init__.py", "conftest.py")
        or name in texts.instruction
        or twin.rpartition(":")[2] in texts.instruction
    )


def _deciding_files(loaded: LoadedTask) -> dict[str, bool]:
    """Maps the test files of a check to whether a test in them must change to pass; others may be visible."""
    found: dict[str, bool] = {}
    for check in loaded.task.checks if loaded.task.checks else ():
        if check.kind == "pytest" and isinstance(check.parameters.get("tests"), list | tuple):
            expected = {str(test).partition("::")[0] for test in check.parameters.get("expected") or ()}
            for file in check.parameters["tests"]:
                if isinstance(file, dict):
                    found[str(file.get("source"))] = str(file.get("target")) in expected
    return found


def _dockerfile_findings(loaded: LoadedTask, path: str, text: str) -> Iterator[AdmissionFinding]:
    """Reports COPY and ADD lines whose source or target is named like a solution."""
    for match in _COPIES.finditer(text):
        if _NAMED_SOLUTION.search(match[1].strip()):
            line = match[0].strip()
            words = f"the image is built with what is called like a solution: {line}"
            place = f"environment/{path}: {line}"
            yield _finding(loaded, "solution-in-image", words, "leave it out of the image", place, note=False)


def _find_holder(run: str, texts: AgentTexts) -> str | None:
    data = run.encode()
    return next((path for path, text in texts.image.items() if data in text), None)


def _leak_findings(loaded: LoadedTask, texts: AgentTexts, file: ChangedFile) -> Iterator[AdmissionFinding]:
    pairs = _pairs(file)
    listed = next((path for path, data in texts.image.items() if pairs and all(p.search(data) for p in pairs)), None)
    if listed is not None and not any(all(p.search(k.encode()) for p in pairs) for k in texts.context):
        text = f"the image has every key and value that solving writes to {file.path}"
        yield _finding(loaded, "answer-in-image", text, "leave it out of environment/", listed, note=False)
    for answer in _answers(file):
        if answer in texts.instruction:
            text = f"the instruction has what solving writes to {file.path}: {_truncate_answer(answer)}"
            closed = "leave the answer out of the instruction"
            yield _finding(loaded, "answer-in-instruction", text, closed, "instruction.md", note=False)
        elif not any(answer in known for known in texts.context):
            holder = _find_holder(answer, texts)
            if holder is not None:
                text = f"the image has what solving writes to {file.path}: {_truncate_answer(answer)}"
                yield _finding(loaded, "answer-in-image", text, "leave it out of environment/", holder, note=False)


def _answers(file: ChangedFile) -> Iterator[str]:
    """Yields texts that would reveal the answer: a whole distinctive output, or a run of new program lines."""
    if file.after is None or (file.before is not None and file.after in file.before):
        return
    if file.role == "data":
        whole = file.after.strip()
        # Short texts and small numbers stand anywhere by chance.
        if len(whole) >= 200 or (len(whole) >= 4 and re.search(r"\d{3}", whole)):
            yield whole
        return
    lines = [line.rstrip("\r\n") for line in lines_of(file.after)]
    for hunk in hunks_of(file.before, file.after) if file.before is not None else ():
        run = lines[hunk.first : hunk.last]
        telling = [line for line in run if len(line.strip()) >= LINE_CHARS and not _TRIVIAL.match(line.strip())]
        if len(telling) > 1 and len("\n".join(run).strip()) >= RUN_CHARS:  # one line alone may be said twice
            yield "\n".join(run).strip()


def _pairs(file: ChangedFile) -> list[re.Pattern[bytes]]:
    """Returns patterns for the keys and plain values of an added JSON object, in JSON or Python syntax."""
    if file.before is not None or file.after is None or not file.path.endswith(".json"):
        return []
    try:
        value = msgspec.json.decode(file.after)
    except (msgspec.DecodeError, RecursionError):
        return []
    plain = value if isinstance(value, dict) and 3 <= len(value) <= 200 else {}
    if not plain or not all(isinstance(v, int | float | str) and not isinstance(v, bool) for v in plain.values()):
        return []
    return [
        re.compile(rf"[\"']{re.escape(k)}[\"']\s*[:,]\s*[\"']?{re.escape(str(v))}\b".encode()) for k, v in plain.items()
    ]


def _truncate_answer(answer: str) -> str:
    line = " ".join(answer.split())
    return line if len(line) <= 120 else f"{line[:120]}..."
