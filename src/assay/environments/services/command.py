"""The command `service` for a sandbox: its folder, and the variables by which programs find it and the service.

The program itself is `environments/payload/service.py`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from assay.environments.interface import Mount

ADDRESS: Final = "ASSAY_SERVICE_URL"
FOLDER: Final = "/opt/service"
_PROGRAM: Final = Path(__file__).parent.parent / "payload" / "service.py"
_LAUNCHER: Final = """\
#!/bin/sh
for python in /opt/assay/bin/python3 python3 python; do
    if command -v "$python" >/dev/null 2>&1; then
        exec "$python" -I "${0%/*}/../service.py" "$@"
    fi
done
echo "service: no Python here" >&2
exit 2
"""


@contextmanager
def command_mount() -> Iterator[Mount]:
    """Yields a read-only folder of the command, for `FOLDER`; it is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="assay-service-") as folder:
        root = Path(folder)
        launcher = root / "bin" / "service"
        launcher.parent.mkdir()
        launcher.write_text(_LAUNCHER, encoding="utf-8")
        shutil.copyfile(_PROGRAM, root / "service.py")
        (root / "service.py").chmod(0o644)
        for path in (root, launcher.parent, launcher):
            path.chmod(0o755)  # whatever the umask, for the sandbox's user
        yield Mount(folder, FOLDER)


def command_path(path: str) -> str:
    """Returns a PATH that has the command, before the system's program of the same name."""
    return f"{FOLDER}/bin:{path}"
