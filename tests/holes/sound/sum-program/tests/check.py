import subprocess
import sys

CASES = [("1\n2\n3\n", "6", 0), ("", "0", 0), ("-5\n\n7\n", "2", 0), ("1\nx\n", "not a number", 2), ("40\n2", "42", 0)]
for given, wanted, code in CASES:
    run = subprocess.run([sys.executable, "-I", "/workspace/add.py"], input=given, capture_output=True, text=True)
    assert (run.stdout.strip(), run.returncode) == (wanted, code), (given, run)
