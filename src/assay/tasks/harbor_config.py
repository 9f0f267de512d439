"""Harbor's `task.toml`, schema 1.4, as typed records: every key, its unit and its default.

Not for: rules between fields (`harbor_rules`), our own keys under `[metadata.assay]` (`assay_config`), and meaning
(`mapping`). The invariant: a key is listed here if and only if Harbor's schema 1.4 has it; deprecated keys are turned
into present ones by `upgrade_deprecated` before these records are read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSIONS = ("1.0", "1.1", "1.2", "1.3", "1.4")
"""Versions that this module reads, newest last; it writes the newest."""

NetworkMode = Literal["no-network", "public", "allowlist"]
Seconds = Annotated[float, Meta(gt=0, examples=["600.0"])]
SecondsOrZero = Annotated[float, Meta(ge=0, examples=["5.0"])]
Text = Annotated[str, Meta(min_length=1)]
Command = Annotated[str, Meta(min_length=1, examples=['"test -f /workspace/ready"'])]
Megabytes = Annotated[int, Meta(gt=0, examples=["2048"])]
UserId = Annotated[int, Meta(ge=0)]
Env = Annotated[dict[str, str], Meta(examples=['{ NAME = "value" }'])]
Hosts = Annotated[tuple[str, ...], Meta(examples=['["example.com", "*.example.org", "192.0.2.0/24"]'])]


class Author(msgspec.Struct, frozen=True, omit_defaults=True):
    """Author of the task."""

    name: str
    email: str | None = None


class PackageTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """`[task]`: how the task is known to others."""

    name: Annotated[str, Meta(examples=['"org/name"'])]
    """`org/name`."""
    version: Text | None = None
    description: str = ""
    authors: tuple[Author, ...] = ()
    keywords: tuple[str, ...] = ()


class Healthcheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command that must succeed before the agent starts."""

    command: Command
    interval_sec: SecondsOrZero = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: SecondsOrZero = 0.0
    """Failures in this time after the start do not count."""
    start_interval_sec: SecondsOrZero = 5.0
    retries: Annotated[int, Meta(ge=0)] = 3


class McpServer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool server offered to the agent."""

    name: Text
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    """For `sse` and `streamable-http`."""
    command: str | None = None
    """For `stdio`."""
    args: tuple[str, ...] = ()
    headers: Env = {}
    """For HTTP; credentials only as `${VAR}`."""


class TpuTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A TPU slice."""

    type: Text
    topology: Annotated[str, Meta(examples=['"2x2x1"'])]
    """Dimensions joined by `x`."""


class EnvironmentTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """`[environment]` and `[verifier.environment]`: where things run."""

    build_timeout_sec: Seconds = 600.0
    docker_image: Text | None = None
    """A ready image; `environment/Dockerfile` is not needed then."""
    os: Literal["linux", "windows"] = "linux"
    cpus: Annotated[float, Meta(gt=0, examples=["2"])] | None = None
    memory_mb: Megabytes | None = None
    storage_mb: Megabytes | None = None
    gpus: Annotated[int, Meta(ge=0)] | None = None
    gpu_types: tuple[str, ...] | None = None
    tpu: TpuTable | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    env: Env = {}
    """Values may be `${VAR}` or `${VAR:-default}`, resolved from the host when the task runs."""
    skills_dir: Annotated[str, Meta(examples=['"/workspace/skills"'])] | None = None
    """A folder inside the environment."""
    healthcheck: Healthcheck | None = None
    workdir: Annotated[str, Meta(examples=['"/workspace"'])] | None = None
    network_mode: NetworkMode | None = None
    """None where the task does not say: Harbor's default is then `public`, ours `no-network`."""
    allowed_hosts: Hosts | None = None


class HarborAgentTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """`[agent]`: the phase in which the agent acts."""

    timeout_sec: Seconds | None = None
    """None means no limit."""
    user: str | UserId | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts | None = None


class Collect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command run after the agent, to turn state into files."""

    command: Command
    service: Text = "main"
    timeout_sec: Seconds = 60.0
    user: str | UserId | None = None


class VerifierTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """`[verifier]`: the phase in which the outcome is judged."""

    timeout_sec: Seconds | None = None
    """None means 600, and in a step what the task says."""
    env: Env = {}
    user: str | UserId | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    """None: `separate` where `[verifier.environment]` is given, else `shared`."""
    environment: EnvironmentTable | None = None
    collect: tuple[Collect, ...] = ()
    network_mode: NetworkMode | None = None
    allowed_hosts: Hosts | None = None


class SolutionTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """`[solution]`: the reference solution."""

    env: Env = {}


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or folder of the final state to be kept."""

    source: Annotated[str, Meta(min_length=1, examples=['"/workspace/out.txt"'])]
    destination: str | None = None
    """Relative to the attempt's artifacts."""
    exclude: tuple[str, ...] = ()
    service: str | None = None


class StepTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """`[[steps]]`: one step of a task of several."""

    name: Annotated[str, Meta(examples=['"first"'])]
    """A folder's name under `steps/`."""
    agent: HarborAgentTable = HarborAgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: float | dict[str, float] | None = None
    """Below it, the steps that follow are not run: of the reward `reward`, or of each named one."""
    healthcheck: Healthcheck | None = None
    artifacts: tuple[str | Artifact, ...] = ()


class HarborTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """The whole of `task.toml`."""

    schema_version: Annotated[str, Meta(examples=['"1.4"'])] = "1.4"
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    """Only with steps; None there means `mean`."""
    artifacts: Annotated[tuple[str | Artifact, ...], Meta(examples=['["/workspace/out.txt"]'])] = ()
    task: PackageTable | None = None
    metadata: dict[str, Any] = {}
    """Free; `[metadata.assay]` is ours."""
    agent: HarborAgentTable = HarborAgentTable()
    verifier: VerifierTable = VerifierTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    steps: tuple[StepTable, ...] = ()
