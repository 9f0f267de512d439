# on: py direct sepa sepd loops check cases-apart
# The reference solution is typed.
# cause: honest work
SOLVE
