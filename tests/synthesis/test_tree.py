"""Source trees from folders, archives and installed packages, hostile ones included."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.synthesis import _archive
from assay.synthesis._archive import read_archive
from assay.synthesis._package_metadata import find_licence, find_name_and_version
from assay.synthesis._tree import load_source, select_source_files

pytestmark = pytest.mark.quick


def packed(path: Path, entries: list[tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for entry in entries:
            archive.addfile(entry, io.BytesIO(b"x" * entry.size))
    return path


def entry(name: str, size: int = 1, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = size if kind == tarfile.REGTYPE else 0, kind, link
    return info


@pytest.mark.parametrize("kind", ["folder", "sdist"])
def test_folder_and_sdist_give_the_same_tree(kind: str, folder: Path, sdist: Path) -> None:
    tree = load_source(str({"folder": folder, "sdist": sdist}[kind]))
    assert (tree.name, tree.version, tree.kind) == ("shapes", "1.0", kind)
    assert (tree.roots, tree.packages, tree.tests) == ((".",), ("shapes",), ("tests/test_plane.py",))
    assert tree.modules == ("shapes/__init__.py", "shapes/plane.py")
    assert tree.digest == load_source(str(folder)).digest


def test_byte_code_caches_and_installed_metadata_are_left_out(folder: Path) -> None:
    assert not [p for p in load_source(str(folder)).files if "pyc" in p or "egg-info" in p]


def test_installed_package_carries_its_requirements() -> None:
    tree = load_source("networkx") if _installed("networkx") else None
    if tree is None:
        pytest.skip("networkx is not installed here")
    assert tree.kind == "installed"
    assert not [p for p in tree.files if p.endswith("RECORD")]


def _installed(name: str) -> bool:
    from importlib import metadata

    return any((d.name or "").lower() == name for d in metadata.distributions())


def test_src_layout_is_found(tmp_path: Path) -> None:
    for name in ("src/a/__init__.py", "src/a/b.py", "tests/test_a.py", "setup.py", "docs/conf.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    tree = load_source(str(tmp_path))
    assert (tree.roots, tree.packages, tree.import_names) == (("src",), ("src/a",), ("a",))


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.py", "a/../../up.py", "C:/x.py", "a\\..\\..\\b"])
def test_names_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="leads outside"):
        read_archive(packed(tmp_path / "a.tar.gz", [entry(name)]))


def test_file_that_is_also_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="both as a file and as a folder"):
        read_archive(packed(tmp_path / "a.tar.gz", [entry("x/a"), entry("x/a/b")]))


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    odd = [entry("a/l", kind=tarfile.SYMTYPE, link="/etc/passwd"), entry("a/h", kind=tarfile.LNKTYPE, link="a/x")]
    odd += [entry("a/p", kind=tarfile.FIFOTYPE), entry("a/d", kind=tarfile.CHRTYPE), entry("a/x")]
    assert read_archive(packed(tmp_path / "a.tar.gz", [odd[-1], *odd[:-1]])) == {"a/x": b"x"}


def test_link_in_a_zip_is_left_out(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("a/link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
        archive.writestr("a/x.py", "x")
    assert read_archive(tmp_path / "a.zip") == {"a/x.py": b"x"}


def test_bombs_are_refused_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_archive, "MAX_BYTES", 1000)
    with pytest.raises(UserError, match="unpacks to more"):
        read_archive(packed(tmp_path / "a.tar.gz", [entry("a", 600), entry("b", 600)]))


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b\x08\x00broken", b"PK\x03\x04broken"])
def test_broken_archives_are_refused_in_words(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as an archive"):
        load_source(str(path))


@pytest.mark.parametrize(
    ("files", "message"),
    [({}, "no Python package"), ({"a/__init__.py": ""}, "no test files"), ({"test_a.py": ""}, "no Python package")],
)
def test_what_is_missing_is_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        load_source(str(tmp_path))


def test_unknown_source_says_what_it_may_be() -> None:
    with pytest.raises(UserError, match="nor an installed package"):
        load_source("no-such-package-anywhere")


COPIES = ("env-3.11/pyvenv.cfg", "env-3.11/lib/a.py", "x/site-packages/a/b.py", "old/My.Code-1.0.tar.gz",
          "old/my_code-1.0-py3-none-any.whl", "bad\udcff.py", "two\nlines.py")  # fmt: skip


def test_copies_of_the_package_and_odd_names_are_left_out() -> None:
    own = {"my_code/a.py": b"", "tests/other-1.0.whl": b"", "tests/data.zip": b"", "a b.py": b""}
    assert select_source_files(own | dict.fromkeys(COPIES, b""), "my-code") == own


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"pyproject.toml": b'[project]\nname = "a-b"\nversion = "2.0"\n'}, ("a-b", "2.0")),
        ({"pyproject.toml": b'[tool.poetry]\nname = "c"\n'}, ("c", "")),
        ({"setup.cfg": b"[metadata]\nname = d\nversion = attr: d.VERSION\n"}, ("d", "")),
        ({"pyproject.toml": b"tool = 1\n", "setup.cfg": b"[metadata]\nname = e\n"}, ("e", "")),
        ({"pyproject.toml": b"[project\xff", "setup.cfg": b"[[["}, ("folder", "")),
        ({"pyproject.toml": b"a = " + b"[" * 100_000}, ("folder", "")),
        ({"PKG-INFO": b"Name: ../../x y\nVersion: 1\n\n"}, ("folder", "")),
    ],
)
def test_name_is_what_the_project_declares(files: dict[str, bytes], named: tuple[str, str]) -> None:
    assert find_name_and_version(files, "folder") == named


MIT = b"Classifier: License :: OSI Approved :: MIT License\n"
LONG = "Permission is hereby granted, " * 9


@pytest.mark.parametrize(
    ("files", "licence"),
    [
        ({"pyproject.toml": b'[project]\nlicense = "mit or apache-2.0"\n'}, "MIT OR Apache-2.0"),
        ({"pyproject.toml": b'[project]\nlicense = {text = "BSD-3-Clause"}\n'}, "BSD-3-Clause"),
        ({"pyproject.toml": b'[project]\nlicense = {file = "COPYING"}\n'}, "see COPYING"),
        ({"pyproject.toml": b'[project]\nlicense-files = ["LICEN[CS]E*", "NOTICE"]\n'}, "see LICEN[CS]E*, NOTICE"),
        ({"pyproject.toml": b'[tool.poetry]\nlicense = "ISC"\n'}, "ISC"),
        ({"pyproject.toml": b'[project]\nlicense = 3\nclassifiers = [4, "License :: Public Domain"]'}, "Public Domain"),
        ({"PKG-INFO": b"Name: a\nLicense: LGPLv2\n" + MIT + b"Classifier: License :: OSI Approved\n\n"}, "MIT License"),
        ({"a-1.dist-info/METADATA": b"License-Expression: Apache-2.0\nLicense-File: LICENSE\n\n"}, "Apache-2.0"),
        ({"a/_vendor/b-1.dist-info/METADATA": b"License-Expression: Apache-2.0\n\n"}, "not declared"),
        ({"PKG-INFO": f"License: {LONG}\n\n".encode()}, LONG[:97] + "..."),
        ({"setup.cfg": b"[metadata]\nlicense = My \x07 own | `words`\nlicense_files = A\n"}, "My own | `words`"),
        ({"setup.cfg": b"[metadata]\nlicense_files =\n  A\n  B\n"}, "see A, B"),
        ({"setup.py": b"from setuptools import setup\nsetup(name=NAME, license='MIT')\n"}, "MIT"),
        ({"setup.py": b"setup(license=f(), classifiers=['License :: OSI Approved :: ISC License'])"}, "ISC License"),
        ({"pyproject.toml": b"[project\xff", "setup.cfg": b"[[[", "setup.py": b"\0("}, "not declared"),
        ({"pyproject.toml": b'[project]\nlicense = "' + b"(" * 99 + b'"\n', "setup.py": b"(" * 90_000}, "(" * 99),
        ({}, "not declared"),
    ],
)  # fmt: skip
def test_licence_is_what_the_package_declares(files: dict[str, bytes], licence: str) -> None:
    assert find_licence(files) == licence


def test_every_task_of_a_tree_names_its_licence(tmp_path: Path) -> None:
    (tmp_path / "shapes.py").write_text("")
    (tmp_path / "test_shapes.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shapes"\nlicense = "MIT"\n')
    tree = load_source(str(tmp_path))
    assert tree.provenance == {"source_digest": tree.digest, "licence": "MIT"}
