import assay

assay.init_task("tasks/sum", exist_ok=True)  # a task folder to start from: instruction, tests, solution
result = assay.run("tasks", agent="oracle", attempts=2)
print(result)  # the table of rates
print(result.attempts[0].outcome, result.attempts[0].verdicts[0].reason)
