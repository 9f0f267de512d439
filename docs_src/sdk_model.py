"""A scripted model: it solves the task in every second conversation, and gives up in the others."""

from itertools import count

CONVERSATIONS = count()
SOLVE = "awk '{s += $1} END {print s}' numbers.txt > sum.txt; cat sum.txt"


def answer(request):
    turn = sum(message["role"] == "assistant" for message in request.messages)
    if turn == 0 and next(CONVERSATIONS) % 2:
        return "I give up."
    if turn == 0:
        return {"content": "Add them up.", "tool_calls": [{"name": "bash", "arguments": {"command": SOLVE}}]}
    return "Done."
