"""The bank of tau2-bench over a small database: its search, its wrappers, and tools that no reference calls."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from assay.environments.services.apps.tau2._ranking import rank_texts
from assay.environments.services.apps.tau2.banking_person import tau2_banking, tau2_banking_solo
from assay.environments.services.declaration import Service
from assay.environments.services.world import ServiceWorld
from tests.environments.services.small_bank import write_bank

CLOCK = {"current_time", "wait"}


@pytest.fixture(scope="module")
def first_bank(tmp_path_factory: pytest.TempPathFactory) -> ServiceWorld:
    return opened(tau2_banking_solo, write_bank(tmp_path_factory.mktemp("bank")))


@pytest.fixture
def bank(first_bank: ServiceWorld) -> ServiceWorld:
    return first_bank.fork()


def opened(service: Service, data: str, **knobs: Any) -> ServiceWorld:
    return ServiceWorld.of([service], 0, {service.name: {"data": data, **knobs}})


def call(bank: ServiceWorld, tool: str, **arguments: Any) -> str:
    """Calls a discoverable tool of the agent, which is unlocked before."""
    assert not bank.act("unlock_discoverable_agent_tool", {"agent_tool_name": tool}).error
    named = {"agent_tool_name": tool, "arguments": json.dumps(arguments)}
    return bank.act("call_discoverable_agent_tool", named).content


def changed(bank: ServiceWorld, table: str) -> dict[Any, Any]:
    """Returns the contents of the changed records of a table, by key."""
    name = f"tau2bankingsolo_{table}"
    changes = [change for change in bank.database.changes() if change.table == name and change.after]
    return {change.key[0]: json.loads(str((change.after or {})["content"])) for change in changes}


def test_documents_are_ranked_as_bm25_does() -> None:
    texts = ("Red apple", "red red pear", "plum", "fig", "nut")
    rare, common = math.log(4.5) - math.log(1.5), math.log(3.5) - math.log(2.5)
    average = 8 / 5
    pear = common * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / average))
    pear += rare * 1 * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 3 / average))
    ranked = rank_texts("RED pear", texts)
    assert ranked[0] == (1, pytest.approx(pear))
    assert [at for at, _ in ranked] == [1, 0, 2, 3, 4]
    assert [score for _, score in ranked[2:]] == [0, 0, 0]
    assert rank_texts("of", ("of a", "of b", "c"))[0][1] > 0  # in more than half of the texts


def test_tools_are_found_in_documents_and_not_in_the_list(bank: ServiceWorld) -> None:
    found = json.loads(bank.act("KB_search", {"query": "lost card"}).content)
    assert (found[0]["id"], len(found)) == ("cards", 3)
    assert bank.act("KB_search", {"query": " "}).content == "[]"
    names = {spec.name for spec in bank.specs()}
    assert len(names - CLOCK) == 15 + 6
    assert not any(name.endswith("4721") for name in names)
    unlocked = bank.act("unlock_discoverable_agent_tool", {"agent_tool_name": "close_debit_card_4721"}).content
    assert '"card_id"' in unlocked


def test_in_the_other_service_the_person_has_their_tools(tmp_path: Path) -> None:
    world = opened(tau2_banking, write_bank(tmp_path, split=True))
    agent, person = ({spec.name for spec in world.specs_for(role)} - CLOCK for role in ("agent", "user"))
    assert (len(agent), len(person), agent & person) == (15, 6, set())
    assert len(json.loads(world.act("KB_search", {"query": "check"}).content)) == 3


WRONG = [
    ("call_discoverable_agent_tool", {"agent_tool_name": "freeze_debit_card_3892"}, "has not been unlocked"),
    ("call_discoverable_agent_tool", {"agent_tool_name": "no_tool"}, "Unknown agent tool"),
    ("unlock_discoverable_agent_tool", {"agent_tool_name": "deposit_check_3847"}, "Unknown agent tool"),
    ("give_discoverable_user_tool", {"discoverable_tool_name": "no_tool"}, "Unknown discoverable tool"),
    (
        "give_discoverable_user_tool",
        {"discoverable_tool_name": "deposit_check_3847", "arguments": '{"sum": 1}'},
        "Unexpected parameter: sum",
    ),
    ("call_discoverable_user_tool", {"discoverable_tool_name": "no_tool"}, "Unknown discoverable tool"),
    (
        "call_discoverable_user_tool",
        {"discoverable_tool_name": "get_referral_link", "arguments": '{"user_id": "ada", "card_name": "EcoCard"}'},
        "has not been given",
    ),
    ("change_user_email", {"user_id": "eve", "new_email": "x"}, "User with ID 'eve' not found"),
]


@pytest.mark.parametrize(("action", "arguments", "message"), WRONG)
def test_wrong_calls_change_nothing(bank: ServiceWorld, action: str, arguments: dict[str, Any], message: str) -> None:
    answer = bank.act(action, arguments)
    assert answer.error
    assert message in answer.content
    assert not bank.database.changes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("[1]", "expected a JSON object"),
        ("{", "Invalid JSON"),
        ('{"card_id": NaN}', "not a finite number"),
        ('{"card_id": 1e999}', "not a finite number"),
        ('{"card_id": 3}', "Expected `str`, got `float`"),
        ("{}", "missing required field `card_id`"),
    ],
)
def test_wrong_json_is_refused(bank: ServiceWorld, arguments: str, message: str) -> None:
    tool = "freeze_debit_card_3892"
    bank.act("unlock_discoverable_agent_tool", {"agent_tool_name": tool})
    answer = bank.act("call_discoverable_agent_tool", {"agent_tool_name": tool, "arguments": arguments})
    assert answer.error
    assert message in answer.content
    assert not bank.database.changes(judged_only=True)


def test_a_tool_that_refuses_leaves_the_record_of_its_call(bank: ServiceWorld) -> None:
    assert "cannot be frozen" in call(bank, "freeze_debit_card_3892", card_id="dbc_new")
    assert [record["tool_name"] for record in changed(bank, "agent_discoverable_tools").values()] == [
        "freeze_debit_card_3892"
    ]
    assert changed(bank, "debit_cards") == {}


def test_reads_are_recorded_where_the_task_demands_them(tmp_path: Path) -> None:
    data = write_bank(tmp_path)
    for demanded in ([], ["get_debit_cards_by_account_id_7823"]):
        world = opened(tau2_banking_solo, data, logged_reads=demanded)
        assert len(json.loads(call(world, "get_debit_cards_by_account_id_7823", account_id="chk_1"))) == 4
        assert [row["tool_name"] for row in changed(world, "agent_discoverable_tools").values()] == demanded


@pytest.mark.parametrize(
    ("tool", "card", "old"),
    [
        ("activate_debit_card_8291", "dbc_new", "DEACTIVATED"),
        ("activate_debit_card_8292", "dbc_lost", "DEACTIVATED"),
        ("activate_debit_card_8293", "dbc_worn", "GRACE_PERIOD"),
    ],
)
def test_a_new_card_retires_the_old_one(bank: ServiceWorld, tool: str, card: str, old: str) -> None:
    values = {"last_4_digits": "1357", "expiration_date": "11/29", "cvv": "123", "pin": "2580"}
    assert "no longer" not in call(bank, tool, card_id=card, **values)
    cards = changed(bank, "debit_cards")
    assert (cards[card]["status"], cards["dbc_old"]["status"]) == ("ACTIVE", old)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pin": "3456"}, "cannot be sequential"),
        ({"pin": "7777"}, "all the same digit"),
        ({"pin": "12"}, "exactly 4 digits"),
        ({"last_4_digits": "0000"}, "do not match"),
        ({"card_id": "dbc_lost"}, "Please use activate_debit_card_8292"),
        ({"card_id": "dbc_old"}, "already active"),
        ({"card_id": "none"}, "Debit card 'none' not found"),
    ],
)
def test_a_card_is_not_activated_by_wrong_values(bank: ServiceWorld, change: dict[str, str], message: str) -> None:
    values = {"card_id": "dbc_new", "last_4_digits": "1357", "expiration_date": "11/29", "cvv": "123", "pin": "2580"}
    assert message in call(bank, "activate_debit_card_8291", **values | change)
    assert changed(bank, "debit_cards") == {}


def test_tools_that_no_reference_calls(bank: ServiceWorld) -> None:
    assert "was executed" in call(bank, "example_agent_tool_0000")
    call(bank, "set_debit_card_recurring_block_7382", card_id="dbc_old", block_recurring=True)
    assert changed(bank, "debit_cards")["dbc_old"]["recurring_blocked"] is True
    call(bank, "change_debit_card_pin_6285", card_id="dbc_old", current_pin="2580", new_pin="8520")
    assert changed(bank, "debit_cards")["dbc_old"]["pin_last_changed"] == "11/14/2025"
    assert "no images" in call(bank, "get_atm_deposit_images_8473", transaction_id="t1")
    assert "third-party" in call(bank, "get_atm_deposit_images_8473", transaction_id="t3")
    assert "not an ATM deposit" in call(bank, "get_atm_deposit_images_8473", transaction_id="t2")


def test_balances_are_written_as_the_original_writes_them(bank: ServiceWorld) -> None:
    rows = json.loads(call(bank, "get_bank_account_transactions_9173", account_id="chk_1"))
    assert [row["record_id"] for row in rows] == ["t2", "t3", "t1"]
    names = {"user_id": "ada", "checking_account_id": "chk_1", "credit_card_account_id": "cc_1"}
    assert "exceeds credit card balance" in call(bank, "pay_credit_card_from_checking_9182", **names, amount=50)
    call(bank, "pay_credit_card_from_checking_9182", **names, amount=40)
    assert changed(bank, "accounts")["chk_1"]["current_holdings"] == "60.50"
    assert changed(bank, "credit_card_accounts")["cc_1"]["current_balance"] == "$0.25"
    tool = {"discoverable_tool_name": "deposit_check_3847"}
    bank.act("give_discoverable_user_tool", tool)
    deposit = {"account_id": "chk_1", "check_amount": 9}
    bank.act("call_discoverable_user_tool", {**tool, "arguments": json.dumps(deposit)})
    assert changed(bank, "accounts")["chk_1"]["current_holdings"] == "$69.50"
    (made,) = changed(bank, "user_discoverable_tool_calls").values()
    assert made["arguments"] == {"account_id": "chk_1", "check_amount": 9.0}


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    data = write_bank(tmp_path)
    with pytest.raises(ValueError, match="no table 'loans'"):
        opened(tau2_banking, data, changes={"loans": {"data": {}}})
    with pytest.raises(ValueError, match="change of users before the task"):
        opened(tau2_banking, data, changes={"users": {"data": {"ada": 3}}})
    with pytest.raises(ValueError, match="has the hash"):
        opened(tau2_banking, data, hash="0" * 64)
