# on: py direct sepa sepd loops check cases-apart
# Nothing is done.
# cause: no work
true
