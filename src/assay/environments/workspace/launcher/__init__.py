"""The sandbox launcher: a small stand-alone process that creates Linux sandboxes and serves as their first process.

It runs as `python -I -S`, standard library only, single threaded, with this folder's parent as its one extra path: it
never sees site-packages, and the large host process never forks. `__main__` is the loop, `boxes` the table of
sandboxes, `mounts` and `privileges` the set-up of a sandbox's first process before `init` serves commands in it.
`templates` starts processes that have loaded one of our programs, with the interpreter of a tool layer that holds no
package of a task's; first processes of judges are forks of these (`template`).

For each sandbox: one `clone` into new user, mount, PID, network, IPC, UTS and cgroup namespaces; identifiers mapped
away from every host user (as root: 0-65535 to 100000-165535; as an ordinary user: that user alone); an overlay whose
writable layer is a sized tmpfs (or a disk folder); pivot_root; lo up; rlimits; no_new_privs; no capabilities; a
seccomp filter; not dumpable; then the exec server.

Covered (each has an attack test): the host's files, processes, network, loopback services, abstract sockets and vsock;
writes to /proc/sys, sysrq, /sys and devices; ptrace, process_vm and /proc/1/mem of init; mounts, chroot, nested
namespaces, setuid programs; rarely used kernel interfaces with many vulnerabilities (bpf, perf, io_uring, userfaultfd,
keyrings, kexec, modules, System V shared memory); raising or lowering the limits of other processes; spending what
/proc/sys/user counts for the host's user; fork, memory, disk, inode and output floods within the limits that the
isolation record calls hard or soft; survival after the host process dies.

Not covered: exploits of the kernel itself (the kernel is shared; a virtual machine is the answer); side channels
between sandboxes on one core or cache; information in /proc about the kernel and the machine (version, memory,
load, the names of mounted devices; host folders that have mounts below them, which are bound as they are); with
`network="host"`, everything that the network offers; the sum of memory, and the disk without tmpfs, if no
cgroup is writable (a watchdog, 200 ms, called soft); CPU share without a cgroup; a whole-root image's own programs
and /etc, which its agent may change and a verifier in a fork would run.

System call numbers are tested on x86-64 only; those of arm64 were checked against the kernel's table but are untested.
"""
