"""Tools that the agent of tau2-bench's bank always has, and the wrappers through which discoverable tools are called.

Source: tau2-bench (Sierra), `src/tau2/domains/banking_knowledge/tools.py`. `KB_search` is that of its retrieval variant
`bm25`. A discoverable tool that refuses does not make the call of its wrapper fail, as in the original: the text of the
result says so, and the call is part of the state.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, Literal

import msgspec

from assay.environments.services.transaction import ActionError, Transaction

from . import (
    banking_accounts,
    banking_credit_cards,
    banking_credit_limits,
    banking_debit_cards,
    banking_debit_orders,
)
from ._ranking import rank_texts
from .banking import (
    ToolName,
    add_new_record,
    add_record,
    derive_id,
    documents,
    get_record,
    list_records,
    logged_reads,
    pair,
    person_tools,
    refuse_unknown,
    tau2_banking,
    unlocked_tools,
    update_record,
)

TransferReason = Literal[
    "fraud_or_security_concern",
    "account_closure_request",
    "deceased_account_holder",
    "legal_or_regulatory_matter",
    "account_ownership_dispute",
    "complex_billing_dispute",
    "abusive_customer_behavior",
    "third_party_inquiry",
    "technical_system_error",
    "unconfirmed_external_communication",
    "customer_demands_after_unavailable_offer_refusal",
    "kb_search_unsuccessful_customer_requests_transfer",
    "specialized_department_required",
    "accessibility_or_special_needs",
    "customer_frustrated_demands_human",
    "supervisor_request_service_complaint",
    "customer_requests_human_no_specific_reason",
    "request_completed_customer_wants_human_followup",
    "other",
]
AGENT_TOOLS: Final = frozenset(
    banking_accounts.TOOLS
    + banking_credit_cards.TOOLS
    + banking_credit_limits.TOOLS
    + banking_debit_cards.TOOLS
    + banking_debit_orders.TOOLS
)
"""Names of the discoverable tools of the agent."""
_MOST_DOCUMENTS: Final = 10


class RankedDocument(msgspec.Struct, frozen=True):
    """A document that a search returns."""

    id: str
    title: str
    score: float
    content: str


@pair.tool(reads=True)
def KB_search(tx: Transaction, query: str) -> list[RankedDocument]:
    """Searches the knowledge base and returns the ten best documents, ranked by BM25.

    Args:
        query: Words to look for.
    """
    if not query.strip():
        return []
    known = documents.find(tx)
    ranked = rank_texts(query, tuple(one.content for one in known))[:_MOST_DOCUMENTS]
    return [RankedDocument(known[at].id, known[at].title, round(score, 4), known[at].content) for at, score in ranked]


@pair.tool()
def transfer_to_human_agents(tx: Transaction, summary: str, reason: TransferReason = "other") -> str:
    """Hands the user over to a human agent. The knowledge base says which reason applies: search it before.

    Args:
        summary: What the user wants, and what was tried.
        reason: Why.
    """
    return f"Transfer successful (reason: {reason}). A human agent will assist you shortly."


@pair.tool(reads=True)
def get_current_time(tx: Transaction) -> str:
    """Returns the current time, for records of verifications."""
    return "The current time is 2025-11-14 03:40:00 EST."


@pair.tool(reads=True)
def get_user_information_by_id(tx: Transaction, user_id: str) -> list[dict[str, Any]]:
    """Returns the date of birth, email, phone number and address of a user.

    Args:
        user_id: Identifier of the user.
    """
    return list_records(tx, "users", user_id=user_id)


@pair.tool(reads=True)
def get_user_information_by_name(tx: Transaction, customer_name: str) -> list[dict[str, Any]]:
    """Returns the date of birth, email, phone number and address of the users with a name.

    Args:
        customer_name: Full name, in upper and lower case as it is.
    """
    return list_records(tx, "users", name=customer_name)


@pair.tool(reads=True)
def get_user_information_by_email(tx: Transaction, email: str) -> list[dict[str, Any]]:
    """Returns the date of birth, email, phone number and address of the users with an email address.

    Args:
        email: Email address.
    """
    return list_records(tx, "users", email=email)


@pair.tool()
def change_user_email(tx: Transaction, user_id: str, new_email: str) -> str:
    """Changes the email address of a user.

    Args:
        user_id: Identifier of the user.
        new_email: New email address.
    """
    update_record(tx, "users", get_record(tx, "users", user_id, "User with ID"), email=new_email)
    return f"The email address of user {user_id} is now {new_email}."


@pair.tool(reads=True)
def get_referrals_by_user(tx: Transaction, user_id: str) -> list[dict[str, Any]]:
    """Returns the referrals that a user made.

    Args:
        user_id: Identifier of the user.
    """
    return list_records(tx, "referrals", referrer_id=user_id)


@pair.tool(reads=True)
def get_credit_card_transactions_by_user(tx: Transaction, user_id: str) -> list[dict[str, Any]]:
    """Returns the credit card transactions of a user.

    Args:
        user_id: Identifier of the user.
    """
    return list_records(tx, "credit_card_transaction_history", user_id=user_id)


@pair.tool(reads=True)
def get_credit_card_accounts_by_user(tx: Transaction, user_id: str) -> list[dict[str, Any]]:
    """Returns the credit card accounts of a user, with type, balance and reward points.

    Args:
        user_id: Identifier of the user.
    """
    return list_records(tx, "credit_card_accounts", user_id=user_id)


@pair.tool()
def log_verification(
    tx: Transaction,
    *,
    name: str,
    user_id: str,
    address: str,
    email: str,
    phone_number: str,
    date_of_birth: str,
    time_verified: str,
) -> str:
    """Records that a user was identified: two of date of birth, email, phone number and address were right.

    Args:
        name: Full name of the user.
        user_id: Identifier of the user.
        address: Address of the user.
        email: Email address of the user.
        phone_number: Phone number of the user.
        date_of_birth: Date of birth as MM/DD/YYYY.
        time_verified: Time of the verification, such as 2025-11-14 03:40:00 EST.
    """
    record = {
        "name": name,
        "user_id": user_id,
        "address": address,
        "email": email,
        "phone_number": phone_number,
        "date_of_birth": date_of_birth,
        "time_verified": time_verified,
    }
    time = time_verified.replace(" ", "_").replace(":", "").replace("-", "")
    add_new_record(
        tx, "verification_history", f"{user_id}_{time}", record, "Failed to log verification: Record may already exist."
    )
    return f"The verification of {name} (user {user_id}) at {time_verified} was recorded."


# Discoverable tools.


@pair.tool()
def give_discoverable_user_tool(tx: Transaction, discoverable_tool_name: str, arguments: str = "{}") -> str:
    """Gives a tool to the user, who can then call it, where the knowledge base says that the user does something.

    Args:
        discoverable_tool_name: Name of the tool, as the knowledge base has it.
        arguments: Arguments that the user shall use, as a JSON object.
    """
    name = discoverable_tool_name
    if name not in person_tools:
        refuse_unknown(tx, f"Unknown discoverable tool '{name}'.")
    action = tau2_banking.actions[name]
    given = parse_arguments(tx, arguments)
    for unexpected in sorted(given.keys() - set(action.arguments.__struct_fields__)):
        tx.refuse(f"Unexpected parameter: {unexpected}")
    record = {"tool_name": name, "status": "GIVEN"}
    add_record(tx, "user_discoverable_tools", derive_id(f"user_discoverable_tool:{name}"), record)
    return f"The user now has the tool {name}, to be called by `call_discoverable_user_tool`.\n{_describe(name)}"


@pair.tool()
def unlock_discoverable_agent_tool(tx: Transaction, agent_tool_name: str) -> str:
    """Unlocks a tool that the knowledge base names, and returns its description and parameters.

    Args:
        agent_tool_name: Name of the tool, as the knowledge base has it.
    """
    _require_agent_tool(tx, agent_tool_name)
    if unlocked_tools.get(tx, agent_tool_name) is None:
        unlocked_tools.insert(tx, ToolName(agent_tool_name))
    return f"Tool unlocked, to be called by `call_discoverable_agent_tool`.\n{_describe(agent_tool_name)}"


@pair.tool()
def call_discoverable_agent_tool(tx: Transaction, agent_tool_name: str, arguments: str = "{}") -> str:
    """Calls a tool that was unlocked before.

    Args:
        agent_tool_name: Name of the tool.
        arguments: Its arguments, as a JSON object.
    """
    _require_agent_tool(tx, agent_tool_name)
    if unlocked_tools.get(tx, agent_tool_name) is None:
        message = f"Tool '{agent_tool_name}' has not been unlocked. Use `unlock_discoverable_agent_tool` before."
        tx.refuse(message, "forbidden")
    values = convert_arguments(tx, agent_tool_name, parse_arguments(tx, arguments))
    result = run_discoverable(tx, agent_tool_name, values)
    is_view = tau2_banking.actions[agent_tool_name].reads_only
    if not is_view or logged_reads.get(tx, agent_tool_name) is not None:
        record = {"tool_name": agent_tool_name, "status": "CALLED"}
        key = derive_id(f"agent_discoverable_tool:{agent_tool_name}")
        add_record(tx, "agent_discoverable_tools", key, record)
    return result


@pair.tool(reads=True)
def list_discoverable_agent_tools(tx: Transaction) -> list[dict[str, Any]]:
    """Returns the discoverable tools that were called and whose calls are recorded."""
    return list_records(tx, "agent_discoverable_tools")


def _require_agent_tool(tx: Transaction, name: str) -> None:
    if name not in AGENT_TOOLS:
        refuse_unknown(tx, f"Unknown agent tool '{name}'. This tool is not available.")


def _describe(name: str) -> str:
    spec = tau2_banking.actions[name].spec
    schema = msgspec.json.format(msgspec.json.encode(spec.parameters)).decode()
    return f"{name}: {spec.description}\nParameters, as a JSON Schema: {schema}"


def parse_arguments(tx: Transaction, text: str) -> dict[str, Any]:
    """Returns the arguments in a JSON text. All numbers are floats, so that 33 and 33.0 have the same effect."""
    try:
        parsed = json.loads(text, parse_int=_finite, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as exc:
        tx.refuse(f"Invalid JSON in arguments: {exc}")
    if not isinstance(parsed, dict):
        tx.refuse("Invalid arguments: expected a JSON object")
    return parsed


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def convert_arguments(tx: Transaction, name: str, values: dict[str, Any]) -> msgspec.Struct:
    """Returns the arguments of a discoverable tool by its types. Refuses the call where one does not fit."""
    try:
        return msgspec.convert(values, tau2_banking.actions[name].arguments)
    except msgspec.ValidationError as exc:
        tx.refuse(f"Invalid arguments: {exc}")


def run_discoverable(tx: Transaction, name: str, values: msgspec.Struct) -> str:
    """Runs a discoverable tool and returns its result as text; where it refuses, which changes nothing, the reason."""
    action = tau2_banking.actions[name]
    try:
        result = action.function(tx, **{field: getattr(values, field) for field in values.__struct_fields__})
    except ActionError as exc:
        return f"Error: {exc}"
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()
