"""An exported run is complete, bounded, and holds nothing recorded as code or as a path."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.viewer.export import export_runs, view_file
from assay.viewer.interface import view_name
from assay.viewer.views import make_view
from tests.viewer.chains_made import view_names
from tests.viewer.made_runs import HOSTILE, small_run

pytestmark = pytest.mark.quick
LINE = re.compile(r'Assay\.provide\(("(?:[^"\\]|\\.)*"),("(?:[^"\\]|\\.)*")\);')


def provided(folder: Path) -> dict[str, str]:
    """Name to JSON, read as a page does it: nothing but calls with two texts may be there."""
    found = {}
    for path in folder.glob("data/*/*.js"):
        for line in path.read_text("utf-8").splitlines():
            match = LINE.fullmatch(line)
            assert match is not None
            name = json.loads(match[1])
            found[name] = json.loads(match[2])
            assert path.relative_to(folder).as_posix() == view_file(name)
    return found


def test_every_view_is_there_as_it_is_served(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    report = export_runs(tmp_path / "store", ["r"], tmp_path / "site")
    found = provided(tmp_path / "site")
    wanted = list(view_names(tmp_path / "store", "r"))
    assert report.left_out == {}
    assert set(wanted) | {"runs", "export"} == set(found)
    rows = view_name("run", "r", "rows")
    assert found[rows].encode() == make_view(tmp_path / "store", rows)


def test_names_of_files_are_ours(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    export_runs(tmp_path / "store", ["r"], tmp_path / "site")
    paths = [p.relative_to(tmp_path / "site").as_posix() for p in (tmp_path / "site").rglob("*") if p.is_file()]
    assert all(re.fullmatch(r"data/[0-9a-f]{2}/[0-9a-f]{16}\.js|[a-z_]+\.(js|css|svg|html)", path) for path in paths)


def test_a_page_of_an_export_may_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    export_runs(tmp_path / "store", ["r"], tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert 'data-source="files"' in page
    assert "connect-src 'none'" in page
    assert "http:" not in page.replace("http-equiv", "")
    assert HOSTILE not in page


def test_what_has_no_room_is_told(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    report = export_runs(tmp_path / "store", ["r"], tmp_path / "site", limit_bytes=3000)
    assert report.size_bytes <= 3000
    assert sum(report.left_out.values()) + report.views == len(list(view_names(tmp_path / "store", "r")))
    assert "Left out" in json.loads(provided(tmp_path / "site")["export"])["note"]


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    small_run(tmp_path / "store")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("x")
    with pytest.raises(UserError, match="is not empty"):
        export_runs(tmp_path / "store", ["r"], tmp_path / "site")
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["mine.txt"]


def test_names_with_one_hash_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay.viewer import export

    monkeypatch.setattr(export, "view_file", lambda name: "data/00/0000000000000000.js")
    small_run(tmp_path / "store")
    export_runs(tmp_path / "store", ["r"], tmp_path / "site")
    lines = (tmp_path / "site" / "data/00/0000000000000000.js").read_text().splitlines()
    assert len(lines) == len(list(view_names(tmp_path / "store", "r"))) + 2
