"""ECHO's weights: also learn to foresee what the environment answers.

Source: arXiv 2605.24517 (form from secondary sources; prime-rl has it as `echo` with alpha 0.1). Beside the policy
gradient on action tokens, a cross-entropy on the tokens of observations that the agent's own actions caused, in the
same forward pass:

    L = L_policy + alpha * mean over those tokens of -log p

`echo_weights` gives each token its weight in the second sum, alpha / their number: so the term is a mean of its own
count whatever the number of action tokens. Observations before the first action, warnings of the harness and templates
are excluded: the agent caused none of them. A model that never saw observations in training starts with a loss so large
that it drowns the policy gradient; warm alpha up and watch both gradient norms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def echo_weights(
    roles: NDArray[Any], sequence: NDArray[Any] | None = None, *, alpha: float = 0.1, names: Sequence[str] | None = None
) -> NDArray[np.float32]:
    """Returns the cross-entropy weight [N] of each token; 0 for all but observations caused by the agent.

    Args:
        roles: [N] of each token: `action`, `observation`, `warning`, ..., or its code.
        sequence: [N] which row a token is of, never decreasing, where several are packed; one row where left out.
        alpha: The term's weight.
        names: What codes mean, in order, where roles are codes.
    """
    if alpha < 0:
        raise ValueError(f"alpha must not be negative; got {alpha}")
    role_codes = np.asarray(roles)
    row = np.zeros(len(role_codes), dtype=np.int64) if sequence is None else np.asarray(sequence, dtype=np.int64)
    if row.shape != role_codes.shape:
        raise ValueError(
            f"roles are {role_codes.shape} and sequence is {row.shape}; one entry a token is expected in each"
        )
    action: str | int = "action" if names is None else names.index("action")
    observation: str | int = "observation" if names is None else names.index("observation")
    acted = np.cumsum(role_codes == action)
    # Actions before the row began do not count: what was acted up to here less what was acted up to its start.
    starts = np.flatnonzero(np.append(True, row[1:] != row[:-1])) if len(row) else np.zeros(0, dtype=np.int64)
    before = np.repeat(np.append(0, acted)[starts], np.diff(np.append(starts, len(row))))
    caused = (role_codes == observation) & (acted > before)
    count = int(caused.sum())
    return np.asarray(caused * (alpha / max(count, 1)), dtype=np.float32)
