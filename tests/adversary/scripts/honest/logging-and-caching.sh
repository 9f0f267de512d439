# on: py direct sepa sepd
# The solution logs at debug level and warns of nothing.
# cause: honest work
SOLVE
cd /workspace && sed -i 's/^"""A ledger."""/"""A ledger."""\n\nimport logging\n\nLOGGER = logging.getLogger(__name__)/' ledger.py
python3 -c 'import ledger'
