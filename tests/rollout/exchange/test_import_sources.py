"""What an import opens: compressed files, Parquet, nested archives within bounds, files that cannot be read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from assay.errors import UserError
from assay.formats.registry import matching_formats
from assay.formats.shared.sniffing import sniff
from assay.rollout.exchange import sources
from assay.store import RunStore
from tests.rollout.exchange.test_importing import imported, row, rows

TEXT = (row("one") + "\n" + row("two") + "\n").encode()


def zstd(data: bytes) -> bytes:
    compressed: bytes = pyarrow.Codec("zstd").compress(data, asbytes=True)
    return compressed


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstd)]
)
@pytest.mark.parametrize("in_folder", [False, True])
def test_a_compressed_file_is_read_as_its_content(
    ending: str, pack: Callable[[bytes], bytes], in_folder: bool, tmp_path: Path
) -> None:
    path = tmp_path / "in" / f"log.jsonl{ending}"
    path.parent.mkdir()
    path.write_bytes(pack(TEXT))
    report = imported(tmp_path / "s", path.parent if in_folder else path)
    assert (report.read, report.unreadable_total, report.formats) == (2, 0, {"chat": 2})


@pytest.mark.parametrize("format", [None, "chat"])
def test_a_format_looks_at_each_file_once(format: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(TEXT))
    table = pyarrow.table({"messages": [json.loads(row("one"))["messages"]]})
    parquet.write_table(table, tmp_path / "rows.parquet")
    looked: Counter[str] = Counter()

    def counted(path: Path, among: Any) -> Any:
        looked[path.name] += 1
        return matching_formats(path, among)

    monkeypatch.setattr(sources, "matching_formats", counted)
    walk = sources.SourceWalk(sources.choose_format(format, None), lambda problem: None)
    for name in ("log.jsonl.gz", "rows.parquet"):
        assert [found.format.name for found in walk.find_sources(tmp_path / name)] == ["chat"]
    assert looked == dict.fromkeys(("log.jsonl.gz", "log.jsonl", "rows.parquet", "rows.jsonl"), 1)


def test_a_copy_that_is_compressed_adds_nothing(tmp_path: Path) -> None:
    log = rows(tmp_path / "log.jsonl", row("one"))
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(log.read_bytes()))
    imported(tmp_path / "s", log, run="r")
    assert imported(tmp_path / "s", tmp_path / "log.jsonl.gz", run="r").known == 1


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.jsonl.gz").write_bytes(gzip.compress(TEXT * 50)[:-20])
    report = imported(tmp_path / "s", tmp_path / "in")
    ((what),) = report.unreadable
    assert (what.file, "is damaged" in what.problem) == ("log.jsonl.gz", True)


def test_a_parquet_file_of_conversations_is_read(tmp_path: Path) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go", "tool_calls": None, "tool_call_id": None},
        {"role": "assistant", "content": None, "tool_calls": [call], "tool_call_id": None},
        {"role": "tool", "content": "a.txt", "tool_calls": None, "tool_call_id": "a"},
    ]
    table = pyarrow.Table.from_pylist([{"id": n, "messages": messages} for n in range(3)])
    parquet.write_table(table, tmp_path / "train.parquet")
    report = imported(tmp_path / "s", tmp_path / "train.parquet")
    assert (report.read, report.unreadable_total, report.formats) == (3, 0, {"chat": 3})


def test_rows_of_a_format_that_is_one_array_are_read_from_parquet_too(tmp_path: Path) -> None:
    runs = [{"task_id": n, "trial": 0, "reward": 1.0, "traj": [{"role": "user", "content": "x"}]} for n in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(runs), tmp_path / "results.parquet")
    report = imported(tmp_path / "s", tmp_path / "results.parquet")
    assert (report.formats, report.unreadable_total) == ({"tau-bench": 3}, 0)


def nested_bomb(path: Path, levels: int, inner: bytes) -> Path:
    data, name = inner, "log.jsonl"
    for level in range(levels):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
            for copy in range(12):
                made.writestr(f"{copy}-{name}", data)
        data, name = out.getvalue(), f"{level}.zip"
    path.write_bytes(data)
    return path


@pytest.mark.long
def test_archives_inside_each_other_share_one_bound(tmp_path: Path) -> None:
    bomb = nested_bomb(tmp_path / "bomb.zip", 3, b"[" + b" " * (1 << 20) + b"]")
    assert bomb.stat().st_size < 200_000
    report = imported(tmp_path / "s", bomb)
    assert report.read == 0
    assert any("with the archives around it" in what.problem for what in report.unreadable)


def test_too_many_archives_inside_each_other_are_refused(tmp_path: Path) -> None:
    data = TEXT
    for level in range(6):
        data = gzip.compress(data, mtime=level)
    (tmp_path / "log.jsonl.gz").write_bytes(data)
    report = imported(tmp_path / "s", tmp_path / "log.jsonl.gz")
    assert "more than 4 archives are inside each other" in report.unreadable[0].problem


def test_a_file_that_may_not_be_read_is_named_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows(tmp_path / "in" / "mine.jsonl", row("one"))
    locked, opened = rows(tmp_path / "in" / "theirs.jsonl", row("two")), Path.open

    def refuse(path: Path, *args: Any, **named: Any) -> Any:
        if path == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **named)

    monkeypatch.setattr(Path, "open", refuse)
    report = imported(tmp_path / "s", tmp_path / "in")
    assert [(u.file, u.problem) for u in report.unreadable] == [
        ("theirs.jsonl", "it cannot be read: Permission denied")
    ]
    with pytest.raises(UserError, match=r"theirs.jsonl: it cannot be read: Permission denied"):
        imported(tmp_path / "s", locked)


def test_text_of_another_encoding_is_named(tmp_path: Path) -> None:
    rows(tmp_path / "in" / "good.jsonl", row("one"))
    (tmp_path / "in" / "wide.jsonl").write_bytes(row("two").encode("utf-16"))
    (tmp_path / "in" / "latin.jsonl").write_bytes((row("a") + "\n").encode() + b'{"messages": "\xe9"}\n')
    problems = {u.file: u.problem for u in imported(tmp_path / "s", tmp_path / "in").unreadable}
    assert "UTF-16" in problems["wide.jsonl"]
    assert "byte 0xe9 at position 14 is not UTF-8" in problems["latin.jsonl"]


@pytest.mark.parametrize("indent", [None, 1])
def test_fields_after_the_first_256_kilobytes_are_seen(indent: int | None, tmp_path: Path) -> None:
    late = {"note": "x" * 600_000, "messages": [{"role": "user", "content": "hi"}]}
    log = tmp_path / "log.json"
    log.write_text(json.dumps(late, indent=indent) + "\n" + json.dumps(late, indent=indent) + "\n")
    assert sniff(log).has("messages[].role")
    assert imported(tmp_path / "s", log).read == 2


@pytest.mark.parametrize("first", ["{broken", '{"messages": [{"role": ', "npm warn deprecated", '{"a": 1e999}'])
def test_a_damaged_first_line_does_not_hide_the_others(first: str, tmp_path: Path) -> None:
    report = imported(tmp_path / "s", rows(tmp_path / "log.jsonl", first, row("one"), row("two")))
    assert (report.read, [u.place for u in report.unreadable]) == (2, ["line 1"])


def test_an_error_over_one_row_does_not_lose_the_rows_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.formats.chat import format as chat

    read = chat.read_metadata

    def fail_once(row: dict[str, Any], builder: Any) -> dict[str, Any]:
        if row.get("id") == "poison":
            raise KeyError("poison")
        return read(row, builder)

    monkeypatch.setattr(chat, "read_metadata", fail_once)
    log = rows(tmp_path / "log.jsonl", row("one"), row("two", id="poison"), row("three"))
    report = imported(tmp_path / "s", log)
    assert (report.read, [(u.place, u.problem) for u in report.unreadable]) == (2, [("line 2", "KeyError: 'poison'")])


def test_duplicate_records_and_keys_are_told(tmp_path: Path) -> None:
    twice = '{"messages": [{"role": "user", "content": "a", "content": "b"}]}'
    report = imported(tmp_path / "s", rows(tmp_path / "log.jsonl", row("one"), row("one"), twice))
    assert [(r.place, r.problem) for r in report.remarks] == [
        ("line 2", "it has the same content as log.jsonl, line 1")
    ]
    assert [(u.place, u.problem) for u in report.unreadable] == [
        ("line 3", "the key 'content' occurs more than once in an object: the last value is read")
    ]


@pytest.mark.parametrize(("reward", "lost"), [(7.5, False), (-1, False), ("NaN", True), (True, True)])
def test_a_reward_that_is_on_no_scale_is_told_and_decides_nothing(reward: Any, lost: bool, tmp_path: Path) -> None:
    runs = [{"task_id": 1, "trial": 0, "reward": reward, "traj": [{"role": "user", "content": "x"}]}]
    (tmp_path / "tau.json").write_text(json.dumps(runs))
    report = imported(tmp_path / "s", tmp_path / "tau.json")
    told = report.unreadable if lost else report.remarks
    assert [("[0]" in what.place, "reward" in what.problem) for what in told] == [(True, True)]
    with RunStore.open(tmp_path / "s", report.run) as store:
        assert [found.outcome for found in store.attempts()] == ["unknown"]
