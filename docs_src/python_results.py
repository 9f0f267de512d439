"""A store opened from Python: runs, attempts, SQL, tables."""

import assay

assay.run("family:grid,n=3", agent="expert", run="grid")

store = assay.open(".assay")
result = store.run("grid")
attempt = result.attempts[0]
print(attempt.task, attempt.outcome, "in", attempt.finished - attempt.started)
for step in attempt.trajectory.steps[:2]:
    print(step.index, step.message, [call.name for call in step.tool_calls])

slow = store.query("SELECT task, started, finished - started AS took FROM trajectories ORDER BY took DESC")
print(slow.arrow().schema.field("started"))  # slow.df() where pandas or polars is installed
print(result.arrow().num_rows, "attempts")

with result.view(open_browser=False) as page:  # result.view() opens a browser
    print("pages at", page.url.rpartition(":")[0])
