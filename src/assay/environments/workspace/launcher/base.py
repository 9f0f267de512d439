"""The host-tools base: the host's files that a sandbox sees, all read-only, and the files created for it.

Nothing else of the host is visible: no home, no /var, /run, /srv, /mnt, /sys, no service socket, no shadow file.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "libexec", "etc")
"""Top-level folders mounted read-only: the host's, except `etc`, which is the skeleton's. Links among them stay
links."""
FOLDERS = ("dev", "proc", "tmp", "run", "var", "var/tmp", "opt", "mnt", "srv", "home", "etc", "sys", "root")
WORKSPACE, HOME = "workspace", "home/agent"
ETC_COPIED = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl/certs", "ssl/openssl.cnf", "ca-certificates",
    "pki/tls/certs", "pki/ca-trust/extracted/pem", "localtime", "timezone", "protocols", "services", "mime.types",
    "magic", "debian_version", "os-release", "terminfo", "inputrc", "bash.bashrc", "profile", "fonts", "gai.conf",
    "gitconfig.d", "perl", "java-17-openjdk", "java-21-openjdk", "python3", "python3.11", "python3.12", "python3.13",
)  # fmt: skip
"""Copied from the host's /etc once per launcher, if they exist and are world-readable."""
ETC_LARGEST = 4 * 1024 * 1024
ETC_WRITTEN = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "host.conf": "multi on\n",
    "resolv.conf": "",
    "shells": "/bin/sh\n/bin/bash\n",
}
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
DEVICE_LINKS = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}  # fmt: skip
PROC_READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")


def _copy(source: str, target: str) -> None:
    """Copies a file, link or folder; unreadable, special and too large files are left out."""
    if os.path.islink(source):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
        for name in sorted(os.listdir(source)):
            if name != "private":
                _copy(f"{source}/{name}", f"{target}/{name}")
    elif os.path.isfile(source):
        status = os.stat(source)
        if status.st_mode & 0o004 and status.st_size <= ETC_LARGEST:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(source, target)
            os.chmod(target, status.st_mode & 0o755)


def write_skeleton(folder: str, host: str) -> None:
    """Makes the lowest layer in `folder` from the host tree at `host`."""
    for name in FOLDERS:
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    os.chmod(f"{folder}/tmp", 0o1777)
    os.chmod(f"{folder}/var/tmp", 0o1777)
    for name in SYSTEM:
        place = Path(host, name)
        if place.is_symlink():
            os.symlink(os.readlink(place), f"{folder}/{name}")
        elif place.is_dir():
            os.makedirs(f"{folder}/{name}", exist_ok=True)
    for name, text in ETC_WRITTEN.items():
        Path(folder, "etc", name).write_text(text, encoding="utf-8")
    for name in ETC_COPIED:
        try:
            _copy(f"{host}/etc/{name}", f"{folder}/etc/{name}")
        except OSError:
            continue  # best effort: a tool that misses one of them says so itself
    os.symlink("/proc/self/mounts", f"{folder}/etc/mtab")
    for name in (WORKSPACE, HOME):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
