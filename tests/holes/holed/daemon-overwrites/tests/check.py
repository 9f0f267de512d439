import subprocess
import sys

run = subprocess.run([sys.executable, "/workspace/schedule.py"], capture_output=True, text=True, timeout=10)
assert run.returncode == 0, run.stderr
assert run.stdout.split() == ["fetch", "build", "test", "pack", "announce"], run.stdout
