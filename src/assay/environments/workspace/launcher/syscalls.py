"""System calls without a wrapper in Python 3.11, each raising its error as `OSError`.

Contains no policy. Numbers differ by machine; `NUMBERS` is empty on an unknown one.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
MNT_DETACH = 2
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH, RESOLVE_IN_ROOT = 2, 4, 8, 16
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 22, 24, 38, 47
PR_SET_CHILD_SUBREAPER, PR_SET_NAME = 36, 15
CAPABILITIES = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4}

# Both columns were read from the kernel's syscall tables; 424 and above are the same on every machine.
_SHARED = {
    "pidfd_getfd": 438, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
    "fspick": 433, "openat2": 437, "mount_setattr": 442, "memfd_secret": 447, "clone3": 435,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "quotactl_fd": 443,
    "pidfd_send_signal": 424, "process_madvise": 440, "set_mempolicy_home_node": 450,
}  # fmt: skip
_X86_64 = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "mount": 165, "umount2": 166, "pivot_root": 155,
    "chroot": 161, "unshare": 272, "setns": 308, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
    "keyctl": 250, "add_key": 248, "request_key": 249, "kexec_load": 246, "kexec_file_load": 320, "init_module": 175,
    "finit_module": 313, "delete_module": 176, "reboot": 169, "swapon": 167, "swapoff": 168, "open_by_handle_at": 304,
    "name_to_handle_at": 303, "acct": 163, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159,
    "clock_adjtime": 305, "quotactl": 179, "syslog": 103, "iopl": 172, "ioperm": 173, "move_pages": 279, "mbind": 237,
    "set_mempolicy": 238, "migrate_pages": 256, "lookup_dcookie": 212, "vhangup": 153, "kcmp": 312,
    "fanotify_init": 300, "shmget": 29, "clone": 56, "ioctl": 16, "socket": 41, "socketpair": 53, "prlimit64": 302,
    "open": 2, "openat": 257, "execve": 59, "execveat": 322, "seccomp": 317,
    "rename": 82, "link": 86, "renameat": 264, "linkat": 265, "renameat2": 316,
}  # fmt: skip
_AARCH64 = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "mount": 40, "umount2": 39, "pivot_root": 41,
    "chroot": 51, "unshare": 97, "setns": 268, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
    "keyctl": 219, "add_key": 217, "request_key": 218, "kexec_load": 104, "kexec_file_load": 294, "init_module": 105,
    "finit_module": 273, "delete_module": 106, "reboot": 142, "swapon": 224, "swapoff": 225, "open_by_handle_at": 265,
    "name_to_handle_at": 264, "acct": 89, "settimeofday": 170, "clock_settime": 112, "adjtimex": 171,
    "clock_adjtime": 266, "quotactl": 60, "syslog": 116, "move_pages": 239, "mbind": 235,
    "set_mempolicy": 237, "migrate_pages": 238, "lookup_dcookie": 18, "vhangup": 58, "kcmp": 272,
    "fanotify_init": 262, "shmget": 194, "clone": 220, "ioctl": 29, "socket": 198, "socketpair": 199, "prlimit64": 261,
    "openat": 56, "execve": 221, "execveat": 281, "seccomp": 277, "renameat": 38, "linkat": 37, "renameat2": 276,
}  # fmt: skip
TABLES = {"x86_64": _X86_64 | _SHARED, "aarch64": _AARCH64 | _SHARED}
MACHINE = platform.machine()
NUMBERS = TABLES.get(MACHINE, {})

_libc = ctypes.PyDLL(None, use_errno=True)
_api = ctypes.pythonapi
AT_FDCWD = -100
_NEW_LISTENER, _WAIT_KILLABLE = 8, 32


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)


def _text(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    result = _libc.mount(_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(data))
    _check(result, f"mount {kind or 'bind'} {source or ''} on {target} ({data or hex(flags)})")


def unmount(target: str) -> None:
    """umount2(2), lazily."""
    _check(_libc.umount2(_text(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2)."""
    _check(_libc.syscall(NUMBERS["pivot_root"], _text(new), _text(old)), "pivot_root")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _check(_libc.unshare(flags), "unshare")


def prctl(option: int, *arguments: int) -> int:
    """prctl(2) with integer arguments; returns the result, negative on error."""
    filled = (*arguments, 0, 0, 0, 0)[:4]
    return int(_libc.prctl(option, *[ctypes.c_ulong(a) for a in filled]))


def set_hostname(name: str) -> None:
    """sethostname(2)."""
    data = name.encode()
    _check(_libc.sethostname(data, ctypes.c_size_t(len(data))), "sethostname")


def clone(flags: int) -> int:
    """Forks into new namespaces, with Python's own fork hooks, from a single-threaded process; returns 0 in the child
    and the child's process id in the parent."""
    _api.PyOS_BeforeFork()
    pid = int(_libc.syscall(NUMBERS["clone"], ctypes.c_ulong(flags | 17), None, None, None, None))
    if pid == 0:
        _api.PyOS_AfterFork_Child()
        return 0
    number = ctypes.get_errno()
    _api.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(number, f"clone {flags:#x}: {os.strerror(number)}")
    return pid


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    """openat2(2): an open that cannot leave `folder`, as `resolve` says."""
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, resolve)
    number = NUMBERS["openat2"]
    return _check(_libc.syscall(number, folder, _text(path), how, ctypes.c_size_t(len(how))), f"open {path}")


def set_file_user(user: int) -> None:
    """Sets the user and group for file access of this thread only."""
    _libc.setfsgid(user)
    _libc.setfsuid(user)


def hide_arguments(shown: bytes) -> None:
    """Overwrites this process's command line, which names host paths, before any sandbox can read it."""
    with open("/proc/self/stat", "rb") as handle:
        fields = handle.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, shown, min(len(shown), end - start - 1))


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def set_capabilities(keep: int) -> None:
    """Sets permitted and effective capabilities to `keep`, and clears inheritable and ambient ones."""
    low, high = keep & 0xFFFFFFFF, keep >> 32
    header = _CapabilityHeader(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
    _check(_libc.capset(ctypes.byref(header), data), "capset")
    prctl(PR_CAP_AMBIENT, 4)


def drop_bounding_set(keep: int) -> None:
    """Removes every capability except `keep` from the bounding set."""
    for capability in range(64):
        if not keep >> capability & 1 and prctl(PR_CAPBSET_DROP, capability) < 0:
            break


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def load_filter(program: bytes) -> None:
    """Installs a seccomp filter of 8-byte instructions on this thread permanently."""
    buffer = ctypes.create_string_buffer(program, len(program))
    head = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    _check(_libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(2), ctypes.byref(head), 0, 0), "seccomp")


def load_listening_filter(program: bytes) -> int:
    """Installs a filter with a notification listener, which it returns. If the kernel supports it (5.19), a non-fatal
    signal does not interrupt a call during its notification."""
    buffer = ctypes.create_string_buffer(program, len(program))
    head = _Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    both = ctypes.c_ulong(_NEW_LISTENER | _WAIT_KILLABLE)
    listener = int(_libc.syscall(NUMBERS["seccomp"], 1, both, ctypes.byref(head)))
    if listener < 0:
        listener = int(_libc.syscall(NUMBERS["seccomp"], 1, ctypes.c_ulong(_NEW_LISTENER), ctypes.byref(head)))
    return _check(listener, "seccomp listener")


def clone_mount(path: str) -> int:
    """open_tree(2) with OPEN_TREE_CLONE: a detached copy of one mount."""
    flags = 1 | os.O_CLOEXEC
    return _check(_libc.syscall(NUMBERS["open_tree"], AT_FDCWD, _text(path), flags), f"open_tree {path}")


def map_mount(tree: int, user_namespace: int) -> None:
    """mount_setattr(2) with MOUNT_ATTR_IDMAP: owners are seen through `user_namespace`."""
    attributes = struct.pack("QQQQ", 0x100000, 0, 0, user_namespace)
    number, size = NUMBERS["mount_setattr"], ctypes.c_size_t(len(attributes))
    _check(_libc.syscall(number, tree, b"", 0x1000, attributes, size), "mount_setattr")


def attach_mount(tree: int, target: str) -> None:
    """move_mount(2): puts a detached mount at `target`."""
    _check(_libc.syscall(NUMBERS["move_mount"], tree, b"", AT_FDCWD, _text(target), 4), f"move_mount {target}")


def restrict_tree(path: str, attributes: int) -> None:
    """mount_setattr(2) over a whole tree of mounts: adds `attributes` (1 read-only, 2 nosuid, 4 nodev, 8 noexec)."""
    data = struct.pack("QQQQ", attributes, 0, 0, 0)
    size = ctypes.c_size_t(len(data))
    result = _libc.syscall(NUMBERS["mount_setattr"], AT_FDCWD, _text(path), 0x8000, data, size)
    _check(result, f"restrict {path}")
