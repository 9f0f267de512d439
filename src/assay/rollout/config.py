"""One typed configuration of a run: it is the command line, the TOML file and the record of the run.

Each field is documented by the string under it; the command's help and the reference page come from there.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
import tomli_w

from assay.environments.wrapping import parse_wrappers
from assay.errors import UserError
from assay.records import Limits, Separation
from assay.rollout.limits.run_budget import BudgetLimits


class RunConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of a run: tasks, agent, model, repetitions and limits."""

    tasks: tuple[str, ...]
    """Task folders, folders of task folders, or generated ones: `family:NAME,n=20,seed=3,option=value`."""
    agent: str = "oracle"
    """Agent: a short name (`assay plugins` lists them), `module:Class`, or `path/to/file.py`."""
    agent_options: dict[str, Any] = {}
    """Options of the agent, as `key=value`; an unknown one is an error that lists the known ones."""
    model: str | None = None
    """Model for agents that need one: `openai:NAME`, `http://host/v1#NAME`, `scripted:PATH`, `replay:ATTEMPT` (the
    replies of a recorded attempt; `replay:RUN:ATTEMPT` if it is not of the newest run), ..."""
    user_model: str | None = None
    """Model for the simulated persons of tasks whose person is driven by a model (`family:services,user=model`)."""
    attempts: int = 1
    """Attempts per task, each with its own seed."""
    allocate: str = "uniform"
    """Distribution of the attempts over tasks: `uniform`, by outcome (`halving`, `uncertainty`, `forks`), or by a
    curriculum over the given sources of tasks (`frontier`, `progress`, `bandit`)."""
    allocate_options: dict[str, Any] = {}
    """Options of the allocation policy, as `key=value`."""
    budget: int | None = None
    """Total number of attempts; default: `attempts` for each task."""
    early_stop: float | None = None
    """Tolerated share of successes lost by ending hopeless attempts (0.05, say); default: none is ended. A fifth of
    such attempts continues as a control, to measure the share of wrong stops."""
    disturb: str | None = None
    """Disturbances of the agent's environment, joined by `+`: `failures:rate=0.1:in_row=2+noise`. What is judged stays
    the same. Worlds of services: failures, slow, pages, renamed, drift, stale, corrupted, ranked, others, noise,
    paraphrase, attack; sandboxes: failures, slow, noise, corrupted, stale,
    paraphrase, attack; text worlds: failures, noise, paraphrase, twin."""
    concurrency: int = 4
    """Attempts under way at once."""
    model_concurrency: int = 16
    """Model calls under way at once, over all attempts."""
    seed: int = 0
    """Seed from which every attempt's seed is derived."""
    backend: str | None = None
    """The sandbox: `namespaces`, `bubblewrap`, `podman`, `docker` or `process`; default: the best that works here."""
    allow_unsafe: bool = False
    """Allow the `process` backend, which isolates nothing. Marked in every record."""
    allow_network: bool = False
    """Allow the network to tasks whose own policy asks for it. Without it such a task is refused."""
    accept_whole_network: bool = False
    """With `allow_network`: give tasks that ask for a list of hosts the whole network, since no list can be enforced
    here. Without it such a task is refused. Noted in the record's isolation."""
    base: dict[str, str] = {}
    """Replacement for a Dockerfile's `FROM IMAGE`: `IMAGE=scratch` (the host tools) or an imported root's name."""
    allow_task_code: bool = False
    """Allow task folders to name Python code as environment or check (`module:Class`, `file.py:Class`). It runs in this
    process, not in a sandbox. Without it such a task is refused."""
    pass_env: tuple[str, ...] = ()
    """Names of host variables that templates in tasks (`${NAME}`) may read. Recorded by name, never by value."""
    limits: Limits = Limits()
    """Limits of each attempt; the stricter of these and the task's own applies."""
    budget_usd: float | None = None
    """Budget of the whole run in US dollars, over all attempts and resumptions. A call beyond it is refused; the run
    can be resumed with a larger one."""
    budget_calls: int | None = None
    """Budget of the whole run in model calls."""
    retries: int = 2
    """Retries of an attempt after an infrastructure failure. Every trial is kept."""
    repetitions: int = 1
    """Judgements per check; judgements that disagree make the verdict `unknown`."""
    contracts: tuple[str, ...] = ()
    """Safety contracts applied to every agent, as TOML files, in addition to those of the tasks; repeatable."""
    require: Separation = "unknown"
    """Weakest grade of separation at which a pass counts in the run's summary (`separate` accepts `no-agent-code` too);
    passes below it are counted separately, as doubtful."""
    otel: bool = False
    """Send traces and metrics of the run over OpenTelemetry (OTLP/HTTP) to the collector that the variables `OTEL_...`
    name, by default http://localhost:4318. Needs `pip install 'assay[otel]'`."""
    admitted: bool = False
    """Run only tasks whose current version `assay admit` has certified in this store."""
    run: str | None = None
    """Name of the run; default: from agent, date and time."""

    def __post_init__(self) -> None:
        """Rejects invalid values before anything starts."""
        for name in ("attempts", "concurrency", "model_concurrency", "repetitions"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
        from assay.rollout.schedule.policies import policy_named  # late: NumPy, which `--help` does not need

        policy_named(self.allocate, self.allocate_options)
        if self.budget is not None and self.budget < 1:
            raise UserError(f"budget is {self.budget}: it must be at least 1")
        BudgetLimits(self.budget_usd, self.budget_calls)
        if self.disturb is not None:
            parse_wrappers(self.disturb)
        if self.early_stop is not None and not 0 < self.early_stop < 1:
            raise UserError(f"early_stop is {self.early_stop}: it must be between 0 and 1, for example 0.05")
        if self.retries < 0:
            raise UserError(f"retries is {self.retries}: it must be 0 or more")
        require_possible_limits(self.limits)
        if not self.tasks:
            raise UserError("no tasks: name at least one task folder, or family:NAME")
        if self.run == "":
            raise UserError("the name of the run is empty: name it, or leave it out for one from agent and time")
        if self.backend == "process" and not self.allow_unsafe:
            raise UserError(
                "the process backend isolates nothing: agents could read your files and reach your network. "
                "Add --allow-unsafe if you trust these tasks and this agent, or leave --backend away"
            )

    @property
    def in_rounds(self) -> bool:
        """Returns whether attempts are allocated in rounds, from earlier outcomes."""
        chosen = self.allocate != "uniform" or bool(self.allocate_options)
        return chosen or self.budget is not None or self.early_stop is not None

    def total(self, tasks: int) -> int:
        """Returns the total number of attempts for this number of tasks."""
        return self.attempts * tasks if self.budget is None else self.budget


def to_toml(config: RunConfig, several: Mapping[str, Sequence[str]] | None = None) -> str:
    """Returns the resolved configuration as a TOML file that reproduces it; unset options are absent.

    `several` holds the fields that were given more than once. Raises `UserError` if an option has no TOML form, such as
    a list with a null.
    """
    plain = msgspec.to_builtins(config)
    plain |= {name: list(values) for name, values in (several or {}).items() if len(values) > 1}
    try:
        return tomli_w.dumps({k: _without_none(v) for k, v in plain.items() if v is not None})
    except TypeError as exc:
        raise UserError(f"this configuration cannot be written as TOML: {exc}") from exc


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    return value


@cache
def field_docs(struct: type) -> dict[str, str]:
    """Returns the docstring of each field of a struct, including its base structs."""
    rests_on = [base for base in struct.__bases__ if issubclass(base, msgspec.Struct) and base is not msgspec.Struct]
    docs = {name: text for base in rests_on for name, text in field_docs(base).items()}
    tree = ast.parse(textwrap.dedent(inspect.getsource(struct)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, following in pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            docs[field.target.id] = " ".join(str(following.value.value).split())
    return docs


def require_possible_limits(limits: Limits) -> None:
    """Raises `UserError` for a limit that no attempt can keep, or that limits nothing."""
    for name in ("turns", "calls", "tokens"):
        count = getattr(limits, name)
        if count is not None and count < 1:
            raise UserError(f"the limit {name} is {count}: it must be at least 1")
    for name in ("wall_s", "working_s", "cost_usd"):
        amount = getattr(limits, name)
        if amount is not None and not (math.isfinite(amount) and (amount > 0 or (amount == 0 and name == "cost_usd"))):
            raise UserError(f"the limit {name} is {amount:g}: it must be a number above 0")
