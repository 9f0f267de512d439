"""Descriptions of languages: the built-in ones and a user's."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import UserError
from assay.verify.calls import BRIDGED, load_language

RUBY = 'name = "Ruby"\nfile = "main.rb"\nrun = ["ruby", "main.rb"]\n'


@pytest.mark.parametrize("name", ["c", "node", "perl", "python"])
def test_built_in_languages_can_be_probed_and_bridged(name: str) -> None:
    language = load_language(name)
    assert language.probe
    assert BRIDGED in language.bridge


def test_a_file_describes_another_language(tmp_path: Path) -> None:
    (tmp_path / "ruby.toml").write_text(RUBY)
    language = load_language(str(tmp_path / "ruby.toml"))
    assert (language.name, language.run, language.bridge) == ("Ruby", ("ruby", "main.rb"), "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 3", "does not hold the description of a language"),
        (RUBY.replace("main.rb", "../main.rb", 1), "plain file name"),
        (RUBY + 'extra = "x"\n', "extra"),
        (RUBY.replace('["ruby", "main.rb"]', "[]"), "run"),
        ("=", "does not hold the description of a language"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "ruby.toml").write_text(text)
    with pytest.raises(UserError, match=said):
        load_language(str(tmp_path / "ruby.toml"))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="name one of c, node, perl, python"):
        load_language("cobol")
