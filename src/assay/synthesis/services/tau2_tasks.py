"""Tasks of tau-bench and tau2-bench as their files have them, and what their reference solutions are here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from assay.environments.services.apps.tau2.databases import merge_changes
from assay.environments.services.conversation import SEND
from assay.environments.services.plans import PlannedCall
from assay.environments.services.users import UserAct

from .scenario import Scenario, Unscriptable

TRANSFER: Final = "transfer_to_human_agents"
CALL_TOOL: Final = "call_discoverable_agent_tool"
_RESPOND: Final = "respond"


class ReferenceAction(msgspec.Struct, frozen=True):
    """A call of the reference solution."""

    name: str
    arguments: dict[str, Any] = {}
    requestor: Literal["assistant", "user"] = "assistant"
    compare_args: tuple[str, ...] | None = None
    """Arguments that `ACTION` compares; None for all."""

    @property
    def compared_arguments(self) -> dict[str, Any]:
        """The arguments that `ACTION` compares."""
        if self.compare_args is None:
            return self.arguments
        return {name: value for name, value in self.arguments.items() if name in self.compare_args}


class Assertion(msgspec.Struct, frozen=True):
    """A function of the domain that must return a value in the end."""

    func_name: str
    arguments: dict[str, Any] = {}
    assert_value: bool = True


class Criteria(msgspec.Struct, frozen=True):
    """How an attempt is judged."""

    actions: tuple[ReferenceAction, ...] | None = None
    env_assertions: tuple[Assertion, ...] | None = None
    communicate_info: tuple[str, ...] | None = None
    nl_assertions: tuple[str, ...] | None = None
    reward_basis: tuple[str, ...] = ("DB", "COMMUNICATE")


class EarlierCall(msgspec.Struct, frozen=True):
    """A call in an earlier message."""

    name: str
    arguments: dict[str, Any] = {}


class EarlierMessage(msgspec.Struct, frozen=True):
    """A message that precedes a task."""

    role: Literal["user", "assistant", "tool"]
    content: str | None = None
    tool_calls: tuple[EarlierCall, ...] | None = None


class InitialState(msgspec.Struct, frozen=True):
    """State and messages that precede a task."""

    initialization_data: dict[str, Any] | None = None
    initialization_actions: tuple[dict[str, Any], ...] | None = None
    message_history: tuple[EarlierMessage, ...] | None = None


class SourceTask(msgspec.Struct, frozen=True):
    """A task of tau2-bench."""

    id: str
    user_scenario: Scenario
    evaluation_criteria: Criteria = Criteria()
    initial_state: InitialState | None = None
    ticket: str | None = None

    @property
    def initial_changes(self) -> dict[str, Any]:
        """Differences from the domain's database before the task, which the person's tools share."""
        state = self.initial_state
        data = (state.initialization_data or {}) if state is not None else {}
        return merge_changes(data.get("agent_data") or {}, data.get("user_data") or {})  # type: ignore[no-any-return]

    @property
    def earlier_messages(self) -> tuple[EarlierMessage, ...]:
        state = self.initial_state
        return () if state is None else state.message_history or ()

    @property
    def initial_calls(self) -> tuple[dict[str, Any], ...]:
        """Calls before the task: of the state, and of earlier messages."""
        state = self.initial_state
        events = () if state is None else state.initialization_actions or ()
        made = [call for message in self.earlier_messages for call in message.tool_calls or ()]
        return *events, *({"func_name": call.name, "arguments": call.arguments} for call in made)

    @property
    def called_tools(self) -> list[str]:
        """Tools that the reference calls by `call_discoverable_agent_tool`, sorted."""
        actions = self.evaluation_criteria.actions or ()
        found = {str(action.arguments.get("agent_tool_name", "")) for action in actions if action.name == CALL_TOOL}
        return sorted(found)

    @property
    def facts(self) -> tuple[str, ...]:
        """Facts that the agent must tell the person, if that is judged."""
        criteria = self.evaluation_criteria
        return (criteria.communicate_info or ()) if "COMMUNICATE" in criteria.reward_basis else ()

    def list_unjudged(self, *, judges_calls: bool) -> list[str]:
        """Returns what the original judges, or has judged by a model, and is not judged here.

        Args:
            judges_calls: Whether the domain's world reports which calls were made.
        """
        criteria = self.evaluation_criteria
        missing = []
        if "NL_ASSERTION" in criteria.reward_basis:
            missing += [f"assertion in words: {text}" for text in criteria.nl_assertions or ()]
        if "ACTION" in criteria.reward_basis and not judges_calls:
            others = [action.name for action in criteria.actions or () if action.name != TRANSFER]
            missing += [f"call: {name}" for name in others]
        return missing


class FirstAction(msgspec.Struct, frozen=True):
    """A call of a reference solution of tau-bench, version 1."""

    name: str
    kwargs: dict[str, Any] = {}


class FirstTask(msgspec.Struct, frozen=True):
    """A task of tau-bench, version 1."""

    instruction: str
    actions: tuple[FirstAction, ...] = ()
    outputs: tuple[str, ...] = ()


class RunInfo(msgspec.Struct, frozen=True):
    """Records of tau-bench beside a conversation."""

    task: FirstTask


class RecordedRun(msgspec.Struct, frozen=True):
    """A run of tau-bench, version 1."""

    task_id: int
    info: RunInfo

    @property
    def source(self) -> SourceTask:
        """The run's task, in the form of tau2-bench."""
        task = self.info.task
        actions = [ReferenceAction(one.name, one.kwargs) for one in task.actions if one.name != _RESPOND]
        criteria = Criteria(tuple(actions), communicate_info=task.outputs)
        return SourceTask(str(self.task_id), Scenario(task.instruction), criteria)


def reference_plan(task: SourceTask, acts: Sequence[UserAct]) -> Iterator[PlannedCall]:
    """Yields the reference solution as calls of the agent; where it has none, a look at the clock.

    Args:
        task: The task.
        acts: What the person does when asked; what the reference has them do becomes such a request. Without any, the
            agent has their tools.

    Raises:
        Unscriptable: No request makes the person do it.
    """
    actions = task.evaluation_criteria.actions or ()
    if not actions and not task.facts:
        yield PlannedCall("current_time")
    for action in actions:
        if action.requestor == "user" and acts:
            yield PlannedCall(SEND, {"text": f"I need you to {_cue_of(action, acts)}."})
        else:
            yield PlannedCall(action.name, action.arguments)
    if task.facts:
        yield PlannedCall(SEND, {"text": f"Here is what you wanted to know: {'; '.join(task.facts)}"})


def _cue_of(action: ReferenceAction, acts: Sequence[UserAct]) -> str:
    for act in acts:
        if (act.action, act.arguments) == (action.name, action.arguments):
            return act.cues[0]
    raise Unscriptable(f"no request makes the person do {action.name}")


_SCREENS: Final[Mapping[str, tuple[str, ...]]] = {
    "check_status_bar": ("check the status bar", "status bar"),
    "check_network_status": ("check the network status", "network status", "network connection"),
    "check_network_mode_preference": ("check the network mode preference", "network mode preference"),
    "run_speed_test": ("run a speed test", "speed test"),
    "check_sim_status": ("check the sim status", "sim status", "sim card status", "check your sim"),
    "check_data_restriction_status": ("check the data restriction status", "data restriction"),
    "check_apn_settings": ("check the apn settings", "check your apn"),
    "check_wifi_status": ("check the wi-fi status", "wi-fi status", "wifi status"),
    "check_wifi_calling_status": ("check the wi-fi calling status", "wi-fi calling status", "wifi calling status"),
    "check_vpn_status": ("check the vpn status", "vpn status"),
    "check_installed_apps": ("list the installed apps", "installed apps"),
    "can_send_mms": ("check whether mms works", "can send mms", "send an mms", "send a picture message"),
    "check_payment_request": ("check the payment request", "payment request"),
}
_ACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "reseat_sim_card": ("reseat the sim card", "re-seat", "reseat", "reinsert", "re-insert"),
    "reset_apn_settings": ("reset the apn settings", "reset your apn", "reset apn"),
    "connect_vpn": ("connect to the vpn", "connect to your vpn", "turn on the vpn", "turn on your vpn"),
    "disconnect_vpn": ("disconnect the vpn", "disconnect your vpn", "disconnect vpn", "turn off the vpn"),
    "make_payment": ("make the payment", "make a payment", "pay the bill"),
    "reboot_device": ("reboot the phone", "reboot", "restart"),
}
_SWITCHES: Final[Mapping[str, tuple[str, bool, tuple[str, ...]]]] = {
    "toggle_airplane_mode": ("airplane_mode", False, ("airplane mode",)),
    "toggle_data": ("mobile_data", True, ("mobile data", "cellular data")),
    "toggle_roaming": ("data_roaming", True, ("data roaming", "roaming")),
    "toggle_data_saver_mode": ("data_saver", False, ("data saver mode", "data saver")),
    "toggle_wifi": ("wifi", False, ("wi-fi radio", "wifi radio")),
    "toggle_wifi_calling": ("wifi_calling", False, ("wi-fi calling", "wifi calling")),
}
"""Name, position in which nothing stands in the way of mobile data, and nouns of each switch."""
_VERBS: Final = {True: ("turn on", "switch on", "enable"), False: ("turn off", "switch off", "disable")}
_MODES: Final = ("2g_only", "3g_only", "4g_only", "4g_5g_preferred")
_APPS: Final = ("messaging", "browser")
_PERMISSIONS: Final = ("sms", "storage", "phone", "network")


def phone_acts() -> tuple[UserAct, ...]:
    """Returns what a person does with their phone when asked, in the words of the request.

    The order is one in which all acts together repair the most: admission tries them without a diagnosis.
    """
    found = [UserAct(name, {}, cues, says_result=True) for name, cues in _SCREENS.items()]
    for name, (switch, usual, nouns) in _SWITCHES.items():
        cues = tuple(f"toggle {article}{noun}" for noun in nouns for article in ("", "the ", "your "))
        found.append(UserAct(name, {}, cues, says_result=True))
        for on in (not usual, usual):
            words = tuple(_switching_cues(_VERBS[on], nouns))
            found.append(UserAct("turn_switch", {"switch": switch, "on": on}, words, says_result=True))
    found += [
        UserAct("set_network_mode_preference", {"mode": mode}, _mode_cues(mode), says_result=True) for mode in _MODES
    ]
    for app in _APPS:
        for permission in _PERMISSIONS:
            arguments = {"app_name": app, "permission": permission}
            cues = (
                f"grant the {permission} permission to the {app} app",
                f"{permission} permission to the {app}",
                f"{permission} permission to your {app}",
                f"{permission} permission for the {app}",
                f"{permission} permission for your {app}",
                f"{app} app the {permission} permission",
                f"{app} app {permission} permission",
            )
            found.append(UserAct("grant_app_permission", arguments, cues, says_result=True))
        for name, noun in (("check_app_status", "status"), ("check_app_permissions", "permissions")):
            cues = (f"check the {noun} of the {app} app", f"{app} app {noun}", f"{noun} of your {app} app")
            found.append(UserAct(name, {"app_name": app}, cues, says_result=True))
    return *found, *(UserAct(name, {}, cues, says_result=True) for name, cues in _ACTS.items())


def _switching_cues(verbs: Sequence[str], nouns: Sequence[str]) -> Iterator[str]:
    for noun in nouns:
        for verb in verbs:
            word, _, particle = verb.partition(" ")
            for article in ("", "the ", "your "):
                yield f"{verb} {article}{noun}"
                if particle:
                    yield f"{word} {article}{noun} {particle}"


def _mode_cues(mode: str) -> tuple[str, ...]:
    return (f"set the network mode preference to {mode}", f"to {mode}", f"to `{mode}`", f"to '{mode}'")
