"""Writes the base variants of one repair task; every attack script is tried on those that its first line names.

| variant | verifier |
|---|---|
| `py` | shared sandbox; a script that runs pytest, and the check `pytest` with named tests |
| `direct` | shared sandbox; a script that runs the judged program itself |
| `sepa` | `separate` mode, the module is the artifact; the script runs pytest in the verifier's image |
| `sepd` | `separate` mode; the script runs the judged program itself |
| `direct-apart`, `sepd-apart` | as `direct` and `sepd`, with `programs`: the judged program has its own sandbox |
| `cases-apart` | as `direct-apart`; the script reads its cases from a text in its own body |
| `loops` | as `py`, with assertions in loops, in functions and over parameters |
| `check` | shared sandbox; the script runs a Python program of its own that imports the module, without pytest |
| `plan` | as `py` by the check `pytest` alone, with a separation plan: tests are judged from outside |
| `depot` | another task with a plan, over a package with classes, iterators, callbacks and changes in place |
| `literal` | as `direct`, but the reward file alone decides: the weak verifier of the canary test |

The variant `demo` is a synthesised task: its folder is handed to the campaign with `--demo`.
"""

from __future__ import annotations

from pathlib import Path

from assay.verify.separation_plan import PLAN_PATH, EntryPoint, EntryUse, SeparationPlan, TestPlan, encode_plan

from .depot_task import DEPOT_IDS, DEPOT_PLAN, DEPOT_TESTS, RIGHT_BODIES, write_depot

__all__ = ["APART", "PROGRAM_VARIANTS", "VARIANTS", "WEAK", "write_base_tasks", "write_manifest"]

APART = "-apart"
"""Ends the name of a variant whose task names the programs that are judged."""
PROGRAM_VARIANTS = ("direct", "direct-apart", "sepd", "sepd-apart", "cases-apart")
VARIANTS = ("py", "plan", "sepa", "loops", "check", *PROGRAM_VARIANTS)
"""Those of the ledger, on which scripts are tried."""
DEPOT = "depot"
WEAK = "literal"

BROKEN = '''"""A ledger."""


def total(items):
    """The sum of (name, amount) pairs' amounts."""
    return 0


def normal(text):
    """Lower case, single spaces, none at the ends."""
    return text


def spread(values):
    """Largest minus smallest; ValueError where there are none."""
    return 0
'''
SOLVED = '''"""A ledger."""


def total(items):
    """The sum of (name, amount) pairs' amounts."""
    return sum(amount for _, amount in items)


def normal(text):
    """Lower case, single spaces, none at the ends."""
    return " ".join(text.lower().split())


def spread(values):
    """Largest minus smallest; ValueError where there are none."""
    if not values:
        raise ValueError("no values")
    return max(values) - min(values)
'''
PROGRAM = """

if __name__ == "__main__":
    import sys
    print(total([("", int(x)) for x in sys.argv[1:]]))
"""
TESTS = """import sys
import unittest

sys.path.insert(0, "/workspace")
import pytest
from ledger import normal, spread, total


def test_total():
    assert total([("a", 3), ("b", 4)]) == 7
    assert total([]) == 0


def test_total_negative():
    assert total([("a", 3), ("b", -11)]) == -8


def test_normal():
    assert normal("  A  Quiet   Day ") == "a quiet day"


def test_words():
    assert normal("Two Words").split() == ["two", "words"]


def test_spread():
    assert spread([4, 9, 1]) == 8


def test_none():
    with pytest.raises(ValueError):
        spread([])


class TestMore(unittest.TestCase):
    def test_same(self):
        self.assertEqual(total([("x", 21), ("y", 21)]), 42)
        self.assertIn("quiet", normal(" QUIET one"))
"""
NAMES = (
    "test_total",
    "test_total_negative",
    "test_normal",
    "test_words",
    "test_spread",
    "test_none",
    "TestMore::test_same",
)
IDS = tuple(f"tests/test_ledger.py::{name}" for name in NAMES)
USES = {
    "test_total": ("total",),
    "test_total_negative": ("total",),
    "test_normal": ("normal",),
    "test_words": ("normal",),
    "test_spread": ("spread",),
    "test_none": ("spread",),
    "TestMore::test_same": ("total", "normal"),
}
LEDGER_PLAN = SeparationPlan(
    package="ledger",
    entries=tuple(EntryPoint("ledger", name) for name in ("total", "normal", "spread")),
    tests=tuple(
        TestPlan(one, "splice", (), tuple(EntryUse(f"ledger:{entry}") for entry in USES[name]))
        for one, name in zip(IDS, NAMES, strict=True)
    ),
    call_timeout_s=4.0,
)
PYTEST_SH = """#!/bin/bash
cd /workspace
python3 -m pytest -rA --ctrf /logs/verifier/ctrf.json /tests/test_ledger.py
if [ $? -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
DIRECT_SH = """#!/bin/bash
score=1
[ "$(python3 /workspace/ledger.py 3 4 5)" = 12 ] || score=0
[ "$(python3 /workspace/ledger.py 10 -20)" = -10 ] || score=0
echo $score > /logs/verifier/reward.txt
"""
CASES_SH = """#!/bin/bash
score=1
while read -r one other sum; do
  [ "$(python3 /workspace/ledger.py $one $other)" = "$sum" ] || score=0
done <<'CASES'
3 4 7
10 -20 -10
5 5 10
CASES
echo $score > /logs/verifier/reward.txt
"""
LOOPS = """import sys

sys.path.insert(0, "/workspace")
import pytest
from ledger import normal, spread, total


def test_total():
    for items, expected in [([("a", 3), ("b", 4)], 7), ([], 0), ([("a", 3), ("b", -11)], -8)]:
        assert total(items) == expected


@pytest.mark.parametrize(("text", "expected"), [("  A  Quiet   Day ", "a quiet day"), ("Two Words", "two words")])
def test_normal(text, expected):
    assert normal(text) == expected


def check_spread(values, expected):
    assert spread(values) == expected


def test_spread():
    check_spread([4, 9, 1], 8)


def test_none():
    for values in [[], ()]:
        with pytest.raises(ValueError):
            spread(values)
"""
CHECK_SH = """#!/bin/bash
if python3 /tests/check.py; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
CHECK = """import sys

sys.path.insert(0, "/workspace")
from ledger import normal, spread, total

assert total([("a", 3), ("b", 4)]) == 7
assert normal("  A  Quiet   Day ") == "a quiet day"
assert spread([4, 9, 1]) == 8
"""
TEST_FILES = {
    "check": {"tests/test.sh": CHECK_SH, "tests/check.py": CHECK},
    "cases-apart": {"tests/test.sh": CASES_SH},
    "loops": {"tests/test_ledger.py": LOOPS},
}
"""Files of a variant's own, in the place of the usual ones."""
VERIFIER_S = 20.0


def write_base_tasks(folder: Path) -> dict[str, Path]:
    """Writes every variant below `folder`; returns the task folder of each by its name."""
    for variant in (*VARIANTS, WEAK):
        _write(folder / variant, _ledger_files(variant))
    _write(folder / DEPOT, _depot_files())
    return {variant: folder / variant for variant in (*VARIANTS, WEAK, DEPOT)}


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)


def _ledger_files(variant: str) -> dict[str, str]:
    runs_program = variant in (*PROGRAM_VARIANTS, WEAK)
    more = PROGRAM if runs_program else ""
    files = {
        "task.toml": write_manifest(variant),
        "instruction.md": "Repair /workspace/ledger.py: its docstrings say what the functions do.\n",
        "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\nCOPY ledger.py ./\n",
        "environment/ledger.py": BROKEN + more,
        "tests/test.sh": DIRECT_SH if runs_program else PYTEST_SH,
        "solution/solve.sh": f"#!/bin/sh\ncat > /workspace/ledger.py <<'PYTHON'\n{SOLVED}{more}PYTHON\n",
    }
    if not runs_program and variant != "check":
        files["tests/test_ledger.py"] = TESTS
    files |= TEST_FILES.get(variant, {})
    if variant == "plan":
        files[PLAN_PATH] = encode_plan(LEDGER_PLAN).decode()
    return files


def _depot_files() -> dict[str, str]:
    solution = "".join(f"cat > {name} <<'PYTHON'\n{text}PYTHON\n" for name, text in write_depot(**RIGHT_BODIES).items())
    return {
        "task.toml": write_manifest(DEPOT),
        "instruction.md": "Repair the functions of /workspace/depot: their docstrings say what they do.\n",
        "environment/Dockerfile": "FROM scratch\nWORKDIR /workspace\nCOPY depot ./depot\n",
        **{f"environment/{name}": text for name, text in write_depot().items()},
        "tests/test.sh": PYTEST_SH.replace("test_ledger", "test_depot"),
        "tests/test_depot.py": DEPOT_TESTS,
        PLAN_PATH: encode_plan(DEPOT_PLAN).decode(),
        "solution/solve.sh": f"#!/bin/sh\ncd /workspace\n{solution}",
    }


def write_manifest(variant: str) -> str:
    """Returns the `task.toml` of a variant."""
    separate = variant.startswith("sep")
    text = 'schema_version = "1.4"\n' + 'artifacts = ["/workspace/ledger.py"]\n' * separate
    text += f'\n[task]\nname = "adversary/{variant}"\n\n[agent]\ntimeout_sec = 60.0\n'
    text += f"\n[verifier]\ntimeout_sec = {VERIFIER_S}\n" + 'environment_mode = "separate"\n' * separate
    text += '\n[environment]\nnetwork_mode = "no-network"\nworkdir = "/workspace"\nmemory_mb = 512\nstorage_mb = 64\n'
    text += "\n[metadata.assay.environment]\nprocesses = 64\ntmp_mb = 16\n"
    if variant in ("py", "loops", "check", WEAK):
        literal = "\nliteral = true" if variant == WEAK else ""
        text += _check("script", f'script = "tests/test.sh"{literal}')
    if variant.endswith(APART):
        mode = 'mode = "separate"\n' if separate else ""
        text += _check("script", f'script = "tests/test.sh"\n{mode}programs = ["/workspace/ledger.py"]')
    if variant in ("py", "plan"):
        text += _check("pytest", _named_tests("tests/test_ledger.py", IDS))
    if variant == "loops":
        text += _check("pytest", 'tests = ["tests/test_ledger.py"]')
    if variant == DEPOT:
        text += _check("pytest", _named_tests("tests/test_depot.py", DEPOT_IDS))
    return text


def _check(kind: str, parameters: str) -> str:
    text = f'\n[[metadata.assay.checks]]\nname = "{kind}"\nkind = "{kind}"\n\n[metadata.assay.checks.parameters]\n'
    interpreter = 'interpreter = ["/bin/bash"]\n' if kind == "script" else ""
    return f"{text}{parameters}\n{interpreter}timeout_s = {VERIFIER_S}\n"


def _named_tests(file: str, ids: tuple[str, ...]) -> str:
    mounted = f'tests = [{{ source = "{file}", target = "{file}" }}]\n'
    return mounted + "expected = [" + ", ".join(f'"{name}"' for name in ids) + "]"
