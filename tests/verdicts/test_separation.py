import itertools

import msgspec
import pytest
from msgspec.structs import replace

from assay.records import (
    IdMap,
    LoadFact,
    LoadFacts,
    MountFact,
    SandboxFacts,
    SeparationFacts,
    TaintFact,
    Verdict,
    canonical_bytes,
    decode,
)
from assay.verdicts import SEPARATIONS, grade_of, meets, weakest


def test_weakest_of_two_grades_is_the_later_one():
    for stronger, weaker in itertools.combinations(SEPARATIONS, 2):
        assert weakest([stronger, weaker]) == weakest([weaker, stronger]) == weaker


def test_weakest_of_nothing_is_unknown():
    assert weakest([]) == "unknown"


def test_requirement_accepts_itself_and_everything_stronger():
    assert [grade for grade in SEPARATIONS if meets(grade, "separate")] == ["no-agent-code", "separate"]
    assert not meets("unknown", "same-process")


def test_verdict_without_a_grade_keeps_its_old_canonical_bytes():
    verdict = Verdict("tests", "outcome", "pass", 1.0, "all passed")
    assert b"separation" not in canonical_bytes(verdict)
    assert decode(canonical_bytes(verdict), Verdict).separation == "unknown"


def box(number: int, **more) -> SandboxFacts:
    names = ("user", "pid", "mnt", "ipc", "net")
    own = MountFact("/", "overlay", f"0:{number}")
    system = MountFact("/usr", "ext4", "254:0", "/usr", read_only=True)
    null = MountFact("/dev/null", "devtmpfs", "0:6", "/null")
    facts = SandboxFacts(
        tier="namespaces",
        namespaces={name: 100 * number + index for index, name in enumerate(names)},
        uid_map=(IdMap(0, 100_000, 65_536),),
        gid_map=(IdMap(0, 100_000, 65_536),),
        uid=0,
        gid=0,
        image="image",
        layers=(f"/sealed/{number}", "/image"),
        state_layers=(f"/sealed/{number}",),
        writable=f"/t/{number}",
        mounts=(own, system, null),
        mount_total=3,
        descriptors=("control", "null"),
        descriptor_total=2,
        handed_over={"pipe": 2},
        handed_total=2,
    )
    return replace(facts, **more)


def pair(judge: dict | None = None, judged: dict | None = None, **more) -> SeparationFacts:
    first = {"layers": ("/image",), "state_layers": (), **(judge or {})}
    counts = [{"layer_total": len(own.get("layers", "ab")), "state_total": len(own.get("state_layers", "a"))}
              for own in (first, judged or {})]  # fmt: skip
    boxes = box(1, **counts[0], **first), box(2, **counts[1], **(judged or {}))
    return replace(SeparationFacts(boxes[0], boxes[1:], 1, "image", 2), **more)


SHARED = MountFact("/shared", "tmpfs", "0:99", "/a")
AGAINST = {
    "one namespace is shared": pair(judged={"namespaces": box(2).namespaces | {"net": 104}}),
    "the tier isolates nothing": pair(judge={"tier": "none"}),
    "the judge stands on a state": pair(judge={"state_layers": ("/image",)}),
    "the judge stands on what the judged wrote": pair(judge={"layers": ("/sealed/2", "/image")}),
    "the judge writes where the judged does": pair(judge={"writable": "/t/2"}),
    "the judged stands on what the judge writes": pair(judged={"layers": ("/t/1", "/image")}),
    "the judge has another image": pair(judge={"image": "other"}),
    "one more pipe was handed over": pair(judge={"handed_over": {"pipe": 3}, "handed_total": 3}),
    "a socket was handed over": pair(judged={"handed_over": {"socket": 1}, "handed_total": 1}),
    "a descriptor was left open": pair(judge={"descriptors": ("control", "socket")}),
}


@pytest.mark.parametrize("facts", AGAINST.values(), ids=AGAINST)
def test_a_fact_against_separation_is_graded_same_user(facts):
    assert grade_of(pair()) == "separate"
    assert grade_of(facts) == "same-user"


@pytest.mark.parametrize(("root", "read_only", "grade"), [
    ("/a", False, "same-user"), ("/a/b", False, "same-user"), ("/", True, "same-user"), ("/ab", False, "separate"),
])  # fmt: skip
def test_a_file_system_that_one_writes_and_the_other_sees_is_no_separation(root, read_only, grade):
    mount = replace(SHARED, root=root, read_only=read_only)
    facts = pair(
        {"mounts": (*box(1).mounts, SHARED), "mount_total": 4}, {"mounts": (*box(2).mounts, mount), "mount_total": 4}
    )
    assert grade_of(facts) == grade
    assert grade_of(replace(facts, judge=facts.judged[0], judged=(facts.judge,))) != "separate"


def test_text_that_the_reference_solution_does_not_print_lowers_the_grade():
    assert grade_of(pair(reference_difference="another text")) == "same-process"
    assert grade_of(pair(judged={"namespaces": {}}, reference_difference="another text")) == "unknown"


def test_a_file_system_that_neither_writes_is_no_channel():
    mounts = {"mounts": (*box(1).mounts[1:], replace(SHARED, read_only=True)), "mount_total": 3}
    assert grade_of(pair(mounts, mounts)) == "separate"


def fields_of(facts) -> list[tuple[str, object]]:
    return [(name, getattr(facts, name)) for name in facts.__struct_fields__]


def weaker(value):
    """Yields a value without one of its parts."""
    if isinstance(value, tuple):
        yield from (value[:index] + value[index + 1 :] for index in range(len(value)))
    if isinstance(value, dict):
        yield from ({k: v for k, v in value.items() if k != name} for name in value)
    yield type(value)() if isinstance(value, (tuple, dict)) else None


@pytest.mark.parametrize("facts", [pair(), *AGAINST.values()], ids=["separate", *AGAINST])
def test_dropping_a_fact_never_raises_the_grade(facts):
    grade = grade_of(facts)
    for name, value in fields_of(facts.judge):
        for less in weaker(value):
            assert meets(grade, grade_of(replace(facts, judge=replace(facts.judge, **{name: less})))), name
    for name, value in fields_of(facts.judged[0]):
        for less in weaker(value):
            assert meets(grade, grade_of(replace(facts, judged=(replace(facts.judged[0], **{name: less}),)))), name
    for less in ({"judged": ()}, {"judged_total": 2}, {"judged_total": None}, {"image": None}, {"pipes": 0}):
        assert meets(grade, grade_of(replace(facts, **less)))


def test_every_fact_that_is_missing_makes_the_grade_unknown():
    for name, value in fields_of(box(1)):
        if name not in ("state_layers", "handed_over"):  # of which an honest sandbox may have none
            less, facts = type(value)() if isinstance(value, (tuple, dict)) else None, pair()
            assert grade_of(replace(facts, judge=replace(facts.judge, **{name: less}))) == "unknown", name
            assert grade_of(replace(facts, judged=(replace(facts.judged[0], **{name: less}),))) == "unknown", name


def test_grade_is_read_back_from_recorded_evidence():
    data = msgspec.to_builtins(pair())
    assert grade_of(msgspec.convert(data, SeparationFacts)) == "separate"
    assert grade_of(msgspec.convert(data | {"judge": {}}, SeparationFacts)) == "unknown"


CAT = "/usr/bin/cat"
READ = LoadFact("reader", "open", CAT, "/workspace/out", "blake2b:cat", 7)
BESIDE = replace(READ, program="/bin/cat", digest="blake2b:b")
RAN = LoadFact("agent", "exec", "/bin/bash", "/workspace/run", "", 8)
IMPORTED = LoadFact("judge", "open", "/usr/bin/python3", "/workspace/a.py", "", 9)
OBSERVED = {
    "nothing was loaded": (LoadFacts(complete=True), "separate"),
    "a reader read": (
        LoadFacts(True, readers={CAT: "blake2b:cat"}, counts={"reader": 1}, loads=(READ,), load_total=1), "separate"
    ),
    "a reader of another digest read": (
        LoadFacts(True, readers={CAT: "blake2b:other"}, counts={"reader": 1}, loads=(READ,), load_total=1),
        "same-process",
    ),
    "a reader without a digest read": (LoadFacts(True, loads=(replace(READ, digest=""),), load_total=1), "unknown"),
    "a reader that the image lacks read": (
        LoadFacts(True, readers={"/bin/cat": "blake2b:cat"}, loads=(READ,), load_total=1), "unknown"
    ),
    "two readers of one name read": (
        LoadFacts(True, readers={CAT: "blake2b:cat", "/bin/cat": "blake2b:b"}, loads=(READ, BESIDE), load_total=2),
        "separate",
    ),
    "an agent's program ran": (LoadFacts(True, counts={"agent": 1}, loads=(RAN,), load_total=1), "same-user"),
    "a judge's process loaded": (LoadFacts(True, counts={"judge": 1}, loads=(IMPORTED,), load_total=1), "same-process"),
    "it is counted and not listed": (LoadFacts(True, counts={"judge": 1}), "same-process"),
    "a tainted process is told alone": (LoadFacts(True, tainted=(TaintFact(3, 1, "agent", "exec"),)), "same-user"),
    "the list was cut": (LoadFacts(True, load_total=1), "unknown"),
    "it was not observed": (LoadFacts(problem="no notification"), "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", OBSERVED)
def test_observation_only_lowers_what_hangs_on_it(name):
    loads, grade = OBSERVED[name]
    assert grade_of(pair(loads=loads)) == grade
    weaker = pair(judge={"image": "other"}, loads=loads)
    assert grade_of(weaker) == ("same-process" if grade == "same-process" else "same-user")
    assert grade_of(pair(judge={"tier": None}, loads=loads)) == "unknown"


def test_record_without_observation_keeps_its_old_canonical_bytes():
    assert b"loads" not in canonical_bytes(pair())
    assert decode(canonical_bytes(pair()), SeparationFacts).loads is None
    assert grade_of(pair()) == "separate"
