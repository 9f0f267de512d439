"""Facts that the launcher records of its sandboxes, in both tiers."""

from __future__ import annotations

import os

import pytest

from assay.environments.capabilities import DescribesSeparation
from assay.environments.interface import WorkspaceSpec
from assay.records import SeparationFacts
from assay.verdicts import grade_of

IMAGE = WorkspaceSpec().image.digest


def compare(judge, judged, pipes: int = 0) -> str:
    return grade_of(SeparationFacts(judge, (judged,), 1, IMAGE, pipes))


@pytest.mark.asyncio
async def test_a_judge_on_the_image_is_separate_from_a_sandbox_on_what_an_agent_wrote(backend, box):
    await box.exec("echo mine > answer")
    judged = await backend.open(WorkspaceSpec(), state=await box.snapshot())
    judge = await backend.open(WorkspaceSpec(user="verifier"))
    assert isinstance(judge, DescribesSeparation)
    assert compare(await judge.facts(), await judged.facts()) == "separate"
    assert compare(await judged.facts(), await judge.facts()) == "same-user"


@pytest.mark.asyncio
async def test_a_command_beside_the_judged_one_is_not_separate(box):
    facts = await box.facts()
    assert compare(facts, facts) == "same-user"


@pytest.mark.asyncio
async def test_every_descriptor_that_a_judge_is_given_counts(backend, box):
    judge = await backend.open(WorkspaceSpec())
    assert compare(await judge.facts(), await box.facts()) == "separate"
    read, write = os.pipe()
    await judge.exec_piped(["/bin/true"], read, write)
    os.close(read), os.close(write)
    assert compare(await judge.facts(), await box.facts()) == "same-user"
    assert compare(await judge.facts(), await box.facts(), pipes=2) == "separate"


@pytest.mark.asyncio
async def test_commands_change_no_fact_about_their_sandbox(box):
    before = await box.facts()
    await box.exec("exec 9>/tmp/x; mkdir -p a/b; (sleep 9 &) ; unshare -rm true")
    assert await box.facts() == before


@pytest.mark.asyncio
async def test_facts_name_the_layers_of_a_state_as_the_kernel_lists_them(backend, box):
    await box.exec("echo 1 > a")
    forked = await box.fork()
    facts = await forked.facts()
    assert len(facts.state_layers) == 1
    assert set(facts.state_layers) < set(facts.layers)
    assert facts.writable not in facts.layers
