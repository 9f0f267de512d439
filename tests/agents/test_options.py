"""Options of agents that users define: a text where a flag, a number, a list or a table is meant is an error."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from assay.agents.building import build_agent
from assay.errors import UserError

pytestmark = pytest.mark.quick


class Careful:
    """An agent with annotated options."""

    name = "careful"
    needs_model = False

    def __init__(
        self,
        allow: bool = False,
        most: int | None = None,
        words: list[str] | None = None,
        table: dict[str, int] | None = None,
        text: str = "",
        either: str | list[str] = "",
        mode: Literal["a", "b"] = "a",
        anything: Any = None,
    ) -> None:
        self.given = {name: value for name, value in locals().items() if name not in ("self", "__class__") and value}

    async def run(self, attempt: Any) -> None:
        attempt.finish("done")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("allow", "no", "allow: expected true or false, got the text 'no'"),
        ("allow", "yes", "allow: expected true or false, got the text 'yes'"),
        ("most", "three", "most: expected a number, got the text 'three'"),
        ("words", '["a",', "words is not JSON"),
        ("words", "a,b", "words is not JSON"),
        ("table", '{"a":', "table is not JSON"),
        ("table", '{"a": 1}', "table: expected a table, got the text"),
    ],
)
def test_a_text_in_place_of_a_flag_a_number_or_json_is_named(option: str, value: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        build_agent(Careful, {option: value})
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("allow", True), ("most", 3), ("words", ["a"]), ("table", {"a": 1}), ("text", '["a",'), ("either", "[x"),
        ("mode", "c"), ("anything", "no"),
    ],
)  # fmt: skip
def test_other_options_are_the_classes_own_affair(option: str, value: Any) -> None:
    agent: Any = build_agent(Careful, {option: value})
    assert agent.given[option] == value
