"""The task family `tau2`: the tasks of tau2-bench, over its databases, which the user names by a folder.

A task is judged by what its reference solution leads to: the net changes of the database, which are equal if and only if
tau2's hashes are, and the facts that the agent must tell the person. Assertions in words, which tau2 has a model judge,
are not judged; the task says so in its metadata.

The person is the rule-driven one where its script can be made (`scenario`); otherwise the agent is given the whole
scenario as a ticket. `metadata.person` says which, and why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
from blake3 import blake3

from assay.environments.services.apps.tau2.airline import tau2_airline
from assay.environments.services.apps.tau2.retail import tau2_retail
from assay.environments.services.conversation import SEND, conversation
from assay.environments.services.data_files import DataFile
from assay.environments.services.declaration import Service
from assay.environments.services.outcome import as_json, expected_changes
from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.users import UserScript
from assay.environments.services.world import ServiceWorld
from assay.errors import UserError
from assay.records import Check, EnvironmentSpec, Task, digest_record

from .scenario import Scenario, Unscriptable, as_script, as_ticket

Person = Literal["auto", "ticket"]
