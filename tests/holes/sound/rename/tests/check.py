import os
import subprocess
import tempfile

with tempfile.TemporaryDirectory() as folder:
    for name in ("a.jpeg", "b c.jpeg", "d.jpg", "jpeg", "e.jpeg.txt"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(name)
    subprocess.run(["/bin/sh", "/workspace/rename.sh", folder], timeout=10, check=True, capture_output=True)
    found = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        assert not os.path.islink(path)
        found[name] = open(path).read()
wanted = {"a.jpg": "a.jpeg", "b c.jpg": "b c.jpeg", "d.jpg": "d.jpg", "jpeg": "jpeg", "e.jpeg.txt": "e.jpeg.txt"}
assert found == wanted, found
