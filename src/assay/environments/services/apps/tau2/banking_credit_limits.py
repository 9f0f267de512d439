"""Discoverable tools of the agent of tau2-bench's bank: limits of credit cards.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge/tools.py`. As there, a request and an approval of the
same amount are one record, and the first stays. A tool refuses before it changes anything.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from assay.environments.services.transaction import Transaction

from .banking import (
    TODAY_TEXT,
    Text,
    add_new_record,
    add_record,
    derive_id,
    discoverable,
    find_records,
    get_record,
    list_records,
    read_amount,
    update_record,
    write_report,
)
from .banking_credit_cards import card_account_of

DenialReason = Literal[
    "insufficient_account_age",
    "cooldown_period_active",
    "pending_disputes",
    "pending_replacement_card",
    "past_due_balance",
    "high_utilization",
    "insufficient_payment_history",
    "requested_amount_exceeds_limit",
    "other",
]
TOOLS: Final[list[str]] = []
"""Names of the tools of this module."""


def _increase_id(account_id: str, user_id: str, amount: float) -> str:
    return f"cli_{derive_id(f'cli_request:{account_id}:{user_id}:{amount:.2f}', 12)}"


@discoverable(TOOLS)
def submit_credit_limit_increase_request_7392(
    tx: Transaction, credit_card_account_id: Text, user_id: Text, requested_increase_amount: float
) -> str:
    """Submits a request to increase the limit of a credit card.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        user_id: Identifier of the user.
        requested_increase_amount: Whole dollars by which the limit is to grow.
    """
    amount = int(requested_increase_amount)
    whole = "Invalid requested_increase_amount. Must be a whole number of dollars."
    tx.require(amount == requested_increase_amount, whole)
    tx.require(amount > 0, "Requested increase amount must be positive.")
    card_account_of(tx, credit_card_account_id, user_id)
    request_id = _increase_id(credit_card_account_id, user_id, amount)
    record = {
        "request_id": request_id,
        "credit_card_account_id": credit_card_account_id,
        "user_id": user_id,
        "requested_increase_amount": amount,
        "submitted_at": TODAY_TEXT,
        "status": "PENDING",
    }
    add_new_record(tx, "credit_limit_increase_requests", request_id, record, "A similar request may already exist.")
    return write_report("Request submitted.", record)


@discoverable(TOOLS, reads=True)
def get_credit_limit_increase_history_4829(tx: Transaction, credit_card_account_id: Text) -> list[dict[str, Any]]:
    """Returns the requests to increase the limit of a credit card, and how they were decided.

    Args:
        credit_card_account_id: Identifier of the credit card account.
    """
    return list_records(tx, "credit_limit_increase_requests", credit_card_account_id=credit_card_account_id)


@discoverable(TOOLS, reads=True)
def get_payment_history_6183(tx: Transaction, credit_card_account_id: Text, months: float) -> str:
    """Returns the payments to a credit card account, the newest first.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        months: Number of months.
    """
    tx.require(months >= 1, "months must be a positive integer.")
    payments = find_records(tx, "payment_history", credit_card_account_id=credit_card_account_id)
    if not payments:
        return f"No payment history found for account '{credit_card_account_id}'."
    payments.sort(key=lambda payment: payment.content.get("payment_date") or "", reverse=True)
    latest = [payment.content for payment in payments[: int(months)]]
    late = [at for at, payment in enumerate(latest) if payment.get("status") != "ON_TIME"]
    on_time = late[0] if late else len(latest)
    lines = [f"  - {one.get('payment_date')}: {one.get('amount')}, {one.get('status')}" for one in latest]
    return write_report("Payment history", {"consecutive on-time payments": on_time}, lines)


@discoverable(TOOLS)
def approve_credit_limit_increase_5847(
    tx: Transaction, credit_card_account_id: Text, user_id: Text, new_credit_limit: float
) -> str:
    """Approves a higher limit of a credit card, which applies at once.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        user_id: Identifier of the user.
        new_credit_limit: The whole new limit in dollars.
    """
    account = card_account_of(tx, credit_card_account_id, user_id)
    disputes = find_records(tx, "transaction_disputes", user_id=user_id)
    orders = find_records(tx, "credit_card_orders", credit_card_account_id=credit_card_account_id)
    status = str(account.content.get("account_status", "")).upper()
    is_ineligible = (
        any(one.content.get("status") in ("SUBMITTED", "UNDER_REVIEW", "PENDING") for one in disputes)
        or any(one.content.get("status") in ("PENDING", "PROCESSING", "SHIPPED") for one in orders)
        or status in ("PAST_DUE", "DELINQUENT", "COLLECTIONS", "CLOSED")
    )
    tx.require(not is_ineligible, "Credit limit increase request cannot be approved at this time.", "forbidden")
    limit = read_amount(account.content.get("credit_limit"))
    increase = new_credit_limit - limit
    update_record(tx, "credit_card_accounts", account, credit_limit=f"${new_credit_limit:.2f}")
    request_id = _increase_id(credit_card_account_id, user_id, increase)
    record = {
        "request_id": request_id,
        "credit_card_account_id": credit_card_account_id,
        "user_id": user_id,
        "previous_limit": f"${limit:.2f}",
        "new_limit": f"${new_credit_limit:.2f}",
        "increase_amount": f"${increase:.2f}",
        "decision_date": TODAY_TEXT,
        "status": "APPROVED",
    }
    add_record(tx, "credit_limit_increase_requests", request_id, record)
    return write_report("Credit limit increase approved.", record)


@discoverable(TOOLS)
def deny_credit_limit_increase_5848(
    tx: Transaction, credit_card_account_id: Text, user_id: Text, denial_reason: DenialReason
) -> str:
    """Denies a higher limit of a credit card.

    Args:
        credit_card_account_id: Identifier of the credit card account.
        user_id: Identifier of the user.
        denial_reason: Why.
    """
    get_record(tx, "credit_card_accounts", credit_card_account_id, "Credit card account")
    request_id = _increase_id(credit_card_account_id, user_id, 0.0)
    record = {
        "request_id": request_id,
        "credit_card_account_id": credit_card_account_id,
        "user_id": user_id,
        "denial_reason": denial_reason,
        "decision_date": TODAY_TEXT,
        "status": "DENIED",
    }
    add_record(tx, "credit_limit_increase_requests", request_id, record)
    return write_report("Credit limit increase denied.", record)
