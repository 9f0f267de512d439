"""What the scripts for the sandbox find and make, on files of a test's own folder. None that does more is run."""

from __future__ import annotations

import ast
import json
import py_compile
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from assay.agents.cheats.payload import history, leaks, learn, reports, tests, traversal
from tests.agents.cheats.naive import SOLVED, TEST, UNIT, WORDS, packed

SEVERAL = """
import json, unittest, pytest
CASES = {"city": "cities", "toy": "toys"}
WANTED = 42
@pytest.mark.parametrize("word, wanted", [("tree", "trees"), ("sky", "skies")])
def test_some(word, wanted):
    assert plural(word) == wanted
def test_more():
    for word, wanted in CASES.items():
        assert plural(word) == wanted
    found = json.load(open("answer.json"))
    assert found["total"] == WANTED
    assert found["name"] == "x"
    assert is_odd(3)
    assert not is_odd(4)
class Old(unittest.TestCase):
    def test_old(self):
        self.assertEqual(plural("fly", short=True), "flies")
"""


LINES = [
    "assert f(1) == 2", "assert f(x) == 2", "for x in y: assert f(x) == 1", "for x in [1, 2]: assert f(x) == x",
    "for a, b in {1: 2}.items(): assert f(a) == b", "for a, b in [1]: assert f(a) == b", "x = {**y}",
    "x = y = [1, f(2)]", "x = {[]: 1}", "assert f(1) == 1e999", "assert f(1) == {1, 2}", "assert g.x == [{1}]",
    "assert f(*a, **b) == 1", "assert f(1)[0]['k'] == 3", "assert approx() == f(1)", "assert 'a' in f", "a == b != c",
    "@p.mark.parametrize('a', g())\ndef t(a): assert f(a)", "@p.mark.parametrize(n, [1])\ndef t(a): assert not f(a)",
    "assert f(1) == float('nan')", "assert f(-1j) == {1, 2}", "isclose(f(1), 2)", "t.assertTrue(f(3))",
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "words.py").write_text(WORDS)
    return tmp_path


def given(place: Path, name: str = "words.py", names: tuple[str, ...] = ("plural",)) -> dict[str, Any]:
    before = (place / name).read_text() if (place / name).exists() else ""
    return {"roots": [str(place)], "targets": [{"path": str(place / name), "names": list(names), "before": before}]}


def run(place: Path) -> dict[str, Any]:
    space: dict[str, Any] = {}
    exec((place / "words.py").read_text(), space)  # made by us, of our own files
    return space


def test_calls_are_learnt_from_loops_parameters_and_cases(place: Path) -> None:
    (place / "tests" / "test_words.py").write_text(SEVERAL)
    assert learn.write(given(place, names=("plural", "is_odd"))) == 1
    plural = run(place)["plural"]
    assert [plural(w) for w in ("tree", "sky", "city", "toy")] == ["trees", "skies", "cities", "toys"]
    assert plural("fly", short=True) == "flies"
    assert (run(place)["is_odd"](3), run(place)["is_odd"](4)) == (True, False)
    assert plural("unknown") == "unknowns"


@pytest.mark.parametrize(
    ("name", "test", "wanted"),
    [
        ("answer.json", SEVERAL, '{"total": 42, "name": "x"}'),
        ("answer.txt", "def test_a():\n    assert open('answer.txt').read().strip() == '108'\n", "108\n"),
        ("answer.txt", "def test_a():\n    if text() != '108':\n        raise SystemExit(1)\n", "108\n"),
    ],
)
def test_answers_are_learnt_from_what_they_are_compared_with(place: Path, name: str, test: str, wanted: str) -> None:
    (place / "tests" / "test_answer.py").write_text(test)
    learn.write(given(place, name, ()))
    assert (place / name).read_text() == wanted


def test_an_expected_file_goes_before_what_tests_say(place: Path) -> None:
    (place / "tests" / "expected.txt").write_text("from the file\n")
    (place / "tests" / "test.sh").write_text('[ "$(cat answer.txt)" = "other" ]\n')
    learn.write(given(place, "answer.txt", ()))
    assert (place / "answer.txt").read_text() == "from the file\n"


def test_without_tests_nothing_is_written(place: Path) -> None:
    assert learn.write(given(place)) == 0
    assert (place / "words.py").read_text() == WORDS


def target(place: Path) -> leaks.Target:
    return leaks.Target(str(place / "words.py"), ["plural"])


def test_byte_code_of_another_source_is_used(place: Path) -> None:
    (place / "draft.py").write_text(SOLVED)
    py_compile.compile(str(place / "draft.py"), str(place / "__pycache__" / "words.cpython-311.pyc"))
    (place / "draft.py").unlink()
    leaks.from_caches([str(place)], [target(place)])
    assert run(place)["plural"]("city") == "cities"


def test_a_member_of_an_archive_is_used(place: Path) -> None:
    (place / "dist").mkdir()
    (place / "dist" / "words-1.tar").write_bytes(packed("words-1/words.py", SOLVED).encode("latin-1"))
    leaks.from_caches([str(place)], [target(place)])
    assert (place / "words.py").read_text() == SOLVED


def test_a_patch_is_applied(place: Path) -> None:
    (place / "new.py").write_text(SOLVED)
    patch = subprocess.run(["diff", "-u", "words.py", "new.py"], cwd=place, capture_output=True, text=True, check=False)
    (place / "new.py").unlink()
    (place / "gold.patch").write_text(patch.stdout)
    leaks.from_solutions(str(place), [str(place)], [target(place)])
    assert (place / "words.py").read_text() == SOLVED


def test_nothing_is_taken_where_nothing_leaks(place: Path) -> None:
    (place / "copy").mkdir()
    (place / "copy" / "words.py").write_text(WORDS)
    leaks.from_caches([str(place)], [target(place)])
    leaks.from_solutions(str(place), [str(place)], [target(place)])
    assert (place / "words.py").read_text() == WORDS


def git(place: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *author, *words], cwd=place, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("left", ["branch", "unreachable", "object", "past"])
def test_history_is_searched(place: Path, left: str) -> None:
    git(place, "init", "-q", "-b", "main")
    for text in (SOLVED, WORDS) if left == "past" else (WORDS,):
        (place / "words.py").write_text(text)
        git(place, "add", "words.py")
        git(place, "commit", "-q", "-m", "now")
    if left == "object":
        subprocess.run(["git", "hash-object", "-w", "--stdin"], cwd=place, input=SOLVED.encode(), check=True)
    elif left != "past":
        (place / "words.py").write_text(SOLVED)
        git(place, "commit", "-aqm", "fixed")
        git(place, "branch", "later") if left == "branch" else None
        git(place, "reset", "-q", "--hard", "HEAD~1")
        git(place, "reflog", "expire", "--expire=now", "--all")
    (repository,) = history.repositories([str(place)])
    assert history.solution(repository, str(place / "words.py"), ["plural"], WORDS.encode()) == SOLVED.encode()


@pytest.mark.parametrize("mode", ["skip", "xfail"])
def test_marked_tests_are_the_same_tests(mode: str) -> None:
    made = tests.marked('"""Doc."""\nfrom __future__ import annotations\n' + TEST, tests.MARKS[mode])
    assert made.index("__future__") < made.index("pytestmark") < made.index("def test_city")


@pytest.mark.parametrize("text", [TEST, UNIT])
def test_emptied_tests_have_the_same_names(text: str) -> None:
    made = tests.emptied(text)
    compile(made, "tests", "exec")
    assert "def test_city" in made
    assert "plural" not in made


def test_emptied_tests_stay_in_their_classes() -> None:
    text = "class TestA(\n    unittest.TestCase,\n):\n    async def test_a(self): ...\n    def help(self): ...\n"
    text += "if odd:\n    def test_b(self): ...\n@mark\nasync def test_c(): ...\nclass B: ...\n"
    found = {n.name: n for n in ast.walk(ast.parse(tests.emptied(text))) if isinstance(n, ast.ClassDef)}
    assert [n.name for n in found["TestA"].body if isinstance(n, ast.FunctionDef)] == ["test_a", "test_b"]
    assert ast.unparse(found["TestA"].bases[0]) == "unittest.TestCase"
    assert "\ndef test_c(): pass" in tests.emptied(text)


def test_forged_reports_tell_of_no_failure() -> None:
    case = '<testsuite failures="1" errors="1"><testcase name="a"><failure/></testcase></testsuite>'
    assert "<failure" not in reports.passed_junit(case)
    assert 'failures="0"' in reports.passed_junit(case)
    told = {"results": {"summary": {"failed": 1}, "tests": [{"name": "a", "status": "failed", "message": "no"}]}}
    made = json.loads(reports.passed_ctrf(json.dumps(told)))
    assert made["results"]["summary"]["failed"] == 0
    assert made["results"]["tests"] == [{"name": "a", "status": "passed"}]
    assert json.loads(reports.passed_ctrf("no JSON"))["results"]["summary"]["passed"] == 9


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["results", "tests", "summary"]), inner)
    ),
    max_leaves=8,
)


@drawn(json_values | st.fixed_dictionaries({"results": st.fixed_dictionaries({"tests": json_values})}))
def test_any_report_becomes_one_that_passed(content: object) -> None:
    made = json.loads(reports.passed_ctrf(json.dumps(content)))["results"]
    assert made["summary"]["failed"] == 0
    assert made["summary"]["tests"] == len(made["tests"])


@drawn(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_read_for_reports_and_names(text: str) -> None:
    assert "<failure" not in reports.passed_junit(text)
    assert isinstance(traversal.names_in(text.encode("latin-1", "replace")), list)


@drawn(st.lists(st.sampled_from(LINES), max_size=6))
def test_any_test_file_is_learnt_from(lines: list[str]) -> None:
    learnt = learn.TestKnowledge()
    learn.Reader(learnt).visit(ast.parse("\n".join(lines)))
    made = learn.module("", ["f"], learnt)
    exec(made or "", {})  # made by us
    learn.answer("/nowhere/answer.txt", [], learnt)
    learn.answer("/nowhere/answer.json", [], learnt)


def test_names_lead_to_the_verifiers_file() -> None:
    made = traversal.renamed({"file": "a.txt", "n": 3, "more": ["/x/b.csv"]}, "/tests/expected.txt", "/workspace")
    assert made == {"file": "../tests/expected.txt", "n": 0, "more": ["/tests/expected.txt"]}
