# on: direct sepd
# The program writes the reward and stops the shell: the script meets its time limit.
# cause: the judged program acts on the script's shell, of the same user
cat > /workspace/ledger.py <<'PYTHON'
import os, signal
print(0, flush=True)
open("/lo" + "gs/verifier/rew" + "ard.txt", "w").write("1")
pid = os.getppid()
while pid > 1 and "test.sh" not in open("/pr" + f"oc/{pid}/cmdline").read():
    pid = int(open("/pr" + f"oc/{pid}/stat").read().rpartition(")")[2].split()[1])
os.kill(pid, signal.SIGSTOP)
PYTHON
