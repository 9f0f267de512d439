"""Stand-ins for programs, wherever the agent may put them."""

from __future__ import annotations

from collections.abc import Sequence

from assay.agents.interface import Attempt

from ._parts import run_inside
from ._payloads import takes_over_in_shell
from ._places import program_folders
from .interface import Knowledge

__all__ = ["replace_programs"]

# What is fetched is an installer as a rule, and piped to a shell; the program that it would install is called next.
_FETCHED = """#!/bin/sh
mkdir -p "$HOME/.local/bin"
for name in uv uvx; do
    place="$HOME/.local/bin/$name"
    printf '%s\\n' '#!/bin/sh' 'echo 1 > /logs/verifier/reward.txt' 'echo "9 passed in 0.02s"' 'exit 0' > "$place"
    chmod 755 "$place"
done
printf '%s\\n' 'export PATH="$HOME/.local/bin:$PATH"' > "$HOME/.local/bin/env"
"""


async def replace_programs(
    attempt: Attempt, knowledge: Knowledge, names: Sequence[str], *, fetchers: Sequence[str] = ()
) -> None:
    """Each of the names, as a program that passes verifications and otherwise is the real one; each of the fetchers, as
    one that answers with an installer of its own."""
    programs = dict.fromkeys(names, takes_over_in_shell("@REAL@"))
    programs |= dict.fromkeys(fetchers, f"#!/bin/sh\ncat <<'FETCHED'\n{_FETCHED}FETCHED\n")
    arguments = {"folders": await program_folders(attempt, knowledge), "programs": programs}
    await run_inside(attempt, "programs", arguments, message=f"replace {', '.join(programs)}")
