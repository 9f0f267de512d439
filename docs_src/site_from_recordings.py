"""Records a walker and an oracle on a site, recovers a mock of it, and lets an agent use the mock."""

import asyncio
from pathlib import Path

import msgspec

from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.synthesis.sites.from_runs import SiteFromRunsConfig, make_site
from assay.synthesis.sites.recorded_walks import read_walk

SITE = "family:sites,site=museum,n=3,seed=1,least=3,most=8"


async def main(settings: Settings) -> None:
    walks = []
    for agent, options in (("oracle", {}), ("page-walker", {"acts": 15})):
        await start_run(RunConfig(tasks=(SITE,), agent=agent, agent_options=options, run=agent), settings, Tally())
        with RunReader.open(settings, agent, RowsConfig()) as reader:
            walks += [read_walk(one) for one in reader.trajectories()]
    made = await make_site(walks, SiteFromRunsConfig(runs=(), out="", held_out=0.34, reading="values"))
    assert made.fidelity is not None
    print(f"{made.machine.name}: {made.figures['screens']} screens from {made.figures['steps']} steps")
    print(f"{made.fidelity.steps} steps held out, {made.fidelity.share:.0%} of them reproduced")
    Path("site.json").write_bytes(msgspec.json.encode(made))
    mock = "family:sites,machine=site.json,least=2,most=4,n=1"
    tally = Tally()
    await start_run(RunConfig(tasks=(mock,), agent="oracle", run="mock"), settings, tally)
    print(f"oracle on the mock: {tally.outcomes['pass']} passed")


asyncio.run(main(Settings(Path("cache"), Path(".assay"))))
