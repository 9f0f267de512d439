"""Front matter and folders: as the reference checker of Agent Skills reads them, and against hostile ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UserError
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
        "\n".join("  " * depth + "a:" for depth in range(40)),
    ],
)
def test_what_the_strict_subset_refuses_is_refused(front: str) -> None:
    with pytest.raises(FrontMatterError):
        parse_skill_text(f"---\n{front}\n---\nbody")


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


@given(st.text(max_size=200))
def test_verdict_is_that_of_the_reference(text: str) -> None:
    reference = pytest.importorskip("skills_ref.parser")
    ours: object
    try:
        ours = parse_skill_text(f"---\nname: a\n{text}\n---\n").fields
    except FrontMatterError:
        ours = None
    try:
        theirs, _ = reference.parse_frontmatter(f"---\nname: a\n{text}\n---\n")
    except Exception:  # noqa: BLE001 - the reference raises what its parser raises
        theirs = None
    assert (ours is None) == (theirs is None)


def test_links_and_special_files_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "pdf-processing"
    write_skill(skill(VALID), folder)
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is a link"):
        read_skill(folder)


def test_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole = SkillFolder("pdf-processing", {"SKILL.md": VALID.encode(), "scripts/a.py": b"\0"})
    write_skill(whole, tmp_path / "pdf-processing")
    assert read_skill(tmp_path / "pdf-processing") == whole
    assert read_skill(tmp_path / "pdf-processing").digest == whole.digest


def test_no_published_skill_of_the_release_is_valid(shared_data: Path) -> None:
    found = [validate_skill(read_skill(p.parent)) for p in sorted((shared_data / "spark-skills").glob("*/SKILL.md"))]
    assert len(found) >= 30
    assert all(found)
