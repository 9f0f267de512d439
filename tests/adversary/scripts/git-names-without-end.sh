# on: direct
# Leaves four thousand files below a path that is made of `.git/modules` three hundred times.
# cause: a rule over an agent's paths takes the square of their lengths
python3 - <<'PY'
import os
os.chdir("/workspace")
try:
    for _ in range(288):
        for name in (".git", "modules"):
            os.mkdir(name)
            os.chdir(name)
    for number in range(4000):
        os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
except OSError as error:
    print(error)
PY
