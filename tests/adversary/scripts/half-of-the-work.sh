# on: py sepa
# One of three functions is repaired.
# cause: no work
sed -i 's/    return text/    return " ".join(text.lower().split())/' /workspace/ledger.py
