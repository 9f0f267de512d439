"""An ordinary program of smolagents. It runs unmodified under the agent `command`:

    assay agents install smolagents
    assay run TASKS --model openai:NAME --agent command --agent-option 'harnesses=["smolagents"]' \\
        --agent-option 'mounts={"docs_src/smolagents_program.py": "/opt/program.py"}' \\
        --agent-option 'command=["/opt/agents/smolagents/bin/python", "/opt/program.py"]'

The program passes the model's address itself; the task is on standard input.
"""

import os
import subprocess
import sys

from smolagents import OpenAIServerModel, ToolCallingAgent, tool


@tool
def shell(command: str) -> str:
    """Runs a shell command and returns its output.

    Args:
        command: What to run.
    """
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    return f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def main() -> None:
    """Lets the agent work on the task."""
    model = OpenAIServerModel(
        model_id=os.environ["OPENAI_MODEL"],
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
    )
    print(ToolCallingAgent(tools=[shell], model=model, max_steps=50).run(sys.stdin.read()))


if __name__ == "__main__":
    main()
