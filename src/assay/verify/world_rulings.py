"""Parts of checks that judge worlds, for checks that other packages define."""

from ._ruling import Ruling
from ._world_check import make_result, read_parameters, refuse_workspace

__all__ = ["Ruling", "make_result", "read_parameters", "refuse_workspace"]
