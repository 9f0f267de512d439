# on: py direct sepa sepd
# Nothing is done.
# cause: no work
true
