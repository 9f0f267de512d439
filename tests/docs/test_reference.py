"""The reference says what the program is: generated pages are fresh, and nothing that a user can set is missing."""

from __future__ import annotations

import pytest

from assay.records import Limits
from assay.rollout.config import RunConfig, field_docs
from assay.store.tables import TABLES
from assay.synthesis import ProgramTasksConfig, QuestionTasksConfig
from assay.synthesis.config import SynthesisConfig
from scripts.make_reference import ROOT, commands, made_pages

pytestmark = pytest.mark.quick


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text()


@pytest.mark.long
def test_generated_pages_are_fresh() -> None:
    assert [path.name for path, text in made_pages() if path.read_text() != text] == [], "stale: run make docs"


def test_commands_are_in_the_reference_and_have_examples_of_themselves() -> None:
    told = page("commands.md")
    for words, _, text in commands():
        _, found, examples = text.partition("Example")
        assert f"\n## {words}\n" in told
        assert found, f"{words} --help has no examples"
        assert words in " ".join(examples.split())


@pytest.mark.parametrize("struct", [RunConfig, SynthesisConfig, ProgramTasksConfig, QuestionTasksConfig, Limits])
def test_configuration_field_is_documented(struct: type) -> None:
    docs = field_docs(struct)
    for name in struct.__struct_fields__:  # type: ignore[attr-defined]
        assert docs.get(name), f"{struct.__name__}.{name} has no words under it"
        assert f"| `{name}` |" in page("configuration.md")


def test_every_table_and_column_is_documented() -> None:
    text = page("tables.md")
    for table, columns in TABLES.items():
        assert f"\n## {table}\n" in text
        assert all(f"| `{column}` | {kind} |" in text for column, kind in columns.items())


def test_every_variable_that_is_read_is_documented() -> None:
    source = (ROOT / "src/assay/settings.py").read_text()
    read = [line.split('"')[1] for line in source.splitlines() if "variables.get(" in line or 'variables["' in line]
    assert read
    assert all(
        f"`{name}`" in page("environment.md") or f"${name}" in page("environment.md") for name in set(read) - {"HOME"}
    )
