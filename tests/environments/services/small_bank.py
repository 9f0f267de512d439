"""A small bank of our own in the form of tau2-bench's domain `banking_knowledge`, for tests without its data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def card(name: str, status: str, reason: str, **more: Any) -> dict[str, Any]:
    return {
        "card_id": name,
        "account_id": "chk_1",
        "user_id": "ada",
        "last_4_digits": "1357",
        "status": status,
        "issue_reason": reason,
        **more,
    }


CHECKING = {
    "account_id": "chk_1",
    "user_id": "ada",
    "class": "checking",
    "level": "Blue Account",
    "date_opened": "01/02/2025",
    "status": "OPEN",
    "current_holdings": "100.50",
}
CREDIT_CARD = {"account_id": "cc_1", "user_id": "ada", "current_balance": "$40.25", "status": "ACTIVE"}
CARDS = [
    card("dbc_old", "ACTIVE", "new_account"),
    card("dbc_new", "PENDING", "first_card"),
    card("dbc_lost", "PENDING", "lost"),
    card("dbc_worn", "PENDING", "damaged"),
]
TRANSACTIONS = {
    "t1": {"account_id": "chk_1", "date": "11/01/2025", "type": "atm_deposit", "description": "RHO-BANK ATM"},
    "t2": {"account_id": "chk_1", "date": "11/03/2025", "type": "purchase"},
    "t3": {"account_id": "chk_1", "date": "11/03/2025", "type": "atm_deposit", "description": "OTHER ATM"},
}
DATABASE = {
    "users": {"data": {"ada": {"user_id": "ada", "name": "Ada Hill", "email": "ada@example.org"}}, "notes": ""},
    "accounts": {"data": {"chk_1": CHECKING}},
    "credit_card_accounts": {"data": {"cc_1": CREDIT_CARD}},
    "debit_cards": {"data": {one["card_id"]: one for one in CARDS}},
    "bank_account_transaction_history": {"data": TRANSACTIONS},
}
DOCUMENTS = {
    name: {"id": name, "title": name.title(), "content": content}
    for name, content in {
        "cards": "A lost card is closed with close_debit_card_4721",
        "cheques": "The user deposits a check with deposit_check_3847",
        "loans": "There are no loans",
    }.items()
}


def task(name: str, actions: list[dict[str, Any]], basis: str = "DB", **more: Any) -> dict[str, Any]:
    criteria = {"actions": actions, "reward_basis": [basis]}
    return {
        "id": name,
        "user_scenario": {"instructions": "You want to close your card."},
        "evaluation_criteria": criteria,
    } | more


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


TASKS = [
    task(
        "close",
        [
            call("unlock_discoverable_agent_tool", agent_tool_name="close_debit_card_4721"),
            call(
                "call_discoverable_agent_tool",
                agent_tool_name="close_debit_card_4721",
                arguments='{"card_id": "dbc_extra", "reason": "lost"}',
            ),
        ],
        initial_state={
            "initialization_data": {
                "agent_data": {"debit_cards": {"data": {"dbc_extra": card("dbc_extra", "ACTIVE", "first_card")}}}
            }
        },
    ),
    task(
        "hand over",
        [call("transfer_to_human_agents", reason="other", summary="x") | {"compare_args": ["reason"]}],
        "ACTION",
    ),
]


def write_bank(folder: Path, *, split: bool = False) -> str:
    """Writes the domain's files, tasks and documents in folders of their own if wanted, and returns the data folder."""
    place = folder / "banking_knowledge"
    (place / "prompts" / "components").mkdir(parents=True)
    (place / "db.json").write_text(json.dumps(DATABASE))
    (place / "prompts" / "classic_rag_bm25_no_grep.md").write_text("{{component:header}}\nSearch first.\n")
    (place / "prompts" / "components" / "header.md").write_text("Be kind.\n")
    for name, contents in (("tasks", {one["id"]: one for one in TASKS}), ("documents", DOCUMENTS)):
        whole: Any = list(contents.values()) if name == "tasks" else contents
        if split:
            (place / name).mkdir()
            for at, content in enumerate(contents.values()):
                (place / name / f"{name}_{at}.json").write_text(json.dumps(content))
        else:
            (place / f"{name}.json").write_text(json.dumps(whole))
    return str(folder)
