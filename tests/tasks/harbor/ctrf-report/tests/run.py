"""Runs three cases, each in a process of its own, and reports them in CTRF."""

import json
import pathlib
import subprocess
import sys

CASES = {"below": (-5, 0, 10, 0), "inside": (5, 0, 10, 5), "above": (15, 0, 10, 10)}
LOGS = pathlib.Path("/logs/verifier")


def passes(value: int, low: int, high: int, expected: int) -> bool:
    code = f"import sys; sys.path.insert(0, '/workspace'); import bounds; print(bounds.clamp({value}, {low}, {high}))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=10)
    return done.returncode == 0 and done.stdout.strip() == str(expected)


tests = [
    {"name": name, "status": "passed" if passes(*case) else "failed", "duration": 1} for name, case in CASES.items()
]
passed = sum(test["status"] == "passed" for test in tests)
summary = {"tests": len(tests), "passed": passed, "failed": len(tests) - passed}
summary |= {"pending": 0, "skipped": 0, "other": 0, "start": 0, "stop": 0}
report = {"results": {"tool": {"name": "run.py"}, "summary": summary, "tests": tests}}
(LOGS / "ctrf.json").write_text(json.dumps(report))
(LOGS / "reward.txt").write_text(f"{passed / len(tests):.4f}\n" if passed < len(tests) else "1\n")
sys.exit(0 if passed == len(tests) else 1)
