"""The system call filter, run on paper for both machines, and the tables that it is made from."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from assay.environments.workspace.launcher import seccomp
from assay.environments.workspace.launcher.syscalls import TABLES

pytestmark = pytest.mark.quick
ALLOW, KILL = 0x7FFF0000, 0x80000000
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
MACHINES = sorted(TABLES)


def decide(machine: str, number: int, arguments: tuple[int, ...] = (), architecture: int | None = None) -> int:
    arch = seccomp.ARCHITECTURES[machine] if architecture is None else architecture
    return run(seccomp.program(machine), number, arguments, arch)


def run(program: bytes, number: int, arguments: tuple[int, ...] = (), arch: int = 0) -> int:
    filled = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=IIQ6Q", number, arch, 0, *filled)
    code = list(struct.iter_unpack("=HBBI", program))
    place = value = 0
    while True:
        operation, yes, no, constant = code[place]
        place += 1
        if operation == 0x06:
            return constant
        if operation == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
            continue
        taken = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[operation]
        place += yes if taken else no


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_denied_is_denied_and_the_rest_is_not(machine: str) -> None:
    table = TABLES[machine]
    for name in seccomp.DENIED:
        assert name not in table or decide(machine, table[name]) == 0x50001, name
    denied = {table[name] for name in seccomp.DENIED if name in table} | {table["clone3"]}
    others = [n for n in range(seccomp.NEWEST + 1) if n not in denied]
    asked = {table[name] for name in ("prlimit64", "socket", "socketpair")}
    assert all(decide(machine, n) == ALLOW for n in others if n not in asked)


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_decide_where_they_should(machine: str) -> None:
    table = TABLES[machine]
    assert decide(machine, table["clone"], (0x10000011,)) == 0x50001
    assert decide(machine, table["clone"], (0x01200011,)) == ALLOW
    assert decide(machine, table["clone"], (0x8011,)) == 0x50001, "a child of the caller's parent"
    assert decide(machine, table["prlimit64"], (0,)) == ALLOW
    assert decide(machine, table["prlimit64"], (1,)) == 0x50001
    assert [decide(machine, table["ioctl"], (0, request)) for request in (0x5412, 0x541C)] == [0x50001] * 2
    assert decide(machine, table["ioctl"], (0, 0x5401)) == ALLOW
    families = {family: decide(machine, table["socket"], (family,)) for family in range(46)}
    assert {family for family, result in families.items() if result == ALLOW} == set(seccomp.FAMILIES)


def test_foreign_tables_kill_and_new_calls_do_not_exist() -> None:
    assert decide("x86_64", 0, architecture=0x40000003) == KILL
    assert decide("x86_64", 0x40000000) == KILL
    assert decide("aarch64", 0, architecture=0xC000003E) == KILL
    assert decide("x86_64", seccomp.NEWEST + 1) == 0x50000 | 38


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip(f"{HEADERS[machine]} is not installed")
    text = HEADERS[machine].read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR3?2?6?4?_?(\w+)\s+(\d+)$", text, re.M)}
    compared = [name for name, number in TABLES[machine].items() if known.get(name, number) == number]
    assert sorted(compared) == sorted(TABLES[machine])
    assert len(known.keys() & TABLES[machine].keys()) > 50


@pytest.mark.parametrize("machine", MACHINES)
def test_listener_is_asked_about_files_alone(machine: str) -> None:
    table, program = TABLES[machine], seccomp.asking_program(machine)
    asked = {table[name] for name in seccomp.ASKED if name in table}
    assert {number for number in range(500) if run(program, number) == 0x7FC00000} == asked
    folder = 0o200000 if machine == "x86_64" else 0o40000
    assert run(program, table["openat"], (0, 0, folder)) == ALLOW
    assert run(program, table["execve"], (0, 0, folder)) == 0x7FC00000
