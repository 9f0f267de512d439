"""Elements of one page on another: hand-written trees of the same site under two looks."""

from __future__ import annotations

from typing import Any

import pytest

from assay.environments.browser.element_match import Page, carry_over, is_confirming

TABLE = """Page: "Orders - Shop"
Address: "http://shop.test/shop/orders"
main
  heading "Orders" level 1
  table "Orders"
    columns "Order" | "Status"
    row [10] link "Details" | "ORD-1" | "pending"
    row [11] link "Details" | "ORD-2" | "sent"
  form "Cancel order"
    [12] textbox "Order ID"
    [13] combobox "Reason" options="Choose | Too late | Found cheaper"
    [14] button "Submit"
  form "Find"
    [15] textbox "Text (optional)"
    [16] button "Search"
"""
CARDS = """Page: "Orders - Shop"
Address: "http://shop.test/shop/orders"
main
  heading "Orders" level 1
  form "Find"
    [3] textbox "Text (optional)"
    [4] button "Look up"
  form "Cancel order"
    [5] textbox "Order ID"
    group "Reason"
      [6] radio "Too late"
      [7] radio "Found cheaper"
    [8] button "Cancel order"
  list
    listitem
      [20] link "Details"
      term "Order"
      definition "ORD-2"
      term "Status"
      definition "sent"
    listitem
      [21] link "Details"
      term "Order"
      definition "ORD-1"
      term "Status"
      definition "pending"
"""
ELSEWHERE = """Page: "Start"
Address: "http://shop.test/"
main
  heading "Start" level 1
  [3] link "Policy"
  form "Sign in"
    [4] button "Submit it"
"""
ASKS = """Page: "Please confirm"
Address: "http://shop.test/shop/cancel"
main
  heading "Please confirm" level 1
  form "Cancel order"
    [30] button "Yes"
    [31] button "No"
"""


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("click", {"bid": "10"}, ("click", {"bid": "21"})),  # by the row that became a card
        ("click", {"bid": "11"}, ("click", {"bid": "20"})),
        ("fill", {"bid": "12", "value": "ORD-1"}, ("fill", {"bid": "5", "value": "ORD-1"})),
        ("select_option", {"bid": "13", "options": "Found cheaper"}, ("click", {"bid": "7"})),
        ("select_option", {"bid": "13", "options": ["Too late"]}, ("click", {"bid": "6"})),
        ("click", {"bid": "14"}, ("click", {"bid": "8"})),  # a button with another word, by its form
        ("click", {"bid": "16", "button": "left"}, ("click", {"bid": "4", "button": "left"})),
        ("press", {"bid": "15", "key_comb": "Enter"}, ("press", {"bid": "3", "key_comb": "Enter"})),
        ("select_option", {"bid": "13", "options": "Changed my mind"}, None),  # an option that is not offered there
        ("click", {"bid": "99"}, None),
    ],
)
def test_acts_are_carried_to_the_element_that_means_the_same(
    name: str, arguments: dict[str, Any], wanted: tuple[str, dict[str, Any]] | None
) -> None:
    found = carry_over(name, arguments, Page(TABLE), Page(CARDS))
    assert found == wanted


def test_radio_buttons_become_a_list_again() -> None:
    found = carry_over("click", {"bid": "7"}, Page(CARDS), Page(TABLE))
    assert found == ("select_option", {"bid": "13", "options": "Found cheaper"})


def test_names_alone_find_no_renamed_element_and_the_first_of_equals() -> None:
    for bid, wanted in (("12", "5"), ("14", None), ("10", "20"), ("13", None)):
        found = carry_over("click", {"bid": bid}, Page(TABLE), Page(CARDS), "names")
        assert (None if found is None else found.arguments["bid"]) == wanted


def test_a_page_without_the_element_has_no_correspondence() -> None:
    for bid in ("10", "12", "13", "14"):
        assert carry_over("click", {"bid": bid}, Page(TABLE), Page(ELSEWHERE)) is None


def test_an_answer_to_a_question_is_told_from_other_clicks() -> None:
    assert is_confirming("click", {"bid": "30"}, Page(ASKS))
    assert not is_confirming("click", {"bid": "31"}, Page(ASKS))
    assert not is_confirming("fill", {"bid": "30"}, Page(ASKS))
    assert not is_confirming("click", {"bid": "14"}, Page(TABLE))
