"""The page on observing runs names every metric with its labels, and no other."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from assay.gateway.metrics import GatewayLoad, declare_gateway_metrics
from assay.learning.service.app import RolloutApp
from assay.learning.service.ledger import Ledger
from assay.learning.service.policies import PolicyBook
from assay.learning.service.service_config import RolloutServiceConfig
from assay.learning.service.worker import BatchWorker
from assay.rollout.cluster.agent import AgentConfig, NodeAgent
from assay.rollout.cluster.agent_metrics import declare_agent_metrics
from assay.settings import Settings
from scripts.make_reference import ROOT

pytestmark = pytest.mark.quick
PAGE = (ROOT / "docs" / "how-to" / "observe-runs.md").read_text()


async def test_the_table_names_every_metric(tmp_path: Path) -> None:
    config, ledger = RolloutServiceConfig(), Ledger(tmp_path / "service")
    policies = PolicyBook(tmp_path / "service" / "policies")
    worker = BatchWorker(config, Settings(tmp_path, tmp_path), ledger, policies)
    RolloutApp(config, ledger, policies, worker, "a-token-of-some-length")
    registry = worker.metrics.registry
    declare_gateway_metrics(registry, GatewayLoad)
    declare_agent_metrics(registry, NodeAgent(AgentConfig("a"), None, None))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    declared = {
        f"{family.name}{{{','.join(family.label_names)}}}" if family.label_names else family.name
        for family in registry.collect()
    }
    assert set(re.findall(r"`(assay_\w+(?:\{[\w,]+\})?)`", PAGE)) == declared
