"""An agent written with the `openai` SDK: it asks, runs what the model calls, and shows it the output."""

import json
import os
import subprocess
import sys

from openai import OpenAI

PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
BASH = {"type": "function", "function": {"name": "bash", "description": "Runs a command.", "parameters": PARAMETERS}}


def main() -> None:
    """Works on the task of standard input until the model calls no tool."""
    client = OpenAI()  # finds OPENAI_BASE_URL and OPENAI_API_KEY
    messages = [
        {"role": "system", "content": "Solve the task with bash."},
        {"role": "user", "content": sys.stdin.read()},
    ]
    for _ in range(20):
        reply = client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=messages, tools=[BASH])
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            command = json.loads(call.function.arguments)["command"]
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
            output = f"exit {done.returncode}\n{done.stdout}{done.stderr}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


if __name__ == "__main__":
    main()
