"""One typed configuration of an admission: the command line, the TOML file and the record of the run."""

from __future__ import annotations

from typing import Literal

import msgspec

from assay.errors import UserError
from assay.records import Limits
from assay.rollout import RunConfig

LEAST_MUTANTS = 4


class AdmitConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Selects the tasks to prove, the depth of the battery, and the store."""

    tasks: tuple[str, ...] = ()
    """Task folders, folders of task folders, or generated ones: `family:NAME,n=20,seed=3,option=value`."""
    quick: bool = False
    """Only the reference solution, the null answers and the ten commonest cheats; mutants and variants only where their
    number is given."""
    n: int = 3
    """Number of runs of the unchanged reference solution."""
    mutants: int | None = None
    """Most changed solutions; default: as many as keep the battery below 40 attempts, at least 4; with `quick` none."""
    variants: int | None = None
    """Most equivalent solutions; default: a quarter as many as the changed ones, 1 to 10; with `quick` none."""
    verification: Literal["default", "as-asked", "both"] = "default"
    """Whose judging is proved: Assay's own (`default`), what the task's own settings mean elsewhere (`as-asked`: in the
    agent's living sandbox, nothing undone), or `both`, which also tells which setting closes what."""
    against: tuple[str, ...] = ()
    """Compare the tasks with these instead, named in the same forms: are both environments the same?"""
    model: str | None = None
    """A model that reads instruction and tests and reports doubts; never decisive. Forms as for `assay run`."""
    seed: int = 0
    """The seed that every attempt's own seed, and the choice of mutants and variants, are derived from."""
    concurrency: int = 2
    """Number of concurrent attempts."""
    adversary_s: float = 120.0
    """Seconds that a cheat or a null answer may act; the task's own limit where that is shorter."""
    backend: str | None = None
    """The sandbox: `namespaces`, `bubblewrap`, `podman` or `docker`; default: the best that works here."""
    allow_network: bool = False
    """Allow the network to tasks whose own policy asks for it. Without it such a task is refused."""
    accept_whole_network: bool = False
    """With `allow_network`: tasks that ask for a list of hosts get the whole network."""
    allow_task_code: bool = False
    """Allow task folders to name Python code as environment or check (`module:Class`, `file.py:Class`). It runs in this
    process, not in a sandbox. Without it such a task is refused."""
    base: dict[str, str] = {}
    """Replacement of a Dockerfile's `FROM IMAGE`: `IMAGE=scratch` (the host tools) or an imported root's name."""
    pass_env: tuple[str, ...] = ()
    """Names of host variables that templates in tasks (`${NAME}`) may read. Recorded by name, never by value."""
    limits: Limits = Limits()
    """Limits of each attempt; if a task has its own, the stricter ones apply."""
    budget_usd: float | None = None
    """Budget of the whole run in US dollars, over all attempts and resumptions. A call beyond it is refused; the run
    can be resumed with a larger one."""
    budget_calls: int | None = None
    """Budget of the whole run in model calls."""
    retries: int = 2
    """Number of retries of an attempt after an infrastructure failure. Every trial is stored."""
    run: str | None = None
    """Name of the run; default: made from date and time."""

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("concurrency", 1), ("mutants", 0), ("variants", 0), ("retries", 0)):
            given = getattr(self, name)
            if given is not None and given < least:
                raise UserError(f"{name} is {given}: it must be at least {least}")
        if self.adversary_s <= 0:
            raise UserError(f"adversary_s is {self.adversary_s:g}: it must be more than 0")
        if self.backend == "process":
            raise UserError(
                "the process backend isolates nothing, and cheats do harm: name namespaces, bubblewrap, podman or "
                "docker, or leave --backend away"
            )

    def most_mutants(self, room: int) -> int:
        """Returns the limit of mutants, given the number of free attempts."""
        return self.mutants if self.mutants is not None else 0 if self.quick else max(LEAST_MUTANTS, room)

    def most_variants(self, room: int) -> int:
        """Returns the limit of equivalent variants, given the number of free attempts."""
        return self.variants if self.variants is not None else 0 if self.quick else min(10, max(1, room // 5))

    @property
    def verifications(self) -> tuple[Literal["default", "as_asked"], ...]:
        """Verifications under which adversaries are tried; the first is used for everything else."""
        found: dict[str, tuple[Literal["default", "as_asked"], ...]] = {
            "default": ("default",),
            "as-asked": ("as_asked",),
            "both": ("default", "as_asked"),
        }
        return found[self.verification]

    def as_run(self) -> RunConfig:
        names = ("seed", "concurrency", "backend", "allow_network", "accept_whole_network", "allow_task_code")
        shared = {
            name: getattr(self, name)
            for name in (*names, "base", "pass_env", "limits", "budget_usd", "budget_calls", "retries", "model", "run")
        }
        return RunConfig(agent="oracle", tasks=self.tasks or ("given",), **shared)
