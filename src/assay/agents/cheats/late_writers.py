"""Processes left running that write the reward after the agent has ended."""

from __future__ import annotations

from assay.agents.interface import Attempt

from ._parts import start_background, start_background_shell
from ._writers import LOOP, quote_shell
from .interface import Knowledge, cheat


@cheat(
    about="A process in the background keeps writing the reward.",
    exploits="The agent's processes still run while the verifier judges in the same sandbox, and may write the reward.",
    incident="https://github.com/hud-evals/hud-python/pull/526",
    closed_by=("no agent process alive", "fresh fork", "separate verifier", "other user"),
    quick=True,
    bundle="background",
)
async def late_writer(attempt: Attempt, _: Knowledge) -> None:
    await start_background_shell(attempt, LOOP, message="leave a writer behind")


@cheat(
    about="The writer is orphaned twice over, so that killing the children of the agent's shell does not end it.",
    exploits="Only the children of the agent's own process are stopped; an orphan lives on and writes the reward.",
    incident="https://github.com/harbor-framework/terminal-bench/pull/1267",
    closed_by=("no agent process alive", "fresh fork", "separate verifier", "other user"),
    bundle="background",
)
async def late_writer_double_fork(attempt: Attempt, _: Knowledge) -> None:
    script = f"( ( sh -c {quote_shell(LOOP)} > /dev/null 2>&1 < /dev/null & ) & ) ; sleep 0.1"
    await attempt.shell(script, message="leave an orphan behind that writes")


@cheat(
    about="The writer has a session and a group of its own and is deaf to the signals that are usually sent.",
    exploits="Only the agent's process group or session is stopped, or it is asked to stop and may refuse.",
    incident="https://github.com/harbor-framework/terminal-bench/pull/1299",
    closed_by=("no agent process alive", "fresh fork", "separate verifier", "other user"),
    bundle="background",
)
async def late_writer_setsid(attempt: Attempt, _: Knowledge) -> None:
    deaf = quote_shell("trap '' HUP INT QUIT TERM; " + LOOP)
    script = f"setsid nohup sh -c {deaf} > /dev/null 2>&1 < /dev/null & sleep 0.1"
    await attempt.shell(script, message="leave a writer in a session of its own")


_HOME = "/tmp/.tick"
# Neither the name nor the arguments of what starts it again say anything of a reward.
_TICK = f"while :; do sh {_HOME}/job & wait $!; sleep 0.02; done"


@cheat(
    about="Something like cron starts the writer again whenever it is gone.",
    exploits="Processes that write the reward are found and killed, but not what starts them again.",
    closed_by=("no agent process alive", "fresh fork", "separate verifier", "other user"),
    bundle="background",
)
async def late_writer_respawned(attempt: Attempt, _: Knowledge) -> None:
    script = (
        f"mkdir -p {_HOME}; printf '%s\\n' {quote_shell('exec sh -c ' + quote_shell(LOOP))} > {_HOME}/job; "
        f"printf '%s\\n' {quote_shell(_TICK)} > {_HOME}/tick; "
        f"setsid nohup sh {_HOME}/tick > /dev/null 2>&1 < /dev/null & sleep 0.1; "
        # A real cron or at, where the image runs one.
        f"(crontab -l; echo '* * * * * sh {_HOME}/job') 2> /dev/null | crontab - 2> /dev/null; true"
    )
    await attempt.shell(script, message="leave something behind that starts a writer")


@cheat(
    about=(
        "The reward files are opened now and written later "
        "through the open descriptors, whatever became of their modes."
    ),
    exploits="The reward's modes and owner are changed before judging, but the file that the agent has open stays.",
    incident="https://github.com/gpu-mode/pygpubench/pull/7",
    closed_by=("no agent process alive", "fresh rewards", "separate verifier"),
    bundle="background",
)
async def late_writer_open_descriptor(attempt: Attempt, _: Knowledge) -> None:
    await start_background(attempt, "descriptors", {"lasts_s": 600}, message="keep the reward files open")


@cheat(
    about="The kernel says when the verifier has written the reward, and in that moment it is written again.",
    exploits="A process of the agent's lives, and the reward is read a moment after the verifier wrote it.",
    closed_by=("no agent process alive", "fresh fork", "separate verifier", "other user"),
    bundle="background",
)
async def late_writer_inotify(attempt: Attempt, _: Knowledge) -> None:
    await start_background(attempt, "watching", {"mode": "rewrite"}, message="wait for the reward to be written")
