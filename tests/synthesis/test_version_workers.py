"""Processes that answer the tests of a proof."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import assay.verify.payload
from assay.environments.payload import FORKED_TESTS
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.settings import Settings
from assay.synthesis._entry_trace import PAYLOAD
from assay.synthesis._laboratory import Laboratory
from assay.synthesis._splice_proof import ProofJob, SpliceProof, prove_splices
from assay.synthesis._tree import load_source
from assay.verify.separation_plan import EntryPoint, EntryUse, SeparationPlan, TestPlan

FOLDERS = [str(PAYLOAD), str(Path(assay.verify.payload.__file__).parent), str(FORKED_TESTS[0].parent)]
SERVING = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
import splice_worker, worker_template
answers = os.dup(1)
os.dup2(2, 1)
serve = worker_template.answer_all_tests if sys.argv[2] == "shared" else splice_worker.serve
serve("json", [], 0, answers)
"""
TEST = [
    {"op": "begin", "classes": []},
    {"op": "call", "id": "a", "heap": 1, "h": [["t"], ["d"]], "a": [[0], [1]], "entry": ["os", "getpid"], "layers": []},
    {"op": "end", "id": "b"},
]


def answers(kind: str) -> list[dict[str, object]]:
    frames = b"".join(len(body := json.dumps(one).encode()).to_bytes(4, "big") + body for one in [*TEST, *TEST])
    command = [sys.executable, "-c", SERVING, json.dumps(FOLDERS), kind]
    data, found = subprocess.run(command, input=frames, stdout=subprocess.PIPE, check=True).stdout, []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(json.loads(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


@pytest.mark.parametrize(("kind", "processes"), [("shared", 1), ("each", 2)])
def test_a_version_answers_all_tests_in_one_process_where_that_is_shared(kind: str, processes: int) -> None:
    found = answers(kind)
    assert [one["k"] for one in found] == ["value", "ended", "value", "ended"]
    assert [one["id"] for one in found] == ["a", "b", "a", "b"]
    assert len({one["v"] for one in found if one["k"] == "value"} - {os.getpid()}) == processes


RIGHT = "SEEN = []\n\n\ndef area(w, h):\n    return w * h\n"
BROKEN = RIGHT.replace("w * h", "w + h")
REMEMBERING = RIGHT.replace("return w * h", "SEEN.append(w)\n    return w * h * (len(SEEN) < 2)")
ENDING = RIGHT.replace("return w * h", "import os\n    return w * h if w == 2 else os._exit(1)")
FILES = {
    "pyproject.toml": "[project]\nname = 'area'\nversion = '1'\n",
    "area/__init__.py": RIGHT,
    "tests/test_area.py": "import area\n\n\ndef test_one():\n    assert area.area(2, 3) == 6\n\n\n"
    "def test_other():\n    assert area.area(4, 5) == 20\n\n\ndef test_third():\n    assert area.area(2, 5) == 10\n",
}
CASES = tuple(f"tests/test_area.py::test_{name}" for name in ("one", "other", "third"))


async def prove(folder: Path, mutant: str, *, shared: bool = True) -> SpliceProof:
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    uses = (EntryUse("area:area", answers=("int",), inside=(), handed=()),)
    plan = SeparationPlan(
        "area", (EntryPoint("area", "area"),), tuple(TestPlan(case, "splice", uses=uses) for case in CASES)
    )
    job = ProofJob("one", plan, {}, {"area/__init__.py": BROKEN}, ({"area/__init__.py": mutant},), 5.0, shared=shared)
    layer = await asyncio.to_thread(ensure_toolchain, Settings.from_environment().cache, ())
    backend, tree = NamespacesBackend(), load_source(str(folder))
    try:
        async with Laboratory(tree, backend, layer, 1) as laboratory:
            return (await prove_splices(laboratory, tree, [job]))["one"]
    finally:
        await backend.close()


async def test_what_a_mutant_remembers_is_seen_where_plain_runs_see_it(tmp_path: Path) -> None:
    proof = await prove(tmp_path, REMEMBERING)
    assert proof.objections == {}
    assert proof.killed == {"reference": (), "unrepaired": CASES, "mutant 1": CASES[1:]}


async def test_each_test_gets_a_process_where_a_mutant_ends_the_shared_one(tmp_path: Path) -> None:
    proof = await prove(tmp_path, ENDING)
    assert proof.killed["mutant 1"] == (CASES[1],)
    assert proof.objections.keys() == {CASES[0], CASES[2]}  # the plain run ended with the process and has no outcomes
