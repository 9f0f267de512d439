"""The console: generator, faults and their cures, rules of its actions, and what holds after any calls."""

from __future__ import annotations

from typing import Any

import pytest

from assay.environments.services.apps.console import (
    FAULT_KINDS,
    KEPT_DAYS,
    Alert,
    Certificate,
    ConfigChange,
    ConfigValue,
    Deployment,
    DiskUsage,
    Engineer,
    Fault,
    FeatureFlag,
    Host,
    Incident,
    Instance,
    LogLine,
    MetricPoint,
    Microservice,
    Release,
    Runbook,
    Shift,
    console,
)
from assay.environments.services.clock import START
from assay.environments.services.transaction import shift_time
from assay.environments.services.world import ServiceWorld
from tests.environments.services.properties import Calls, Letter, call, changed_tables, postbox, refuse, rows

KNOBS = ("bad_releases", "full_disks", "expired_certificates", "wrong_config_values", "memory_leaks")
CALM = dict.fromkeys((*KNOBS, "coming_faults"), 0)
SIZES = [{**CALM, "services": 3, "hosts": 3, "engineers": 12}, {}, {"services": 40, "hosts": 20, "engineers": 40}]
OBSERVED = {"metric_points", "log_lines", "alerts", "disk_usages"}


def opened(seed: int = 1, actor: str = "", **knobs: int) -> ServiceWorld:
    return ServiceWorld.of([console], seed, {"console": knobs}, actor)


def calm(seed: int = 1, **knobs: int) -> ServiceWorld:
    return opened(seed, **{**CALM, **knobs})


def ill(kind: str, seed: int = 1) -> tuple[ServiceWorld, Fault]:
    """Returns a world with one fault, and the fault."""
    world = calm(seed, **{KNOBS[FAULT_KINDS.index(kind)]: 1})
    return world, rows(world, Fault)[0]


def assert_invariants(world: ServiceWorld) -> None:
    assert world.database.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    releases = {release.id: release for release in rows(world, Release)}
    owners = {service.id: service.release_id for service in rows(world, Microservice)}
    running = {release.service_id: release.id for release in releases.values() if release.status == "current"}
    assert running == owners
    for deployment in rows(world, Deployment):
        assert releases[deployment.release_id].service_id == deployment.service_id
    drained = {host.id for host in rows(world, Host, status="drained")}
    instances = rows(world, Instance)
    assert {instance.service_id for instance in instances} == set(owners)
    assert not drained & {instance.host_id for instance in instances}
    values = {(value.service_id, value.name): value for value in rows(world, ConfigValue)}
    for change in rows(world, ConfigChange):  # by service and number: the last one of a value is its value
        values[change.service_id, change.name + "'"] = change
    for (service_id, name), change in values.items():
        if name.endswith("'"):
            assert values[service_id, name[:-1]].value == change.new
    sizes = {host.id: host.disk_gb for host in rows(world, Host)}
    assert all(0 <= usage.used_gb <= sizes[usage.host_id] for usage in rows(world, DiskUsage))
    firing = [(alert.service_id, alert.metric) for alert in rows(world, Alert, status="firing")]
    assert len(firing) == len(set(firing))


@pytest.mark.parametrize("knobs", SIZES)
def test_generator(knobs: dict[str, int]) -> None:
    world = opened(5, **knobs)
    assert len(rows(world, Microservice)) == knobs.get("services", 10)
    names = [engineer.name for engineer in rows(world, Engineer)]
    assert len(set(names)) < len(names)
    for service in rows(world, Microservice):
        last = max(rows(world, Deployment, service_id=service.id), key=lambda deployment: deployment.started)
        assert last.release_id == service.release_id
        times = [change.at for change in rows(world, ConfigChange, service_id=service.id)]
        assert times == sorted(times)


def test_bad_knobs() -> None:
    with pytest.raises(ValueError, match="20 faults need as many services, and there are 3"):
        calm(services=3, memory_leaks=20)
    with pytest.raises(ValueError, match="a full disk needs a host of its own"):
        calm(services=20, hosts=3, full_disks=4)


# Faults.


def newest(world: ServiceWorld, fault: Fault) -> dict[str, bool]:
    report = call(world, "check_service_health", service_id=fault.service_id)
    return {reading["metric"]: reading["is_normal"] for reading in report["readings"]}


def cure(world: ServiceWorld, fault: Fault) -> None:
    if fault.kind == "bad_release":
        call(world, "roll_back_service", service_id=fault.service_id, reason="Errors")
    elif fault.kind == "full_disk":
        call(world, "resize_disk", host_id=fault.host_id, disk_gb=2 * rows(world, Host, id=fault.host_id)[0].disk_gb)
    elif fault.kind == "expired_certificate":
        call(world, "rotate_certificate", certificate_id=fault.certificate_id)
    elif fault.kind == "wrong_config_value":
        change = call(world, "list_config_changes", service_id=fault.service_id)[0]
        given = {"service_id": fault.service_id, "name": change["name"]}
        call(world, "set_config_value", **given, value=change["old"], reason="Back")
    else:
        call(world, "restart_service", service_id=fault.service_id)


SYMPTOMS = {
    "bad_release": ("error_permille", "NullPointerException"),
    "full_disk": ("disk_percent", "no space left"),
    "expired_certificate": ("certificate_days", "handshake failed"),
    "wrong_config_value": ("latency_ms", "limited by configuration"),
    "memory_leak": ("memory_mb", "out of memory"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_shows_and_its_cure_shows_an_hour_later(kind: str, seed: int) -> None:
    world, fault = ill(kind, seed)
    metric, line = SYMPTOMS[kind]
    assert not newest(world, fault)[metric]
    alerts = call(world, "list_alerts", service_id=fault.service_id)
    assert metric in [alert["metric"] for alert in alerts]
    assert call(world, "search_logs", service_id=fault.service_id, text=line)
    cure(world, fault)
    assert rows(world, Fault)[0].status == "cured"
    assert not newest(world, fault)[metric]
    call(world, "wait", hours=1)
    assert all(newest(world, fault).values())
    assert call(world, "list_alerts", service_id=fault.service_id) == []


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_nothing_else_cures(kind: str) -> None:
    world, fault = ill(kind)
    service = rows(world, Microservice, id=fault.service_id)[0]
    if kind != "memory_leak":
        call(world, "restart_service", service_id=service.id)
        call(world, "wait", hours=1)
    if kind not in ("bad_release", "memory_leak"):
        call(world, "roll_back_service", service_id=service.id, reason="Perhaps")
    call(world, "scale_service", service_id=service.id, replicas=9)
    given = {"service_id": service.id, "name": "log_level", "value": "debug"}
    call(world, "set_config_value", **given, reason="To see more")
    call(world, "wait", hours=2)
    assert rows(world, Fault)[0].status == "active"
    assert not newest(world, fault)[SYMPTOMS[kind][0]]


def test_what_time_records_does_not_pile_up() -> None:
    world = calm(services=3, hosts=3, engineers=12)
    history = [sum(row.at < START for row in rows(world, kind)) for kind in (MetricPoint, LogLine)]
    call(world, "wait", hours=24 * 31)
    kept = shift_time(world.now, days=-KEPT_DAYS, hours=-6)
    for kind in (MetricPoint, LogLine):
        assert all(row.at >= kept for row in rows(world, kind) if row.at >= START)
    assert any(point.at >= START for point in rows(world, MetricPoint))
    assert [sum(row.at < START for row in rows(world, kind)) for kind in (MetricPoint, LogLine)] == history


def test_another_release_cures_a_bad_one_and_the_bad_one_is_bad_again() -> None:
    world, fault = ill("bad_release")
    good = next(r for r in rows(world, Release, service_id=fault.service_id, status="superseded") if r.approved_by)
    call(world, "deploy_release", release_id=good.id)
    assert "is running; wait" in refuse(world, "roll_back_service", service_id=fault.service_id, reason="Now")
    call(world, "wait", hours=1)
    assert rows(world, Fault)[0].status == "cured"
    call(world, "deploy_release", release_id=fault.release_id)
    call(world, "wait", hours=1)
    assert rows(world, Fault)[0].status == "active"


def test_a_purged_disk_fills_again() -> None:
    world, fault = ill("full_disk")
    assert call(world, "purge_host_logs", host_id=fault.host_id)["used_percent"] == 80
    assert "has no old logs" in refuse(world, "purge_host_logs", host_id=fault.host_id)
    call(world, "wait", hours=1)
    assert newest(world, fault)["disk_percent"]
    call(world, "wait", hours=5)
    assert not newest(world, fault)["disk_percent"]


@pytest.mark.parametrize("seed", range(3))
def test_coming_faults_begin_on_the_clock(seed: int) -> None:
    world = calm(seed, coming_faults=2)
    assert call(world, "list_alerts") == []
    call(world, "wait", hours=96)
    assert {fault.status for fault in rows(world, Fault)} == {"active"}
    assert {alert["service_id"] for alert in call(world, "list_alerts")} >= {f.service_id for f in rows(world, Fault)}
    assert_invariants(world)
    assert "faults" not in changed_tables(world)


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_every_cure_is_judged_by_the_change_that_it_is(kind: str) -> None:
    world, fault = ill(kind)
    assert changed_tables(world) == set()
    cure(world, fault)
    assert changed_tables(world)


def test_a_certificate_that_is_rotated_in_time_never_expires() -> None:
    world = calm()
    certificate = min(rows(world, Certificate), key=lambda c: c.expires)
    assert call(world, "rotate_certificate", certificate_id=certificate.id)["expires"] == "2026-05-31"
    assert "is valid until 2026-05-31" in refuse(world, "rotate_certificate", certificate_id=certificate.id)
    assert changed_tables(world) == {"certificates"}


# Other actions.


def service_of(world: ServiceWorld, **equal: Any) -> Microservice:
    found: Microservice = rows(world, Microservice, **equal)[0]
    return found


def test_deploy_and_approve() -> None:
    world = calm(services=40)
    release = next(
        r
        for service in rows(world, Microservice, tier="critical")
        for r in rows(world, Release, service_id=service.id, status="candidate", approved_by=None)
    )
    assert "is not approved" in refuse(world, "deploy_release", release_id=release.id)
    team = rows(world, Microservice, id=release.service_id)[0].team
    crew = [engineer.id for engineer in rows(world, Engineer, team=team)]
    stranger = next(engineer.id for engineer in rows(world, Engineer) if engineer.team != team)
    given = {"release_id": release.id}
    assert "Authors do not approve" in world.act("approve_release", given, role="user", actor=release.author_id).content
    assert "belongs to the team" in world.act("approve_release", given, role="user", actor=stranger).content
    other = next(engineer for engineer in crew if engineer != release.author_id)
    assert not world.act("approve_release", given, role="user", actor=other).error
    assert "needs no approval" in world.act("approve_release", given, role="user", actor=other).content
    call(world, "deploy_release", release_id=release.id)
    assert "is running" in refuse(world, "deploy_release", release_id=release.id)
    call(world, "wait", hours=1)
    assert "runs already" in refuse(world, "deploy_release", release_id=release.id)
    assert changed_tables(world) == {"releases", "deployments", "microservices", "instances"}
    assert_invariants(world)


def test_roll_back_and_withdraw() -> None:
    world = calm()
    service = service_of(world)
    assert "roll back first" in refuse(world, "withdraw_release", release_id=service.release_id, reason="Bad")
    rolled = call(world, "roll_back_service", service_id=service.id, reason="Odd")
    assert rolled["kind"] == "rollback"
    assert "was rolled back already" in refuse(world, "roll_back_service", service_id=service.id, reason="More")
    call(world, "withdraw_release", release_id=service.release_id, reason="Odd")
    assert "was withdrawn" in refuse(world, "deploy_release", release_id=service.release_id)
    assert "withdrawn already" in refuse(world, "withdraw_release", release_id=service.release_id, reason="Odd")
    assert_invariants(world)
    assert changed_tables(world) == {"releases", "deployments", "microservices", "instances"}


def test_restart_and_scale() -> None:
    world = calm()
    service = service_of(world)
    call(world, "restart_service", service_id=service.id)
    assert "wait 30 minutes" in refuse(world, "restart_service", service_id=service.id)
    assert len(call(world, "scale_service", service_id=service.id, replicas=7)) == 7
    assert "7 instances already" in refuse(world, "scale_service", service_id=service.id, replicas=7)
    assert len(call(world, "scale_service", service_id=service.id, replicas=1)) == 1
    assert len(rows(world, Instance, service_id=service.id)) == 1
    assert changed_tables(world) == {"instances"}


def test_only_the_owners_and_who_is_on_call_change_a_service() -> None:
    world = calm()
    service = service_of(world)
    on_call = call(world, "find_on_call", team=service.team)
    stranger = next(e for e in rows(world, Engineer) if e.team not in (service.team, "operations"))
    world.actor = stranger.email
    message = refuse(world, "restart_service", service_id=service.id)
    assert message.startswith("Error (forbidden)")
    assert on_call["engineer"]["name"] in message
    world.actor = on_call["engineer"]["id"]
    call(world, "restart_service", service_id=service.id)
    world.actor = "nobody"
    assert "not an engineer" in refuse(world, "restart_service", service_id=service.id)


def test_config_values() -> None:
    world = calm()
    number = rows(world, ConfigValue, kind="number")[0]
    given = {"service_id": number.service_id, "reason": "Because"}
    assert "it has" in refuse(world, "set_config_value", **given, name="speed", value="1")
    assert "whole number" in refuse(world, "set_config_value", **given, name=number.name, value="1.5")
    assert "is between" in refuse(world, "set_config_value", **given, name=number.name, value="99999")
    assert "already" in refuse(world, "set_config_value", **given, name=number.name, value=number.value)
    assert "on or off" in refuse(world, "set_config_value", **given, name="compression", value="1")
    call(world, "set_config_value", **given, name=number.name, value=str(number.maximum))
    assert call(world, "list_config_changes", service_id=number.service_id)[0]["old"] == number.value
    assert changed_tables(world) == {"config_values", "config_changes"}


def test_flags() -> None:
    world = calm()
    flag = rows(world, FeatureFlag)[0]
    assert "at least 1 percent" in refuse(world, "set_feature_flag", flag_id=flag.id, is_on=True, percent=0)
    call(world, "set_feature_flag", flag_id=flag.id, is_on=True, percent=40)
    assert "like that already" in refuse(world, "set_feature_flag", flag_id=flag.id, is_on=True, percent=40)
    assert changed_tables(world) == {"feature_flags"}


def test_hosts() -> None:
    world = calm()
    host = rows(world, Host)[0]
    assert "disks only grow" in refuse(world, "resize_disk", host_id=host.id, disk_gb=host.disk_gb)
    assert "can grow to" in refuse(world, "resize_disk", host_id=host.id, disk_gb=2 * host.disk_gb + 10)
    assert "multiple of 10" in refuse(world, "resize_disk", host_id=host.id, disk_gb=host.disk_gb + 5)
    call(world, "resize_disk", host_id=host.id, disk_gb=host.disk_gb + 50)
    assert "is up" in refuse(world, "return_host", host_id=host.id)
    call(world, "drain_host", host_id=host.id)
    assert "drained already" in refuse(world, "drain_host", host_id=host.id)
    assert call(world, "get_host", host_id=host.id)["instances"] == []
    others = [other.id for other in rows(world, Host) if other.id != host.id]
    for other in others[:-1]:
        call(world, "drain_host", host_id=other)
    assert "No other host is up" in refuse(world, "drain_host", host_id=others[-1])
    call(world, "return_host", host_id=host.id)
    assert changed_tables(world) == {"hosts", "instances"}
    assert_invariants(world)


def test_alerts_and_incidents() -> None:
    world, fault = ill("memory_leak")
    alert = call(world, "list_alerts", service_id=fault.service_id)[0]
    call(world, "acknowledge_alert", alert_id=alert["id"], note="On it")
    assert "has acknowledged" in refuse(world, "acknowledge_alert", alert_id=alert["id"], note="Me too")
    given = {"service_id": fault.service_id, "title": "Out of memory"}
    incident = call(world, "open_incident", **given, severity="sev2")["id"]
    assert "unresolved incident" in refuse(world, "open_incident", **given, severity="sev1")
    call(world, "change_incident_severity", incident_id=incident, severity="sev3")
    assert "is sev3 already" in refuse(world, "change_incident_severity", incident_id=incident, severity="sev3")
    away = next((e for e in rows(world, Engineer) if e.leave_until), None)
    if away is not None:
        assert "on leave" in refuse(world, "assign_incident_commander", incident_id=incident, engineer_id=away.id)
    present = next(e for e in rows(world, Engineer) if not e.leave_until and e.team != "operations")
    call(world, "assign_incident_commander", incident_id=incident, engineer_id=present.id)
    assert "already" in refuse(world, "assign_incident_commander", incident_id=incident, engineer_id=present.id)
    assert "mitigate it first" in refuse(world, "resolve_incident", incident_id=incident, cause="memory")
    cure(world, fault)
    call(world, "add_timeline_entry", incident_id=incident, text="Restarted")
    call(world, "mitigate_incident", incident_id=incident, note="Restart")
    assert "mitigated already" in refuse(world, "mitigate_incident", incident_id=incident, note="Restart")
    assert "still fire" in refuse(world, "resolve_incident", incident_id=incident, cause="memory")
    call(world, "wait", hours=1)
    call(world, "resolve_incident", incident_id=incident, cause="memory")
    assert "is resolved" in refuse(world, "mitigate_incident", incident_id=incident, note="Again")
    assert len(call(world, "get_incident", incident_id=incident)["timeline"]) == 6
    assert "was resolved at" in refuse(world, "acknowledge_alert", alert_id=alert["id"], note="Late")
    assert rows(world, Incident, id=incident)[0].cause == "memory"
    assert changed_tables(world) == {"acknowledgements", "incidents", "timeline_entries", "instances"}


def test_shifts() -> None:
    world = calm()
    shift = next(s for s in rows(world, Shift) if s.starts > world.now)
    old = next(s for s in rows(world, Shift, team=shift.team) if s.ends <= world.now)
    crew = [e for e in rows(world, Engineer, team=shift.team) if not e.leave_until and e.id != shift.engineer_id]
    assert "has this shift" in refuse(world, "hand_over_shift", shift_id=shift.id, engineer_id=shift.engineer_id)
    other = next(e for e in rows(world, Engineer) if e.team != shift.team)
    assert "is of the team" in refuse(world, "hand_over_shift", shift_id=shift.id, engineer_id=other.id)
    assert "The shift ended" in refuse(world, "hand_over_shift", shift_id=old.id, engineer_id=other.id)
    colleague = crew[0].id
    assert not world.act("set_leave", {"until": shift.starts[:10]}, role="user", actor=colleague).error
    assert "on leave" in refuse(world, "hand_over_shift", shift_id=shift.id, engineer_id=colleague)
    assert not world.act("set_leave", {"until": None}, role="user", actor=colleague).error
    call(world, "hand_over_shift", shift_id=shift.id, engineer_id=colleague)
    assert changed_tables(world) == {"shifts"}


def test_who_is_on_call_gets_mail() -> None:
    world = ServiceWorld.of([console, postbox], 1, {"console": {**CALM, "coming_faults": 1}})
    fault = rows(world, Fault)[0]
    team = rows(world, Microservice, id=fault.service_id)[0].team
    call(world, "open_incident", service_id=fault.service_id, title="Looks odd", severity="sev3")
    on_call = call(world, "find_on_call", team=team)["engineer"]["email"]
    assert [(letter.recipient, letter.subject) for letter in rows(world, Letter)] == [(on_call, "sev3: Looks odd")]
    call(world, "wait", hours=96)
    assert len(rows(world, Letter, recipient=on_call)) > 1


def test_views_of_a_calm_day() -> None:
    world = calm()
    runbook = rows(world, Runbook)[0]
    assert call(world, "get_runbook", runbook_id=runbook.id)["steps"]
    service = service_of(world)
    before = world.database.digest()
    points = call(world, "read_metrics", service_id=service.id, metric="latency_ms", since="2026-03-02T00:00")
    assert {point["at"][:10] for point in points} == {"2026-03-02"}
    assert world.database.digest() == before
    call(world, "wait", hours=24)
    assert changed_tables(world) == set()
    changed = {change.table.partition("_")[2] for change in world.database.changes()}
    assert changed <= OBSERVED | {"time", "scheduled"}


SERVICE: dict[str, Any] = {"service_id": "SVC-1"}
LOOK, INCIDENT = ("read_metrics", SERVICE), ("open_incident", SERVICE)
NOTE, WITHDRAW = ("add_timeline_entry", {}), ("withdraw_release", {})
ROLLBACK, RESTART = ("roll_back_service", SERVICE), ("restart_service", SERVICE)
CONTRACTS: list[tuple[str, Calls, Calls]] = [
    ("diagnose-first", [LOOK, RESTART, NOTE], [("read_metrics", {"service_id": "SVC-2"}), RESTART, NOTE]),
    ("incident-before-rollback", [LOOK, INCIDENT, ROLLBACK, NOTE, WITHDRAW], [LOOK, ROLLBACK, NOTE, WITHDRAW]),
    (
        "verify-before-mitigated",
        [LOOK, RESTART, NOTE, LOOK, ("mitigate_incident", {})],
        [LOOK, RESTART, NOTE, ("mitigate_incident", {})],
    ),
    ("changes-on-timeline", [LOOK, RESTART, NOTE], [LOOK, NOTE, RESTART]),
    (
        "two-replicas",
        [LOOK, ("scale_service", {**SERVICE, "replicas": 2})],
        [LOOK, ("scale_service", {**SERVICE, "replicas": 1})],
    ),
    ("two-restarts", [LOOK, RESTART, RESTART, NOTE], [LOOK, RESTART, RESTART, RESTART, NOTE]),
    ("resize-after-purge", [("purge_host_logs", {}), ("resize_disk", {})], [("purge_host_logs", {})]),
    ("withdraw-after-rollback", [LOOK, INCIDENT, ROLLBACK, NOTE, WITHDRAW], [LOOK, INCIDENT, ROLLBACK, NOTE]),
    (
        "metrics-before-half",
        [("set_feature_flag", {"percent": 50}), LOOK, ("set_feature_flag", {"percent": 60})],
        [("set_feature_flag", {"percent": 60})],
    ),
]


def test_a_wait_in_which_too_much_would_happen_is_refused() -> None:
    """It costs two seconds at most, and a shorter one goes on."""
    world = ServiceWorld.of([console], 1)
    before = world.database.digest()
    refused = world.act("wait", {"hours": 24 * 31})
    assert refused.content == "Error (unavailable): Too much would happen; wait for a shorter time."
    assert world.database.digest() == before
    assert not world.act("wait", {"hours": 24 * 7}).error
