"""Writes the generated pages of docs/reference, the included parts of all pages, and llms.txt; `--check` says which
are stale and exits with 1.

A line `<!-- file: PATH -->` before a block of Python or TOML in any page makes that block the file's text; from a line
`<!-- generated: NAME -->` to `<!-- end -->` stands what the function NAME of `layers_page` returns.

The invariant: what stands in these pages is read from the program (help texts, fields, docstrings, tables), never
copied by hand, and the same program gives the same bytes.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from assay import plugins, settings
from assay.admission.config import AdmitConfig
from assay.admission.difficulty import AgentRate
from assay.admission.environment_comparison import ComparisonReport, Divergence
from assay.admission.findings import AdmissionFinding
from assay.admission.fix import FixResult
from assay.admission.probe import SkippedProbe
from assay.admission.probe_results import ProbeResult
from assay.admission.report import SetReport, Summary
from assay.admission.sensitivity import Sensitivity, Survivor
from assay.admission.soundness import Completeness, Cost, Strictness, TaskReport
from assay.agents.cheats import CHEATS
from assay.agents.cheats.interface import BUNDLES, Cheat
from assay.agents.combinators.combinator import Combinator
from assay.agents.harnesses.agent import HarnessOptions
from assay.agents.harnesses.install import Installed
from assay.agents.teams.agent import TeamAgent
from assay.agents.teams.spec import Role, TeamChannel, TeamSpec
from assay.analysis import consistency, integrity
from assay.analysis.card import Card, Mark, TaskCard
from assay.analysis.causes import Cause
from assay.analysis.contracts.fields import ROOTS
from assay.analysis.interface import Finding as RuleFinding
from assay.analysis.interface import Quote
from assay.analysis.replayed import Comparison, Difference, PathDifference
from assay.analysis.semi_online import ReplayedSteps
from assay.analysis.signals import CATEGORIES, SIGNALS, Signals
from assay.analysis.step_routing import RouterScore
from assay.analysis.volatile import VOLATILE, VOLATILE_PATHS
from assay.cli.app import build_app
from assay.environments.interface import ResourceLimits
from assay.environments.workspace.choose import BackendReport
from assay.environments.workspace.layer_use import CleaningReport
from assay.environments.workspace.toolchain import ToolLayer
from assay.formats.interface import ReadProblem
from assay.formats.mapped.mapping import Mapping
from assay.formats.registry import load_formats
from assay.gateway.backends import _open as models
from assay.gateway.backends import _open_tokens as token_models
from assay.gateway.backends import pricing, scripted, small
from assay.learning.credit.compose import CreditConfig, MaskStage
from assay.learning.evolution.recipe import (
    EvolveCodeOptions,
    EvolveGateOptions,
    EvolveRecipe,
    EvolveSearchOptions,
)
from assay.learning.service import BatchRequest, PolicyRequest, RolloutServiceConfig
from assay.learning.service.config import AbortRequest, AcknowledgeRequest, VersionRequest
from assay.learning.service.groups import GroupAttempt
from assay.learning.skills.records import ArmResult, Claim, Edit, EditProposal, EvidenceRef, SkillEntry, TrialRecord
from assay.learning.train import TrainReport
from assay.learning.trainer.improve_report import EvaluationPoint, ImproveReport
from assay.learning.trainer.options import DpoOptions, ModelOptions, OptimiserOptions, PolicyGradientOptions, SftOptions
from assay.learning.trainer.recipe import (
    DemonstrationOptions,
    EvaluationOptions,
    GateOptions,
    ImproveRecipe,
    RolloutOptions,
    ServiceOptions,
    TrainRecipe,
)
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Check,
    EnvironmentSpec,
    Event,
    Evidence,
    EvidenceAdded,
    HandOff,
    Isolation,
    LimitHold,
    Limits,
    Message,
    ModelCall,
    ModelCalled,
    Noted,
    Observation,
    Oracle,
    RawBody,
    SpanProof,
    Step,
    StepAdded,
    Task,
    TeamMessage,
    ToolCall,
    Trajectory,
    Truncation,
    Usage,
    Verdict,
    VerdictAdded,
)
from assay.rollout.audit.stored import AuditReport
from assay.rollout.cluster.node_config import NodeConfig
from assay.rollout.cluster.run_status import ClusterStatus, NodeStatus
from assay.rollout.config import RunConfig
from assay.rollout.exchange.config import ExportConfig, ImportConfig, RecordConfig, ServeConfig
from assay.rollout.exchange.exporting import ExportReport
from assay.rollout.exchange.importing import ImportReport
from assay.rollout.rejudge.counterfactual import PrefixOutcome, RewindResult
from assay.rollout.rejudge.marginals import Marginal, MarginalsReport
from assay.rollout.rejudge.replay import ReplayResult
from assay.rollout.rejudge.reverify import ReverificationResult
from assay.rollout.rejudge.semi_online import PatchedScore, SemiOnlineReport, SemiOnlineResult
from assay.rollout.rejudge.tier_labels import LabelledStep, RoutersReport, TierLabels
from assay.rollout.schedule.policies import ALLOCATIONS
from assay.statistics import AtK, Estimate, GroupSummary, OutcomeBounds
from assay.store import AttemptRow, Erasure, ErasureReport, GcReport, SealReport, StoreProblem
from assay.store.objects import CollectReport, CopyReport, ObjectCheckReport
from assay.store.receipt import Signature, Statement
from assay.store.tables import IN_QUERIES, TABLES, TIMES, VIEWS
from assay.synthesis import SynthesisCost
from assay.synthesis.call_tasks_config import ProgramTasksConfig, QuestionTasksConfig
from assay.synthesis.config import SynthesisConfig
from assay.synthesis.program_tasks import ProgramEntry, ProgramReport
from assay.synthesis.question_tasks import QuestionEntry, QuestionReport
from assay.synthesis.report import DroppedCandidate, GateRow, ManifestEntry, SynthesisReport
from assay.tasks import assay_config, harbor_config
from assay.tasks.findings import TaskFinding
from assay.verdicts import CurrentVerdicts
from assay.verify.calls import ProgramLanguage
from assay.viewer.runs import RunLine

_RUN_RESULT = {
    "run": "its name; of a grid the first",
    "runs": "names of all runs: more than one for several agents or models",
    "store": "the store's folder",
    "groups": "list of GroupSummary",
    "all_broke": "why every attempt broke, or null",
    "warnings": "list of sentences",
    "shortfall": "which agent is below `--fail-under`, or null",
}
ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
NOTICE = "<!-- Written by scripts/make_reference.py: change the program, then run `make docs`. -->\n"
RECORDS: tuple[type, ...] = (
    *(Task, Message, EnvironmentSpec, Limits, Check, Oracle, Trajectory, Step, ToolCall, Observation, Truncation),
    *(
        ModelCall,
        Usage,
        RawBody,
        SpanProof,
        Evidence,
        Verdict,
        Isolation,
        LimitHold,
        Event,
        AttemptStarted,
        StepAdded,
        ModelCalled,
    ),
    *(EvidenceAdded, VerdictAdded, Noted, AttemptEnded, TeamMessage, HandOff),
)
TOML_TABLES: tuple[tuple[str, type], ...] = (
    ("the root", harbor_config.HarborTask),
    ("`[task]`", harbor_config.PackageTable),
    ("an author, `task.authors`", harbor_config.Author),
    ("`[agent]`, also `[steps.agent]`", harbor_config.HarborAgentTable),
    ("`[verifier]`, also `[steps.verifier]`", harbor_config.VerifierTable),
    ("`[[verifier.collect]]`", harbor_config.Collect),
    ("`[environment]`, also `[verifier.environment]`", harbor_config.EnvironmentTable),
    ("`[environment.healthcheck]`, also `[steps.healthcheck]`", harbor_config.Healthcheck),
    ("`[[environment.mcp_servers]]`", harbor_config.McpServer),
    ("`[environment.tpu]`", harbor_config.TpuTable),
    ("`[solution]`", harbor_config.SolutionTable),
    ("an artifact, `artifacts`", harbor_config.Artifact),
    ("`[[steps]]`", harbor_config.StepTable),
)
OUR_TABLES: tuple[tuple[str, type], ...] = (
    ("`[metadata.assay]`", assay_config.AssayTable),
    ("`[metadata.assay.limits]`", assay_config.LimitsTable),
    ("`[metadata.assay.environment]`", assay_config.WorkspaceTable),
    ("`[[metadata.assay.checks]]`", assay_config.CheckTable),
)
WALLS = {
    "The sandbox": "assay.environments.workspace.launcher",
    "The sandbox, from the host's side": "assay.environments.workspace.namespaces",
    "bubblewrap": "assay.environments.workspace.bubblewrap",
    "podman and docker": "assay.environments.workspace.engine",
    "process": "assay.environments.workspace.process",
    "Actors of a team": "assay.rollout.attempt.seat",
    "Remote peers over A2A": "assay.agents.a2a.server",
    "The tool layer": "assay.environments.workspace.toolchain",
    "The verifier's sandbox": "assay.verify.sanitise",
    "Planted files": "assay.verify.planted_files",
    "The check `script`": "assay.verify.script",
    "The check `pytest`": "assay.verify.pytest_check",
    "The stored record": "assay.store.audit",
    "Records of many machines": "assay.rollout.cluster.commits",
    "Calls to node agents": "assay.rollout.cluster.http_transport",
    "Trials fetched from nodes": "assay.rollout.cluster.fetch_trials",
    "Byte by byte": "assay.store.byte_check",
    "Receipts": "assay.store.receipt",
    "Signatures": "assay.store.signing",
    "Stored folders": "assay.store.trees",
    "Submitted patches": "assay.code.patches",
    "Queries": "assay.store.query",
    "Command-line agents": "assay.agents.harnesses.agent",
    "Installation of command-line agents": "assay.agents.harnesses.install",
    "The gateway": "assay.gateway.server",
    "Secrets in records": "assay.rollout.recording.redaction",
    "Recording without a sandbox": "assay.rollout.exchange.standalone_gateway",
    "Model servers": "assay.gateway.backends._client",
    "Text in prompts": "assay.gateway.tokens.text_escape",
    "A small language model": "assay.gateway.backends.small",
    "Source archives": "assay.synthesis._archive",
    "Imported files": "assay.formats.shared.json_stream",
    "Imported archives": "assay.formats.shared.archives",
    "Git repositories": "assay.synthesis._git",
    "Programs in other languages": "assay.verify.calls.stdio_worker",
    "Calls and answers as JSON": "assay.verify.calls.json_form",
    "Answers as data": "assay.verify.answer_check",
}
# What --json prints: the keys of the document, and the structs that it is made of.
JSON: dict[str, tuple[dict[str, str], tuple[type, ...]]] = {
    "demo": (
        {
            "tasks": "folder of the task folders",
            "runs": "names: oracle, null, repair, the forger",
            "groups": "list of GroupSummary",
            "gates": "list of GateRow",
        },
        (),
    ),
    "setup": ({"layers": "list of ToolLayer", "roots": "imported name to content address"}, (ToolLayer,)),
    "doctor": ({"backends": "list of BackendReport"}, (BackendReport,)),
    "admit": (
        {
            "report": "a SetReport",
            "fixed": "with `--fix`: list of Fixed",
            "fixed_report": "with `--fix`: a SetReport of the copies, or null",
        },
        (
            *(SetReport, Summary, TaskReport, AdmissionFinding, Completeness, Sensitivity, Survivor, Strictness),
            *(Cost, AgentRate, ProbeResult, SkippedProbe, FixResult),
        ),
    ),
    "admit --against": ({"(the whole)": "a ComparisonReport"}, (ComparisonReport, Divergence)),
    "run": (
        _RUN_RESULT,
        (GroupSummary, Estimate, OutcomeBounds, AtK),
    ),
    "resume": (_RUN_RESULT, ()),
    "node": ({"agent": "its name", "url": "its address", "slots": "attempts at once; printed once it listens"}, ()),
    "status": ({"(the whole)": "a ClusterStatus"}, (ClusterStatus, NodeStatus)),
    "gateway": (
        {"run": "its name", "sessions": "list of {url, key, model}; printed when they are open"},
        (),
    ),
    "serve": (
        {"url": "address of the service", "token_file": "path of the token; printed once the service is open"},
        (),
    ),
    "record": ({"run": "its name", "attempt": "record@0", "exit_code": "the command's, negative for a signal"}, ()),
    "import": ({"(the whole)": "an ImportReport"}, (ImportReport, ReadProblem)),
    "export": ({"(the whole)": "an ExportReport"}, (ExportReport,)),
    "formats": ({"(the whole)": "list of {name, title, provenance, writes}"}, ()),
    "stats": (
        {
            "runs": "names",
            "groups": "list of GroupSummary; empty where `rates` is not among the tables",
            "tables": "name of a table (`--table`) to its numbers: Spending, TaskProfile, Grid, Flake, ReportCard, ...",
        },
        (),
    ),
    "ls": (
        {
            "run": "its name",
            "attempts": "list of AttemptRow",
            "headlines": "by chain: the outcome in words, with any contradiction",
            "outcome_classes": "by chain: `pass`, `doubt`, `fail`, `unknown`, `error` or `open`",
            "differing": "by chain: the fields in which its summary row differs from the chain",
            "standing": "by chain: CurrentVerdicts",
        },
        (AttemptRow, CurrentVerdicts),
    ),
    "audit": (
        {name: f"see AuditReport.{name}" for name in AuditReport.__struct_fields__},
        (AuditReport, Card, Mark, RuleFinding, Quote, TaskCard),
    ),
    "contract check": ({"file": "its path", "contracts": "list of {name, digest, rules}"}, ()),
    "ls --runs": (
        {"runs": "names, the oldest first", "summaries": "list of RunLine with `state`; with `error` if unreadable"},
        (RunLine,),
    ),
    "show": (
        {
            "(the whole)": "a Trajectory, see [records](records.md)",
            "headline": "the outcome in words, with any contradiction",
            "outcome_class": "`pass`, `doubt`, `fail`, `unknown`, `error` or `open`",
            "separation": "grade of the outcome",
            "standing": "CurrentVerdicts",
            "signals": "Signals; missing if an installed set of signals fails",
        },
        (Signals,),
    ),
    "query": (
        {
            "columns": "names",
            "rows": "list of objects, column to value",
            "cut": "whether there are more rows than `--limit` allows",
        },
        (),
    ),
    "lint": ({"findings": "list of {task, finding}, finding a TaskFinding"}, (TaskFinding,)),
    "seal": ({"(the whole)": "a SealReport"}, (SealReport,)),
    "verify": (
        {
            "run": "its name",
            "verified": "the verified parts: `chain`, `blobs`",
            "problems": "list of Problem; empty if everything matches",
            "erased": "list of Erasure",
        },
        (StoreProblem, Erasure),
    ),
    "verify --again": (
        {
            "run, verified, problems, erased": "as without",
            "again": "{run, results: list of Reverified, unjudged: attempts without a verdict, counts: by mark}",
        },
        (ReverificationResult,),
    ),
    "replay": (
        {
            "run": "the recorded run",
            "replay": "the run of the replays",
            "counts": "{agree, differ, cannot}",
            "rate": "share of replayable attempts that agree; null if there are none",
            "results": "list of Replayed, each with `agrees`",
        },
        (ReplayResult, Comparison, Difference, PathDifference, Cause),
    ),
    "replay --semi-online": (
        {name: f"see SemiOnlineReport.{name}" for name in SemiOnlineReport.__struct_fields__},
        (SemiOnlineReport, SemiOnlineResult, ReplayedSteps, PatchedScore),
    ),
    "replay --from-each-prefix": (
        {"run": "the recorded run", "rewound": "list of Rewound"},
        (RewindResult, PrefixOutcome),
    ),
    "marginals": (
        {name: f"see MarginalsReport.{name}" for name in MarginalsReport.__struct_fields__},
        (MarginalsReport, Marginal),
    ),
    "router label": (
        {name: f"see TierLabels.{name}" for name in TierLabels.__struct_fields__},
        (TierLabels, LabelledStep),
    ),
    "router score": (
        {name: f"see RoutersReport.{name}" for name in RoutersReport.__struct_fields__},
        (RoutersReport, RouterScore),
    ),
    "skills show": (
        {
            "skill": "name, version, state, released, claims, rejected, entries (list of SkillEntry)",
            "text": "SKILL.md of the newest version",
            "files": "paths below its folder",
        },
        (SkillEntry, Claim, EvidenceRef, EditProposal, Edit),
    ),
    "skills validate": (
        {
            "skill, version, valid": "name, digest of the files, whether nothing was found",
            "format": "what the reference checker objects to",
            "evidence": "citations that do not resolve",
            "leaks": "texts of the tasks of --tasks that it holds",
        },
        (),
    ),
    "skills distil": (
        {
            "skill, version": "name, digest of the files",
            "passing, failing, left_out": "numbers of attempts",
            "claims": "list of Claim",
            "problems": "what the reference checker objects to",
        },
        (),
    ),
    "skills trial": ({"skill, version": "as above", "trial": "a TrialRecord"}, (TrialRecord, ArmResult)),
    "verify --receipt": (
        {
            "run, verified, problems": "as without",
            "receipt": "{chains, events, addenda, later_chains, later_events, later_addenda, signed_by}",
        },
        (),
    ),
    "receipt": (
        {"file": "its path", "statement": "a Statement", "signature": "a Signature, or null"},
        (Statement, Signature),
    ),
    "keys new": ({"file": "of the private key", "public": "ed25519:HEX"}, ()),
    "keys show": ({"public": "ed25519:HEX"}, ()),
    "store copy": ({"(the whole)": "list of CopyReport, one a run"}, (CopyReport,)),
    "store check": ({"(the whole)": "an ObjectCheckReport"}, (ObjectCheckReport,)),
    "store gc": ({"(the whole)": "a CollectReport"}, (CollectReport,)),
    "store erase": ({"(the whole)": "an ErasureReport"}, (ErasureReport,)),
    "gc": ({"(the whole)": "a GcReport; with `--layers` a CleaningReport"}, (GcReport, CleaningReport)),
    "plugins": ({"plugins": "list of {kind, name, from, package}"}, ()),
    "agents": (
        {
            "agents": "list of {name, title, version, installed, dialects, side_calls, run_by, path}",
            "cache": "the folder that they are installed in",
        },
        (),
    ),
    "agents install": ({"installed": "list of Installed"}, (Installed,)),
    "train": ({"(the whole)": "a TrainReport"}, (TrainReport,)),
    "improve": ({"(the whole)": "an ImproveReport"}, (ImproveReport, EvaluationPoint)),
    "synth programs": (
        {
            "(the whole)": "a ProgramReport, and beside its fields:",
            "cost": "a SynthesisCost, as in `synthesis-cost.json`",
        },
        (ProgramReport, ProgramEntry),
    ),
    "synth questions": (
        {
            "(the whole)": "a QuestionReport, and beside its fields:",
            "cost": "a SynthesisCost, as in `synthesis-cost.json`",
        },
        (QuestionReport, QuestionEntry),
    ),
    "synth repository": (
        {
            "(the whole)": "a SynthesisReport, and beside its fields:",
            "cost": "a SynthesisCost, as in `synthesis-cost.json`",
        },
        (SynthesisReport, GateRow, ManifestEntry, DroppedCandidate, SynthesisCost),
    ),
}


def struct_docs(struct: type) -> dict[str, str]:
    """Field name to the string under it, of the whole inheritance of a class."""
    docs: dict[str, str] = {}
    for body in _bodies(struct):
        for field, following in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(following, ast.Expr):
                text = getattr(following.value, "value", "")
                docs[ast.unparse(field.target)] = " ".join(str(text).split())
    return docs


def struct_types(struct: type) -> dict[str, str]:
    """Field name to its type as it is written in the source, without the constraints, of the whole inheritance."""
    fields = [node for body in _bodies(struct) for node in body if isinstance(node, ast.AnnAssign)]
    return {ast.unparse(n.target): _type(n.annotation) for n in fields}


def _bodies(struct: type) -> Iterator[list[ast.stmt]]:
    """Yields the statements of a class and of our classes that it inherits from, the first ancestor first."""
    for base in reversed([b for b in struct.__mro__ if b.__module__.startswith("assay.")]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        yield getattr(tree, "body", [])


def _type(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp):
        return f"{_type(node.left)} | {_type(node.right)}"
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        return _type(node.slice.elts[0]) if isinstance(node.slice, ast.Tuple) else ast.unparse(node)
    return ast.unparse(node)


def field_table(struct: type) -> str:
    """A struct's fields as a Markdown table."""
    docs, types = struct_docs(struct), struct_types(struct)
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in msgspec.structs.fields(struct):
        cells = [f"`{field.name}`", f"`{types.get(field.name, '')}`", _default(field), docs.get(field.name, "")]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if value is None:
        return "none"
    if isinstance(value, msgspec.Struct):
        return "as below"
    if isinstance(value, tuple | list | dict) and not value:
        return "empty"
    return f"`{msgspec.json.encode(value).decode()}`"


def struct_section(struct: type, title: str | None = None, level: str = "##") -> str:
    """A heading, the docstring, the fields."""
    head = f"{level} {title or struct.__name__}\n\n{inspect.getdoc(struct)}\n\n"
    return head + (field_table(struct) if msgspec.structs.fields(struct) else "")


def recipes_page() -> str:
    """docs/reference/recipes.md."""
    made = (
        "# Recipes\n\nA recipe configures `assay improve`, `assay evolve` or `assay train`: one TOML file; "
        "`--set table.field=VALUE` overrides a field. An unknown field is an error. How to use them: "
        "[improve an agent](../how-to/improve-an-agent.md), "
        "[evolve an agent's options and code](../how-to/evolve-an-agent.md).\n\n"
    )
    made += struct_section(ImproveRecipe, "`assay improve`")
    for struct, title in (
        (DemonstrationOptions, "`[teach]`"),
        (RolloutOptions, "`[rollout]`"),
        (ServiceOptions, "`[rollout.service]`"),
        (EvaluationOptions, "`[evaluate]`"),
        (GateOptions, "`[gate]`"),
    ):
        made += "\n" + struct_section(struct, title, "###")
    made += "\n" + struct_section(EvolveRecipe, "`assay evolve`")
    made += "\n" + struct_section(EvolveSearchOptions, "`[search]`", "###")
    made += "\n" + struct_section(EvolveGateOptions, "`[gate]` of `assay evolve`", "###")
    made += "\n" + struct_section(EvolveCodeOptions, "`[code]` of `assay evolve`", "###")
    made += "\n" + struct_section(TrainRecipe, "`assay train`")
    for options, title in (
        (ModelOptions, "`[model]`"),
        (SftOptions, "`[sft]`, `[teach.sft]`"),
        (DpoOptions, "`[dpo]`"),
        (PolicyGradientOptions, "`[policy_gradient]`"),
        (OptimiserOptions, "`[... .optimise]`"),
        (CreditConfig, "`[credit]`"),
        (MaskStage, "`[[credit.masks]]`"),
        (Limits, "`[rollout.limits]`"),
    ):
        made += "\n" + struct_section(options, title)
    return made


def commands() -> Iterator[tuple[str, Any, str]]:
    """Every command that does something: its words, the command, and its help."""
    import typer

    root = typer.main.get_command(build_app())
    yield from _walk(root, root.make_context("assay", [], resilient_parsing=True, terminal_width=100))


def _walk(command: Any, context: Any) -> Iterator[tuple[str, Any, str]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield context.command_path, command, command.get_help(context)
        return
    if command.invoke_without_command:
        yield context.command_path, command, command.get_help(context)
    for name, one in inner.items():
        made = one.make_context(name, [], parent=context, resilient_parsing=True, terminal_width=100)
        yield from _walk(one, made)


def commands_page() -> str:
    """docs/reference/commands.md."""
    made = "# Commands\n\nResults go to stdout, everything else to stderr. Output of `--json`: [json](json.md). "
    made += "[Exit codes](exit-codes.md).\n"
    for words, _, text in commands():
        made += f"\n## {words}\n\n```text\n{text.rstrip()}\n```\n"
    return made


def configuration_page() -> str:
    """docs/reference/configuration.md."""
    made = (
        "# Configuration\n\nOne typed configuration serves the command line, the TOML file of `--config`, and the "
        "record of the run. The option `--max-turns` is `turns` in the table `[limits]` of the file. The "
        "command line overrides the file, the file overrides the default; `assay run ... --dry-run` prints the "
        "resolved file. An unknown field is an error.\n\n"
    )
    made += struct_section(RunConfig, "A run: `assay run`")
    made += "\n### Allocation: `--allocate NAME`, `--allocate-option KEY=VALUE`\n"
    for name, kind in ALLOCATIONS.items():
        made += "\n" + struct_section(kind.options, f"`{name}`", "####")
    made += "\n" + struct_section(AdmitConfig, "Proving verifiers: `assay admit`")
    made += "\n" + struct_section(Limits, "Limits of an attempt: `[limits]`, `--max-...`")
    made += "\n" + struct_section(ServeConfig, "The gateway alone: `assay gateway`")
    made += "\n" + struct_section(RecordConfig, "One command: `assay record`")
    made += "\n" + struct_section(NodeConfig, "A node of a run: `assay node`")
    made += "\n" + struct_section(RolloutServiceConfig, "Rollouts for trainers: `assay serve`")
    made += "\n" + struct_section(BatchRequest, "A batch: the body of `POST /v1/batches`", "###")
    made += "\n" + struct_section(PolicyRequest, "Its policy", "###")
    made += "\n" + struct_section(GroupAttempt, "An attempt in a group", "###")
    made += "\n" + struct_section(AcknowledgeRequest, "An acknowledgement", "###")
    made += "\n" + struct_section(AbortRequest, "Attempts to abort", "###")
    made += "\n" + struct_section(VersionRequest, "A version of a policy", "###")
    made += "\n" + struct_section(ImportConfig, "Runs of other tools: `assay import`")
    made += "\n" + struct_section(Mapping, "Mapping of an unknown format")
    made += "\n" + struct_section(ExportConfig, "Writing a run in another format: `assay export`")
    made += "\n" + struct_section(SynthesisConfig, "Making tasks: `assay synth repository`")
    made += "\n" + struct_section(ProgramTasksConfig, "Functions in another language: `assay synth programs`")
    made += "\n" + struct_section(ProgramLanguage, "A language: its TOML file", "###")
    made += "\n" + struct_section(QuestionTasksConfig, "Questions about calls: `assay synth questions`")
    made += "\n" + struct_section(ResourceLimits, "Limits of a sandbox")
    made += (
        "\nA task sets them in `[environment]` and `[metadata.assay.environment]` of its "
        "[task.toml](task-toml.md). Every record states which of them the kernel enforces; `assay doctor` "
        "reports it before a run.\n"
    )
    return made


def records_page() -> str:
    """docs/reference/records.md."""
    made = (
        "# Records\n\nFrozen [msgspec](https://jcristharif.com/msgspec/) structs of the package `assay.records`; "
        "reading one needs that package and msgspec alone. JSON Schema: `msgspec.json.schema(Trajectory)`. Digests "
        "are BLAKE3 of canonical bytes, written `blake3:...`. `assay show ATTEMPT --json` prints a Trajectory.\n"
    )
    return made + "".join("\n" + struct_section(struct) for struct in RECORDS)


def tables_page() -> str:
    """docs/reference/tables.md."""
    made = (
        "# Tables of the store\n\n`assay query` reads these tables; a sealed run has them as Parquet files of the same "
        "names (`.assay/runs/RUN/sealed/*.parquet`). One row of `trajectories` is one try at one attempt; `final` "
        "marks the try that decides. `events` is the record; the other tables are derived from it.\n\n"
        "The `request` of a call holds only new content. `request.shared` refers to the rest: "
        "`parent` is the call that has it, `messages` the number of shared leading messages, `fields` the other shared "
        "fields. `assay.store.restore_request` restores the whole request.\n\n"
        "A query also returns results added after sealing: rows of `verdicts` and `evidence` with a number in the "
        "column `addendum`. They change neither `outcome` in `trajectories` nor any sealed file.\n"
    )
    for name, columns in TABLES.items():
        rows = "".join(f"| `{column}` | {kind} |\n" for column, kind in columns.items())
        added = IN_QUERIES.get(name, {}).items()
        rows += "".join(f"| `{column}` | {kind}, in queries only |\n" for column, kind in added)
        made += f"\n## {name}\n\n| column | type |\n|---|---|\n{rows}"
        if name in TIMES:
            times = " and ".join(f"`{column}`" for column in TIMES[name])
            made += f"\nSeconds since 1970 in the files, timestamps in UTC in queries: {times}.\n"
    made += (
        "\n# Views of admissions\n\nViews over `evidence`, for queries: results of `assay admit` for each task, in a "
        "chain of its own.\n"
    )
    for name, view in VIEWS.items():
        rows = "".join(f"| `{column}` | {kind} |\n" for column, (kind, _) in view.items())
        made += f"\n## {name}\n\n| column | type |\n|---|---|\n{rows}"
    return made


def json_page() -> str:
    """docs/reference/json.md."""
    made = "# Output of `--json`\n\nOne JSON document on stdout. Releases may add keys; keys never change meaning.\n"
    shown: dict[type, None] = {}
    for command, (keys, structs) in JSON.items():
        rows = "".join(f"| `{key}` | {what} |\n" for key, what in keys.items())
        made += f"\n## assay {command} --json\n\n| key | value |\n|---|---|\n{rows}"
        shown.update(dict.fromkeys(structs))
    return made + "\n## The objects\n" + "".join("\n" + struct_section(struct, level="###") for struct in shown)


def task_toml_page() -> str:
    """docs/reference/task-toml.md."""
    made = (
        "# task.toml\n\nHarbor's schema 1.4; the versions 1.0 to 1.3 are read too. Assay's own keys are in "
        "`[metadata.assay]`, which Harbor ignores. `assay lint` reports errors with line and "
        "remedy.\n"
    )
    made += "".join(f"\n## {title}\n\n{inspect.getdoc(s)}\n\n{field_table(s)}" for title, s in TOML_TABLES)
    made += f"\n# Our keys\n\n{inspect.getdoc(assay_config)}\n"
    return made + "".join(f"\n## {title}\n\n{inspect.getdoc(s)}\n\n{field_table(s)}" for title, s in OUR_TABLES)


def environment_page() -> str:
    """docs/reference/environment.md."""
    made = f"# Environment variables\n\n{inspect.getdoc(settings)}\n\n# Names of models\n\n{inspect.getdoc(models)}\n"
    made += f"\n## Models that take tokens\n\n{inspect.getdoc(token_models)}\n"
    made += f"\n## Scripts\n\n{inspect.getdoc(scripted)}\n"
    made += f"\n## A small model\n\n{inspect.getdoc(small)}\n"
    return made + f"\n# Prices\n\n{inspect.getdoc(pricing)}\n"


def agents_page() -> str:
    """docs/reference/agents.md."""
    made = (
        "# Built-in agents\n\nOptions are given as `--agent-option key=value`. `assay plugins` lists "
        "other installed agents; `module:Class` and `path/to/file.py` can replace any name.\n"
    )
    for name, point in sorted(plugins.names("agents").items()):
        if not point.value.startswith("assay."):
            continue
        module = importlib.import_module(point.value.partition(":")[0])
        kind = getattr(module, point.value.partition(":")[2])
        is_combinator = isinstance(kind, type) and issubclass(kind, Combinator)
        made += f"\n## {name}\n\n{inspect.getdoc(kind if is_combinator else module)}\n"
        if is_combinator:
            made += f"\nSpelled `{name}:{'CHEAP,EXPENSIVE' if kind.agents_inside > 1 else 'N:AGENT'}`; see the "
            made += "[how-to](../how-to/try-several-times.md).\n"
            made += "\n" + field_table(kind.Options) if kind.Options.__struct_fields__ else ""
            continue
        if kind is TeamAgent:
            made += f"\nSee the [how-to](../how-to/work-in-teams.md). `file=TEAM.toml`, or:\n\n{field_table(TeamSpec)}"
            made += "".join("\n" + struct_section(one, level="###") for one in (Role, TeamChannel))
        for options in [v for k, v in sorted(vars(module).items()) if k.endswith("Options") and isinstance(v, type)]:
            if options.__module__ == module.__name__:
                made += "\n" + field_table(options)
    return made + f"\n## Options of the command-line agents\n\n{field_table(HarnessOptions)}"


def checks_page() -> str:
    """docs/reference/checks.md."""
    made = "# Built-in checks\n\nA task names its checks in `[[metadata.assay.checks]]`; the default is `script`.\n"
    for name in ("script", "pytest", "calls", "answer"):
        module = importlib.import_module(plugins.names("checks")[name].value.partition(":")[0])
        made += f"\n## {name}\n\n{inspect.getdoc(module)}\n"
        if name == "pytest":
            made += "\n" + struct_section(module.PytestParameters, "Its parameters", "###")
            made += "\n" + struct_section(module.TestMount, "An entry of `tests` as a table", "###")
        elif name in ("calls", "answer"):
            parameters = module.CallsParameters if name == "calls" else module.AnswerParameters
            made += "\n" + struct_section(parameters, "Its parameters", "###")
    facts = importlib.import_module("assay.verify.facts")
    return made + f"\n## facts\n\n{inspect.getdoc(facts)}\n\n{inspect.getdoc(facts.judge_facts)}\n"


def covered_page() -> str:
    """docs/reference/covered.md."""
    made = (
        "# Coverage and known gaps\n\nThe docstrings of the modules that enforce isolation and integrity, from their "
        "source. The attacks are in `tests/sandbox` and `tests/forgery`.\n"
    )
    for title, name in WALLS.items():
        module = importlib.import_module(name)
        made += f"\n## {title}\n\n`{name}`\n\n{inspect.getdoc(module)}\n"
    return made


def volatile_page() -> str:
    """docs/reference/volatile.md."""
    made = (
        "# Volatile fields of a replay\n\nBefore two outputs are compared, these patterns are removed, in this order, "
        "after the task's own patterns (`[metadata.assay] volatile`: literal text with the placeholders `<number>`, "
        "`<word>`, `<hex>` and, at the end only, `<rest>` of the line). Outputs that are equal only after this are "
        "counted separately.\n\n"
        "| name | kind | example | pattern |\n|---|---|---|---|\n"
    )
    for row in VOLATILE:
        example = row.example.replace("\t", " ")
        cells = (row.name, row.kind, f"`{example}`", f"`{row.pattern.pattern}`")
        made += "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    made += (
        "\n# Volatile paths\n\nTwo final states that differ only in these paths count as "
        "equal.\n\n| path | why |\n|---|---|\n"
    )
    escaped = ((path.replace("|", "\\|"), why) for path, why in VOLATILE_PATHS)
    return made + "".join(f"| `{path}` | {why} |\n" for path, why in escaped)


def rules_page() -> str:
    """docs/reference/rules.md."""
    made = (
        "# Rules\n\n`assay audit` applies these rules to a trajectory. Each finding cites steps, quotes the record "
        "exactly, and names its evidence. A rule's severity is the highest that it gives: `note` affects no "
        "verdict, `minor` deserves a look, `major` makes the result doubtful, `critical` makes it worthless as "
        "evidence. Findings of integrity are `attempted`, or `obtained` if the record shows success. "
        "[Accuracy of the rules](../audit.md).\n"
    )
    for title, rules in (("Consistency", consistency.RULES), ("Integrity", integrity.RULES)):
        made += f"\n## {title}\n\n| rule | severity | a finding says | closed by |\n|---|---|---|---|\n"
        made += "".join(f"| `{r.name}` | {r.severity} | {r.means} | {r.closed_by} |\n" for r in rules)
    made += (
        "\n## Triage signals\n\nCounted without a model and without the outcome, to select trajectories for "
        "inspection: `assay.analysis.signals.signals(steps)` over the columns of the table `steps`, a row a "
        "trajectory; `signals_of(trajectory)` for one. `assay show` prints those of an attempt, and the page of a "
        "run's failures groups attempts by them, with the signals of all installed sets. Names and thresholds as "
        "published (arXiv 2604.00356), phrases and patterns are our own, for English only. A custom set is a class "
        "with `name`, `signals` and `counts(steps)` under the entry point `assay.signals`.\n\n| signal | raised "
        "when |\n|---|---|\n"
    )
    made += "".join(f"| `{signal.name}` | {signal.raised} |\n" for signal in SIGNALS)
    categories = ", ".join(f"`{category}`" for category in CATEGORIES)
    return made + (
        f"\nSeverity of a category ({categories}): 0 for none, 1 for one or two, 2 for three or four, 3 for five or "
        "more. The score begins at 50, adds up to 19 for satisfaction, and subtracts for disengagement, misalignment "
        "in more than 30% of the user's turns, stagnation, failures (8 each), loops (5 each) and exhaustion (3 each); "
        "escalation, quitting, or a severity of 3 in disengagement or stagnation make it 0.\n"
    )


def contracts_page() -> str:
    """docs/reference/contracts.md."""
    contracts = importlib.import_module("assay.analysis.contracts.contract")
    words = _script("contract_words")
    names = ("reader", "evaluation", "pattern", "memory", "flow")
    parts = {name: inspect.getdoc(importlib.import_module(f"assay.analysis.contracts.{name}")) or "" for name in names}
    guards = inspect.getdoc(importlib.import_module("assay.rollout.limits.contract_guards"))
    made = (
        "# Safety contracts\n\nA contract states conditions on the calls and the state of a run. `assay contract check "
        "FILE` validates one; `assay run --contract FILE` and a task's `[[metadata.assay.contracts]]` enforce it while "
        "agents act; `assay audit --contract FILE` judges a record. "
        "[How to](../how-to/judge-a-run.md).\n\n```text\n"
        f"{inspect.getdoc(contracts)}\n```\n"
    )
    tables = {
        "A file": contracts.ContractTable,
        "`[[rules]]`": contracts.RuleTable,
        "`[[agents]]`": contracts.AgentTable,
    }
    tables |= {"`[[labels]]`": contracts.LabelTable, "`[memory]`": contracts.MemoryTable}
    made += "".join(f"\n## {title}\n\n{inspect.getdoc(s)}\n\n{field_table(s)}" for title, s in tables.items())
    made += f"\n# Expressions\n\n```text\n{parts['reader']}\n```\n\n{parts['evaluation']}\n\n"
    made += "| operator | true at a step where |\n|---|---|\n"
    made += "".join(f"| `{form}` | {meaning} |\n" for form, meaning in words.MEANINGS.items())
    made += "\n## Fields of a step\n\nA step is a tool call, or a turn without one.\n\n"
    made += "| name | meaning |\n|---|---|\n"
    made += "".join(f"| `{root}.{name}` | {text} |\n" for root, below in ROOTS.items() for name, text in below.items())
    made += "".join(f"| `{root}` | {text} |\n" for root, text in words.ROOT_VALUES.items())
    made += f"\n## Patterns\n\n{parts['pattern']}\n\n# While an agent acts\n\n{guards}\n"
    made += f"\n## The memory of a session\n\n{parts['memory']}\n\n# Several agents\n\n{parts['flow']}\n"
    made += "\n# Finished examples\n\nThe tests evaluate each on a run that satisfies it and on runs that violate it.\n"
    for path in sorted((ROOT / "docs_src" / "contracts").glob("*.toml")):
        made += f"\n## {path.stem.replace('_', ' ')}\n\n```toml\n{path.read_text(encoding='utf-8')}```\n"
    return made


def formats_page() -> str:
    """docs/reference/formats.md."""
    made = (
        "# Formats of other tools\n\n`assay import` reads these formats, detected by content, and `assay export` "
        "writes them ([how to](../how-to/import-runs.md)). Tested on: *recorded*, published logs; *peer*, "
        "files that the tool itself wrote for the tests; *specification*, only its published "
        "description.\n\n"
        "| name | content | directions | tested on |\n|---|---|---|---|\n"
    )
    found = [one for one in load_formats() if type(one).__module__.startswith("assay.")]
    for one in found:
        made += f"| `{one.name}` | {one.title} | {'in, out' if one.writes else 'in'} | {one.provenance} |\n"
    for one in found:
        made += f"\n## {one.name}\n\n{inspect.getdoc(importlib.import_module(type(one).__module__))}\n"
    return made


def _about_cheat(cheat: Cheat) -> str:
    """Returns the cheat's own sentence, or its module's documentation."""
    module = cheat.about or inspect.getdoc(
        importlib.import_module(f"assay.agents.cheats.{cheat.name.replace('-', '_')}")
    )
    return str(module)


def cheats_page() -> str:
    """docs/reference/cheats.md."""
    quick = ", ".join(f"`{cheat.name}`" for cheat in CHEATS if cheat.quick)
    made = (
        "# Cheats\n\nA cheat tries to get a reward without doing the work. Admission runs cheats against a task's "
        "verifier in the task's own sandboxes before the verifier is used. A cheat knows what any agent can observe in "
        "the task, and which files a solution changes; it never writes the reference solution's content.\n\n"
        f"There are {len(CHEATS)}; the quick battery tries the ten most common: {quick}.\n"
    )
    for cheat in CHEATS:
        seen = cheat.incident if "://" not in cheat.incident else f"<{cheat.incident}>"
        made += (
            f"\n## {cheat.name}\n\n{_about_cheat(cheat)}\n\n- Relies on: {cheat.exploits}\n- Seen: {seen}\n"
            f"- Closed by: {', '.join(cheat.closed_by)}.\n"
        )
        made += f"- Tried first together with: {BUNDLES[cheat.bundle]}.\n" if cheat.bundle else ""
    return made


def llms_page() -> str:
    """llms.txt: the documents, one line each, for readers that are programs."""
    made = "# Assay\n\n> Records agent runs, judges them in isolated environments, stores tamper-evident records.\n"
    parts = ["", "how-to", "reference", "explanation", "design", "experiments"]
    for part in parts:
        pages = sorted((ROOT / "docs" / part).glob("*.md"))
        made += f"\n## {part or 'start'}\n\n" + ("- [README](README.md)\n" if not part else "")
        for page in pages:
            text = page.read_text(encoding="utf-8")
            title = next((line[2:] for line in text.splitlines() if line.startswith("# ")), page.stem)
            made += f"- [{title}]({page.relative_to(ROOT).as_posix()})\n"
    return made


def worlds_page() -> str:
    """docs/reference/worlds.md."""
    made = importlib.import_module(f"{__package__}.worlds_page" if __package__ else "worlds_page")
    page: str = made.worlds_page(field_table)
    return page


def training_rows_page() -> str:
    """docs/reference/training-rows.md."""
    page: str = _script("training_page").training_rows_page(struct_section, field_table)
    return page


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "configuration.md": configuration_page,
    "recipes.md": recipes_page,
    "records.md": records_page,
    "tables.md": tables_page,
    "json.md": json_page,
    "task-toml.md": task_toml_page,
    "environment.md": environment_page,
    "agents.md": agents_page,
    "checks.md": checks_page,
    "cheats.md": cheats_page,
    "contracts.md": contracts_page,
    "rules.md": rules_page,
    "volatile.md": volatile_page,
    "covered.md": covered_page,
    "worlds.md": worlds_page,
    "training-rows.md": training_rows_page,
    "formats.md": formats_page,
}


def with_files(text: str) -> str:
    """A page with the files and generated blocks that it includes."""

    def filled(found: re.Match[str]) -> str:
        return f"{found[1]}{(ROOT / found[2]).read_text(encoding='utf-8')}```\n"

    def generated(found: re.Match[str]) -> str:
        return f"{found[1]}\n{getattr(_script('layers_page'), found[2])()}\n\n{found[3]}"

    text = re.sub(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->\n)", generated, text, flags=re.DOTALL)
    return re.sub(r"(<!-- file: (\S+) -->\n```(?:python|toml)\n).*?```\n", filled, text, flags=re.DOTALL)


def _script(name: str) -> Any:
    """Imports another module of this folder, whether this one runs as a script or is imported."""
    return importlib.import_module(f"{__package__}.{name}" if __package__ else name)


def made_pages() -> Iterator[tuple[Path, str]]:
    """Every generated file and what belongs in it. llms.txt last, because it names the others."""
    for name, make in PAGES.items():
        yield REFERENCE / name, NOTICE + make()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        if page.parent != REFERENCE or page.name not in PAGES:
            yield page, with_files(page.read_text(encoding="utf-8"))
    yield ROOT / "llms.txt", llms_page()


def main(arguments: list[str]) -> int:
    """Writes, or with `--check` compares."""
    stale = []
    for path, text in made_pages():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT).as_posix())
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if "--check" in arguments and stale:
        sys.stderr.write(f"stale: {', '.join(stale)}; run make docs (scripts/make_reference.py)\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
