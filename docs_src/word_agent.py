"""An agent in one file, and its test: `assay run TASKS --agent docs_src/word_agent.py --agent-option word=hello`."""

import asyncio

from assay.agents.interface import Attempt


class WordAgent:
    """Writes a word into a file."""

    name = "word"
    needs_model = False

    def __init__(self, word: str = "hello") -> None:
        self.word = word

    async def run(self, attempt: Attempt) -> None:
        """Acts until done. Keep nothing of an attempt on the object: it serves many at once."""
        done = await attempt.shell(["sh", "-c", f"echo {self.word} > answer.txt"], message="write it down")
        attempt.finish("written" if done.exit_code == 0 else f"could not write: {done.stderr}")


if __name__ == "__main__":
    from assay.agents.testing import FakeAttempt, FakeWorkspace

    attempt = FakeAttempt(workspace=FakeWorkspace())
    asyncio.run(WordAgent(word="yes").run(attempt))
    print(attempt.ended, "after", len(attempt.steps), "step")
