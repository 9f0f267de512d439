"""Makes tasks and environments. Names are loaded on first use (PEP 562)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.lazy_exports import lazy_getattr

_EXPORTS = {
    "FROM_JOURNAL": "repository",
    "CostMeter": "cost",
    "ProgramReport": "program_tasks",
    "ProgramTasksConfig": "call_tasks_config",
    "QuestionReport": "question_tasks",
    "QuestionTasksConfig": "call_tasks_config",
    "ServiceSetConfig": "services.set_config",
    "SynthesisConfig": "config",
    "SynthesisCost": "cost",
    "SynthesisReport": "report",
    "count_reasons": "report",
    "make_service_set": "services.making",
    "synthesise": "repository",
    "synthesise_programs": "program_tasks",
    "synthesise_questions": "question_tasks",
    "write_cost": "cost",
}

__all__ = [
    "FROM_JOURNAL",
    "CostMeter",
    "ProgramReport",
    "ProgramTasksConfig",
    "QuestionReport",
    "QuestionTasksConfig",
    "ServiceSetConfig",
    "SynthesisConfig",
    "SynthesisCost",
    "SynthesisReport",
    "count_reasons",
    "make_service_set",
    "synthesise",
    "synthesise_programs",
    "synthesise_questions",
    "write_cost",
]

if TYPE_CHECKING:
    from .call_tasks_config import ProgramTasksConfig, QuestionTasksConfig
    from .config import SynthesisConfig
    from .cost import CostMeter, SynthesisCost, write_cost
    from .program_tasks import ProgramReport, synthesise_programs
    from .question_tasks import QuestionReport, synthesise_questions
    from .report import SynthesisReport, count_reasons
    from .repository import FROM_JOURNAL, synthesise
    from .services.making import make_service_set
    from .services.set_config import ServiceSetConfig

__getattr__ = lazy_getattr(__name__, _EXPORTS)
