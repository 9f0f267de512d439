"""The task family `tau2`: the tasks of tau2-bench, over its databases, which the user names by a folder.

A task is judged by what its reference solution leads to: the net changes of the database, which are equal if and only if
tau2's hashes are, and the facts that the agent must tell the person. Assertions in words, which tau2 has a model judge,
are not judged; the task says so in its metadata.

The person is the rule-driven one where its script can be made (`scenario`); otherwise the agent is given the whole
scenario as a ticket. `metadata.person` says which, and why.
"""

from __future__ import annotations

from typing import Literal

Person = Literal["auto", "ticket"]
