"""Two agents in the same conversations: one asks for what is missing, and one chats until the person has had enough."""

import asyncio
import json
from pathlib import Path

from assay.agents.interface import Attempt
from assay.api.service_measures import read_process_measures
from assay.environments.services.dialogue_measures import interview_utility
from assay.records import ToolCall
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings

SHOP = "family:services,app=shop,level=persona,writes=1,n=3"
CHAT = "Nice weather today. What do you think?"


async def say(attempt: Attempt, *texts: str) -> None:
    for text in texts:
        arguments = {"text": text}
        await attempt.act([ToolCall("c0", "send_message", json.dumps(arguments), arguments)])
    attempt.finish("talked")


class Asker:
    """Asks for everything at once, twice."""

    name = "asker"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        question = "Which one do you mean? Please tell me the order, the parcel, the product, the name and the email."
        await say(attempt, question, question)


class Chatter:
    """Never asks for what the task needs."""

    name = "chatter"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        await say(attempt, *[CHAT] * 8)


if __name__ == "__main__":
    settings = Settings(Path("cache"), Path(".assay"))
    for name in ("Asker", "Chatter"):
        config = RunConfig(tasks=(SHOP,), agent=f"{__file__}:{name}", run=name.lower())
        asyncio.run(start_run(config, settings, Tally()))
    for one in read_process_measures(settings.store, ("asker", "chatter")):
        if one.conversation is not None and one.conversation.interview is not None:
            obtained = f"{one.conversation.interview.obtained} of {one.conversation.interview.needed} facts"
            utility = interview_utility(one.conversation.interview)
            print(one.agent, obtained, f"utility {utility:+.2f}", f"emotion {one.conversation.emotions[-1]:.2f}")
