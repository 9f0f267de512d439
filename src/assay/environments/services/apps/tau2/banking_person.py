"""Tools of the person of tau2-bench's bank, and the discoverable tools that the agent gives them.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge/tools.py`. Importing this module completes the services
of `banking`; the entry points name it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, Literal

import msgspec

from assay.environments.services.transaction import Transaction

from ._service_pair import AGENT, PERSON
from .banking import (
    OPEN_STATUSES,
    TODAY_TEXT,
    account_balance,
    add_new_record,
    add_record,
    derive_id,
    discoverable,
    find_records,
    get_record,
    list_records,
    pair,
    person_tools,
    refuse_unknown,
    tau2_banking,
    tau2_banking_solo,
    update_record,
    write_report,
)
from .banking_agent import convert_arguments, parse_arguments, run_discoverable

__all__ = ["tau2_banking", "tau2_banking_solo"]

CardType = Literal[
    "Bronze Rewards Card",
    "Business Bronze Rewards Card",
    "Business Gold Rewards Card",
    "Business Platinum Rewards Card",
    "Business Silver Rewards Card",
    "Crypto-Cash Back",
    "Diamond Elite Card",
    "EcoCard",
    "Gold Rewards Card",
    "Green Rewards Card",
    "Platinum Rewards Card",
    "Silver Rewards Card",
    "Silver Zoom Card",
]
_REWARDS: Final[dict[CardType, dict[str, float]]] = {
    "Bronze Rewards Card": {"": 1.0},
    "Silver Rewards Card": {"Travel": 4.0, "Software": 4.0, "": 1.0},
    "Gold Rewards Card": {"": 2.5},
    "Platinum Rewards Card": {"": 10.0},
    "Business Bronze Rewards Card": {"": 1.0},
    "Business Silver Rewards Card": {"Travel": 10.0, "Software": 10.0, "": 1.0},
    "Green Rewards Card": {"Sustainable": 3.0, "": 1.0},
    "Business Gold Rewards Card": {"Operations": 2.5, "": 1.0},
    "Business Platinum Rewards Card": {"Travel": 4.0, "Software": 4.0, "Media": 4.0, "": 1.5},
    "Silver Zoom Card": {"Transportation": 3.0, "": 1.0},
    "Diamond Elite Card": {"": 5.0},
    "EcoCard": {"Green": 5.0, "": 1.0},
    "Crypto-Cash Back": {"": 2.0},
}
"""Points for a dollar by category of the purchase; the empty category stands for all others."""


@pair.tool(PERSON, solo=AGENT)
def apply_for_credit_card(
    tx: Transaction,
    card_type: CardType,
    customer_name: str,
    annual_income: float,
    rho_bank_subscription: bool = False,  # noqa: FBT001 - the original's parameter
) -> str:
    """Applies for a credit card; the user does so themselves.

    Args:
        card_type: Type of the card.
        customer_name: Full legal name.
        annual_income: Income in dollars a year.
        rho_bank_subscription: Whether the user has a subscription to Rho-Bank+.
    """
    seed = f"credit_card:{card_type}:{customer_name}:{annual_income}:{rho_bank_subscription}"
    application_id = derive_id(seed)
    record = {
        "application_id": application_id,
        "card_type": card_type,
        "customer_name": customer_name,
        "annual_income": annual_income,
        "rho_bank_subscription": rho_bank_subscription,
        "status": "PENDING",
        "date": TODAY_TEXT,
    }
    add_new_record(
        tx, "credit_card_applications", application_id, record, f"Record ID '{application_id}' may already exist."
    )
    return "The application was submitted. A decision comes by email within 5 to 7 business days."


@pair.tool(PERSON, solo=AGENT)
def submit_referral(tx: Transaction, user_id: str, account_type: str) -> str:
    """Refers somebody to the bank, to open an account; the user does so themselves.

    Args:
        user_id: Identifier of the user who refers.
        account_type: Type of the account that is to be opened.
    """
    referral_id = derive_id(f"referral:{user_id}:{account_type}")
    record = _referral(referral_id, user_id, account_type)
    add_new_record(tx, "referrals", referral_id, record, f"Record ID '{referral_id}' may already exist.")
    return write_report("Referral submitted; its identifier is to be given to the person who is referred.", record)


def _referral(referral_id: str, user_id: str, account_type: str) -> dict[str, Any]:
    return {
        "referral_id": referral_id,
        "referrer_id": user_id,
        "referred_account_type": account_type,
        "referral_status": "NO_PROGRESS",
        "date": TODAY_TEXT,
    }


@pair.tool(PERSON, solo=AGENT)
def submit_transaction(
    tx: Transaction, user_id: str, credit_card_type: CardType, merchant_name: str, amount: float, category: str
) -> str:
    """Pays by credit card; the user does so themselves.

    Args:
        user_id: Identifier of the user.
        credit_card_type: Type of the card.
        merchant_name: Name of the merchant.
        amount: Amount in dollars.
        category: Category of the purchase, such as Groceries, Dining, Travel or Software.
    """
    seed = f"transaction:{user_id}:{credit_card_type}:{merchant_name}:{amount:.2f}:{category}"
    transaction_id = f"txn_{derive_id(seed, 12)}"
    rates = _REWARDS[credit_card_type]
    record = {
        "transaction_id": transaction_id,
        "user_id": user_id,
        "credit_card_type": credit_card_type,
        "merchant_name": merchant_name,
        "transaction_amount": f"${amount:.2f}",
        "transaction_date": TODAY_TEXT,
        "category": category,
        "status": "COMPLETED",
        "rewards_earned": f"{int(amount * rates.get(category, rates['']))} points",
    }
    add_new_record(
        tx,
        "credit_card_transaction_history",
        transaction_id,
        record,
        f"Record ID '{transaction_id}' may already exist.",
    )
    return write_report("Transaction submitted.", record)


@pair.tool(PERSON, solo=AGENT)
def request_human_agent_transfer(tx: Transaction) -> str:
    """Asks for a human agent; the user does so themselves, each time that they ask."""
    number = len(find_records(tx, "human_transfer_requests")) + 1
    request_id = f"transfer_request_{number}"
    record = {"request_id": request_id, "request_number": number, "requested_at": TODAY_TEXT, "status": "PENDING"}
    add_record(tx, "human_transfer_requests", request_id, record)
    return f"Request {number} for a human agent was submitted."


@pair.tool(PERSON, solo=AGENT, reads=True)
def list_discoverable_user_tools(tx: Transaction) -> list[dict[str, Any]]:
    """Returns the tools that the agent gave to the user."""
    return list_records(tx, "user_discoverable_tools")


@pair.tool(PERSON, solo=AGENT)
def call_discoverable_user_tool(tx: Transaction, discoverable_tool_name: str, arguments: str = "{}") -> str:
    """Calls a tool that the agent gave to the user; the user does so themselves.

    Args:
        discoverable_tool_name: Name of the tool.
        arguments: Its arguments, as a JSON object.
    """
    name = discoverable_tool_name
    if name not in person_tools:
        refuse_unknown(tx, f"Unknown discoverable tool '{name}'.")
    values = convert_arguments(tx, name, parse_arguments(tx, arguments))
    if not find_records(tx, "user_discoverable_tools", tool_name=name):
        message = f"Tool '{name}' has not been given by the agent. They use `give_discoverable_user_tool` before."
        tx.refuse(message, "forbidden")
    given = msgspec.to_builtins(values)
    record = {"tool_name": name, "arguments": given, "called_at": TODAY_TEXT, "status": "CALLED"}
    key = derive_id(f"user_discoverable_tool_call:{name}:{json.dumps(given, sort_keys=True)}")
    add_record(tx, "user_discoverable_tool_calls", key, record)
    return run_discoverable(tx, name, values)


# What the agent can give to the user.


@discoverable(person_tools)
def submit_cash_back_dispute_0589(tx: Transaction, user_id: str, transaction_id: str) -> str:
    """Disputes the cash back of a transaction.

    Args:
        user_id: Identifier of the user.
        transaction_id: Identifier of the transaction.
    """
    dispute_id = f"dsp_{derive_id(f'dispute:{user_id}:{transaction_id}', 12)}"
    record = {
        "dispute_id": dispute_id,
        "user_id": user_id,
        "transaction_id": transaction_id,
        "submitted_at": TODAY_TEXT,
        "status": "SUBMITTED",
    }
    settings = [row for row in find_records(tx, "task_config") if row.record_id == "dispute_settings"]
    if settings and settings[0].content.get("auto_resolve_disputes"):
        record |= {"status": "RESOLVED", "resolution": "APPROVED"}
    if not add_record(tx, "cash_back_disputes", dispute_id, record):
        return "A dispute about this transaction may have been submitted before."
    return write_report("Cash back dispute submitted; rewards of an approved one are to be updated.", record)


@discoverable(person_tools)
def get_referral_link(tx: Transaction, user_id: str, card_name: str) -> str:
    """Makes a link by which somebody is referred to a credit card.

    Args:
        user_id: Identifier of the user who refers.
        card_name: Name of the card, such as Gold Rewards Card.
    """
    referral_id = derive_id(f"referral_link:{user_id}:{card_name}")
    if not add_record(tx, "referrals", referral_id, _referral(referral_id, user_id, card_name)):
        return "A link for this card may have been made before."
    return f"The link of referral {referral_id} is https://rhobank.com/refer/{referral_id}"


@discoverable(person_tools, reads=True)
def get_card_last_4_digits(tx: Transaction, credit_card_account_id: str) -> str:
    """Shows the last four digits of a credit card.

    Args:
        credit_card_account_id: Identifier of the credit card account, such as cc_76ad9cc60e_gold.
    """
    if not find_records(tx, "credit_card_accounts", account_id=credit_card_account_id):
        refuse_unknown(tx, f"Credit card account '{credit_card_account_id}' not found.")
    text = hashlib.sha256(f"card_last4:{credit_card_account_id}".encode()).hexdigest()
    digits = "".join(character for character in text if character.isdigit())[:4].ljust(4, "0")
    return f"The last four digits are {digits}."


@discoverable(person_tools)
def deposit_check_3847(tx: Transaction, account_id: str, check_amount: float) -> str:
    """Deposits a check into an account, by a photograph of it.

    Args:
        account_id: Identifier of the account.
        check_amount: Amount in dollars.
    """
    tx.require(check_amount > 0, "Check amount must be positive.")
    account = get_record(tx, "accounts", account_id, "Account")
    tx.require(account.content.get("status") in OPEN_STATUSES, f"Account '{account_id}' is not active.", "conflict")
    balance = account_balance(account) + check_amount
    update_record(tx, "accounts", account, current_holdings=f"${balance:.2f}")
    return write_report("Check deposited.", {"account": account_id, "balance": f"${balance:.2f}"})
