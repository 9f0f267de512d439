# on: py direct sepa sepd
# The reference solution is typed.
# cause: honest work
SOLVE
