"""Discoverable tools of the agent of tau2-bench's bank: credit cards, and transfers to human agents in several steps.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge/tools.py`. A tool refuses before it changes anything.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from assay.environments.services.transaction import Transaction

from .banking import (
    TODAY_TEXT,
    Record,
    Text,
    account_balance,
    add_new_record,
    add_record,
    derive_id,
    discoverable,
    find_records,
    get_record,
    list_records,
    read_amount,
    refuse_unknown,
    update_record,
    write_report,
)

TOOLS: Final[list[str]] = []
"""Names of the tools of this module."""

DisputeReason = Literal[
    "unauthorized_fraudulent_charge",
    "duplicate_charge",
    "incorrect_amount",
    "goods_services_not_received",
    "goods_services_not_as_described",
    "canceled_subscription_still_charging",
    "refund_never_processed",
]
ReplacementReason = Literal["fraud_suspected", "lost", "stolen", "damaged", "expired", "other"]
ClosureReason = Literal[
    "annual_fee",
    "not_using_card",
    "found_better_card",
    "unhappy_with_rewards",
    "simplifying_finances",
    "negative_experience",
    "other",
]
CreditReason = Literal[
    "goodwill_adjustment",
    "promotional_credit",
    "annual_fee_reversal",
    "late_fee_reversal",
    "interest_charge_reversal",
    "dispute_resolution",
    "price_match",
    "retention_offer",
    "error_correction",
    "other",
]
FlagType = Literal["annual_fee_waived", "promotional_apr", "rewards_bonus", "other"]
FlagReason = Literal["retention_offer", "loyalty_benefit", "promotional", "error_correction", "other"]


def _require_card_account(tx: Transaction, account_id: str) -> None:
    if not find_records(tx, "credit_card_accounts", account_id=account_id):
        refuse_unknown(tx, f"Credit card account '{account_id}' not found.")


def card_account_of(tx: Transaction, account_id: str, user_id: str) -> Record:
    """Returns a credit card account of a user. Refuses the action if it is not theirs."""
    account = get_record(tx, "credit_card_accounts", account_id, "Credit card account")
    is_own = account.content.get("user_id") == user_id
    tx.require(is_own, f"Credit card account '{account_id}' does not belong to user '{user_id}'.", "forbidden")
    return account


# Transfers in several steps.


@discoverable(TOOLS)
def example_agent_tool_0000(tx: Transaction) -> str:
    """Does nothing; an example."""
    return "The example was executed."


@discoverable(TOOLS, reads=True)
def initial_transfer_to_human_agent_0218(tx: Transaction) -> str:
    """Begins a transfer to a human agent, in a protocol for certain situations."""
    return "The transfer was begun. Inform the user that the lines are busy."


@discoverable(TOOLS, reads=True)
def initial_transfer_to_human_agent_1822(tx: Transaction) -> str:
    """Begins a transfer to a human agent, in a protocol for certain situations."""
    return (
        "The conversation is not yet at the stage of a transfer to a human. Do not tell the user so; ask about basic "
        "scenarios that could solve their issue."
    )


@discoverable(TOOLS, reads=True)
def emergency_credit_bureau_incident_transfer_1114(tx: Transaction) -> str:
    """Escalates a case of the credit bureau reporting incident of 11/14 to the team that corrects reports."""
    return "The case was escalated with priority. Call transfer_to_human_agents now, to complete the transfer."


# Transactions and disputes.


@discoverable(TOOLS)
def update_transaction_rewards_3847(tx: Transaction, transaction_id: Text, new_rewards_earned: Text) -> str:
    """Corrects what was earned by a credit card transaction.

    Args:
        transaction_id: Identifier of the transaction.
        new_rewards_earned: The right value, such as 6300 points.
    """
    table = "credit_card_transaction_history"
    update_record(tx, table, get_record(tx, table, transaction_id, "Transaction"), rewards_earned=new_rewards_earned)
    return write_report("Transaction rewards updated.", {"transaction": transaction_id, "rewards": new_rewards_earned})


@discoverable(TOOLS)
def file_credit_card_transaction_dispute_4829(
    tx: Transaction,
    *,
    transaction_id: Text,
    card_action: Literal["keep_active", "cancel_and_reissue"],
    card_last_4_digits: str,
    full_name: str,
    user_id: Text,
    phone: str,
    email: str,
    address: str,
    contacted_merchant: bool,
    purchase_date: str,
    issue_noticed_date: str,
    dispute_reason: DisputeReason,
    resolution_requested: Literal["full_refund", "partial_refund"],
    eligible_for_provisional_credit: bool,
    partial_refund_amount: float | None = None,
) -> str:
    """Files a dispute about a credit card transaction.

    Args:
        transaction_id: Identifier of the transaction.
        card_action: What becomes of the card; for the record alone, it orders no new card.
        card_last_4_digits: Last four digits of the card.
        full_name: Full legal name of the card holder.
        user_id: Identifier of the user.
        phone: Phone number.
        email: Email address.
        address: Postal address.
        contacted_merchant: Whether the user tried to settle it with the merchant.
        purchase_date: Date of the purchase as MM/DD/YYYY.
        issue_noticed_date: Date when the user noticed it, as MM/DD/YYYY.
        dispute_reason: Reason of the dispute.
        resolution_requested: What the user wants.
        eligible_for_provisional_credit: Whether the user gets a provisional credit.
        partial_refund_amount: Amount, for a partial refund.
    """
    if resolution_requested == "partial_refund" and partial_refund_amount is None:
        tx.refuse("partial_refund_amount is required when resolution_requested is 'partial_refund'.")
    dispute_id = f"dsp_{derive_id(f'dispute:{user_id}:{transaction_id}', 12)}"
    record = {
        "dispute_id": dispute_id,
        "transaction_id": transaction_id,
        "user_id": user_id,
        "card_action": card_action,
        "card_last_4_digits": card_last_4_digits,
        "full_name": full_name,
        "phone": phone,
        "email": email,
        "address": address,
        "contacted_merchant": contacted_merchant,
        "purchase_date": purchase_date,
        "issue_noticed_date": issue_noticed_date,
        "dispute_reason": dispute_reason,
        "resolution_requested": resolution_requested,
        "partial_refund_amount": partial_refund_amount,
        "eligible_for_provisional_credit": eligible_for_provisional_credit,
        "provisional_credit_given": eligible_for_provisional_credit,
        "submitted_at": TODAY_TEXT,
        "status": "SUBMITTED",
    }
    add_new_record(
        tx, "transaction_disputes", dispute_id, record, "Dispute may have already been filed for this transaction."
    )
    return write_report("Dispute filed; it is reviewed within 10 business days.", record)


@discoverable(TOOLS, reads=True)
def get_user_dispute_history_7291(tx: Transaction, user_id: Text) -> list[dict[str, Any]]:
    """Returns the disputes of a user about credit card transactions.

    Args:
        user_id: Identifier of the user.
    """
    return list_records(tx, "transaction_disputes", user_id=user_id)


@discoverable(TOOLS)
def apply_statement_credit_8472(
    tx: Transaction, user_id: Text, credit_card_account_id: Text, amount: float, reason: CreditReason
) -> str:
    """Credits an amount to a credit card account.

    Args:
        user_id: Identifier of the user.
        credit_card_account_id: Identifier of the credit card account.
        amount: Amount in dollars.
        reason: Why.
    """
    tx.require(amount > 0, "Credit amount must be positive.")
    _require_card_account(tx, credit_card_account_id)
    seed = f"transaction:{user_id}:STATEMENT_CREDIT:{reason}:{amount:.2f}:Statement Credit"
    transaction_id = f"txn_{derive_id(seed, 12)}"
    record = {
        "transaction_id": transaction_id,
        "user_id": user_id,
        "credit_card_account_id": credit_card_account_id,
        "credit_card_type": "N/A",
        "merchant_name": "Rho-Bank Statement Credit",
        "transaction_amount": f"-${amount:.2f}",
        "transaction_date": TODAY_TEXT,
        "category": "Statement Credit",
        "status": "COMPLETED",
        "rewards_earned": "0 points",
        "credit_reason": reason,
    }
    add_new_record(
        tx,
        "credit_card_transaction_history",
        transaction_id,
        record,
        f"Transaction ID '{transaction_id}' may already exist.",
    )
    return write_report("Statement credit applied.", record)


# Cards and accounts.


@discoverable(TOOLS)
def order_replacement_credit_card_7291(
    tx: Transaction,
    *,
    credit_card_account_id: Text,
    user_id: Text,
    shipping_address: Text,
    reason: ReplacementReason,
    expedited_shipping: bool = False,
) -> str:
    """Orders a new credit card in place of the old one, which is cancelled.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        user_id: Identifier of the user.
        shipping_address: Full address to which the card is sent.
        reason: Why.
        expedited_shipping: Whether it comes in 2 to 3 business days, in place of 7 to 10.
    """
    _require_card_account(tx, credit_card_account_id)
    order_id = f"ccord_{derive_id(f'credit_card_order:{credit_card_account_id}:{user_id}:{reason}', 12)}"
    record = {
        "order_id": order_id,
        "credit_card_account_id": credit_card_account_id,
        "user_id": user_id,
        "shipping_address": shipping_address,
        "reason": reason,
        "expedited_shipping": expedited_shipping,
        "order_date": TODAY_TEXT,
        "status": "ORDERED",
        "old_card_cancelled": True,
    }
    add_new_record(
        tx, "credit_card_orders", order_id, record, "Order may have already been placed for this card replacement."
    )
    for account in find_records(tx, "credit_card_accounts", account_id=credit_card_account_id):
        update_record(tx, "credit_card_accounts", account, status="CLOSED", closed_date=TODAY_TEXT)
    return write_report("Card ordered; the old one was cancelled.", record)


@discoverable(TOOLS, reads=True)
def get_pending_replacement_orders_5765(tx: Transaction, credit_card_account_id: Text) -> list[dict[str, Any]]:
    """Returns the orders of new cards for a credit card account.

    Args:
        credit_card_account_id: Identifier of the credit card account.
    """
    return list_records(tx, "credit_card_orders", credit_card_account_id=credit_card_account_id)


@discoverable(TOOLS)
def log_credit_card_closure_reason_4521(
    tx: Transaction, credit_card_account_id: Text, user_id: Text, closure_reason: ClosureReason
) -> str:
    """Records why a user wants to close a credit card account.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        user_id: Identifier of the user.
        closure_reason: Why.
    """
    record_id = f"clsr_{derive_id(f'closure_reason:{credit_card_account_id}:{user_id}', 12)}"
    record = {
        "record_id": record_id,
        "credit_card_account_id": credit_card_account_id,
        "user_id": user_id,
        "closure_reason": closure_reason,
        "logged_at": TODAY_TEXT,
        "status": "LOGGED",
    }
    add_record(tx, "credit_card_closure_reasons", record_id, record)
    return write_report("Closure reason recorded.", record)


@discoverable(TOOLS, reads=True)
def get_closure_reason_history_8293(tx: Transaction, credit_card_account_id: Text) -> list[dict[str, Any]]:
    """Returns why a credit card account was to be closed, now and before.

    Args:
        credit_card_account_id: Identifier of the credit card account.
    """
    return list_records(tx, "credit_card_closure_reasons", credit_card_account_id=credit_card_account_id)


@discoverable(TOOLS)
def apply_credit_card_account_flag_6147(
    tx: Transaction,
    credit_card_account_id: Text,
    user_id: Text,
    flag_type: FlagType,
    expiration_date: Text,
    reason: FlagReason,
) -> str:
    """Adds a flag to a credit card account, such as an annual fee that is waived.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        user_id: Identifier of the user.
        flag_type: Kind of flag.
        expiration_date: Last day as MM/DD/YYYY.
        reason: Why.
    """
    _require_card_account(tx, credit_card_account_id)
    flag_id = f"ccflag_{derive_id(f'account_flag:{credit_card_account_id}:{flag_type}:{expiration_date}', 12)}"
    record = {
        "flag_id": flag_id,
        "credit_card_account_id": credit_card_account_id,
        "user_id": user_id,
        "flag_type": flag_type,
        "effective_date": TODAY_TEXT,
        "expiration_date": expiration_date,
        "reason": reason,
        "applied_at": TODAY_TEXT,
        "status": "ACTIVE",
    }
    add_new_record(
        tx,
        "credit_card_account_flags",
        flag_id,
        record,
        f"Failed to apply account flag. Flag ID '{flag_id}' may already exist.",
    )
    return write_report("Account flag applied.", record)


@discoverable(TOOLS)
def close_credit_card_account_7834(tx: Transaction, credit_card_account_id: Text, user_id: Text) -> str:
    """Closes a credit card account for good.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        user_id: Identifier of the user.
    """
    account = get_record(tx, "credit_card_accounts", credit_card_account_id, "Credit card account")
    update_record(tx, "credit_card_accounts", account, status="CLOSED", closed_date=TODAY_TEXT, closed_by=user_id)
    return f"Credit card account {credit_card_account_id} was closed."


@discoverable(TOOLS)
def pay_credit_card_from_checking_9182(
    tx: Transaction, user_id: Text, checking_account_id: Text, credit_card_account_id: Text, amount: float
) -> str:
    """Pays a part of what is owed on a credit card from a checking account.

    Args:
        user_id: Identifier of the user.
        checking_account_id: Identifier of the checking account.
        credit_card_account_id: Identifier of the credit card account.
        amount: Amount in dollars.
    """
    tx.require(amount > 0, "Payment amount must be a positive number.")
    checking = get_record(tx, "accounts", checking_account_id, "Checking account")
    is_own = checking.content.get("user_id") == user_id
    tx.require(is_own, f"Checking account '{checking_account_id}' does not belong to user '{user_id}'.", "forbidden")
    tx.require(
        checking.content.get("class") == "checking", f"Account '{checking_account_id}' is not a checking account."
    )
    balance = account_balance(checking)
    funds = f"Insufficient funds in checking account. Available balance: ${balance:.2f}"
    tx.require(amount <= balance, f"{funds}, requested payment: ${amount:.2f}.", "forbidden")
    card = card_account_of(tx, credit_card_account_id, user_id)
    owed = read_amount(card.content.get("current_balance"))
    tx.require(amount <= owed, f"Payment amount (${amount:.2f}) exceeds credit card balance (${owed:.2f}).")
    update_record(tx, "accounts", checking, current_holdings=f"{balance - amount:.2f}")
    update_record(tx, "credit_card_accounts", card, current_balance=f"${owed - amount:.2f}")
    paid = {"amount": f"${amount:.2f}", "checking": f"${balance - amount:.2f}", "owed": f"${owed - amount:.2f}"}
    return write_report("Payment made.", paid)
