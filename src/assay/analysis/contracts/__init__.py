"""Safety contracts over the calls and state of a run, written in TOML.

`read_contract` reads one, `findings_of_contract` and `verdict_of_contract` check a trajectory, and `Monitor` checks a
proposed call. `reader` defines the syntax, `evaluation` and `temporal` the semantics.
"""

from .check import check_contract, findings_of_contract, verdict_of_contract
from .contract import Contract, contract_of, read_contract
from .monitor import Decision, Monitor
from .trace import GUARD, denied_calls, record_of

__all__ = [
    "GUARD",
    "Contract",
    "Decision",
    "Monitor",
    "check_contract",
    "contract_of",
    "denied_calls",
    "findings_of_contract",
    "read_contract",
    "record_of",
    "verdict_of_contract",
]
