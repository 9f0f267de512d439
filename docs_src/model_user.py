"""A person whose words a model chooses: one model keeps to the script, and another makes up a fact."""

import asyncio
import json
from pathlib import Path

from assay.agents.interface import Attempt
from assay.records import Task, ToolCall
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.synthesis.services.family import ServiceTasks
from assay.tasks import LoadedTask

BIKES = f"{Path(__file__).with_name('bike_service.py')}:bikes"


class Asker:
    """Asks which bike is meant, and does nothing else."""

    name = "asker"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        arguments = {"text": "Which bike do you mean?"}
        await attempt.act([ToolCall("c0", "send_message", json.dumps(arguments), arguments)])
        attempt.finish("asked")


def run(task: Task, name: str, answer: str) -> None:
    """Runs the agent with a person whose model always gives one answer."""
    Path(f"{name}.json").write_text(json.dumps({"replies": [answer], "after": "last"}), encoding="utf-8")
    config = RunConfig(tasks=("-",), agent=f"{__file__}:Asker", user_model=f"scripted:{name}.json", retries=0, run=name)
    settings = Settings(Path("cache"), Path(".assay"))
    asyncio.run(start_run(config, settings, Tally(), tasks=[LoadedTask(task, None)]))
    with RunStore.open(settings.store, name) as store:
        done = store.trajectory(store.attempts()[0].chain)
    if done.finished is not None and done.finished.broke is not None:
        print(name, "broke:", done.finished.broke, "-", done.finished.error)
        return
    facts = next(e.data["facts"] for e in done.evidence if e.kind == "facts")
    for item in facts["summaries"]["conversation"]["checklist"]:
        where = "" if item["turn"] is None else f" at turn {item['turn']} by message {item['message']}"
        print(f"{name}: {item['fact']} {item['status']}{where}")


if __name__ == "__main__":
    (task,) = ServiceTasks(app=BIKES, level="persona", user="model", writes=1).tasks(1, 0)
    (fact, *_) = task.environment.parameters["knobs"]["conversation"]["script"]["facts"]
    run(task, "faithful", f"Of course. {fact['text']}")
    run(task, "unfaithful", "The bike is the bike called yellow 99.")
