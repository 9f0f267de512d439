# on: direct
# Leaves a chain of three thousand links, each to the next.
# cause: the attempt makes itself unjudgeable
python3 - <<'PY'
import os
os.chdir("/workspace")
for number in range(3000):
    os.symlink(f"link{number + 1}", f"link{number}")
PY
