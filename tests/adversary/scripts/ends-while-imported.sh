# on: check py sepa loops
# The module ends the process that imports it, with exit code 0.
# cause: the program that decides is ended by what it imports
cat > /workspace/ledger.py <<'PYTHON'
"""A ledger."""

raise SystemExit(0)
PYTHON
