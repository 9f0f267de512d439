"""Numbered evidence that a check cites, with ids unique in the attempt, and the digest of a verifier's code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from assay.code.results import TestReport
from assay.environments.interface import ExecResult, ProcessInfo
from assay.records import Channel, Check, Evidence, Verdict, canonical_bytes, digest_bytes
from assay.verify._ruling import Ruling
from assay.verify._staging import folder_digest
from assay.verify.sanitise import Findings

MOST_TESTS = 2000


class CitedEvidence:
    """Evidence of a check in the order in which it was added. Create it when the check begins: it times the check."""

    def __init__(self, prefix: str) -> None:
        self.items: list[Evidence] = []
        self._prefix = prefix
        self._started = time.monotonic()

    def add(self, channel: Channel, kind: str, data: dict[str, Any], blobs: tuple[str, ...] = ()) -> str:
        """Adds an item of evidence and returns its id."""
        found = Evidence(f"{self._prefix}{len(self.items) + 1}", channel, kind, data, blobs, time.time())
        self.items.append(found)
        return found.id

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(item.id for item in self.items)

    def make_verdict(self, check: Check, verifier: str, ruling: Ruling, **more: Any) -> Verdict:
        """Returns the verdict of a check, which cites all evidence that was added; `more` are further fields of it."""
        duration_s = round(time.monotonic() - self._started, 6)
        return Verdict(
            check.name,
            "outcome",
            **ruling._asdict(),
            evidence=self.ids,
            verifier=verifier,
            duration_s=duration_s,
            **more,
        )

    def execution(self, argv: Sequence[str], cwd: str, result: ExecResult) -> str:
        """Adds a command that the verifier ran; returns the id."""
        data = {
            "argv": list(argv),
            "cwd": cwd,
            "exit_code": result.exit_code,
            "duration_s": round(result.duration_s, 6),
            "stdout": result.stdout,
            "stderr": result.stderr,
            "timed_out": result.timed_out,
        }
        if result.killed_by is not None:
            data["killed_by"] = result.killed_by
        blobs = tuple(digest for digest in (result.stdout_digest, result.stderr_digest) if digest)
        return self.add("audit", "execution", data, blobs)

    def report(self, report: TestReport, **more: Any) -> str:
        """Adds the results of a test run from one source; returns the id."""
        counts = {name: getattr(report.counts, name) for name in report.counts.__struct_fields__}
        tests = [{"id": test.id, "status": test.status} for test in report.tests[:MOST_TESTS]]
        data = {"source": report.source, "counts": counts, "tests": tests, "listed": len(tests), **more}
        return self.add("audit", "test_report", data)

    def processes(self, when: str, alive: Sequence[ProcessInfo]) -> str:
        """Adds the processes that were still alive; returns the id."""
        listed = [{"pid": p.pid, "parent": p.parent, "command": p.command[:500]} for p in alive[:100]]
        return self.add("state", "processes", {"when": when, "count": len(alive), "processes": listed})

    def findings(self, findings: Findings) -> None:
        """Adds the undone changes and the suspicious changed files, each if there are any."""
        if findings.planted:
            changes = [{"path": p.path, "mark": p.mark, "action": p.action} for p in findings.planted[:500]]
            self.add("state", "difference", {"undone": changes, "count": len(findings.planted)})
        if findings.suspects:
            files = [
                {"path": s.path, "found": [{"name": f.name, "what": f.what, "line": f.line} for f in s.found[:50]]}
                for s in findings.suspects[:100]
            ]
            self.add("state", "suspicion", {"files": files, "count": len(findings.suspects)})


@cache
def code_digest() -> str:
    """Returns the content address of all code that takes part in judging: the checks, the readers of test results, the
    rules of a verdict's grade, the sandboxes with their mount plan, and the programs that run in them."""
    parts = ("verify", "code", "verdicts", "environments/workspace", "environments/payload")
    root = Path(__file__).parent.parent
    return digest_bytes("".join(folder_digest(root / part) for part in parts).encode())


def verifier_digest(kind: str, parameters: dict[str, Any], files: str | None) -> str:
    """Returns the content address of a check: its code, its parameters and the files that it runs."""
    parts = {"kind": kind, "parameters": parameters, "files": files, "code": code_digest()}
    return digest_bytes(canonical_bytes(parts))
