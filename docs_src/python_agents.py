"""Agents and checks as functions, two agents at once, and the results."""

import assay

assay.init_task("tasks/sum", exist_ok=True)


@assay.agent
async def adds(attempt):
    done = await attempt.shell("awk '{s += $1} END {print s}' numbers.txt > sum.txt", message="add them up")
    return "added" if done.exit_code == 0 else done.stderr


def guesses(attempt):  # a plain function: the same methods, without await
    attempt.write("/workspace/sum.txt", "42\n")


@assay.check
def is_a_number(files):
    return files["sum.txt"].strip().isdigit()


@assay.check(threshold=0.5)
def few_steps(transcript):
    return 1 / max(1, len(transcript.steps))


result = assay.run("tasks", agent=[adds, guesses], attempts=2, checks=[is_a_number, few_steps], run="first")
print(result)
for attempt in result.attempts:
    print(attempt.agent, attempt.outcome, {verdict.check: verdict.status for verdict in attempt.verdicts})
