"""BFCL's tool classes: results, errors and states as the originals have them, on small scenarios of our own."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from assay.environments.services.apps.bfcl.extension import FILE, load_extension, read_extension_file
from assay.environments.services.apps.bfcl.math_api import service as math_service
from assay.environments.services.apps.bfcl.tool_class import SeededState, as_text, decode, encode, equality_digest
from assay.environments.services.apps.bfcl.turns import CLASSES, turns
from assay.environments.services.world import ServiceWorld

LEAF = {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "two\none"}}}
ROOT = {"root": {"home": {"type": "directory", "contents": {"docs": LEAF, ".hidden": {"type": "file", "content": ""}}}}}


def opened(name: str, scenario: dict[str, Any] | None = None, **knobs: Any) -> ServiceWorld:
    service = CLASSES[name].service
    return ServiceWorld.of([service], 0, {service.name: {"scenario": scenario or {}, **knobs}})


def call(world: ServiceWorld, tool: str, **arguments: Any) -> str:
    return world.act(tool, arguments).content


def test_files_move_with_the_errors_of_the_original() -> None:
    world = opened("GorillaFileSystem", ROOT)
    assert call(world, "pwd") == '{"current_working_directory": "/home"}'
    assert call(world, "ls", a=True) == '{"current_directory_content": ["docs", ".hidden"]}'
    assert call(world, "cd", folder="docs/x") == (
        '{"error": "cd: docs/x: Unsupported path. Only one folder level at a time is supported."}'
    )
    assert call(world, "mkdir", dir_name="old") == "None"
    assert call(world, "mv", source="docs", destination="old") == "{\"result\": \"'docs' moved to 'old/docs'\"}"
    assert call(world, "find", name="txt") == '{"matches": ["./old/docs/a.txt"]}'
    call(world, "cd", folder="old")
    call(world, "cd", folder="docs")
    assert call(world, "sort", file_name="a.txt") == '{"sorted_content": "one\\ntwo"}'
    assert call(world, "tail", file_name="a.txt", lines=1) == '{"last_lines": "one"}'
    assert call(world, "du", human_readable=True) == '{"disk_usage": "7.00 B"}'
    assert call(world, "rmdir", dir_name="a.txt") == ('{"error": "rmdir: cannot remove \'a.txt\': Not a directory"}')


def test_a_copied_directory_shares_its_files_as_in_the_original() -> None:
    world = opened("GorillaFileSystem", ROOT)
    assert call(world, "cp", source="docs", destination="copy") == "{\"result\": \"'docs' copied to 'copy'\"}"
    call(world, "cd", folder="copy")
    assert call(world, "echo", content="new", file_name="a.txt") == "None"
    call(world, "cd", folder="..")
    call(world, "cd", folder="docs")
    assert call(world, "cat", file_name="a.txt") == '{"file_content": "new"}'


def test_a_directory_that_contains_itself_ends_searches_with_an_error() -> None:
    world = opened("GorillaFileSystem", ROOT)
    call(world, "cp", source="docs", destination="docs")
    for tool in ("find", "du"):
        assert call(world, tool) == "Error during execution: maximum recursion depth exceeded"
    turn_world = ServiceWorld.of([CLASSES["GorillaFileSystem"].service, turns], 0, {
        "bfclfiles": {"scenario": ROOT}, "bfclturns": {"classes": ["GorillaFileSystem"], "requests": [{"text": "x"}]},
    })  # fmt: skip
    turn_world.act("cp", {"source": "docs", "destination": "docs"})
    assert turn_world.act("end_turn", {"message": "done"}).content == "The person has left the conversation."


def test_a_call_that_fails_in_the_middle_keeps_what_it_had_changed() -> None:
    world = opened("VehicleControlAPI")
    assert call(world, "lockDoors", unlock=False, door=["driver", "boot"]) == "Error during execution: 'boot'"
    assert json.loads(call(world, "displayCarStatus", option="doors"))["doorStatus"]["driver"] == "locked"
    assert "Here are the unlocked doors: passenger, rear_left" in call(world, "startEngine", ignitionMode="START")


def test_numbers_are_drawn_as_by_the_original_generator() -> None:
    draw, state = random.Random(7), SeededState(7)
    wanted = [draw.randint(10**11, 10**12 - 1), draw.uniform(-10, 40), draw.randint(10000, 99999), draw.uniform(0, 120)]
    assert [
        state.randint(10**11, 10**12 - 1), state.uniform(-10, 40), state.randint(10000, 99999), state.uniform(0, 120)
    ] == wanted  # fmt: skip
    world = opened("MessageAPI", {"current_user": "USR001", "random_seed": 7})
    number = random.Random(7).randint(10000, 99999)
    assert json.loads(call(world, "send_message", receiver_id="USR002", message="hi"))["message_id"]["new_id"] == number


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"value": 36.0, "base": 6.0, "precision": 4}, "{'result': mpf('2.0')}"),
        ({"value": 630.0, "base": 10, "precision": 5}, "{'result': mpf('2.7993393')}"),
        ({"value": 246039, "base": 10, "precision": 3}, "{'result': mpf('5.39063')}"),
        ({"value": 5, "base": 1, "precision": 5}, '{"error": ""}'),
        ({"value": -5, "base": 2, "precision": 5}, '{"error": "Logarithms are of positive numbers"}'),
        ({"value": 5, "base": 2, "precision": 10**9}, '{"error": "A precision above 1000 is not supported"}'),
    ],
)
def test_logarithms_are_shown_as_mpmath_shows_them(arguments: dict[str, Any], shown: str) -> None:
    world = ServiceWorld.of([math_service])
    assert call(world, "logarithm", **arguments) == shown


def test_arithmetic_is_bounded() -> None:
    world = ServiceWorld.of([math_service])
    assert call(world, "power", base=10, exponent=10**9).startswith("Error during execution: Exceeds the limit")
    assert call(world, "power", base=-1, exponent=10**9 + 1) == '{"result": -1}'
    assert call(world, "power", base=2, exponent=-1) == '{"result": 0.5}'
    assert call(world, "square_root", number=2, precision=5) == "{'result': Decimal('1.4142')}"
    assert call(world, "add", a=1, b=2.0) == '{"result": 3.0}'


def test_bookings_charge_the_card_and_give_it_back() -> None:
    cards = {"1": {"card_number": "9", "balance": 1000.0}}
    token = {"access_token": "t", "token_expires_in": 2}
    world = opened("TravelAPI", {"credit_card_list": cards, **token})
    flight = {"travel_date": "2024-11-11", "travel_from": "SFO", "travel_to": "LAX", "travel_class": "economy"}
    assert call(world, "get_flight_cost", **flight) == '{"travel_cost_list": [400.0]}'
    booked = json.loads(call(world, "book_flight", access_token="t", card_id="1", **flight))
    assert call(world, "get_credit_card_balance", access_token="t", card_id="1") == '{"card_balance": 600.0}'
    assert call(world, "cancel_booking", access_token="t", booking_id=booked["booking_id"]) == '{"cancel_status": true}'
    assert call(world, "get_credit_card_balance", access_token="t", card_id="1") == '{"card_balance": 1000.0}'
    assert call(world, "get_flight_cost", **{**flight, "travel_to": "XYZ"}) == (
        "Error during execution: No available route for the given airports."
    )


def test_a_comment_on_a_number_and_a_scenarios_text_key_are_two_entries() -> None:
    scenario = {"authenticated": True, "tweets": {"0": {"id": 0, "username": "a", "content": "x", "tags": []}}}
    world = opened("TwitterAPI", {**scenario, "comments": {"0": [{"username": "a", "content": "old"}]}})
    call(world, "comment", tweet_id=0, comment_content="new")
    assert call(world, "get_tweet_comments", tweet_id=0) == "[{'username': 'john', 'content': 'new'}]"


def test_orders_are_pending_when_placed_and_open_when_shown() -> None:
    world = opened("TradingBot", {"authenticated": True})
    assert json.loads(call(world, "place_order", order_type="Buy", symbol="AAPL", price=10, amount=2))["price"] == 10.0
    assert json.loads(call(world, "get_order_details", order_id=12446))["status"] == "Open"
    assert "Insufficient funds" in call(world, "place_order", order_type="buy", symbol="AAPL", price=10**6, amount=2)


def test_edits_of_tickets_name_unknown_fields() -> None:
    world = opened("TicketAPI", {"current_user": "ada"})
    call(world, "create_ticket", title="Broken")
    assert call(world, "edit_ticket", ticket_id=1, updates={"owner": "x", "due": 1}) == (
        '{"error": "Invalid fields for update: due, owner"}'
    )
    call(world, "edit_ticket", ticket_id=1, updates={"title": {"$pairs": 1}, "priority": None})
    ticket = json.loads(call(world, "get_ticket", ticket_id=1))
    assert (ticket["title"], ticket["priority"]) == ({"$pairs": 1}, 1)


def test_a_withheld_tool_is_refused_until_its_turn() -> None:
    services = [CLASSES["MathAPI"].service, turns]
    requests = [{"text": "Add."}, {"text": "Now?", "tools": ["add"]}]
    knobs = {"bfclmath": {"withheld": ["add"]}, "bfclturns": {"classes": ["MathAPI"], "requests": requests}}
    world = ServiceWorld.of(services, 0, knobs)
    assert call(world, "add", a=1, b=1) == "Error (unavailable): The tool 'add' is not available yet."
    assert call(world, "end_turn", message="I cannot.") == "Now?"
    assert call(world, "add", a=1, b=1) == '{"result": 2}'
    assert [one["called"] for one in report(world, [[], []])] == [False, True]


def report(world: ServiceWorld, wanted: list[list[str] | None]) -> list[Any]:
    found: list[Any] = json.loads(world.peek("report_turns", {"wanted": wanted}, "system").content)
    return found


def test_turns_after_the_last_are_refused_and_turns_not_reached_are_not_reported() -> None:
    knobs = {"bfclturns": {"classes": ["MathAPI"], "requests": [{"text": "One."}, {"text": "Two."}]}}
    world = ServiceWorld.of([CLASSES["MathAPI"].service, turns], 0, knobs)
    assert report(world, [[], []])[1] is None
    assert [call(world, "end_turn", message="x") for _ in range(2)] == ["Two.", "The person has left the conversation."]
    assert world.act("end_turn", {"message": "x"}).error
    assert [one["text"] for one in json.loads(call(world, "read_messages"))] == ["One.", "x", "Two.", "x"]


def test_a_world_goes_on_from_a_snapshot() -> None:
    world = opened("GorillaFileSystem", ROOT)
    call(world, "rm", file_name="docs")
    other = opened("GorillaFileSystem", ROOT)
    other.restore(world.snapshot())
    assert call(other, "ls", a=True) == '{"current_directory_content": [".hidden"]}'


@pytest.mark.parametrize(
    ("name", "scenario", "message"),
    [
        ("GorillaFileSystem", {"root": {"home": {}}}, "The scenario does not fit GorillaFileSystem: KeyError"),
        ("TwitterAPI", {"tweets": {"x": {}}}, "The scenario does not fit TwitterAPI: ValueError"),
        ("VehicleControlAPI", {"doorStatus": 3}, "The scenario does not fit VehicleControlAPI: AttributeError"),
    ],
)
def test_scenarios_that_do_not_fit_are_named(name: str, scenario: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        opened(name, scenario)


def test_the_long_context_is_read_as_literals_and_pinned_by_a_digest(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("WATCH_LIST_EXTENSION = ['X', ...]\n")
    digest = read_extension_file(str(tmp_path)).sha256
    assert load_extension(str(tmp_path), digest) == {"WATCH_LIST_EXTENSION": ["X", ...]}
    with pytest.raises(ValueError, match="is wanted"):
        load_extension(str(tmp_path), "0")
    (tmp_path / FILE).write_text("X = open('/etc/passwd')\n")
    with pytest.raises(ValueError, match="something else than literals"):
        load_extension(str(tmp_path), read_extension_file(str(tmp_path)).sha256)


def test_values_keep_their_kind_and_compare_as_python_does() -> None:
    value = {1: ["a", {"$set": 2}], "1": {3, 2}, "e": ..., "x": {"y": 1.5}}
    assert decode(encode(value)) == value
    assert list(decode(encode({"b": 1, "a": 2}))) == ["b", "a"]
    assert equality_digest({"a": 1, "b": [1.0]}) == equality_digest({"b": [1], "a": 1.0})
    assert equality_digest({"1": 0}) != equality_digest({1: 0})
    assert [as_text(one) for one in ("x", {"a": None}, {"a": ...}, [1, "b"], None)] == [
        "x", '{"a": null}', "{'a': Ellipsis}", "[1, 'b']", "None"
    ]  # fmt: skip
