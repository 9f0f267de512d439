"""Tables of documents, data files, and the actions of tau2's shop, over a small database of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.environments.services.apps.tau2._arithmetic import calculate_expression
from assay.environments.services.apps.tau2.databases import sorted_json, tau2_hash
from assay.environments.services.apps.tau2.retail import tau2_retail
from assay.environments.services.apps.tau2.telecom_phone import Handset
from assay.environments.services.apps.tau2.telecom_records import Phone, Surroundings
from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import ActionError, Generator, Transaction
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import call, refuse
from tests.environments.services.small_tau2 import DATABASE, write_data

notes = Service("notes", "Notes with weights.")


class Note(msgspec.Struct):
    name: str
    weights: dict[str, float]
    tags: list[str] | None = None
    is_open: bool = True


class Line(msgspec.Struct):
    name: str
    text: str


table = Documents(notes, Note, "notes")
lines = Documents(notes, Line, "lines", ordered=True)


@notes.generator
def fill(make: Generator, knobs: Any) -> None:
    table.fill(make, [Note("b", {"y": 0.1 + 0.2, "x": 1.0}), Note("a", {}, ["t"])])
    lines.fill(make, [Line("z", "first"), Line("a", "second")])


@notes.action()
def weigh(tx: Transaction, name: str, key: str, weight: float) -> Note:
    """Sets a weight."""
    note = table.get(tx, name)
    tx.require(note, "no note")
    assert note is not None
    note.weights.pop(key, None)
    note.weights[key] = weight
    table.save(tx, note)
    return note


@notes.action()
def add_line(tx: Transaction, name: str) -> str:
    """Adds a line."""
    lines.insert(tx, Line(name, "new"))
    return "done"


@notes.view()
def list_lines(tx: Transaction) -> list[Line]:
    """Lists the lines."""
    return lines.find(tx)


@notes.view(roles=("system",))
def find_open(tx: Transaction) -> list[Note]:
    """Lists the open notes."""
    return table.find(tx, is_open=True)


def world() -> ServiceWorld:
    return ServiceWorld.of([notes])


def test_floats_come_back_exactly_and_the_order_of_a_table_does_not_matter() -> None:
    one = world()
    start = one.database.digest()
    assert call(one, "weigh", name="b", key="y", weight=0.1 + 0.2)["weights"] == {"y": 0.30000000000000004, "x": 1.0}
    assert one.database.digest() == start  # removed, and added behind the other key
    assert json.loads(one.peek("find_open", {}, "system").content)[0] == {
        "name": "a", "weights": {}, "tags": ["t"], "is_open": True
    }  # fmt: skip


def test_a_difference_names_the_field_that_changed() -> None:
    one = world()
    call(one, "weigh", name="a", key="k", weight=2)
    (change,) = one.facts()["changes"]
    assert (change["before"]["weights"], change["after"]["weights"]) == ("{}", '{"k":2.0}')
    assert one.facts()["difference"] == ['note a: weights {} -> {"k":2.0}']


def test_ordered_documents_keep_the_order_in_which_they_were_added() -> None:
    one = world()
    one.act("add_line", {"name": "m"})
    assert [line["name"] for line in call(one, "list_lines")] == ["z", "a", "m"]


def test_a_service_that_shares_a_table_has_rows_of_its_own() -> None:
    other = Service("others", "The same lines.")
    shared = Documents(notes2 := Service("notestwo", "Lines."), Line, "lines", also=[other])
    for service in (notes2, other):
        service.generator(lambda make, knobs: shared.fill(make, [Line("a", "b")]))
        assert ServiceWorld.of([service]).database.rows(next(iter(service.tables.values()))) == [("a", "b")]


# The shop.


def shop(folder: Path) -> ServiceWorld:
    return ServiceWorld.of([tau2_retail], 0, {"tau2retail": {"data": str(folder)}})


def shop_hash(one: ServiceWorld) -> str:
    return one.peek("database_hash", {}, "system").content


@pytest.mark.parametrize("inside", ["", "domains", "data/tau2/domains"])
@pytest.mark.parametrize("compressed", [False, True])
def test_data_folders_and_checkouts_give_the_hash_of_the_file(tmp_path: Path, inside: str, compressed: bool) -> None:
    one = shop(write_data(tmp_path, inside, compressed=compressed))
    content = json.loads(json.dumps(DATABASE))
    for order in content["orders"].values():
        optional = ("cancel_reason", "exchange_items", "exchange_new_items", "exchange_payment_method_id")
        order |= dict.fromkeys((*optional, "exchange_price_difference", "return_items", "return_payment_method_id"))
    assert shop_hash(one) == tau2_hash({name: sorted_json(table) for name, table in content.items()})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "Found no db.json"),
        (b"{", "cannot be parsed"),
        (b'{"products": {}, "users": {}}', "missing required field `orders`"),
        (b'{"products": {}, "users": {}, "orders": {"a": {"order_id": 1}}}', r"\$.orders\[...\].order_id"),
        (b"\xff\xfe", "cannot be parsed"),
    ],
)
def test_missing_and_damaged_data_are_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "db.json").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        shop(tmp_path)
    (tmp_path / "db.json").unlink(missing_ok=True)
    (tmp_path / "db.json.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match="cannot be read"):
        shop(tmp_path)


def test_no_folder_is_named() -> None:
    with pytest.raises(ValueError, match="needs the knob `data`"):
        ServiceWorld.of([tau2_retail])


def test_orders_are_changed_as_the_original_does(tmp_path: Path) -> None:
    one = shop(write_data(tmp_path))
    refused = [
        ("modify_pending_order_items", {"item_ids": ["12"], "new_item_ids": ["11"]}, "12 not found"),
        ("modify_pending_order_items", {"item_ids": ["11"], "new_item_ids": []}, "The number of items"),
        ("modify_pending_order_items", {"item_ids": ["11"], "new_item_ids": ["11"]}, "should be different"),
        ("modify_pending_order_items", {"item_ids": ["11"], "new_item_ids": ["13"]}, "not found or available"),
        ("modify_pending_order_items", {"item_ids": ["11"], "new_item_ids": ["14"]}, "Insufficient gift card"),
        ("exchange_delivered_order_items", {"item_ids": ["11"], "new_item_ids": ["12"]}, "Non-delivered order"),
    ]
    for name, arguments, message in refused:
        assert message in refuse(one, name, order_id="#W1", payment_method_id="gift_card_1", **arguments)
    items = {"item_ids": ["11"], "new_item_ids": ["12"], "payment_method_id": "gift_card_1"}
    order = call(one, "modify_pending_order_items", order_id="#W1", **items)
    assert order["payment_history"][1]["amount"] == 20.5 - 20.2 != 0.3  # as floats are added
    assert (order["status"], order["items"][0]["options"]) == ("pending (item modified)", {"colour": "red"})
    shopper = call(one, "get_user_details", user_id="ada_hill_1234")
    assert shopper["payment_methods"]["gift_card_1"]["balance"] == 9.8
    assert "Non-pending order" in refuse(one, "modify_pending_order_items", order_id="#W1", **items)
    exchanged = call(one, "exchange_delivered_order_items", order_id="#W2", **items)
    assert (exchanged["exchange_price_difference"], exchanged["status"]) == (0.3, "exchange requested")


def test_payments_move_between_methods(tmp_path: Path) -> None:
    one = shop(write_data(tmp_path))
    assert "Insufficient" in refuse(
        one, "modify_pending_order_payment", order_id="#W1", payment_method_id="gift_card_1"
    )
    same = refuse(one, "modify_pending_order_payment", order_id="#W1", payment_method_id="paypal_1")
    assert "should be different" in same
    returned = call(
        one, "return_delivered_order_items", order_id="#W2", item_ids=["11"], payment_method_id="gift_card_1"
    )
    assert (returned["status"], returned["return_items"]) == ("return requested", ["11"])


@pytest.mark.parametrize(
    ("expression", "value"),
    [("2 + 2", "4.0"), ("(1.5 - 3) * -2", "3.0"), ("7 // 2", "3.0"), ("2 ** 10", "1024.0"), ("0.1 + 0.2", "0.3")],
)
def test_arithmetic(expression: str, value: str) -> None:
    assert calculate_expression(expression, "wrong") == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0", "division by zero"),
        ("2 +", "invalid syntax"),
        ("x", "wrong"),
        ("9 ** 9 ** 9", "too large"),
        ("1 " * 900, "too long"),
        ("", "invalid syntax"),
        ("(1)(2)", "not arithmetic"),
        ("9" * 500 + " * 1.0", "too large"),
    ],
)
def test_what_is_not_arithmetic_is_refused(expression: str, message: str) -> None:
    with pytest.raises(ActionError, match=message):
        calculate_expression(expression, "wrong")


# The phone.


def test_a_phone_finds_its_network_again() -> None:
    handset = Handset(Phone(), Surroundings())
    assert handset.toggle("airplane_mode").startswith("Airplane Mode is now ON.\nStatus Bar: ✈️ Airplane Mode | ")
    assert "Cannot change Wi-Fi settings" in handset.toggle("wifi")
    assert handset.measure_speed() == (None, "No Connection")
    handset.toggle("airplane_mode")
    assert handset.run_speed_test() == "Speed Test Result: 275.00 Mbps (Excellent). Connection is very fast."
    assert "not a valid option" in handset.prefer_mode("6g")
    handset.prefer_mode("2g_only")
    assert (handset.measure_speed(), handset.can_send_mms()) == ((0.05, "Very Poor"), False)


def test_apn_settings_are_reset_at_the_next_restart() -> None:
    handset = Handset(Phone(), Surroundings())
    handset.phone.active_apn_settings.mmsc_url = None
    handset.reset_apn_settings()
    assert not handset.can_send_mms()
    assert "Resetting APN settings..." in handset.reboot_device()
    assert handset.can_send_mms()


def test_permissions_decide_whether_pictures_are_sent() -> None:
    handset = Handset(Phone(), Surroundings())
    handset.phone.app_statuses["messaging"].permissions.storage = False
    assert handset.report_mms() == "Your messaging app cannot send MMS messages."
    assert "not tracked" in handset.grant_permission("messaging", "camera")
    assert "not found" in handset.grant_permission("mail", "storage")
    handset.grant_permission("messaging", "Storage")
    assert handset.can_send_mms()
    assert handset.check_app_permissions("messaging").endswith("permission for: sms, storage, phone.")
