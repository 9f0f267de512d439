"""Project boards of WorkBench.

Source: WorkBench, `src/tools/project_management.py`.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction

from .frames import Frame, Record, WorkBenchKnobs, contains, require_text

TaskId = Annotated[str, identifier("project task", description="8-digit identifier of the task")]

_LISTS: Final = ("Backlog", "In Progress", "In Review", "Completed")
_BOARDS: Final = ("Back end", "Front end", "Design")

workbench_projects = Service("workbenchprojects", "The project boards of WorkBench.", knobs=WorkBenchKnobs)


class ProjectTask(msgspec.Struct, frozen=True):
    position: int
    task_id: TaskId
    task_name: str | None
    assigned_to_email: str | None
    list_name: str | None
    due_date: str | None
    board: str | None


_tasks = Frame(workbench_projects, ProjectTask, "tasks", identifier="task_id", file="project_tasks.csv")


@workbench_projects.generator
def _load(make: Generator, knobs: WorkBenchKnobs) -> None:
    _tasks.fill(make, knobs)


def _require_valid(tx: Transaction, field: str, value: str) -> None:
    if field == "board":
        tx.require(value in _BOARDS, "Board not valid. Please choose from: 'Back end', 'Front end', 'Design'.")
    if field == "list_name":
        message = "List not valid. Please choose from: 'Backlog', 'In Progress', 'In Review', 'Completed'."
        tx.require(value in _LISTS, message)
    if field == "assigned_to_email":
        known = any((task.assigned_to_email or "").lower() == value for task in _tasks.rows(tx))
        tx.require(known, "Assignee email not valid. Please choose from the list of team members.")


@workbench_projects.view()
def get_task_information_by_id(tx: Transaction, task_id: TaskId | None = None, field: str | None = None) -> Record:
    """Returns a field of a task.

    Args:
        task_id: 8-digit identifier of the task.
        field: task_id, task_name, assigned_to_email, list_name, due_date or board.
    """
    task_id = require_text(tx, task_id, "Task ID not provided.")
    field = require_text(tx, field, "Field not provided.")
    tasks = _tasks.with_identifier(tx, task_id)
    tx.require(tasks, "Task not found.", "not_found")
    tx.require(field in _tasks.columns, "Field not found.", "not_found")
    return {field: _tasks.record(tasks[0])[field]}


@workbench_projects.view()
def search_tasks(
    tx: Transaction,
    task_name: str | None = None,
    assigned_to_email: str | None = None,
    list_name: str | None = None,
    due_date: str | None = None,
    board: str | None = None,
) -> list[Record]:
    """Returns the tasks whose fields contain these texts, whatever the case; at least one is needed.

    Args:
        task_name: Name of the task.
        assigned_to_email: Email address of the person who has the task.
        list_name: List of the board.
        due_date: Date by which the task is due, as YYYY-MM-DD.
        board: Name of the board.
    """
    given = {
        "task_name": task_name,
        "assigned_to_email": assigned_to_email,
        "list_name": list_name,
        "due_date": due_date,
        "board": board,
    }
    texts = {field: text for field, text in given.items() if text}
    tx.require(texts, "No search parameters provided.")
    return [
        _tasks.record(task)
        for task in _tasks.rows(tx)
        if all(contains(getattr(task, field), text) for field, text in texts.items())
    ]


@workbench_projects.action()
def create_task(
    tx: Transaction,
    task_name: str | None = None,
    assigned_to_email: str | None = None,
    list_name: str | None = None,
    due_date: str | None = None,
    board: str | None = None,
) -> str:
    """Creates a task and returns its identifier. All arguments are needed.

    Args:
        task_name: Name of the task.
        assigned_to_email: Email address of the person who has the task.
        list_name: Backlog, In Progress, In Review or Completed.
        due_date: Date by which the task is due, as YYYY-MM-DD.
        board: Back end, Front end or Design.
    """
    texts = (task_name, assigned_to_email, list_name, due_date, board)
    name, person, in_list, due, on_board = (require_text(tx, text, "Missing task details.") for text in texts)
    person = person.lower()
    _require_valid(tx, "assigned_to_email", person)
    _require_valid(tx, "list_name", in_list)
    _require_valid(tx, "board", on_board)
    task_id = _tasks.next_identifier(tx, 8)
    _tasks.append_relabelled(
        tx,
        task_id=task_id,
        task_name=name,
        assigned_to_email=person,
        list_name=in_list,
        due_date=due,
        board=on_board,
    )
    return task_id


@workbench_projects.action()
def delete_task(tx: Transaction, task_id: TaskId | None = None) -> str:
    """Deletes a task.

    Args:
        task_id: 8-digit identifier of the task.
    """
    task_id = require_text(tx, task_id, "Task ID not provided.")
    tasks = _tasks.with_identifier(tx, task_id)
    tx.require(tasks, "Task not found.", "not_found")
    _tasks.remove(tx, tasks)
    return "Task deleted successfully."


@workbench_projects.action()
def update_task(
    tx: Transaction, task_id: TaskId | None = None, field: str | None = None, new_value: str | None = None
) -> str:
    """Changes a field of a task.

    Args:
        task_id: 8-digit identifier of the task.
        field: task_name, assigned_to_email, list_name, due_date or board.
        new_value: New value of the field.
    """
    task_id, field, new_value = (
        require_text(tx, text, "Task ID, field, or new value not provided.") for text in (task_id, field, new_value)
    )
    if field == "assigned_to_email":
        new_value = new_value.lower()
    _require_valid(tx, field, new_value)
    tasks = _tasks.with_identifier(tx, task_id)
    tx.require(tasks, "Task not found.", "not_found")
    tx.require(field in _tasks.columns, "Field not valid.")
    _tasks.update(tx, tasks, field, new_value)
    return "Task updated successfully."
