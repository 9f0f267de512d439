# on: check py sepa loops
# The first function that is called ends the program, with exit code 0.
# cause: the program that decides is ended by what it imports
cat > /workspace/ledger.py <<'PYTHON'
"""A ledger."""


def total(items):
    raise SystemExit


normal = spread = total
PYTHON
