from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.environments.workspace.dockerfile import Heredoc, expand, parse, split_words
from assay.errors import UserError

pytestmark = pytest.mark.quick
WORD = st.text(st.sampled_from("abcXYZ019./_-=:+,"), min_size=1, max_size=12).filter(lambda w: not w.startswith("--"))
LINE = st.tuples(st.sampled_from(["RUN", "COPY", "ENV", "WORKDIR", "USER"]), st.lists(WORD, min_size=1, max_size=4))
JOIN = st.sampled_from([" ", " \\\n  ", "\\\n ", " \\  \n# a remark\n\n   "])


@given(st.lists(st.tuples(LINE, JOIN, st.sampled_from(["", "\n", "# x\n", "  # RUN y\n"])), max_size=8))
def test_however_it_is_laid_out_the_instructions_are_the_same(plan: list) -> None:
    text = "FROM scratch\n" + "".join(f"{gap}{name} {join.join(words)}\n" for (name, words), join, gap in plan)
    read = [(i.name, i.text.split()) for i in parse(text).stages[0].instructions]
    assert read == [(name, words) for (name, words), _, _ in plan]


@given(st.text(max_size=200) | st.text(st.sampled_from('FROMRUN COPY\\\n<EOF"[]#=` scratch'), max_size=200))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        parse("FROM scratch\n" + text, "a/Dockerfile")
    except UserError as exc:
        head, number, _ = str(exc).split(":", 2)
        assert head == "a/Dockerfile"
        assert 1 <= int(number) <= text.count("\n") + text.count("\r") + 2


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=9), max_size=5))
def test_quoted_words_come_back_whole(words: list[str]) -> None:
    quoted = " ".join('"' + w.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"' for w in words)
    assert [expand(word, {}) for word in split_words(quoted)] == words


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("$A/x", "one/x"),
        ("${A}x", "onex"),
        ("${B:-two}", "two"),
        ("${A:+set}${B:+set}", "set"),
        ("${E:-x}${E-y}", "x"),
        ("\\$A", "$A"),
        ("'$A'", "$A"),
        ('"$A b"', "one b"),
        ("$", "$"),
        ("$1", "$1"),
    ],
)
def test_variables_are_put_in(word: str, value: str) -> None:
    assert expand(word, {"A": "one", "E": ""}) == value


def test_nested_form_of_a_variable_is_refused() -> None:
    with pytest.raises(ValueError, match="not a supported form of a variable"):
        expand("${A:-${B}}", {})


def test_here_documents_end_where_they_say() -> None:
    text = 'FROM scratch\nRUN <<EOF\necho $A\nRUN no\nEOF\nCOPY <<-"X" <<Y /to/\n\tx\n\tX\n$y\nY\nUSER u\n'
    run, copy, user = parse(text).stages[0].instructions
    assert run.heredocs == (Heredoc("EOF", "echo $A\nRUN no\n"),)
    assert copy.heredocs == (Heredoc("X", "x\n", True), Heredoc("Y", "$y\n"))
    assert (user.name, user.line) == ("USER", 11)


def test_stages_flags_and_forms() -> None:
    text = 'ARG V=1\nFROM --platform=linux/amd64 a:$V AS Build\nRUN ["a", "b c"]\n'
    text += "FROM scratch\nCOPY --from=build --chmod=755 x /y"
    read = parse(text)
    assert [(s.base, s.name) for s in read.stages] == [("a:$V", "build"), ("scratch", None)]
    assert read.arguments[0].text == "V=1"
    assert read.stages[0].instructions[0].words == ("a", "b c")
    assert read.stages[1].instructions[0].flags == (("from", "build"), ("chmod", "755"))


def test_backtick_can_be_the_escape() -> None:
    read = parse("# escape=`\nFROM scratch\nRUN a `\n  b\\\nUSER x")
    assert [i.text.split() for i in read.stages[0].instructions] == [["a", "b\\"], ["x"]]


def test_what_has_no_effect_is_said() -> None:
    notes = parse('FROM scratch\nEXPOSE 80\nCMD ["x"]\nHEALTHCHECK --interval=5s CMD x').notes
    assert [n.split()[1] for n in notes] == ["CMD", "HEALTHCHECK"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Dockerfile:1: no FROM"),
        ("RUN x\nFROM scratch", "Dockerfile:1: RUN before the first FROM"),
        ("FROM scratch\nONBUILD RUN x", "Dockerfile:2: ONBUILD is not supported"),
        ("FROM scratch\n\nRUNN x", "Dockerfile:3: 'RUNN' is not a supported instruction"),
        ("FROM a b", "Dockerfile:1: FROM takes an image"),
        ("FROM a AS scratch", "Dockerfile:1: 'scratch' is invalid or already used"),
        ("FROM scratch\nRUN <<EOF\nx", "Dockerfile:2: the here-document EOF does not end"),
        ("# escape=x\nFROM scratch", "Dockerfile:1: escape=x"),
    ],
)
def test_refusals_name_the_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert str(caught.value).startswith(said)
