"""A small database of our own in tau2-bench's form, for tests without its data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

SHOPPER = {
    "user_id": "ada_hill_1234",
    "name": {"first_name": "Ada", "last_name": "Hill"},
    "address": {
        "address1": "1 Mill Lane",
        "address2": "",
        "city": "York",
        "country": "UK",
        "state": "",
        "zip": "11111",
    },
    "email": "ada@example.org",
    "payment_methods": {
        "gift_card_1": {"source": "gift_card", "id": "gift_card_1", "balance": 10.1},
        "paypal_1": {"source": "paypal", "id": "paypal_1"},
    },
    "orders": ["#W1", "#W2"],
}
PRODUCT = {
    "name": "Kettle",
    "product_id": "100",
    "variants": {
        "11": {"item_id": "11", "options": {"colour": "blue"}, "available": True, "price": 20.2},
        "12": {"item_id": "12", "options": {"colour": "red"}, "available": True, "price": 20.5},
        "13": {"item_id": "13", "options": {"colour": "green"}, "available": False, "price": 20.0},
        "14": {"item_id": "14", "options": {"colour": "gold"}, "available": True, "price": 99.0},
    },
}


def order(name: str, status: str) -> dict[str, Any]:
    item = {"name": "Kettle", "product_id": "100", "item_id": "11", "price": 20.2, "options": {"colour": "blue"}}
    return {
        "order_id": name,
        "user_id": "ada_hill_1234",
        "address": SHOPPER["address"],
        "items": [item],
        "status": status,
        "fulfillments": [],
        "payment_history": [{"transaction_type": "payment", "amount": 20.2, "payment_method_id": "paypal_1"}],
    }


DATABASE = {
    "products": {"100": PRODUCT},
    "users": {"ada_hill_1234": SHOPPER},
    "orders": {"#W1": order("#W1", "pending"), "#W2": order("#W2", "delivered")},
}


def task(name: str, actions: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    scenario = {
        "domain": "retail",
        "reason_for_call": more.pop("reason", "You want to cancel your pending order."),
        "known_info": "You are Ada Hill in zip code 11111.",
        "task_instructions": more.pop("conduct", "."),
    }
    basis = {"reward_basis": ["DB", "COMMUNICATE"], **more}
    return {
        "id": name,
        "user_scenario": {"persona": None, "instructions": scenario},
        "initial_state": None,
        "evaluation_criteria": {"actions": actions, **basis},
    }


CANCEL = {"name": "cancel_pending_order", "arguments": {"order_id": "#W1", "reason": "no longer needed"}}
TASKS = [
    task("0", [CANCEL]),
    task("1", [CANCEL], conduct="If the agent refuses, you give up."),
    task("2", [], reason="You want to know what your gift card holds.", communicate_info=["10.1"]),
    task("3", [], reason="You want a refund of everything."),
    task(
        "4",
        [CANCEL],
        reason="You want to cancel your order of a kettle.",
        nl_assertions=["The agent is polite."],
        reward_basis=["DB", "NL_ASSERTION"],
    ),
]


def write_data(folder: Path, inside: str = "", *, compressed: bool = False) -> Path:
    """Writes the domain's files, below `inside`, and returns the folder that a user names."""
    place = folder / inside / "retail"
    place.mkdir(parents=True)
    contents = {
        "db.json": DATABASE,
        "tasks.json": TASKS,
        "split_tasks.json": {"base": [one["id"] for one in TASKS], "test": ["1"]},
    }
    for name, content in contents.items():
        data = json.dumps(content).encode()
        (place / (f"{name}.gz" if compressed else name)).write_bytes(gzip.compress(data) if compressed else data)
    (place / "policy.md").write_text("# Policy\nConfirm first.\n")
    return folder
