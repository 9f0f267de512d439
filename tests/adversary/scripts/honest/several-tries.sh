# on: py direct sepa sepd
# A first wrong try, a failing run of it, and the right solution after it.
# cause: honest work
cat > /workspace/ledger.py <<'PYTHON'
def total(items):
    return len(items)
PYTHON
cd /workspace && python3 -c 'import ledger; assert ledger.total([("a", 3)]) == 3' 2>/dev/null || echo 'not yet'
SOLVE
