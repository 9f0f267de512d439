# on: direct sepd
# Another right program: argparse and a main function.
# cause: honest work
cat > /workspace/ledger.py <<'PYTHON'
"""A ledger."""

import sys


def total(items):
    """The sum of (name, amount) pairs' amounts."""
    return sum(amount for _, amount in items)


def main(arguments):
    print(total([("", int(argument)) for argument in arguments]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
PYTHON
