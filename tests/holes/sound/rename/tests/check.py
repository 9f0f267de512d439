import os
import subprocess
import tempfile

OLD, NEW = ".jpeg", ".jpg"
GIVEN = ["a" + OLD, "b c" + OLD, "d" + NEW, OLD[1:], f"e{OLD}.txt"]
WANTED = ["a" + NEW, "b c" + NEW, "d" + NEW, OLD[1:], f"e{OLD}.txt"]

with tempfile.TemporaryDirectory() as folder:
    for name in GIVEN:
        with open(os.path.join(folder, name), "w") as file:
            file.write(name)
    subprocess.run(["/bin/sh", "/workspace/rename.sh", folder], check=True, capture_output=True)
    found = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        assert not os.path.islink(path)
        found[name] = open(path).read()
assert found == dict(zip(WANTED, GIVEN, strict=True)), found
