"""Reading JSON in pieces: the same as reading it whole, in bounded memory, and never a traceback."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.formats.interface import ImportContext
from assay.formats.registry import find_format, load_formats, matching_formats
from assay.formats.shared import json_scanner
from assay.formats.shared import json_stream as _reading
from assay.formats.shared.json_stream import (
    json_fields,
    json_items,
    json_lines,
    load_document,
    loads,
    parse_time,
    truncate_text,
)
from tests.formats.generated import Blobs, read_all

TEXT = st.text(alphabet=st.sampled_from('ab"\\[]{}é\n,:\u2028'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


class Held:
    """Bytes as a source."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def open(self, mode: Any = "rb") -> io.BytesIO:
        return io.BytesIO(self.data)


def silent(place: str, problem: str) -> None:
    raise AssertionError(place, problem)


@pytest.fixture(params=[1, 7, 1 << 20])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (_reading, json_scanner):
        monkeypatch.setattr(module, "_CHUNK", request.param)
    return int(request.param)


@pytest.mark.long
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, max_size=5), VALUES, st.booleans())
def test_items_are_those_of_the_whole(chunk: int, items: list[Any], other: Any, escaped: bool) -> None:
    whole = {"a": other, "in": {"x": 1, "items": items}, "z": other}
    source = Held(json.dumps(whole, indent=1, ensure_ascii=escaped).encode())
    assert list(json_items(source, ("in", "items"), silent)) == list(enumerate(items))
    assert json_fields(source, ("in",), silent) == {"a": other, "z": other}
    assert list(json_items(source, ("in", "nothing"), silent)) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(VALUES, max_size=6), st.integers(1, 40))
def test_what_is_too_large_is_told_and_the_rest_is_read(chunk: int, items: list[Any], largest: int) -> None:
    told: list[str] = []
    read = dict(json_items(Held(json.dumps(items).encode()), (), lambda p, _: told.append(p), largest=largest))
    fitting = {i: item for i, item in enumerate(items) if len(json.dumps(item)) <= largest}
    assert read == fitting
    assert told == [f"[{i}]" for i in range(len(items)) if i not in fitting]


@settings(max_examples=100)
@given(st.binary(max_size=80), st.integers(0, 200))
def test_a_document_cut_or_changed_anywhere_raises_nothing(noise: bytes, at: int) -> None:
    data = json.dumps({"items": [{"a": "b\\"}, [1, 2.5], "x"], "other": {"k": None}}).encode()
    told: list[tuple[str, str]] = []

    def bad(*what: str) -> None:
        told.append((what[0], what[1]))

    for hostile in (data[:at], data[:at] + noise, data[:at] + noise + data[at:], noise):
        list(json_items(Held(hostile), ("items",), bad))
        json_fields(Held(hostile), ("items",), bad)
        list(json_lines(Held(hostile), bad))


def test_a_cut_document_keeps_what_was_whole_and_says_where_it_ends() -> None:
    told: list[tuple[str, str]] = []
    read = list(json_items(Held(b'{"items": [1, {"a": 2}, {"b": '), ("items",), lambda *t: told.append(t)))
    assert read == [(0, 1), (1, {"a": 2})]
    assert told == [("items", "the document ends early (byte 30)")]


def test_lines_that_are_none_are_named_by_number() -> None:
    told: list[tuple[str, str]] = []
    data = b'\xef\xbb\xbf{"a": 1}\n\n{"a": \n' + b"x" * 50 + b'\n"\xff"\n{"b": 2}'
    assert list(json_lines(Held(data), lambda *t: told.append(t), largest=20)) == [(1, {"a": 1}), (6, {"b": 2})]
    assert [place for place, _ in told] == ["line 3", "line 4", "line 5"]
    assert "51 bytes" in told[1][1]


@pytest.mark.parametrize("depth", [300, 100_000])
def test_json_that_is_nested_too_deeply_is_refused(depth: int) -> None:
    with pytest.raises(ValueError, match="nested deeper"):
        loads(b"[" * depth + b"]" * depth)


def test_numbers_that_json_has_not_become_words() -> None:
    assert loads(b'[NaN, -Infinity, "\\ud800"]') == ["NaN", "-Infinity", "\ufffd"]


@pytest.mark.parametrize(
    "name",
    [
        "sessions/langgraph/state.json",
        "sessions/docent/runs.jsonl",
        "traces/written/mlflow.json",
        "traces/written/weave.jsonl",
        "benchmarks/terminal-bench/sort/sort.1-of-2.run/results.json",
    ],
)
def test_a_key_that_occurs_twice_is_reported(name: str, tmp_path: Path) -> None:
    text = (Path(__file__).parent / name).read_text()
    path = tmp_path / Path(name).name
    path.write_text(text.replace("{", '{"twice": 1, "twice": 2, ', 1))
    found, problems = read_all(find_format(path), path, Blobs())
    assert found
    assert ["'twice' occurs more than once" in problem.problem for problem in problems] == [True]


def test_a_document_that_is_too_large_is_refused() -> None:
    with pytest.raises(UserError, match="larger than the 3 bytes"):
        load_document(Held(b"[1, 2]"), largest=3)


def test_times_are_seconds_and_what_is_none_is_none() -> None:
    assert parse_time("1970-01-01T00:00:10Z") == parse_time("1970-01-01 00:00:10") == parse_time(10) == 10.0
    assert parse_time(1_700_000_000_000) == 1_700_000_000.0
    assert [parse_time(v) for v in (None, True, "soon", [], -1, 1e20, "9" * 400)] == [None] * 7


def test_of_a_long_text_the_whole_is_kept() -> None:
    blobs = Blobs()
    reading = ImportContext(blobs.keep, lambda _: None)
    text = "é" * 50_000
    content, cut = truncate_text(text, reading)
    assert cut is not None
    assert (len(content.encode()), cut.length) == (65536, 100_000)
    assert blobs.content(cut.digest).decode() == text
    assert truncate_text("short", reading) == ("short", None)


@pytest.mark.long
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), VALUES, st.sampled_from(["messages", "conversations", "schema_version", "samples"]))
def test_no_format_raises_over_random_bytes(tmp_path: Path, noise: bytes, value: Any, key: str) -> None:
    path = tmp_path / "file"
    reading = ImportContext(Blobs().keep, lambda _: None)
    for data in (noise, json.dumps({key: value}).encode(), b"PK\x03\x04" + noise, json.dumps([{key: value}]).encode()):
        path.write_bytes(data)
        for format in matching_formats(path):
            try:
                list(format.read(path, reading))
            except UserError:
                continue


SYNTHETIC = """
import json, sys
from pathlib import Path
path, size = Path(sys.argv[1]), int(sys.argv[2])
said = [{"role": "user", "content": "hello " * 500}, {"role": "assistant", "content": "x" * 3000}]
row = json.dumps({"messages": said})
lines = sys.argv[3] == "lines"
with path.open("w") as out:
    out.write("" if lines else "[")
    for number in range(size // len(row)):
        out.write(("" if lines or not number else ",") + row + ("\\n" if lines else ""))
    out.write("" if lines else "]")
"""
MEASURED = """
import resource, sys
from pathlib import Path
from assay.formats.chat.format import ChatFormat
from assay.formats.interface import ImportContext
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, count = peak(), 0
for found in ChatFormat().read(Path(sys.argv[1]), ImportContext(lambda data: "", print)):
    count += 1
print(count, peak() - before)
"""


@pytest.mark.long
@pytest.mark.parametrize("shape", ["lines", "array"])
def test_a_large_log_takes_a_few_mib(shape: str, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    subprocess.run([sys.executable, "-c", SYNTHETIC, str(path), "70000000", shape], check=True)
    done = subprocess.run([sys.executable, "-c", MEASURED, str(path)], check=True, capture_output=True, text=True)
    count, grown = done.stdout.split()
    assert int(count) > 10_000
    assert float(grown) < 32
    path.unlink()


def test_every_format_is_named_once_and_says_what_it_was_tested_on() -> None:
    known = load_formats()
    assert len({f.name for f in known}) == len(known) >= 18
    assert {f.provenance for f in known} <= {"recorded", "peer", "specification"}
    assert all(f.title for f in known)
