"""What cheats write has the shape of what solving leaves, and nothing of its content."""

from __future__ import annotations

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.agents.cheats._answers import Confusion, answer_files, needs_answer, with_confusing_value
from assay.agents.cheats._modules import (
    changed_names,
    insert_prologue,
    needs_program,
    override_bodies,
    programs,
    python_files,
)
from assay.agents.cheats._targets import answers, likeliest_expected_file
from assay.agents.cheats.confusing_answers import _truncate
from assay.agents.cheats.emptied_input import empty_answer
from assay.agents.cheats.interface import Knowledge, SolutionFile

pytestmark = pytest.mark.quick
NAN = Confusion(text="nan", json="NaN")
EMPTY = Confusion(text="[]", json="[]", whole_lists=True)
BEFORE = (
    b'"""Doc."""\nfrom __future__ import annotations\n\nX = 1\n\n\ndef kept():\n    return 1\n\n\ndef f(a):\n    pass\n'
)
AFTER = (
    BEFORE.replace(b"    pass", b"    return secret(a)")
    + b"\n\nNEW = 7\n\n\nclass C:\n    def m(self) -> int:\n        return 99\n"
)
MODULE = SolutionFile("/w/m.py", BEFORE, AFTER)
leaves = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def known(path: str, after: bytes | None, before: bytes | None = None) -> SolutionFile:
    return SolutionFile(path, before, after)


@pytest.mark.long
@given(leaves)
def test_confused_json_keeps_keys_and_no_leaf(content: object) -> None:
    found = json.loads(with_confusing_value(known("/w/a.json", json.dumps(content).encode()), NAN))
    assert _shape(found) == _shape(content)
    assert all(leaf != leaf for leaf in _leaves(found))


def _shape(found: object) -> object:
    if isinstance(found, dict):
        return {key: _shape(value) for key, value in found.items()}
    return [_shape(value) for value in found] if isinstance(found, list) else "leaf"


def _leaves(found: object) -> list[object]:
    inner = list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else None
    return [found] if inner is None else [leaf for value in inner for leaf in _leaves(value)]


@pytest.mark.parametrize(
    ("path", "after", "wanted"),
    [
        ("/w/a.txt", b"Total: 42\n17 Paris\n", b"Total: nan\nnan nan\n"),
        ("/w/a.csv", b"name,n\nx,1\ny,2\n", b"name,n\nx,nan\ny,nan\n"),
        ("/w/a.jsonl", b'{"a": 1}\n{"a": 2}\n', b'{"a": NaN}\n{"a": NaN}\n'),
        ("/w/a.txt", b"108\n", b"nan\n"),
    ],
)
def test_confused_file_keeps_labels_headings_and_first_columns(path: str, after: bytes, wanted: bytes) -> None:
    assert with_confusing_value(known(path, after), NAN) == wanted


@pytest.mark.parametrize(
    ("path", "after", "wanted"),
    [
        ("/w/a.json", b'{"total": 108, "names": ["four"], "ok": true}', b'{"total": 0, "names": [], "ok": false}\n'),
        ("/w/a.csv", b"name,n\nx,1\n", b"name,n\n"),
        ("/w/a.jsonl", b'{"a": 1}\n', b""),
        ("/w/a.txt", b"Total: 42\nparis\n", b"Total: 0\n"),
    ],
)
def test_the_answer_to_an_empty_input_has_zeros_and_empty_lists(path: str, after: bytes, wanted: bytes) -> None:
    assert empty_answer(known(path, after)) == wanted


@pytest.mark.long
@given(leaves)
def test_truncated_json_is_never_valid(content: object) -> None:
    file = known("/w/a.json", json.dumps(content).encode())
    with pytest.raises(json.JSONDecodeError):
        json.loads(_truncate(file, with_confusing_value(file, Confusion(text="0", json="0"))))


def test_a_list_of_plain_values_is_one_empty_array() -> None:
    made = json.loads(with_confusing_value(known("/w/a.json", b'{"n": [1, 2], "rows": [[1], [2]]}'), EMPTY))
    assert made == {"n": [], "rows": [[], []]}


def test_overridden_module_has_the_names_and_none_of_the_bodies() -> None:
    made = override_bodies(MODULE, lambda kind: f"return {kind!r}", prelude="import os")
    space: dict[str, object] = {}
    exec(made, space)  # our own text
    assert "secret" not in made
    assert "return 9" not in made
    assert space["NEW"] is None
    assert (space["kept"](), space["f"](1), space["C"]().m()) == (1, None, "int")  # type: ignore[operator]


def test_of_a_class_that_is_there_only_changed_methods_are_replaced() -> None:
    before = b"class C:\n    def kept(self):\n        return 1\n    @property\n    def p(self):\n        return 2\n"
    made = override_bodies(known("/w/m.py", before.replace(b"return 2", b"return 3"), before), lambda _: "return 'new'")
    space: dict[str, object] = {}
    exec(made, space)  # our own text
    one = space["C"]()  # type: ignore[operator]
    assert (one.kept(), one.p) == (1, "new")


def test_what_is_put_on_top_runs_first_and_leaves_future_imports_first() -> None:
    tree = ast.parse(insert_prologue(MODULE, "import os"))
    assert [type(node).__name__ for node in tree.body[:3]] == ["Expr", "ImportFrom", "Import"]


@pytest.mark.parametrize("before", [None, b"#!/usr/bin/env python3\n# coding: utf-8\nprint(1)\n"])
def test_the_line_that_says_what_runs_a_program_stays_first(before: bytes | None) -> None:
    program = known("/w/p.py", b"#!/usr/bin/env python3\ndef f():\n    return 1\n", before)
    for made in (insert_prologue(program, "import os"), override_bodies(program, lambda _: "return 2")):
        assert made.startswith("#!/usr/bin/env python3\n")


def test_a_module_that_cannot_be_parsed_is_left_out() -> None:
    broken = known("/w/m.py", AFTER, b"def f(:\n")
    assert set(changed_names(broken)) == {"kept", "f", "C"}
    ast.parse(override_bodies(broken, lambda _: "return 1"))
    ast.parse(insert_prologue(known("/w/m.py", AFTER, None), "import os"))


def test_files_are_sorted_into_modules_programs_and_answers() -> None:
    files = (
        MODULE, known("/w/test_m.py", b"x"), known("/w/run.sh", b"#!/bin/sh\n"), known("/w/a.txt", b"1\n"),
        known("/w/picture.bin", b"\0\xff"), known("/w/gone.txt", None, b"x"),
    )  # fmt: skip
    knowledge = Knowledge("/w", files)
    assert [f.path for f in python_files(knowledge)] == ["/w/m.py"]
    assert [f.path for f in programs(knowledge)] == ["/w/run.sh"]
    assert [f.path for f in answer_files(knowledge)] == ["/w/test_m.py", "/w/a.txt"]
    assert "/w/picture.bin" in answers(knowledge)
    assert needs_program(Knowledge("/w", files[3:4])) is not None
    assert needs_answer(Knowledge("/w")) is not None


@pytest.mark.parametrize(
    ("tests", "wanted"),
    [
        (("test.sh", "expected.json", "data.json"), "/tests/expected.json"),
        (("test.sh", "answer.json", "expected.txt"), "/tests/answer.json"),
        (("test.sh", "check.py"), "/tests/expected.json"),
    ],
)
def test_the_verifiers_file_that_is_likest(tests: tuple[str, ...], wanted: str) -> None:
    assert likeliest_expected_file(Knowledge("/w", tests=tests), "/w/answer.json") == wanted
