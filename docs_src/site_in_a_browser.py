"""Carries out the reference plan of a task by the pages of a shop, in a real browser."""

import asyncio

from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.synthesis.services.family import ServiceTasks


async def main() -> None:
    (task,) = ServiceTasks(app="shop", interface="pages", level="explicit", writes=1).tasks(1, seed=3)
    site = SiteWorld(task.environment.parameters, task.environment.seed)
    try:
        while (act := site.advice()) is not None:
            observation = await site.call(act.name, act.parsed or {})
            print(act.name, act.parsed, "->", observation.content.partition("\n")[0])
        print(*[call.action for call in site.service.calls], "in", site.facts()["browser"]["version"])
        print(*site.facts()["difference"], sep="\n")
    finally:
        await site.close()
        await close_browsers()


asyncio.run(main())
