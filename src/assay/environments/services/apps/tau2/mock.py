"""The small domain of tau2-bench with which its authors test it: users, their tasks, and notifications of the person.

Source: tau2-bench (Sierra), `src/tau2/domains/mock`. There are two services with the same state. In `tau2mock` the
person reads the notifications; in `tau2mocksolo` the agent does that, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.documents import Documents
from assay.environments.services.transaction import Generator, Transaction

from ._service_pair import AGENT, PERSON, WORLD, ServicePair
from .databases import (
    DatabaseKnobs,
    InitialCall,
    convert_database,
    hash_tables,
    merge_changes,
    read_domain_file,
    require_hash,
    run_initial_call,
)

TaskStatus = Literal["pending", "completed"]
NotificationStatus = Literal["unread", "read"]


class AssignedTask(msgspec.Struct, forbid_unknown_fields=True):
    task_id: str
    title: str
    status: TaskStatus
    description: str | None = None


class Assignee(msgspec.Struct, forbid_unknown_fields=True):
    user_id: str
    name: str
    tasks: list[str]


class Notification(msgspec.Struct, forbid_unknown_fields=True):
    """A notification to the person."""

    notification_id: str
    message: str
    status: NotificationStatus = "unread"
    task_id: str | None = None


class MockKnobs(DatabaseKnobs, frozen=True, forbid_unknown_fields=True):
    """Options of the domain."""

    changes: dict[str, dict[str, dict[str, Any]]] = msgspec.field(default_factory=dict)
    """Differences from the database before the task begins: fields by key, by table."""
    calls: tuple[InitialCall, ...] = ()
    """Events before the task begins."""


class _Database(msgspec.Struct, forbid_unknown_fields=True):
    tasks: dict[str, AssignedTask]
    users: dict[str, Assignee]


class _PersonDatabase(msgspec.Struct, forbid_unknown_fields=True):
    notifications: dict[str, Notification]


tau2_mock = Service("tau2mock", "The list of tasks of tau2-bench's mock domain.", knobs=MockKnobs)
tau2_mock_solo = Service("tau2mocksolo", "The same list, with the person's notifications.", knobs=MockKnobs)
_pair: Final = ServicePair(tau2_mock, tau2_mock_solo)

_tasks = Documents(tau2_mock, AssignedTask, "tasks", also=[tau2_mock_solo])
_users = Documents(tau2_mock, Assignee, "users", also=[tau2_mock_solo])
_notifications = Documents(tau2_mock, Notification, "notifications", also=[tau2_mock_solo])


def _load(make: Generator, knobs: MockKnobs) -> None:
    database = convert_database(read_domain_file(knobs.data, "mock", "db.json"), _Database)
    person = convert_database(read_domain_file(knobs.data, "mock", "user_db.json"), _PersonDatabase)
    _tasks.fill(make, database.tasks.values())
    _users.fill(make, database.users.values())
    _notifications.fill(make, person.notifications.values())
    require_hash(make, knobs, database_hash)
    tables: dict[str, Documents[Any]] = {"tasks": _tasks, "users": _users}
    for name, changes in knobs.changes.items():
        if name not in tables:
            raise ValueError(f"The mock domain has no table {name!r}")
        _apply_changes(make, tables[name], changes)
    for call in knobs.calls:
        run_initial_call(make, tau2_mock, call)


def _apply_changes(make: Generator, table: Documents[Any], changes: Mapping[str, dict[str, Any]]) -> None:
    for key, fields in changes.items():
        before = table.get(make, key)
        try:
            document = msgspec.convert(merge_changes(msgspec.to_builtins(before), fields), table.document)
        except msgspec.ValidationError as exc:
            raise ValueError(f"The change of {key} before the task: {exc}") from exc
        (table.insert if before is None else table.save)(make, document)


for _service in (tau2_mock, tau2_mock_solo):
    _service.generator(_load)


@_pair.tool(WORLD, reads=True)
def database_hash(tx: Transaction) -> str:
    """Returns the hash of users and tasks as tau2-bench computes it."""
    return hash_tables(tx, {"tasks": _tasks, "users": _users})


@_pair.tool(WORLD, reads=True)
def person_hash(tx: Transaction) -> str:
    """Returns the hash of the notifications as tau2-bench computes it."""
    return hash_tables(tx, {"notifications": _notifications})


def _not_found(tx: Transaction, message: str) -> NoReturn:
    tx.refuse(message, "not_found")


def _user(tx: Transaction, user_id: str) -> Assignee:
    return _users.get(tx, user_id) or _not_found(tx, f"User {user_id} not found")


def _task(tx: Transaction, task_id: str) -> AssignedTask:
    return _tasks.get(tx, task_id) or _not_found(tx, f"Task {task_id} not found")


def _notification(tx: Transaction, notification_id: str) -> Notification:
    return _notifications.get(tx, notification_id) or _not_found(tx, f"Notification {notification_id} not found")


@_pair.tool()
def create_task(tx: Transaction, user_id: str, title: str, description: str | None = None) -> AssignedTask:
    """Creates a task for a user.

    Args:
        user_id: Identifier of the user.
        title: Title of the task.
        description: Description of the task.
    """
    user = _user(tx, user_id)
    task = AssignedTask(f"task_{len(_tasks.find(tx)) + 1}", title, "pending", description)
    tx.require(_tasks.get(tx, task.task_id) is None, f"Task {task.task_id} exists", "conflict")
    _tasks.insert(tx, task)
    user.tasks.append(task.task_id)
    _users.save(tx, user)
    return task


@_pair.tool(reads=True)
def get_users(tx: Transaction) -> list[Assignee]:
    """Returns all users."""
    return _users.find(tx)


@_pair.tool()
def update_task_status(tx: Transaction, task_id: str, status: TaskStatus) -> AssignedTask:
    """Changes the status of a task.

    Args:
        task_id: Identifier of the task.
        status: The new status.
    """
    task = _task(tx, task_id)
    task.status = status
    _tasks.save(tx, task)
    return task


@_pair.tool()
def transfer_to_human_agents(tx: Transaction, summary: str) -> str:
    """Hands the user over to a human agent, if they ask for one or if policy and tools do not allow what they want.

    Args:
        summary: What the user wants.
    """
    return "Transfer successful"


@_pair.tool(PERSON, solo=AGENT, reads=True)
def check_notifications(tx: Transaction) -> list[Notification]:
    """Shows all notifications of the person."""
    return _notifications.find(tx)


@_pair.tool(PERSON, solo=AGENT)
def dismiss_notification(tx: Transaction, notification_id: str) -> str:
    """Marks a notification as read.

    Args:
        notification_id: Identifier of the notification.
    """
    notification = _notification(tx, notification_id)
    notification.status = "read"
    _notifications.save(tx, notification)
    return f"Notification {notification_id} dismissed"


# What has happened before a task begins, and what tasks assert about the end.


@_pair.tool(WORLD)
def add_notification(tx: Transaction, notification_id: str, message: str, task_id: str | None = None) -> Notification:
    """Adds a notification, or replaces the one with its identifier.

    Args:
        notification_id: Identifier of the notification.
        message: What it says.
        task_id: Identifier of the task that it is about.
    """
    notification = Notification(notification_id, message, task_id=task_id)
    known = _notifications.get(tx, notification_id) is not None
    (_notifications.save if known else _notifications.insert)(tx, notification)
    return notification


@_pair.tool(WORLD, reads=True)
def assert_number_of_tasks(tx: Transaction, user_id: str, expected_number: int) -> bool:
    """Returns whether a user has a number of tasks.

    Args:
        user_id: Identifier of the user.
        expected_number: The number.
    """
    return len(_user(tx, user_id).tasks) == expected_number


@_pair.tool(WORLD, reads=True)
def assert_task_status(tx: Transaction, task_id: str, expected_status: TaskStatus) -> bool:
    """Returns whether a task has a status.

    Args:
        task_id: Identifier of the task.
        expected_status: The status.
    """
    return _task(tx, task_id).status == expected_status


@_pair.tool(WORLD, reads=True)
def assert_notification_status(tx: Transaction, notification_id: str, expected_status: NotificationStatus) -> bool:
    """Returns whether a notification has a status.

    Args:
        notification_id: Identifier of the notification.
        expected_status: The status.
    """
    return _notification(tx, notification_id).status == expected_status


@_pair.tool(WORLD, reads=True)
def was_called(tx: Transaction, action: str, arguments: dict[str, Any]) -> bool:
    """Returns whether an action was called with these arguments, whatever its others were.

    Args:
        action: Name of the action.
        arguments: Some of its arguments.
    """
    return _pair.has_call(tx, action, arguments)
