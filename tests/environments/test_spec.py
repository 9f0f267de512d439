from __future__ import annotations

from typing import Any

import pytest

from assay.environments.interface import Image, ResourceLimits
from assay.environments.workspace.process import ProcessBackend
from assay.environments.workspace.spec import workspace_spec
from assay.environments.workspace.toolchain import ToolLayer
from assay.errors import UserError

LAYER = ToolLayer("/cache/tools/x", "x", "3.11.7", ("lxml==6.1.1", "more-itertools==10.8.0"))
pytestmark = pytest.mark.quick


def test_empty_parameters_are_the_defaults() -> None:
    spec = workspace_spec({}, image=Image(), toolchain=LAYER)
    assert spec.limits == ResourceLimits()
    assert (spec.network, spec.user, spec.workdir) == ("none", "agent", "/workspace")
    assert spec.mounts[0].target == "/opt/assay"
    assert spec.env["PATH"].startswith("/opt/assay/bin:")


def test_limits_are_taken_over() -> None:
    parameters = {"cpus": 0.5, "memory_mb": 64, "storage_mb": 20, "processes": 7, "file_mb": 3, "open_files": 9}
    limits = workspace_spec(parameters | {"tmp_mb": 5}, image=Image(), toolchain=None).limits
    assert limits == ResourceLimits(64, 7, 0.5, 20, 5, 3, 9)


def test_own_tools_of_a_root_image_come_first() -> None:
    image = Image(env={"PATH": "/bin", "A": "1"}, root=True, workdir="/app/../srv")
    spec = workspace_spec({"env": {"A": "2"}, "cpus": None}, image=image, toolchain=LAYER)
    assert spec.env == {"PATH": "/bin:/opt/assay/bin", "A": "2"}
    assert spec.workdir == "/srv"


PUBLIC: dict[str, Any] = {"network_mode": "public"}
LISTED: dict[str, Any] = {"network_mode": "allowlist", "allowed_hosts": ["example.com", "192.0.2.0/24"]}


def test_network_needs_the_flag() -> None:
    with pytest.raises(UserError, match="give --allow-network to run it"):
        workspace_spec(PUBLIC, image=Image(), toolchain=None)
    spec = workspace_spec(PUBLIC, image=Image(), toolchain=None, allow_network=True)
    assert (spec.network, spec.notes) == ("host", ())


@pytest.mark.parametrize("flags", [{}, {"allow_network": True}, {"accept_whole_network": True}], ids=str)
def test_a_list_of_hosts_is_refused_where_it_cannot_be_held(flags: dict[str, bool]) -> None:
    with pytest.raises(UserError, match=r"example.com, 192.*give --allow-network --accept-whole-network"):
        workspace_spec(LISTED, image=Image(), toolchain=None, **flags)


def test_the_whole_network_in_place_of_a_list_is_noted() -> None:
    flags = {"allow_network": True, "accept_whole_network": True}
    spec = workspace_spec(LISTED, image=Image(), toolchain=None, **flags)
    assert spec.network == "host"
    assert ProcessBackend().isolation(spec).notes[-1].endswith("which nothing held: the whole network was open")


def test_an_empty_list_of_hosts_is_no_network() -> None:
    given = {"network_mode": "allowlist"}
    assert workspace_spec(given, image=Image(), toolchain=None, allow_network=True).network == "none"


def test_allowed_network_that_nobody_asks_for_stays_closed() -> None:
    assert workspace_spec({}, image=Image(), toolchain=None, allow_network=True).network == "none"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"memory": 1}, "unknown key 'memory'"),
        ({"memory_mb": -1}, "memory_mb"),
        ({"cpus": 0}, "cpus"),
        ({"network_mode": "some"}, "network_mode"),
        ({"workdir": "app"}, "absolute path"),
        ({"masks": ["/usr/../etc"]}, "absolute path"),
        ({"env": {"A": "${KEY}"}}, "template"),
        ({"env": {"A=B": "1"}}, "plain name"),
        ({"layers": ["numpy==1.0"]}, "lacks numpy==1.0"),
    ],
)
def test_wrong_parameter_is_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        workspace_spec(parameters, image=Image(), toolchain=LAYER)


def test_packages_are_compared_by_their_canonical_names() -> None:
    assert workspace_spec({"layers": ["More_Itertools==10.8.0"]}, image=Image(), toolchain=LAYER).mounts
