"""Discoverable tools of the agent of tau2-bench's bank: orders of debit cards, and their activation.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge/tools.py`. A tool refuses before it changes anything.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from assay.environments.services.transaction import Transaction

from .banking import (
    TODAY_TEXT,
    Record,
    Text,
    add_new_record,
    add_record,
    derive_id,
    discoverable,
    find_records,
    get_record,
    has_record,
    update_record,
    write_report,
)
from .banking_debit_cards import find_card, require_last_digits, require_open_account, require_pin

TOOLS: Final[list[str]] = []
"""Names of the tools of this module."""

_DELIVERY: Final = {
    "STANDARD": "7-10 business days",
    "EXPEDITED": "3-5 business days",
    "RUSH": "1-2 business days",
}
_DESIGNS: Final = ("CLASSIC", "PREMIUM", "CUSTOM")
_LEAST_BALANCE: Final = 25.0
_EXPIRATION: Final = "11/30/2029"
"""Four years from now, at the end of the month."""
_ACTIVATION: Final = {
    "activate_debit_card_8291": ("new_account", "first_card"),
    "activate_debit_card_8292": ("lost", "stolen", "fraud"),
    "activate_debit_card_8293": ("expired", "damaged", "upgrade", "bank_reissue"),
}
"""Reasons of issue of the cards that a tool activates."""

Cvv = Annotated[str, Meta(pattern=r"^\d{3}$")]
LastDigits = Annotated[str, Meta(pattern=r"^\d{4}$")]


@discoverable(TOOLS)
def order_debit_card_5739(
    tx: Transaction,
    *,
    account_id: Text,
    user_id: Text,
    delivery_option: Text,
    delivery_fee: float,
    card_design: Text,
    design_fee: float,
    shipping_address: Text,
    excess_replacement_fee: float | None = None,
) -> str:
    """Orders a debit card for a checking account, which pays the fees.

    Args:
        account_id: Identifier of the account.
        user_id: Identifier of the user.
        delivery_option: STANDARD, EXPEDITED or RUSH.
        delivery_fee: Fee for the delivery in dollars.
        card_design: CLASSIC, PREMIUM or CUSTOM.
        design_fee: Fee for the design in dollars.
        shipping_address: Full address to which the card is sent.
        excess_replacement_fee: Fee for more replacements than are free, in dollars.
    """
    delivery, design = delivery_option.upper(), card_design.upper()
    tx.require(delivery in _DELIVERY, f"Invalid delivery_option. Must be one of: {', '.join(_DELIVERY)}")
    tx.require(design in _DESIGNS, f"Invalid card_design. Must be one of: {', '.join(_DESIGNS)}")
    account = _account_for_card(tx, account_id, user_id)
    fees = {"Delivery": delivery_fee, "Design": design_fee, "Excess Replacement": excess_replacement_fee or 0.0}
    total, balance = sum(fees.values()), _plain_balance(account)
    message = f"Insufficient funds for fees. Total fees: ${total:.2f}. Current balance: ${balance:.2f}"
    tx.require(total <= max(0, balance), message, "forbidden")
    order_id = f"dcord_{derive_id(f'debit_card_order:{account_id}:{user_id}:{delivery}', 12)}"
    record = {
        "order_id": order_id,
        "account_id": account_id,
        "user_id": user_id,
        "delivery_option": delivery,
        "card_design": design,
        "shipping_address": shipping_address,
        "delivery_fee": delivery_fee,
        "design_fee": design_fee,
        "excess_replacement_fee": fees["Excess Replacement"],
        "total_fee": total,
        "order_date": TODAY_TEXT,
        "expected_delivery": _DELIVERY[delivery],
        "status": "PENDING",
    }
    add_new_record(
        tx, "debit_card_orders", order_id, record, "Failed to create debit card order. Order may already exist."
    )
    if total > 0:
        _charge_fees(tx, account, order_id, fees)
    card_id = _add_ordered_card(tx, account_id, user_id, design)
    return write_report("Debit card ordered; the user activates it when it has come.", {"card": card_id, **record})


def _account_for_card(tx: Transaction, account_id: str, user_id: str) -> Record:
    """Returns the account for which a card is ordered. Refuses the action if it can have none."""
    account = get_record(tx, "accounts", account_id, "Account")
    content = account.content
    kind = content.get("class")
    message = f"Debit cards can only be ordered for checking accounts. Account '{account_id}' is a {kind} account."
    tx.require(kind == "checking", message)
    message = f"Account must be OPEN. Account '{account_id}' has status: {content.get('status')}"
    tx.require(content.get("status") == "OPEN", message, "conflict")
    message = f"Account '{account_id}' does not belong to user '{user_id}'."
    tx.require(content.get("user_id") == user_id, message, "forbidden")
    balance = _plain_balance(account)
    message = f"Account must have a minimum balance of $25. Current balance: ${balance:.2f}"
    tx.require(balance >= _LEAST_BALANCE, message, "forbidden")
    pending = find_records(tx, "debit_card_orders", account_id=account_id, status="PENDING")
    tx.require(not pending, f"There is already a pending debit card order for account '{account_id}'.", "conflict")
    active = find_records(tx, "debit_cards", account_id=account_id, status="ACTIVE")
    tx.require(not active, f"Account '{account_id}' already has an active debit card.", "conflict")
    return account


def _plain_balance(account: Record) -> float:
    """Returns a balance; 0 if it is written with a dollar sign, which the original does not read here."""
    try:
        return float(str(account.content.get("current_holdings", "0")).replace(",", ""))
    except ValueError:
        return 0.0


def _charge_fees(tx: Transaction, account: Record, order_id: str, fees: dict[str, float]) -> None:
    total, balance = sum(fees.values()), _plain_balance(account)
    update_record(tx, "accounts", account, current_holdings=f"{balance - total:.2f}")
    parts = [f"{name} ${fee}" for name, fee in fees.items() if fee > 0 and name != "Excess Replacement"]
    if (excess := fees["Excess Replacement"]) > 0:
        parts.append(f"Excess Replacement ${excess:.0f}")
    transaction_id = f"btxn_dcfee_{order_id[-8:]}"
    record = {
        "transaction_id": transaction_id,
        "account_id": account.record_id,
        "date": TODAY_TEXT,
        "description": f"DEBIT CARD ORDER FEE - {', '.join(parts)}",
        "amount": -total,
        "type": "debit_card_fee",
        "status": "posted",
    }
    add_record(tx, "bank_account_transaction_history", transaction_id, record)


def _add_ordered_card(tx: Transaction, account_id: str, user_id: str, design: str) -> str:
    """Adds a card that has not yet come, and returns its identifier."""
    card_id = f"dbc_{derive_id(f'debit_card:{account_id}:{user_id}:{TODAY_TEXT}', 12)}"
    holder = "CARDHOLDER"
    if has_record(tx, "users", user_id):
        holder = str(get_record(tx, "users", user_id, "User").content.get("name", holder)).upper()
    record = {
        "card_id": card_id,
        "account_id": account_id,
        "user_id": user_id,
        "cardholder_name": holder,
        "last_4_digits": _digits(derive_id(f"card_details:{card_id}:last4", 8), 4),
        "cvv": _digits(derive_id(f"card_details:{card_id}:cvv", 6), 3),
        "status": "PENDING",
        "issue_date": TODAY_TEXT,
        "expiration_date": _EXPIRATION,
        "card_design": design,
        "issue_reason": _issue_reason(tx, account_id),
    }
    add_record(tx, "debit_cards", card_id, record)
    return card_id


def _digits(text: str, count: int) -> str:
    return "".join(character for character in text if character.isdigit())[:count].zfill(count)


def _issue_reason(tx: Transaction, account_id: str) -> str:
    cards = find_records(tx, "debit_cards", account_id=account_id)
    if not cards:
        return "new_account"
    closed = [card.content.get("closure_reason") for card in cards if card.content.get("status") == "CLOSED"]
    reasons = {"lost": "lost", "stolen": "stolen", "fraud": "fraud", "fraud_suspected": "fraud"}
    return reasons.get(str(closed[0]), "first_card") if closed else "first_card"


@discoverable(TOOLS)
def activate_debit_card_8291(
    tx: Transaction, card_id: Text, last_4_digits: LastDigits, expiration_date: Text, cvv: Cvv, pin: Text
) -> str:
    """Activates the first card of a checking account (reason of issue `new_account` or `first_card`).

    Args:
        card_id: Identifier of the debit card.
        last_4_digits: Last four digits of the card.
        expiration_date: Expiration as MM/YY.
        cvv: Three digits on the back of the card.
        pin: Four digits that the user has chosen.
    """
    card = _activate(tx, "activate_debit_card_8291", card_id, last_4_digits, pin)
    reason = {"deactivated_date": TODAY_TEXT, "deactivation_reason": "New card activated"}
    return _retire_others(tx, card, {"status": "DEACTIVATED", **reason})


@discoverable(TOOLS)
def activate_debit_card_8292(
    tx: Transaction, card_id: Text, last_4_digits: LastDigits, expiration_date: Text, cvv: Cvv, pin: Text
) -> str:
    """Activates a card in place of a lost or stolen one, or after fraud (reason of issue `lost`, `stolen`, `fraud`).

    Args:
        card_id: Identifier of the debit card.
        last_4_digits: Last four digits of the card.
        expiration_date: Expiration as MM/YY.
        cvv: Three digits on the back of the card.
        pin: Four digits that the user has chosen.
    """
    card = _activate(tx, "activate_debit_card_8292", card_id, last_4_digits, pin)
    reason = f"Replacement card activated ({card.content.get('issue_reason')})"
    retired = {"status": "DEACTIVATED", "deactivated_date": TODAY_TEXT, "deactivation_reason": reason}
    return _retire_others(tx, card, retired)


@discoverable(TOOLS)
def activate_debit_card_8293(
    tx: Transaction, card_id: Text, last_4_digits: LastDigits, expiration_date: Text, cvv: Cvv, pin: Text
) -> str:
    """Activates a card that the bank has issued anew (reason `expired`, `damaged`, `upgrade` or `bank_reissue`).

    Args:
        card_id: Identifier of the debit card.
        last_4_digits: Last four digits of the card.
        expiration_date: Expiration as MM/YY.
        cvv: Three digits on the back of the card.
        pin: Four digits that the user has chosen.
    """
    card = _activate(tx, "activate_debit_card_8293", card_id, last_4_digits, pin)
    reason = f"Reissued card activated ({card.content.get('issue_reason')})"
    retired = {"status": "GRACE_PERIOD", "grace_period_ends": TODAY_TEXT, "deactivation_reason": reason}
    return _retire_others(tx, card, retired)


def _activate(tx: Transaction, tool: str, card_id: str, last_4_digits: str, pin: str) -> Record:
    """Activates a card and returns it. Refuses the action if the tool is for other cards, or a value is wrong."""
    require_pin(tx, pin)
    card = find_card(tx, card_id)
    reason = str(card.content.get("issue_reason", "new_account"))
    if reason not in _ACTIVATION[tool]:
        right = next((name for name, reasons in _ACTIVATION.items() if reason in reasons), "unknown")
        tx.refuse(
            f"Wrong activation tool. This card has issue_reason='{reason}'. Please use {right} instead of {tool}."
        )
    status = card.content.get("status")
    tx.require(status != "ACTIVE", f"Debit card '{card_id}' is already active.", "conflict")
    message = f"Debit card '{card_id}' cannot be activated. Current status: {status}."
    tx.require(status == "PENDING", f"{message} Only PENDING cards can be activated.", "conflict")
    require_last_digits(tx, card, last_4_digits)
    require_open_account(tx, card, "activated")
    update_record(tx, "debit_cards", card, status="ACTIVE", activated_date=TODAY_TEXT)
    return card


def _retire_others(tx: Transaction, card: Record, changes: dict[str, Any]) -> str:
    """Changes the other active cards of the account, and returns the result of the activation."""
    others = find_records(tx, "debit_cards", account_id=card.content.get("account_id"), status="ACTIVE")
    retired = [other for other in others if other.record_id != card.record_id]
    for other in retired:
        update_record(tx, "debit_cards", other, **changes)
    names = ", ".join(other.record_id for other in retired) or "none"
    return write_report("Debit card activated.", {"card": card.record_id, f"others now {changes['status']}": names})
