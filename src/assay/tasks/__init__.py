"""Task folders and other task sources: read, validate, lint, write."""

from .assay_config import AssayTable, CheckTable, LimitsTable, WorkspaceTable
from .families import TaskFamily, family_tasks, load_family
from .findings import InvalidTask, TaskFinding
from .harbor_config import HarborTask
from .lint import lint_task
from .load import LoadedTask, TaskStep, load_task, load_tasks
from .scaffold import init_task
from .sources import find_tasks
from .templates import resolve_env, resolve_headers, resolve_task
from .write import TaskDraft, write_task

__all__ = [
    "AssayTable",
    "CheckTable",
    "HarborTask",
    "InvalidTask",
    "LimitsTable",
    "LoadedTask",
    "TaskDraft",
    "TaskFamily",
    "TaskFinding",
    "TaskStep",
    "WorkspaceTable",
    "family_tasks",
    "find_tasks",
    "init_task",
    "lint_task",
    "load_family",
    "load_task",
    "load_tasks",
    "resolve_env",
    "resolve_headers",
    "resolve_task",
    "write_task",
]
