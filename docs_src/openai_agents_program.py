"""An ordinary program of the OpenAI Agents SDK. It runs unmodified under the agent `command`:

    assay agents install openai-agents
    assay run TASKS --model openai:NAME --agent command --agent-option 'harnesses=["openai-agents"]' \\
        --agent-option 'mounts={"docs_src/openai_agents_program.py": "/opt/program.py"}' \\
        --agent-option 'command=["/opt/agents/openai-agents/bin/python", "/opt/program.py"]'

The SDK finds the model by OPENAI_BASE_URL and OPENAI_API_KEY; the task is on standard input. Words after the program:
`responses` for that API in place of Chat Completions, `stream` for streamed answers.
"""

import asyncio
import os
import subprocess
import sys

from agents import Agent, Runner, function_tool, set_default_openai_api, set_tracing_disabled


@function_tool
def shell(command: str) -> str:
    """Runs a shell command and returns its output."""
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


async def main() -> None:
    """Lets the agent work on the task."""
    set_tracing_disabled(True)
    set_default_openai_api("responses" if "responses" in sys.argv else "chat_completions")
    agent = Agent(name="worker", instructions="Solve the task.", tools=[shell], model=os.environ["OPENAI_MODEL"])
    task = sys.stdin.read()
    if "stream" in sys.argv:
        result = Runner.run_streamed(agent, task, max_turns=50)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, task, max_turns=50)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
