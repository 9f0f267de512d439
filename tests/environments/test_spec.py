from __future__ import annotations

from typing import Any

import pytest

from assay.environments.interface import Image, ResourceLimits
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


@pytest.mark.parametrize("mode", ["public", "allowlist"])
def test_network_needs_the_flag(mode: str) -> None:
    with pytest.raises(UserError, match="--allow-network"):
        workspace_spec({"network_mode": mode}, image=Image(), toolchain=None)
    spec = workspace_spec({"network_mode": mode}, image=Image(), toolchain=None, allow_network=True)
    assert spec.network == "host"
    assert bool(spec.image.notes) == (mode == "allowlist")


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
