"""BFCL's `TicketAPI`: a queue of support tickets."""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from .tool_class import ClassState, ToolClass


class TicketState(ClassState):
    """Attributes of the queue."""

    ticket_queue: list[dict[str, Any]] = field(default_factory=list)
    ticket_counter: int = 1
    current_user: str | None = None

    def find(self, ticket_id: int | str) -> dict[str, Any] | None:
        """Returns the first ticket with an identifier, or None."""
        return next((ticket for ticket in self.ticket_queue if ticket["id"] == ticket_id), None)


tickets: Final = ToolClass("TicketAPI", "bfcltickets", "Support tickets of a company.", TicketState)
service: Final = tickets.service
_EDITABLE: Final = {"title", "description", "status", "priority"}


def _no_ticket(ticket_id: int | str) -> dict[str, Any]:
    return {"error": f"Ticket with ID {ticket_id} not found."}


@tickets.tool
def create_ticket(state: TicketState, title: str, description: str = "", priority: int = 1) -> Any:
    """Creates a support ticket in the name of the user who is logged in.

    Args:
        title: Title of the ticket.
        description: Description of the ticket.
        priority: From 1 to 5, the most urgent.
    """
    if not state.current_user:
        return {"error": "User not authenticated. Please log in to create a ticket."}
    if priority < 1 or priority > 5:
        return {"error": "Invalid priority. Priority must be between 1 and 5."}
    ticket = {
        "id": state.ticket_counter,
        "title": title,
        "description": description,
        "status": "Open",
        "priority": priority,
        "created_by": state.current_user,
    }
    state.ticket_queue.append(ticket)
    state.ticket_counter += 1
    return ticket


@tickets.tool
def get_ticket(state: TicketState, ticket_id: int | str) -> Any:
    """Shows a ticket.

    Args:
        ticket_id: Identifier of the ticket.
    """
    return state.find(ticket_id) or _no_ticket(ticket_id)


@tickets.tool
def close_ticket(state: TicketState, ticket_id: int | str) -> Any:
    """Closes a ticket.

    Args:
        ticket_id: Identifier of the ticket.
    """
    ticket = state.find(ticket_id)
    if not ticket:
        return _no_ticket(ticket_id)
    if ticket["status"] == "Closed":
        return {"error": f"Ticket with ID {ticket_id} is already closed."}
    ticket["status"] = "Closed"
    return {"status": f"Ticket {ticket_id} has been closed successfully."}


@tickets.tool
def resolve_ticket(state: TicketState, ticket_id: int | str, resolution: str) -> Any:
    """Marks a ticket as resolved.

    Args:
        ticket_id: Identifier of the ticket.
        resolution: How it was resolved.
    """
    ticket = state.find(ticket_id)
    if not ticket:
        return _no_ticket(ticket_id)
    if ticket["status"] == "Resolved":
        return {"error": f"Ticket with ID {ticket_id} is already resolved."}
    ticket["status"] = "Resolved"
    ticket["resolution"] = resolution
    return {"status": f"Ticket {ticket_id} has been resolved successfully."}


@tickets.tool
def edit_ticket(state: TicketState, ticket_id: int | str, updates: dict[str, Any]) -> Any:
    """Changes fields of a ticket.

    Args:
        ticket_id: Identifier of the ticket.
        updates: New values by field: title, description, status or priority.
    """
    ticket = state.find(ticket_id)
    if not ticket:
        return _no_ticket(ticket_id)
    if invalid := sorted(set(updates) - _EDITABLE):
        return {"error": f"Invalid fields for update: {', '.join(invalid)}"}
    ticket.update({name: value for name, value in updates.items() if value is not None})
    return {"status": f"Ticket {ticket_id} has been updated successfully."}


@tickets.tool
def ticket_login(state: TicketState, username: str, password: str) -> Any:
    """Logs a user in to the ticket system.

    Args:
        username: Name of the user.
        password: Password of the user.
    """
    if not (username and password):
        return {"success": False}
    state.current_user = username
    return {"success": True}


@tickets.tool
def ticket_get_login_status(state: TicketState) -> Any:
    """Says whether a user is logged in to the ticket system."""
    return {"login_status": bool(state.current_user)}


@tickets.tool
def logout(state: TicketState) -> Any:
    """Logs the user out of the ticket system."""
    if not state.current_user:
        return {"success": False}
    state.current_user = None
    return {"success": True}


@tickets.tool
def get_user_tickets(state: TicketState, status: str | None = None) -> Any:
    """Lists the tickets that the user who is logged in has created.

    Args:
        status: Status that the tickets must have; without it all are listed.
    """
    if not state.current_user:
        return [{"error": "User not authenticated. Please log in to view tickets."}]
    own = [ticket for ticket in state.ticket_queue if ticket["created_by"] == state.current_user]
    return [ticket for ticket in own if ticket["status"].lower() == status.lower()] if status else own
