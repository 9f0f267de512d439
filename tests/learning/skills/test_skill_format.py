"""Front matter and folders: as the reference checker of Agent Skills reads them, and against hostile ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from skills_ref.parser import parse_frontmatter

from assay.errors import StoreError, UserError
from assay.learning.skills.folder import SkillFolder, read_skill, validate_skill, write_skill
from assay.learning.skills.front_matter import FrontMatterError, parse_skill_text, render_front_matter

VALID = "---\nname: pdf-processing\ndescription: Reads PDF files. Use it for PDF files.\n---\n\n# Body\n"


def skill(text: str, name: str = "pdf-processing") -> SkillFolder:
    return SkillFolder(name, {"SKILL.md": text.encode()})


def test_example_of_the_specification_is_valid() -> None:
    assert validate_skill(skill(VALID)) == ()


@pytest.mark.parametrize("name", ["PDF-Processing", "-pdf", "pdf--processing", "pdf_processing", "a" * 65, "''"])
def test_invalid_names_of_the_specification_are_refused(name: str) -> None:
    assert validate_skill(skill(VALID.replace("pdf-processing", name), name))


def test_name_must_be_the_folders() -> None:
    (problem,) = validate_skill(skill(VALID, "other"))
    assert "'other'" in problem


def test_description_has_a_limit_and_is_needed() -> None:
    assert validate_skill(skill(VALID.replace("Reads PDF files.", "x" * 1024)))
    assert validate_skill(skill("---\nname: pdf-processing\n---\n")) != ()


@pytest.mark.parametrize(
    "front",
    [
        "name: &a x\nother: *a",
        "name: !!python/object/apply:os.system [id]",
        "name: {a: b}",
        "name: [a, b]",
        "name: a\nname: b",
        "name: 'a",
        "- a",
        "",
        "x" * (65 << 10),
        "a: b\n...\nc: d",
        "\n".join("  " * depth + "a:" for depth in range(40)),
    ],
)
def test_what_the_strict_subset_refuses_is_refused(front: str) -> None:
    with pytest.raises(FrontMatterError):
        parse_skill_text(f"---\n{front}\n---\nbody")


@pytest.mark.parametrize("bomb", ["[" * 60_000, "- " * 30_000, "? " * 30_000, "{a: " * 15_000, "a: &x b\n" * 7_000])
def test_bombs_are_refused_at_once(bomb: str) -> None:
    started = time.process_time()
    with pytest.raises(FrontMatterError):
        parse_skill_text(f"---\n{bomb}\n---\n")
    assert time.process_time() - started < 2


def test_every_scalar_is_text() -> None:
    assert parse_skill_text("---\na: 1\nb: true\nc:\nd:\n  e: 2020-01-01\n---\n").fields == {
        "a": "1", "b": "true", "c": "", "d": {"e": "2020-01-01"},
    }  # fmt: skip


@given(st.text(max_size=300))
def test_no_text_makes_the_parser_fail_otherwise(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\n"):
        try:
            parse_skill_text(whole)
        except FrontMatterError:
            continue


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=80))
def test_rendered_front_matter_is_read_back(text: str) -> None:
    if "---" in text:
        return
    fields = {"name": "a", "description": text, "metadata": {"k": text}}
    assert parse_skill_text(render_front_matter(fields) + "\nbody").fields == fields


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x85\u2028\u2029"), max_size=200))
def test_verdict_is_that_of_the_reference(text: str) -> None:
    ours: object
    try:
        ours = parse_skill_text(f"---\nname: a\n{text}\n---\n").fields
    except FrontMatterError:
        ours = None
    try:
        theirs, _ = parse_frontmatter(f"---\nname: a\n{text}\n---\n")
    except Exception:  # noqa: BLE001 - the reference raises what its parser raises
        theirs = None
    if theirs is None or not has_nameless_field(theirs):
        assert (ours is None) == (theirs is None)


def has_nameless_field(fields: Any) -> bool:
    """Returns whether a field has no name (`: x`), which PyYAML refuses and the reference's parser takes."""
    if isinstance(fields, list):
        return any(map(has_nameless_field, fields))
    return isinstance(fields, dict) and ("" in fields or any(map(has_nameless_field, fields.values())))


def test_a_field_without_a_name_is_refused() -> None:
    with pytest.raises(FrontMatterError, match="line 3"):
        parse_skill_text("---\nname: a\n: x\n---\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(skill(VALID), tmp_path / "pdf-processing")
    return tmp_path / "pdf-processing"


@pytest.mark.parametrize("target", ["/etc/passwd", "/etc", "SKILL.md", "missing"])
def test_links_are_refused(folder: Path, target: str) -> None:
    (folder / "secret").symlink_to(target)
    with pytest.raises(UserError, match="is a link"):
        read_skill(folder)


def test_special_files_are_refused_without_waiting(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(UserError, match="neither file nor folder"):
        read_skill(folder)


def test_socket_is_refused(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(folder):
        listener.bind("s")
        with pytest.raises(UserError, match="neither file nor folder"):
            read_skill(folder)


@pytest.mark.parametrize("name", [b"caf\xe9", b"a\nb", b"a\x1b[2J"])
def test_names_that_cannot_be_shown_are_refused(folder: Path, name: bytes) -> None:
    (folder / os.fsdecode(name)).touch()
    with pytest.raises(UserError, match="printable UTF-8"):
        read_skill(folder)


def test_numbers_sizes_and_depth_are_bounded(folder: Path) -> None:
    deep = folder.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    with pytest.raises(UserError, match="nested deeper"):
        read_skill(folder)
    shutil.rmtree(folder / "a")
    with (folder / "large").open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(UserError, match="larger than 16 MiB"):
        read_skill(folder)
    (folder / "large").unlink()
    for number in range(501):
        (folder / f"d{number}").mkdir()
    with pytest.raises(UserError, match="more than 500"):
        read_skill(folder)


@pytest.mark.parametrize("path", ["../out", "/out", "a/../../out", "", "a//b"])
def test_paths_that_lead_out_are_not_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(StoreError, match="leads out"):
        write_skill(SkillFolder("x", {"SKILL.md": b"", path: b"1"}), tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_missing_or_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file", "a\0b"):
        with pytest.raises(UserError, match="cannot be read"):
            read_skill(tmp_path / name)


def test_executable_scripts_stay_so_and_count_in_the_digest(folder: Path) -> None:
    (folder / "run.sh").write_text("x")
    plain = read_skill(folder)
    (folder / "run.sh").chmod(0o755)
    found = read_skill(folder)
    assert found.digest != plain.digest
    write_skill(found, folder.parent / "copy" / "pdf-processing")
    assert read_skill(folder.parent / "copy" / "pdf-processing") == found


def test_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole = SkillFolder("pdf-processing", {"SKILL.md": VALID.encode(), "scripts/a.py": b"\0"})
    write_skill(whole, tmp_path / "pdf-processing")
    assert read_skill(tmp_path / "pdf-processing") == whole
    assert read_skill(tmp_path / "pdf-processing").digest == whole.digest


def test_no_published_skill_of_the_release_is_valid(shared_data: Path) -> None:
    found = [validate_skill(read_skill(p.parent)) for p in sorted((shared_data / "spark-skills").glob("*/SKILL.md"))]
    assert len(found) >= 30
    assert all(found)
