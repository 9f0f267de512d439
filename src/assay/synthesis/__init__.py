"""Makes tasks and environments."""

from __future__ import annotations

from .call_tasks_config import ProgramTasksConfig, QuestionTasksConfig
from .config import SynthesisConfig
from .cost import CostMeter, SynthesisCost, write_cost
from .program_tasks import ProgramReport, synthesise_programs
from .question_tasks import QuestionReport, synthesise_questions
from .report import SynthesisReport
from .repository import FROM_JOURNAL, synthesise

__all__ = [
    "FROM_JOURNAL",
    "CostMeter",
    "ProgramReport",
    "ProgramTasksConfig",
    "QuestionReport",
    "QuestionTasksConfig",
    "SynthesisConfig",
    "SynthesisCost",
    "SynthesisReport",
    "synthesise",
    "synthesise_programs",
    "synthesise_questions",
    "write_cost",
]
