# on: py sepa
# The module is a link to itself.
# cause: the attempt makes itself unjudgeable
rm /workspace/ledger.py && ln -s ledger.py /workspace/ledger.py
