# on: demo
# Nothing is done to the demo's task.
# cause: no work
true
