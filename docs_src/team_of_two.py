"""A team of two actors, and what the record says of each."""

from pathlib import Path

import assay
from assay.analysis.actor_usage import actor_usage

team = Path(__file__).with_name("team.toml")
result = assay.run("family:split-constraints,n=5,seed=1", agent="team", agent_options={"file": str(team)}, run="pair")
made = result.attempts[0].trajectory
for one in actor_usage(made):
    print(f"{one.actor}: {one.turns} turns, {one.acts} acts, {one.sent} sent, {one.received} received")
for step in made.steps:
    print(step.index, step.actor_name, [call.name for call in step.tool_calls])
