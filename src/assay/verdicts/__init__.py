"""May this pass be believed? The one place where that is decided, for every screen, export and selection.

Pure functions over records: no I/O, no clock. `names` has the meaning of checks' names and marks, `current` the
verdicts that count now, `separation` the grades of how far a deciding process was kept from the agent's code, and
`trust` puts them together into one word and one headline for each attempt.
"""

from .current import (
    CurrentVerdicts,
    Judgement,
    current_verdicts,
    current_verdicts_of,
    is_own_praise,
    outcome_separation,
    recorded_separation,
    worst_finding,
    worst_outcome,
)
from .names import (
    AGENT_MADE_UNJUDGEABLE,
    AS_ASKED,
    FLAKY,
    HOST_BUSY,
    HOST_FAILED,
    IMPORTED,
    MARKS,
    NO_RESULT,
    REVERIFICATIONS,
    REWARD_OVERRULED,
    TIME_LIMITS,
    Reverification,
    is_baseline,
    is_imported,
    is_imported_record,
    is_reverification,
    outcome_verdicts,
    recorded_check,
    reverification_check,
    was_given_solution,
)
from .separation import SEPARATIONS, grade_of, meets, weakest
from .trust import OutcomeClass, Trust, assess, outcome_class_of, trust_of

__all__ = [
    "AGENT_MADE_UNJUDGEABLE",
    "AS_ASKED",
    "FLAKY",
    "HOST_BUSY",
    "HOST_FAILED",
    "IMPORTED",
    "MARKS",
    "NO_RESULT",
    "REVERIFICATIONS",
    "REWARD_OVERRULED",
    "SEPARATIONS",
    "TIME_LIMITS",
    "CurrentVerdicts",
    "Judgement",
    "OutcomeClass",
    "Reverification",
    "Trust",
    "assess",
    "current_verdicts",
    "current_verdicts_of",
    "grade_of",
    "is_baseline",
    "is_imported",
    "is_imported_record",
    "is_own_praise",
    "is_reverification",
    "meets",
    "outcome_class_of",
    "outcome_separation",
    "outcome_verdicts",
    "recorded_check",
    "recorded_separation",
    "reverification_check",
    "trust_of",
    "was_given_solution",
    "weakest",
    "worst_finding",
    "worst_outcome",
]
