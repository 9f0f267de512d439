"""The client's own parts against what records hold: attributes, drawings, times, names, what it keeps, terminal output
and differences of texts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from assay.analysis.alignment import common_length, equal_rows
from assay.records import AttemptEnded, AttemptStarted, Observation, Step, StepAdded
from assay.store import RunStore, seal
from tests.viewer import made

if TYPE_CHECKING:
    from tests.viewer.conftest import Look

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
from playwright.sync_api import expect

NAMED = """() => {
  const link = Assay.h("a", { title: "a\\u202eb", "aria-label": "c\\u200bd" });
  return [link.title, link.getAttribute("aria-label"), Assay.svg("text", null, "e\\u2066f").textContent,
    Assay.svg("text", null, "e\\u2066f").childElementCount];
}"""
REFUSED = """() => [["a", { href: "javascript:1" }], ["a", { href: "//x" }],
    ["img", { src: "data:image/svg+xml;base64,PA==" }], ["a", { style: "x" }], ["a", { onclick: "x" }],
    ["script", null], ["a", { srcdoc: "x" }]].map(([tag, given]) => {
  try {
    Assay.h(tag, given);
    return "made";
  } catch {
    return "refused";
  }
})"""
ROWS = """(pairs) => pairs.map(([one, other]) => {
  const made = Assay.diff(one, other);
  const told = (row) => [row.className.replace("ln diff-", ""), row.lastChild.textContent];
  return [...made.querySelectorAll(".ln")].map(told);
})"""
SHOWN = """(texts) => texts.map((text) => {
  const box = document.createElement("div");
  box.append(Assay.ansi(text));
  return { text: box.textContent, classes: [...box.querySelectorAll("[class]")].map((part) => part.className),
    active: box.querySelectorAll("a, script, img, [style]").length };
})"""


def asked(look: Look, script: str) -> Any:
    return look.go("").evaluate(script)


@pytest.mark.long
def test_invisible_characters_are_signs_where_no_mark_can_be(look: Look) -> None:
    assert asked(look, NAMED) == ["a\ufffdb", "c\ufffdd", "e\ufffdf", 0]


@pytest.mark.long
def test_a_copied_text_has_escapes_for_what_is_invisible(look: Look) -> None:
    page = look.go("")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    recorded, label = "a\x1b]52;c;x\x07\u202eb\n\tc", "the\u202etext"
    made = "([text, label]) => document.querySelector('main').append(Assay.copy(text, label))"
    page.evaluate(made, [recorded, label])
    button = page.get_by_role("button", name="Copy the\ufffdtext")
    button.click()
    expect(button).to_have_text("✓")
    assert page.evaluate("navigator.clipboard.readText()") == "a\\u{1b}]52;c;x\\u{7}\\u{202e}b\n\tc"


def test_a_text_is_copied_where_the_clipboard_is_refused(look: Look) -> None:
    page = look.go("")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("""() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error("refused"));
      document.querySelector("main").append(Assay.copy(() => Promise.resolve("in parts"), "it"));
    }""")
    page.get_by_role("button", name="Copy it").click()
    expect(page.get_by_role("button", name="Copy it")).to_have_text("✓")
    assert page.evaluate("navigator.clipboard.readText()") == "in parts"


def test_arguments_are_json_again(look: Look) -> None:
    page = look.go("")
    values = {
        "n": ["v", 1],
        "big": ["v", "12345678901234567890"],
        "t": ["s", {"text": 'a"b'}],
        "l": ["a", [["v", None]], 0],
    }
    node = ["o", [[name, value] for name, value in values.items()], 0]
    assert page.evaluate("Assay.jsonOf", node) == '{"n": 1, "big": 12345678901234567890, "t": "a\\"b", "l": [null]}'
    assert page.evaluate("Assay.jsonOf", ["a", [["v", 1]], 3]) is None


def test_nothing_active_is_made(look: Look) -> None:
    assert asked(look, REFUSED) == ["refused"] * 7


def test_a_name_that_every_object_has_means_nothing(look: Look) -> None:
    said = "[Assay.outcomeWord('constructor'), Assay.status('toString').dataset.status, "
    said += "Assay.laneWords({kind: 'branch', agent: null, cause: 'constructor'})]"
    assert asked(look, said) == ["constructor", "none", "a branch"]


def test_an_impossible_time_is_none(look: Look) -> None:
    said = "[Assay.format.moment(1.7e308), Assay.format.moment(1)]"
    assert asked(look, said) == ["\u2013", "1970-01-01 00:00:01 UTC"]


def test_tokens_that_are_not_known_are_not_none(look: Look) -> None:
    said = "[{}, {prompt_tokens: 5}, {prompt_tokens: 0, completion_tokens: 2}].map(Assay.tokensWords)"
    assert asked(look, said) == [None, "5 in, \u2013 out", "0 in, 2 out"]


@pytest.mark.long
def test_an_attempt_that_claims_impossible_things_is_shown(look: Look, store: Path) -> None:
    began = AttemptStarted("odd", "a", "t", "d", "loop", None, 0, 0, at=1.7e308)
    metrics = {"prompt_tokens": 1.7e308, "completion_tokens": 1.7e308, "wall_s": -1e300, "cost_usd": 1e300}
    step = Step(0, "agent", "hello", observations=(Observation("x"),), started=-1.7e308, ended=1.7e308)
    with RunStore.create(store, "odd", {"created": 10**400}) as writer:
        writer.append("a.0", [began, StepAdded(step), AttemptEnded("done", at=-1.7e308, metrics=metrics)])
    for route in ("", "#/run/odd", "#/run/odd/tasks", "#/run/odd/attempt/a.0"):
        look.go(route)
    expect(look.page.get_by_text("hello").first).to_be_visible()


@pytest.mark.long
def test_what_came_last_before_a_run_was_sealed_is_shown(look: Look, store: Path) -> None:
    with RunStore.create(store, "closing", {}) as writer:
        writer.append(*made.attempt("closing", "made/first", 0, passed=True))
    page = look.go("#/run/closing")
    told = page.get_by_role("region", name="Attempts").get_by_role("status")
    expect(told).to_have_text("1 attempt")
    with RunStore.open(store, "closing", write=True) as writer:
        writer.append(*made.attempt("closing", "made/first", 1, passed=False))
    seal(store, "closing")
    expect(told).to_have_text("2 attempts")


@pytest.mark.long
def test_a_difference_is_the_shortest_and_holds_both_texts(look: Look) -> None:
    chance = random.Random(5)
    texts = ["".join(chance.choices("abcd", k=chance.randrange(1, 6))) for _ in range(400)]
    pairs = [(list(one), list(other)) for one, other in zip(texts[::2], texts[1::2], strict=True) if one != other]
    found = look.go("").evaluate(ROWS, [("\n".join(one), "\n".join(other)) for one, other in pairs])
    for (one, other), rows in zip(pairs, found, strict=True):
        kept = [row for row in rows if row[0] == "same"]
        assert [text for kind, text in rows if kind != "added"] == one
        assert [text for kind, text in rows if kind != "removed"] == other
        assert len(kept) == common_length(equal_rows(one, other))


def ansi(look: Look, text: str) -> Any:
    return look.go("").evaluate(SHOWN, [text])[0]


def test_a_terminal_s_colours_are_shown_and_its_commands_are_marks(look: Look) -> None:
    shown = ansi(look, "\x1b[1;31mred\x1b[0m \x1b[38;5;46mgreen\x1b[m \x1b[8mhidden\x1b[2J\x1b]0;title\x07 end\x1b")
    assert shown["text"] == "red green hiddenCSI 2JOSC 0;title endESC"
    assert shown["classes"][:2] == ["ansi-bold ansi-1", "ansi-2"]


def test_a_terminal_s_link_is_text(look: Look) -> None:
    shown = ansi(look, "\x1b]8;;javascript:alert(1)\x1b\\<b>here</b>\x1b]8;;\x1b\\")
    assert shown["text"] == "link: javascript:alert(1)<b>here</b>"
    assert shown["active"] == 0


MARKDOWN = """(texts) => texts.map((text) => {
  const box = document.createElement("div");
  box.append(...[Assay.markdown(text)].flat(9));
  return { text: box.textContent, classes: [...box.querySelectorAll("[class]")].map((part) => part.className),
    other: [...box.querySelectorAll("*")].filter((part) => part.tagName !== "SPAN").length };
})"""
WRITTEN = [
    "# Title\nSay `x` and **y**.\n\n- one\n  2. two\n> said\n",
    "```sh\n# no title\n- no list `x`\n```\nafter `open\n```\nnever closed **",
    "<b>**<img src=x onerror=alert(1)>**</b> [a](javascript:alert(1))",
    "`" * 5000 + "*" * 5000,
    "",
]


@pytest.mark.long
def test_markdown_keeps_every_character_and_makes_spans_alone(look: Look) -> None:
    found = look.go("").evaluate(MARKDOWN, WRITTEN)
    assert [one["text"] for one in found] == WRITTEN
    assert {one["other"] for one in found} == {0}
    plain, fenced, hostile, *_ = ([name for name in one["classes"] if name != "md-sign"] for one in found)
    assert plain == ["md-heading", "md-code", "md-strong", "md-item", "md-item", "md-quote"]
    assert fenced == ["md-fence", "md-fence"]
    assert hostile == ["md-strong"]
