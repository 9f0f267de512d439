"""The records: plain frozen data, and how their parts belong together; no I/O.

Reading a record needs this package and msgspec, nothing else. Fields are documented below their definitions; the JSON
Schema comes from `msgspec.json.schema(Trajectory)`.
"""

from ._call import BranchCause, ModelCall, RawBody, SpanProof, Usage, WeightSpan
from ._canonical import DIGEST_PREFIX, canonical_bytes, decode, digest_bytes, digest_record, require_finite
from ._event import (
    GENESIS,
    AgentProcess,
    AttemptEnded,
    AttemptStarted,
    Body,
    Event,
    EvidenceAdded,
    ModelCalled,
    Noted,
    StepAdded,
    VerdictAdded,
)
from ._evidence import Channel, Evidence, Separation, Verdict, VerdictKind, VerdictStatus
from ._isolation import Hold, Isolation, IsolationName, LimitHold
from ._pairing import match_calls, pair_observations
from ._separation import IdMap, LoadFact, LoadFacts, LoadRole, MountFact, SandboxFacts, SeparationFacts, TaintFact
from ._step import Actor, Observation, Step, ToolCall, Truncation
from ._task import Check, EnvironmentSpec, Limits, Message, Oracle, Task
from ._team import (
    HAND_OFF,
    TEAM,
    TEAM_HAND_OFF,
    TEAM_MESSAGE,
    TEAM_READ,
    TEAM_SEND,
    TEAM_TOOLS,
    HandOff,
    TeamMessage,
    world_calls,
)
from ._trajectory import SCHEMA_VERSION, Trajectory

__all__ = [
    "DIGEST_PREFIX",
    "GENESIS",
    "HAND_OFF",
    "SCHEMA_VERSION",
    "TEAM",
    "TEAM_HAND_OFF",
    "TEAM_MESSAGE",
    "TEAM_READ",
    "TEAM_SEND",
    "TEAM_TOOLS",
    "Actor",
    "AgentProcess",
    "AttemptEnded",
    "AttemptStarted",
    "Body",
    "BranchCause",
    "Channel",
    "Check",
    "EnvironmentSpec",
    "Event",
    "Evidence",
    "EvidenceAdded",
    "HandOff",
    "Hold",
    "IdMap",
    "Isolation",
    "IsolationName",
    "LimitHold",
    "Limits",
    "LoadFact",
    "LoadFacts",
    "LoadRole",
    "Message",
    "ModelCall",
    "ModelCalled",
    "MountFact",
    "Noted",
    "Observation",
    "Oracle",
    "RawBody",
    "SandboxFacts",
    "Separation",
    "SeparationFacts",
    "SpanProof",
    "Step",
    "StepAdded",
    "TaintFact",
    "Task",
    "TeamMessage",
    "ToolCall",
    "Trajectory",
    "Truncation",
    "Usage",
    "Verdict",
    "VerdictAdded",
    "VerdictKind",
    "VerdictStatus",
    "WeightSpan",
    "canonical_bytes",
    "decode",
    "digest_bytes",
    "digest_record",
    "match_calls",
    "pair_observations",
    "require_finite",
    "world_calls",
]
