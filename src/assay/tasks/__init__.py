"""Task folders and other task sources: read, validate, lint, write."""

from .findings import Finding, InvalidTask
from .folder import task_digest
from .load import LoadedTask, TaskStep, load_task, load_tasks
from .templates import resolve_env, variables_of

__all__ = [
    "Finding",
    "InvalidTask",
    "LoadedTask",
    "TaskStep",
    "load_task",
    "load_tasks",
    "resolve_env",
    "task_digest",
    "variables_of",
]
