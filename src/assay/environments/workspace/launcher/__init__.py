"""The sandbox launcher: a small stand-alone process that makes Linux sandboxes and serves as their first process.

It runs as `python -I -S`, standard library only, single threaded, with this folder's parent as its one extra path: it
never sees site-packages, and the big process never forks. `__main__` is the loop, `boxes` what it keeps for each
sandbox, `mounts` and `privileges` what a sandbox's first process does to itself before `init` serves commands in it.

For each sandbox: one `clone` into new user, mount, PID, network, IPC, UTS and cgroup namespaces; identifiers mapped
away from every host user (as root: 0-65535 to 100000-165535; as an ordinary user: that user alone); an overlay whose
writable layer is a sized tmpfs (or a disk folder); pivot_root; lo up; rlimits; no_new_privs; no capabilities; a
seccomp filter; not dumpable; then the exec server.

Covered (each has an attack test): the host's files, processes, network, loopback services, abstract sockets and vsock;
writes to /proc/sys, sysrq, /sys and devices; ptrace, process_vm and /proc/1/mem on init; mounts, chroot, nested
namespaces, setuid programs; kernel interfaces of little use and bad record (bpf, perf, io_uring, userfaultfd, keyrings,
kexec, modules, System V shared memory); raising or lowering the limits of other processes; spending what /proc/sys/user
counts for the host's user; fork, memory, disk, inode and output floods within the limits that the isolation record
calls hard or soft; survival after the host process dies.

Not covered: exploits of the kernel itself (the kernel is shared; a virtual machine is the answer); side channels
between sandboxes on one core or cache; what /proc tells of the kernel and the machine as a whole (version, memory,
load, the names of mounted devices; host folders that have mounts below them, which are bound as they are); with
`network="host"`, everything that the network offers; the sum of memory, and the disk when it is no tmpfs, where no
cgroup can be written (a watchdog, 200 ms, called soft); CPU share without a cgroup; a whole-root image's own programs
and /etc, which its agent may change and a verifier in a fork would run.

System call numbers are tested on x86-64 only; those of arm64 are a checked table and untested.
"""
