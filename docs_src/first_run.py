import assay

assay.init_task("tasks/sum")  # a task folder to start from: instruction, environment, tests, solution
result = assay.run("tasks", agent="oracle", attempts=2)
print(result)  # the table of rates
print(result.attempts[0].outcome, result.attempts[0].verdicts[0].reason)
