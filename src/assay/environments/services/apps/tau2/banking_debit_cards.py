"""Discoverable tools of the agent of tau2-bench's bank: debit cards that exist, and disputes about what they paid.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge/tools.py`. Photographs of deposits in machines, which
no task of the database has, are left out. `banking_debit_orders` orders and activates cards. A tool refuses before it
changes anything.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from assay.environments.services.transaction import Transaction

from .banking import (
    TODAY_TEXT,
    Record,
    Text,
    add_new_record,
    age_in_days,
    derive_id,
    discoverable,
    get_record,
    has_record,
    list_records,
    refuse_unknown,
    update_record,
    write_report,
)

TOOLS: Final[list[str]] = []
"""Names of the tools of this module."""

DisputeCategory = Literal[
    "unauthorized_transaction",
    "atm_cash_discrepancy",
    "atm_deposit_not_credited",
    "duplicate_charge",
    "incorrect_amount",
    "goods_services_not_received",
    "recurring_charge_after_cancellation",
    "card_present_fraud",
    "card_not_present_fraud",
]
TransactionType = Literal[
    "pin_purchase",
    "signature_purchase",
    "online_purchase",
    "atm_withdrawal",
    "atm_deposit",
    "recurring_payment",
    "person_to_person",
]
_FRAUD: Final = ("unauthorized_transaction", "card_present_fraud", "card_not_present_fraud")
_CLOSURE_REASONS: Final = ("lost", "stolen", "fraud_suspected", "damaged", "no_longer_needed", "account_closing")
_DAILY_CASH: Final = {
    "blue account": 500,
    "green account": 600,
    "light blue account": 400,
    "green fee-free account": 500,
    "evergreen account": 750,
    "bluest account": 1500,
    "dark green account": 300,
    "gold years account": 600,
    "purple account": 1000,
}
"""Dollars a day from machines, by level of the account."""


def find_card(tx: Transaction, card_id: str) -> Record:
    return get_record(tx, "debit_cards", card_id, "Debit card")


def require_open_account(tx: Transaction, card: Record, consequence: str) -> None:
    """Refuses the action if the account of a card is not open; a card without an account passes."""
    account_id = str(card.content.get("account_id") or "")
    if has_record(tx, "accounts", account_id):
        account = get_record(tx, "accounts", account_id, "Account")
        message = f"The linked checking account '{account_id}' is no longer open. Card cannot be {consequence}."
        tx.require(account.content.get("status") == "OPEN", message, "conflict")


def require_pin(tx: Transaction, pin: str) -> None:
    """Refuses the action if a PIN is not one, or too simple."""
    tx.require(len(pin) == 4 and pin.isdigit(), "PIN must be exactly 4 digits.")
    is_sequence = pin in "0123456789" or pin in "9876543210"
    tx.require(not is_sequence, "PIN cannot be sequential (e.g., 1234). Please choose a more secure PIN.")
    tx.require(len(set(pin)) > 1, "PIN cannot be all the same digit (e.g., 1111). Please choose a more secure PIN.")


def require_last_digits(tx: Transaction, card: Record, last_4_digits: str) -> None:
    """Refuses the action if these are not the last digits of the card."""
    message = "Card verification failed. The last 4 digits do not match our records."
    tx.require(card.content.get("last_4_digits") == last_4_digits, message, "forbidden")


@discoverable(TOOLS)
def file_debit_card_transaction_dispute_6281(
    tx: Transaction,
    *,
    transaction_id: Text,
    account_id: Text,
    card_id: Text,
    user_id: Text,
    dispute_category: DisputeCategory,
    transaction_date: Text,
    discovery_date: Text,
    disputed_amount: float,
    transaction_type: TransactionType,
    card_in_possession: bool,
    pin_compromised: Literal["yes_shared", "yes_observed", "no", "unknown"],
    contacted_merchant: bool,
    police_report_filed: bool,
    written_statement_provided: bool,
    provisional_credit_eligible: bool,
    customer_max_liability_amount: float,
    card_action: Literal["keep_active", "freeze_pending_investigation", "close_and_reissue"],
) -> str:
    """Files a dispute about a debit card transaction under Regulation E.

    Args:
        transaction_id: Identifier of the transaction.
        account_id: Identifier of the checking account.
        card_id: Identifier of the debit card.
        user_id: Identifier of the user.
        dispute_category: Kind of dispute.
        transaction_date: Date of the transaction as MM/DD/YYYY.
        discovery_date: Date when the user noticed it, as MM/DD/YYYY.
        disputed_amount: Amount in dollars.
        transaction_type: Kind of transaction.
        card_in_possession: Whether the user still has the card.
        pin_compromised: Whether somebody else may know the PIN.
        contacted_merchant: Whether the user tried to settle it with the merchant.
        police_report_filed: Whether the police know; recommended for fraud over $500.
        written_statement_provided: Whether the user has described in writing what happened.
        provisional_credit_eligible: Whether the user gets a provisional credit.
        customer_max_liability_amount: The most that the user may have to bear in dollars; -1 without a limit.
        card_action: What becomes of the card.
    """
    tx.require(disputed_amount > 0, "disputed_amount must be a positive number.")
    dispute_id = f"dsp_{derive_id(f'dispute:{user_id}:{transaction_id}', 12)}"
    record = {
        "dispute_id": dispute_id,
        "transaction_id": transaction_id,
        "account_id": account_id,
        "card_id": card_id,
        "user_id": user_id,
        "dispute_category": dispute_category,
        "transaction_date": transaction_date,
        "discovery_date": discovery_date,
        "disputed_amount": disputed_amount,
        "transaction_type": transaction_type,
        "card_in_possession": card_in_possession,
        "pin_compromised": pin_compromised,
        "contacted_merchant": contacted_merchant,
        "police_report_filed": police_report_filed,
        "written_statement_provided": written_statement_provided,
        "provisional_credit_eligible": provisional_credit_eligible,
        "provisional_credit_issued": provisional_credit_eligible,
        "provisional_credit_amount": disputed_amount if provisional_credit_eligible else None,
        "customer_max_liability_amount": customer_max_liability_amount,
        "card_action": card_action,
        "is_fraud_category": dispute_category in _FRAUD,
        "pin_shared_voluntarily": pin_compromised == "yes_shared",
        "submitted_at": TODAY_TEXT,
        "status": "OPEN",
    }
    add_new_record(
        tx, "debit_card_disputes", dispute_id, record, "Dispute may have already been filed for this transaction."
    )
    return write_report("Dispute filed.", record)


@discoverable(TOOLS, reads=True)
def get_debit_dispute_status_7483(tx: Transaction, user_id: Text) -> list[dict[str, Any]]:
    """Returns the disputes of a user about debit card transactions.

    Args:
        user_id: Identifier of the user.
    """
    return list_records(tx, "debit_card_disputes", user_id=user_id)


@discoverable(TOOLS, reads=True)
def get_atm_deposit_images_8473(tx: Transaction, transaction_id: Text) -> str:
    """Returns what photographs show of a deposit in a machine of the bank.

    Args:
        transaction_id: Identifier of the deposit.
    """
    deposit = get_record(tx, "bank_account_transaction_history", transaction_id, "Transaction").content
    tx.require(deposit.get("type") == "atm_deposit", f"Transaction '{transaction_id}' is not an ATM deposit.")
    where = str(deposit.get("description", ""))
    is_own = any(name in where.upper() for name in ("RHO-BANK", "RHOBANK"))
    message = f"Transaction '{transaction_id}' is from a third-party ATM, which has no images: request a chargeback."
    tx.require(is_own, message, "unavailable")
    fields = {"machine": where, "date": deposit.get("date", "Unknown"), "amount": deposit.get("amount", 0)}
    return write_report("There are no images of this deposit: they have expired, or none were made.", fields)


@discoverable(TOOLS)
def set_debit_card_recurring_block_7382(
    tx: Transaction,
    card_id: Text,
    block_recurring: bool,  # noqa: FBT001 - the original's parameter
) -> str:
    """Blocks or unblocks all recurring payments of a debit card; single purchases stay possible.

    Args:
        card_id: Identifier of the debit card.
        block_recurring: Whether they are blocked then.
    """
    card = find_card(tx, card_id)
    status = str(card.content.get("status", "")).upper()
    message = f"Cannot update recurring block settings for a card with status '{status}'. Card must be ACTIVE."
    tx.require(status == "ACTIVE", message, "conflict")
    update_record(tx, "debit_cards", card, recurring_blocked=block_recurring)
    return f"Recurring payments of card {card_id} are {'blocked' if block_recurring else 'allowed'} within 24 hours."


@discoverable(TOOLS)
def close_debit_card_4721(tx: Transaction, card_id: Text, reason: Text) -> str:
    """Closes a debit card for good.

    Args:
        card_id: Identifier of the debit card.
        reason: lost, stolen, fraud_suspected, damaged, no_longer_needed or account_closing.
    """
    reason = reason.lower()
    tx.require(reason in _CLOSURE_REASONS, f"Invalid reason. Must be one of: {', '.join(_CLOSURE_REASONS)}")
    card = find_card(tx, card_id)
    status = card.content.get("status")
    message = f"Debit card '{card_id}' cannot be closed. Current status: {status}."
    tx.require(status in ("ACTIVE", "PENDING"), f"{message} Only ACTIVE or PENDING cards can be closed.", "conflict")
    update_record(tx, "debit_cards", card, status="CLOSED", closed_date=TODAY_TEXT, closure_reason=reason)
    return write_report("Debit card closed for good; a new one can be ordered.", {"card": card_id, "reason": reason})


@discoverable(TOOLS)
def freeze_debit_card_3892(tx: Transaction, card_id: Text) -> str:
    """Freezes a debit card, until it is unfrozen.

    Args:
        card_id: Identifier of the debit card.
    """
    card = find_card(tx, card_id)
    status = card.content.get("status")
    tx.require(status != "FROZEN", f"Debit card '{card_id}' is already frozen.", "conflict")
    message = f"Debit card '{card_id}' cannot be frozen. Current status: {status}. Only ACTIVE cards can be frozen."
    tx.require(status == "ACTIVE", message, "conflict")
    update_record(tx, "debit_cards", card, status="FROZEN", frozen_date=TODAY_TEXT)
    return f"Debit card {card_id} is frozen: new and recurring payments are declined until it is unfrozen."


@discoverable(TOOLS)
def unfreeze_debit_card_3893(tx: Transaction, card_id: Text) -> str:
    """Unfreezes a debit card.

    Args:
        card_id: Identifier of the debit card.
    """
    card = find_card(tx, card_id)
    status = card.content.get("status")
    tx.require(status != "ACTIVE", f"Debit card '{card_id}' is already active.", "conflict")
    message = f"Debit card '{card_id}' cannot be unfrozen. Current status: {status}. Only FROZEN cards can be unfrozen."
    tx.require(status == "FROZEN", message, "conflict")
    require_open_account(tx, card, "unfrozen")
    update_record(tx, "debit_cards", card, status="ACTIVE", unfrozen_date=TODAY_TEXT)
    return f"Debit card {card_id} is active again."


@discoverable(TOOLS)
def clear_debit_card_fraud_alert_4892(
    tx: Transaction, card_id: Text, reason: Literal["customer_verified", "velocity_clear"]
) -> str:
    """Clears a fraud alert or a velocity block of a debit card.

    Args:
        card_id: Identifier of the debit card.
        reason: `customer_verified` for a fraud alert, `velocity_clear` for a velocity block.
    """
    card = find_card(tx, card_id)
    if reason == "velocity_clear":
        message = f"Debit card '{card_id}' does not have an active velocity block."
        tx.require(card.content.get("velocity_blocked"), message, "conflict")
        update_record(tx, "debit_cards", card, velocity_blocked=False, velocity_cleared_date=TODAY_TEXT)
        return f"The velocity block of card {card_id} was cleared; the same pattern may block it again."
    message = f"Debit card '{card_id}' does not have an active fraud alert."
    tx.require(card.content.get("fraud_alert_active"), message, "conflict")
    message = (
        "BANK_INITIATED_ALERT - This fraud alert was initiated by the bank and cannot be cleared by customer service. "
        "Transfer the customer to the security team using transfer_to_human_agents."
    )
    tx.require(card.content.get("alert_source") != "bank_initiated", message, "forbidden")
    cleared = {"fraud_alert_active": False, "alert_source": None, "fraud_alert_cleared_date": TODAY_TEXT}
    update_record(tx, "debit_cards", card, **cleared)
    return f"The fraud alert of card {card_id} was cleared. Remind the customer to review recent transactions."


@discoverable(TOOLS)
def reset_debit_card_pin_6284(tx: Transaction, card_id: Text, last_4_digits: Text, new_pin: Text) -> str:
    """Sets a new PIN of a debit card whose user has forgotten the old one.

    Args:
        card_id: Identifier of the debit card.
        last_4_digits: Last four digits of the card.
        new_pin: Four digits that the user has chosen.
    """
    require_pin(tx, new_pin)
    card = find_card(tx, card_id)
    require_last_digits(tx, card, last_4_digits)
    _require_active(tx, card, "Cannot reset PIN", "have their PIN reset")
    reset = {"pin_last_changed": TODAY_TEXT, "pin_locked": False, "pin_attempts_remaining": 3}
    update_record(tx, "debit_cards", card, **reset)
    return f"The PIN of card {card_id} was reset, and the card is unlocked."


@discoverable(TOOLS)
def change_debit_card_pin_6285(tx: Transaction, card_id: Text, current_pin: Text, new_pin: Text) -> str:
    """Changes the PIN of a debit card whose user knows the old one.

    Args:
        card_id: Identifier of the debit card.
        current_pin: The old PIN.
        new_pin: Four digits that the user has chosen.
    """
    tx.require(len(current_pin) == 4 and current_pin.isdigit(), "Current PIN must be exactly 4 digits.")
    require_pin(tx, new_pin)
    tx.require(current_pin != new_pin, "New PIN must be different from current PIN.")
    card = find_card(tx, card_id)
    _require_active(tx, card, "Cannot change PIN", "have their PIN changed")
    update_record(tx, "debit_cards", card, pin_last_changed=TODAY_TEXT)
    return f"The PIN of card {card_id} was changed."


def _require_active(tx: Transaction, card: Record, problem: str, ability: str) -> None:
    status = card.content.get("status")
    message = f"{problem}. Card status is {status}. Only ACTIVE cards can {ability}."
    tx.require(status == "ACTIVE", message, "conflict")


@discoverable(TOOLS, reads=True)
def get_debit_cards_by_account_id_7823(tx: Transaction, account_id: Text) -> list[dict[str, Any]]:
    """Returns the debit cards of a checking account, with status, reason of issue and expiration, the newest first.

    Args:
        account_id: Identifier of the account.
    """
    account = get_record(tx, "accounts", account_id, "Account")
    is_checking = str(account.content.get("class", "")).lower() in ("checking", "business_checking")
    tx.require(is_checking, f"Account '{account_id}' is not a checking account. Only those have debit cards.")
    cards = list_records(tx, "debit_cards", account_id=account_id)
    return sorted(cards, key=lambda card: str(card.get("issue_date") or card.get("created_date") or ""), reverse=True)


@discoverable(TOOLS)
def request_temporary_debit_card_limit_increase_8374(
    tx: Transaction, card_id: Text, limit_type: Literal["atm", "purchase"], new_limit: float
) -> str:
    """Raises a daily limit of a debit card for 24 hours.

    Args:
        card_id: Identifier of the debit card.
        limit_type: Limit of cash from machines, or of purchases.
        new_limit: New limit in whole dollars.
    """
    limit = int(new_limit)
    tx.require(limit == new_limit, f"new_limit must be an integer, got '{new_limit}'.")
    tx.require(limit > 0, "new_limit must be a positive amount.")
    card = find_card(tx, card_id)
    _require_active(tx, card, f"Debit card '{card_id}' is not active", "have limit increases")
    account = get_record(tx, "accounts", str(card.content.get("account_id") or ""), "Linked account")
    message = f"The linked account '{account.record_id}' is not in good standing."
    tx.require(account.content.get("status") == "OPEN", message, "conflict")
    age = age_in_days(account)
    message = f"Account must be at least 60 days old for a temporary limit increase. Account age: {age} days."
    tx.require(age is None or age >= 60, message, "forbidden")
    current = _daily_limit(tx, card, account, limit_type)
    most = int(current * 1.5)
    tx.require(limit <= most, f"Requested limit ${limit} exceeds ${most}, which is 150% of ${current}.", "forbidden")
    tx.require(limit > current, f"Requested limit ${limit} is not higher than the current limit of ${current}.")
    raised = {
        _limit_field(limit_type): limit,
        f"temporary_{limit_type}_limit_increase": True,
        f"original_{limit_type}_limit": current,
        f"temporary_{limit_type}_limit_expires": TODAY_TEXT,
    }
    update_record(tx, "debit_cards", card, **raised)
    return write_report("Limit raised for 24 hours; machines of others may have limits of their own.", raised)


def _limit_field(limit_type: str) -> str:
    return f"daily_{limit_type}_limit"


def _daily_limit(tx: Transaction, card: Record, account: Record, limit_type: str) -> Any:
    """Returns the daily limit of a card in dollars. Refuses the action without one."""
    current = card.content.get(_limit_field(limit_type))
    if current is None and limit_type == "atm":
        level = str(account.content.get("level", "")).lower()
        message = "Light Green Account (teen checking) cards have policy-based limits that cannot be modified."
        tx.require("light green" not in level, message, "forbidden")
        current = _DAILY_CASH.get(level)
    if current is None:
        refuse_unknown(tx, f"The card has no {_limit_field(limit_type).replace('_', ' ')} that could be raised.")
    return current
