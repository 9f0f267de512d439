"""BFCL's `MessageAPI`: messages between the users of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from msgspec import field

from .tool_class import SeededState, Setting, ToolClass

_NOT_LOGGED_IN: Final = {"error": "No user is currently logged in."}


def _default_users() -> dict[str, str]:
    return {"Alice": "USR001", "Bob": "USR002", "Catherine": "USR003", "Daniel": "USR004"}


def _default_inbox() -> list[dict[str, str]]:
    return [
        {"USR002": "My name is Alice. I want to connect."},
        {"USR003": "Could you upload the file?"},
        {"USR004": "Could you upload the file?"},
    ]


class MessageState(SeededState):
    """Attributes of the workspace."""

    generated_ids: set[int] = field(default_factory=set)
    user_count: int = 4
    user_map: dict[str, str] = field(default_factory=_default_users)
    inbox: list[dict[str, str]] = field(default_factory=_default_inbox)
    message_count: int = 3
    current_user: str | None = None

    @classmethod
    def load(cls, scenario: Mapping[str, Any], setting: Setting) -> Self:
        state = super().load(scenario, setting)
        state._seed = scenario.get("random_seed", 200191)
        return state

    def addressed(self) -> list[tuple[str, str]]:
        """Returns receiver and text of each message, the oldest first."""
        return [next(iter(message.items())) for message in self.inbox]


messages: Final = ToolClass("MessageAPI", "bfclmessages", "Messages within a workspace.", MessageState)
service: Final = messages.service


@messages.tool
def list_users(state: MessageState) -> Any:
    """Lists the names of all users of the workspace."""
    return {"user_list": list(state.user_map)}


@messages.tool
def get_user_id(state: MessageState, user: str) -> Any:
    """Returns the identifier of a user.

    Args:
        user: Name of the user.
    """
    if user not in state.user_map:
        return {"error": f"User '{user}' not found in the workspace."}
    return {"user_id": state.user_map[user]}


@messages.tool
def message_login(state: MessageState, user_id: str) -> Any:
    """Logs a user in to the messages.

    Args:
        user_id: Identifier of the user.
    """
    if user_id not in state.user_map.values():
        return {"login_status": False, "message": f"User ID '{user_id}' not found."}
    state.current_user = user_id
    return {"login_status": True, "message": f"User '{user_id}' logged in successfully."}


@messages.tool
def message_get_login_status(state: MessageState) -> Any:
    """Says whether a user is logged in to the messages."""
    return {"login_status": bool(state.current_user)}


@messages.tool
def send_message(state: MessageState, receiver_id: str, message: str) -> Any:
    """Sends a message to a user of the workspace.

    Args:
        receiver_id: Identifier of the user who gets it.
        message: Text of the message.
    """
    if not state.current_user:
        return _NOT_LOGGED_IN
    if receiver_id not in state.user_map.values():
        return {"error": f"Receiver ID '{receiver_id}' not found."}
    number = state.randint(10000, 99999)
    while number in state.generated_ids:
        number = state.randint(10000, 99999)
    state.generated_ids.add(number)
    state.inbox.append({receiver_id: message})
    state.message_count += 1
    text = f"Message sent to '{receiver_id}' successfully."
    return {"sent_status": True, "message_id": {"new_id": number}, "message": text}


@messages.tool
def delete_message(state: MessageState, receiver_id: str) -> Any:
    """Deletes the latest message to a user.

    Args:
        receiver_id: Identifier of the user who got it.
    """
    if not state.current_user:
        return _NOT_LOGGED_IN
    for message in reversed(state.inbox):
        if next(iter(message)) == receiver_id:
            state.inbox.remove(message)  # the first equal one, as in the original
            text = f"Receiver {receiver_id}'s latest message deleted successfully."
            return {"deleted_status": True, "receiver_id": receiver_id, "message": text}
    return {"error": f"Receiver ID {receiver_id} not found."}


@messages.tool
def view_messages_sent(state: MessageState) -> Any:
    """Shows all messages that were sent, by receiver."""
    if not state.current_user:
        return _NOT_LOGGED_IN
    sent: dict[str, list[str]] = {}
    for receiver, text in state.addressed():
        sent.setdefault(receiver, []).append(text)
    return {"messages": sent}


@messages.tool
def add_contact(state: MessageState, user_name: str) -> Any:
    """Adds a user to the workspace.

    Args:
        user_name: Name of the user.
    """
    if user_name in state.user_map:
        return {"error": f"User name '{user_name}' already exists."}
    state.user_count += 1
    user_id = f"USR{str(state.user_count).zfill(3)}"
    if user_id in state.user_map.values():
        return {"error": f"User ID '{user_id}' already exists."}
    state.user_map[user_name] = user_id
    return {"added_status": True, "user_id": user_id, "message": f"Contact '{user_name}' added successfully."}


@messages.tool
def search_messages(state: MessageState, keyword: str) -> Any:
    """Finds the messages that contain a word.

    Args:
        keyword: The word; case does not matter.
    """
    if not state.current_user:
        return _NOT_LOGGED_IN
    found = [pair for pair in state.addressed() if keyword.lower() in pair[1].lower()]
    return {"results": [{"receiver_id": receiver, "message": text} for receiver, text in found]}


@messages.tool
def get_message_stats(state: MessageState) -> Any:
    """Counts the messages and the users who got them."""
    if not state.current_user:
        return _NOT_LOGGED_IN
    receivers = [receiver for receiver, _ in state.addressed()]
    return {"stats": {"received_count": len(receivers), "total_contacts": len(set(receivers))}}
