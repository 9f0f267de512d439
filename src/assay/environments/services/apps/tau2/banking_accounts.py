"""Discoverable tools of the agent of tau2-bench's bank: checking and savings accounts.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge/tools.py`. As there, some tools write a balance with a
dollar sign and others without, and a report of a wrong interest is not stored. A tool refuses before it changes
anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from assay.environments.services.transaction import Transaction

from .banking import (
    OPEN_STATUSES,
    TODAY_TEXT,
    Record,
    Text,
    account_balance,
    add_new_record,
    age_in_days,
    derive_id,
    discoverable,
    find_records,
    get_record,
    list_records,
    put_record,
    read_time,
    update_record,
    write_report,
)

TOOLS: Final[list[str]] = []
"""Names of the tools of this module."""

AccountType = Literal["checking", "savings", "business_checking", "business_savings"]
_INELIGIBLE: Final = "Account eligibility requirements not met."
_EARLY_CLOSURE: Final[dict[tuple[str, str], tuple[int, int]]] = {
    ("checking", "Light Blue Account"): (15, 30),
    ("checking", "Light Green Account"): (15, 30),
    ("checking", "Green Fee-Free Account"): (15, 30),
    ("checking", "Blue Account"): (25, 60),
    ("checking", "Green Account"): (25, 60),
    ("checking", "Evergreen Account"): (50, 90),
    ("checking", "Bluest Account"): (100, 180),
    ("savings", "Bronze Account"): (20, 60),
    ("savings", "Silver Account"): (35, 90),
    ("savings", "Silver Plus Account"): (35, 90),
    ("savings", "Gold Account"): (75, 180),
    ("savings", "Gold Plus Account"): (75, 180),
    ("savings", "Gold Years Account"): (75, 180),
    ("savings", "Platinum Account"): (150, 270),
    ("savings", "Platinum Plus Account"): (150, 270),
    ("savings", "Diamond Elite Account"): (150, 270),
}
"""Fee in dollars, and the days after the opening in which it is due, by class and level of the account."""
_PERSONAL_CHECKING: Final = ("checking", "personal_checking")
_CREDITS: Final = {
    "rebate_credit": "REBATE CREDIT - CUSTOMER SERVICE",
    "fee_refund": "FEE REFUND - CUSTOMER SERVICE",
    "interest_correction": "INTEREST CORRECTION - CUSTOMER SERVICE",
    "goodwill_credit": "GOODWILL CREDIT - CUSTOMER SERVICE",
}


@discoverable(TOOLS)
def open_bank_account_4821(tx: Transaction, user_id: Text, account_type: AccountType, account_class: Text) -> str:
    """Opens a bank account.

    Args:
        user_id: Identifier of the user.
        account_type: Kind of account; `checking` and `savings` are personal ones.
        account_class: Full official name of the account's class.
    """
    own = find_records(tx, "accounts", user_id=user_id)
    tx.require(_is_eligible(own, account_type), _INELIGIBLE, "forbidden")
    account_id = derive_id(f"account:{user_id}:{account_type}:{account_class}")
    record = {
        "account_id": account_id,
        "user_id": user_id,
        "account_type": account_type,
        "account_class": account_class,
        "current_holdings": "0.00",
        "status": "OPEN",
        "date_opened": TODAY_TEXT,
    }
    add_new_record(
        tx, "accounts", account_id, record, f"Failed to open account: Account ID '{account_id}' may already exist."
    )
    return write_report("Bank account opened.", record)


def _is_eligible(own: Sequence[Record], account_type: AccountType) -> bool:
    if account_type == "savings":
        return _has_open(own, _PERSONAL_CHECKING, days=14)
    if account_type == "business_checking":
        has_closed = any(account.content.get("status") == "CLOSED" for account in own)
        return not has_closed and _has_open(own, _PERSONAL_CHECKING)
    if account_type == "business_savings":
        has_debt = any(account_balance(account) < 0 for account in own)
        return not has_debt and _has_open(own, ("business_checking",), days=30)
    return True


def _has_open(own: Sequence[Record], kinds: Sequence[str], days: int | None = None) -> bool:
    """Returns whether one of the accounts is open and of a kind, and that for a number of days."""
    return any(
        account.content.get("account_type", account.content.get("class", "")) in kinds
        and account.content.get("status") in OPEN_STATUSES
        and (days is None or (age_in_days(account) or 0) >= days)
        for account in own
    )


@discoverable(TOOLS)
def close_bank_account_7392(
    tx: Transaction,
    account_id: Text,
    reason: str = "Customer requested closure",
    waive_early_closure_fee: bool = False,  # noqa: FBT001 - the original's parameter
) -> str:
    """Closes a checking or savings account, in which nothing is left but a fee for an early closure.

    Args:
        account_id: Identifier of the account.
        reason: Why.
        waive_early_closure_fee: Whether no fee is due.
    """
    account = get_record(tx, "accounts", account_id, "Account")
    tx.require(account.content.get("status") != "CLOSED", f"Account '{account_id}' is already closed.", "conflict")
    balance = account_balance(account)
    fee = 0 if waive_early_closure_fee else _early_closure_fee(account)
    tx.require(balance >= fee or not fee, "Account unable to be closed.", "forbidden")
    message = f"Account balance must be $0.00 before closing. Current balance: ${balance:.2f}"
    tx.require(balance == fee, message, "forbidden")
    closed = {
        "status": "CLOSED",
        "date_closed": TODAY_TEXT,
        "closure_reason": reason,
        "early_closure_fee_waived": waive_early_closure_fee,
    }
    update_record(tx, "accounts", account, **closed)
    return write_report("Bank account closed.", {"account": account_id, **closed})


def _early_closure_fee(account: Record) -> int:
    content = account.content
    fee, days = _EARLY_CLOSURE.get((content.get("class", ""), content.get("level", "")), (0, 0))
    age = age_in_days(account)
    return fee if age is not None and age < days else 0


@discoverable(TOOLS, reads=True)
def get_all_user_accounts_by_user_id_3847(tx: Transaction, user_id: Text) -> dict[str, list[dict[str, Any]]]:
    """Returns the bank accounts and credit card accounts of a user.

    Args:
        user_id: Identifier of the user.
    """
    tables = ("accounts", "credit_card_accounts")
    return {table: list_records(tx, table, user_id=user_id) for table in tables}


@discoverable(TOOLS)
def transfer_funds_between_bank_accounts_7291(
    tx: Transaction, source_account_id: Text, destination_account_id: Text, amount: float
) -> str:
    """Transfers an amount from one bank account to another.

    Args:
        source_account_id: Identifier of the account that pays.
        destination_account_id: Identifier of the account that receives.
        amount: Amount in dollars.
    """
    tx.require(amount > 0, "Transfer amount must be positive.")
    is_other = source_account_id != destination_account_id
    tx.require(is_other, "Source and destination accounts cannot be the same.")
    source = get_record(tx, "accounts", source_account_id, "Source account")
    destination = get_record(tx, "accounts", destination_account_id, "Destination account")
    for noun, account in (("Source", source), ("Destination", destination)):
        message = f"{noun} account '{account.record_id}' is not active."
        tx.require(account.content.get("status") in OPEN_STATUSES, message, "conflict")
    balance = account_balance(source)
    message = f"Insufficient funds. Source account balance is ${balance:.2f}, but transfer amount is ${amount:.2f}."
    tx.require(balance >= amount, message, "forbidden")
    received = account_balance(destination) + amount
    update_record(tx, "accounts", source, current_holdings=f"${balance - amount:.2f}")
    update_record(tx, "accounts", destination, current_holdings=f"${received:.2f}")
    return write_report("Transfer completed.", {source_account_id: source.content["current_holdings"]})


@discoverable(TOOLS)
def apply_checking_account_credit_5829(
    tx: Transaction, account_id: Text, amount: float, credit_type: Literal["rebate_credit", "fee_refund"]
) -> str:
    """Credits an amount to a checking account.

    Args:
        account_id: Identifier of the account.
        amount: Amount in dollars.
        credit_type: A rebate that is missing, or a fee that was wrong.
    """
    account = _creditable_account(tx, account_id, amount, ("checking",), "a checking account")
    update_record(tx, "accounts", account, current_holdings=f"${account_balance(account) + amount:.2f}")
    return _record_credit(tx, account_id, amount, credit_type, "checking_credit")


@discoverable(TOOLS)
def apply_savings_account_credit_6831(
    tx: Transaction,
    account_id: Text,
    amount: float,
    credit_type: Literal["interest_correction", "fee_refund", "goodwill_credit"],
) -> str:
    """Credits an amount to a savings account.

    Args:
        account_id: Identifier of the account.
        amount: Amount in dollars.
        credit_type: Interest that was computed wrongly, a fee that was wrong, or goodwill.
    """
    account = _creditable_account(tx, account_id, amount, ("saving", "savings"), "a savings account")
    update_record(tx, "accounts", account, current_holdings=f"{account_balance(account) + amount:.2f}")
    return _record_credit(tx, account_id, amount, credit_type, "savings_credit")


def _creditable_account(tx: Transaction, account_id: str, amount: float, classes: Sequence[str], noun: str) -> Record:
    tx.require(amount > 0, "Credit amount must be positive.")
    account = get_record(tx, "accounts", account_id, "Account")
    is_of_class = str(account.content.get("class", "")).lower() in classes
    tx.require(is_of_class, f"Account '{account_id}' is not {noun}.")
    tx.require(account.content.get("status") in OPEN_STATUSES, f"Account '{account_id}' is not active.", "conflict")
    return account


def _record_credit(tx: Transaction, account_id: str, amount: float, credit_type: str, seed: str) -> str:
    transaction_id = f"txn_{derive_id(f'{seed}:{account_id}:{credit_type}:{amount}:{TODAY_TEXT}')}"
    record = {
        "transaction_id": transaction_id,
        "account_id": account_id,
        "date": TODAY_TEXT,
        "description": _CREDITS[credit_type],
        "amount": amount,
        "type": credit_type,
        "status": "posted",
    }
    put_record(tx, "bank_account_transaction_history", transaction_id, record)
    return write_report("Credit applied.", record)


@discoverable(TOOLS)
def submit_interest_discrepancy_report_7294(
    tx: Transaction,
    account_id: Text,
    user_id: Text,
    expected_apy: float,
    actual_apy: float,
    amount_difference: float,
) -> str:
    """Reports that the interest of an account was computed wrongly, to the team that investigates it.

    Args:
        account_id: Identifier of the savings account.
        user_id: Identifier of the user.
        expected_apy: Percentage that was due, such as 2.775.
        actual_apy: Percentage that was applied.
        amount_difference: Dollars that are missing.
    """
    account = get_record(tx, "accounts", account_id, "Account")
    user = get_record(tx, "users", user_id, "User")
    seed = f"interest_report:{account_id}:{user_id}:{expected_apy}:{actual_apy}:{TODAY_TEXT}"
    report = {
        "report_id": f"IDR_{derive_id(seed)}",
        "account": f"{account_id} ({account.content.get('level', 'Unknown')})",
        "customer": user.content.get("name", "Unknown"),
        "apy_difference": round(expected_apy - actual_apy, 4),
        "amount_difference": f"${amount_difference:.2f}",
        "status": "PENDING_REVIEW",
    }
    return write_report("Report submitted.", report)


@discoverable(TOOLS, reads=True)
def get_bank_account_transactions_9173(tx: Transaction, account_id: Text) -> list[dict[str, Any]]:
    """Returns the transactions of a bank account, the newest first; of one date, the later is listed first.

    Args:
        account_id: Identifier of the account.
    """
    get_record(tx, "accounts", account_id, "Account")
    rows = list_records(tx, "bank_account_transaction_history", account_id=account_id)
    return sorted(rows, key=lambda row: read_time(row.get("date")), reverse=True)
