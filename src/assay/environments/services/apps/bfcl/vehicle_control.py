"""BFCL's `VehicleControlAPI`: engine, doors, climate, brakes and navigation of a car."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from msgspec import field

from .tool_class import Number, SeededState, Setting, ToolClass

_TANK_GALLONS: Final = 50
_MILES_PER_GALLON: Final = 20.0
_FULL_FORCE: Final = 1000
_DISTANCES: Final = {
    frozenset(("83214", "74532")): 750.0,
    frozenset(("56108", "62947")): 320.0,
    frozenset(("71354", "83462")): 450.0,
    frozenset(("47329", "52013")): 290.0,
    frozenset(("69238", "51479")): 630.0,
    frozenset(("94016", "83214")): 980.0,
    frozenset(("94016", "94704")): 600.0,
    frozenset(("94704", "08540")): 2550.0,
    frozenset(("94016", "08540")): 1950.0,
    frozenset(("62947", "47329")): 1053.0,
    frozenset(("94016", "62947")): 780.0,
    frozenset(("74532", "94016")): 880.0,
}
_ZIP_CODES: Final = {
    "Rivermist": "83214",
    "Stonebrook": "74532",
    "Maplecrest": "56108",
    "Silverpine": "62947",
    "Shadowridge": "71354",
    "Sunset Valley": "83462",
    "Oakendale": "47329",
    "Willowbend": "52013",
    "Crescent Hollow": "69238",
    "Autumnville": "51479",
    "San Francisco": "94016",
}
_RENAMED: Final = {
    "engine_state": "engineState",
    "_parkingBrakeForce": "parkingBrakeForce",
    "_slopeAngle": "slopeAngle",
    "_brakePedalForce": "brakePedalForce",
}
"""Attributes that have another name in a scenario."""


def _default_doors() -> dict[str, str]:
    return dict.fromkeys(("driver", "passenger", "rear_left", "rear_right"), "unlocked")


class VehicleState(SeededState):
    """Attributes of the car."""

    fuelLevel: Number = 0.0
    batteryVoltage: Number = 12.6
    engine_state: str = "stopped"
    remainingUnlockedDoors: int = 4
    doorStatus: dict[str, str] = field(default_factory=_default_doors)
    acTemperature: Number = 25.0
    fanSpeed: int = 50
    acMode: str = "auto"
    humidityLevel: Number = 50.0
    headLightStatus: str = "off"
    parkingBrakeStatus: str = "released"
    _parkingBrakeForce: Number = 0.0
    _slopeAngle: Number = 0.0
    brakePedalStatus: str = "released"
    _brakePedalForce: Number = 0.0
    distanceToNextVehicle: Number = 50.0
    cruiseStatus: str = "inactive"
    destination: str = "None"
    frontLeftTirePressure: Number = 32.0
    frontRightTirePressure: Number = 32.0
    rearLeftTirePressure: Number = 30.0
    rearRightTirePressure: Number = 30.0
    _weather: dict[str, Any] | None = None
    _metadata: str | None = None
    _parking: str | None = None
    _cities: list[str] | None = None

    @classmethod
    def load(cls, scenario: Mapping[str, Any], setting: Setting) -> Self:
        # `engine_state` is read by its name in scenarios alone, as in the original.
        state = super().load({name: value for name, value in scenario.items() if name not in _RENAMED}, setting)
        for name, other in _RENAMED.items():
            setattr(state, name, scenario.get(other, getattr(state, name)))
        state.remainingUnlockedDoors = 4 - sum(status == "locked" for status in state.doorStatus.values())
        state._seed = scenario.get("random_seed", 141053)
        if setting.extension is not None:
            state._weather = dict(setting.extension["LONG_WEATHER_EXTENSION"])
            state._metadata = setting.extension["CAR_STATUS_METADATA_EXTENSION"]
            state._parking = setting.extension["PARKING_BRAKE_INSTRUCTION"]
            state._cities = setting.extension["INTERMEDIARY_CITIES"]
        return state


vehicle: Final = ToolClass("VehicleControlAPI", "bfclvehicle", "Controls of a car.", VehicleState)
service: Final = vehicle.service


@vehicle.tool
def startEngine(state: VehicleState, ignitionMode: str) -> Any:
    """Starts the engine. The doors must be locked and the brake pedal fully pressed.

    Args:
        ignitionMode: START or STOP.
    """
    if ignitionMode == "STOP":
        state.engine_state = "stopped"
    if state.remainingUnlockedDoors > 0:
        unlocked = [door for door, status in state.doorStatus.items() if status == "unlocked"]
        text = "All doors must be locked before starting the engine. Here are the unlocked doors: "
        return {"error": text + ", ".join(unlocked)}
    if state.brakePedalStatus != "pressed":
        return {"error": "Brake pedal needs to be pressed when starting the engine."}
    if state._brakePedalForce != _FULL_FORCE:
        return {"error": "Must press the brake fully before starting the engine."}
    if state.fuelLevel < 0:
        return {"error": "Fuel tank is empty."}
    if ignitionMode != "START":
        return {"error": "Invalid ignition mode."}
    state.engine_state = "running"
    return {"engineState": "running", "fuelLevel": state.fuelLevel, "batteryVoltage": state.batteryVoltage}


@vehicle.tool
def fillFuelTank(state: VehicleState, fuelAmount: Number) -> Any:
    """Adds fuel to the tank, which holds 50 gallons.

    Args:
        fuelAmount: Gallons that are added.
    """
    if fuelAmount < 0:
        return {"error": "Fuel amount cannot be negative."}
    if state.fuelLevel + fuelAmount > _TANK_GALLONS:
        return {"error": "Cannot fill gas above the tank capacity."}
    if state.fuelLevel + fuelAmount < 0:
        return {"error": "Fuel tank is empty. Min fuel level is 0 gallons."}
    state.fuelLevel += fuelAmount
    return {"fuelLevel": state.fuelLevel}


@vehicle.tool
def lockDoors(state: VehicleState, unlock: bool, door: list[str]) -> Any:  # noqa: FBT001 - the original's parameter
    """Locks or unlocks doors.

    Args:
        unlock: True to unlock them, false to lock them.
        door: The doors: driver, passenger, rear_left, rear_right.
    """
    wanted, step = ("unlocked", 1) if unlock else ("locked", -1)
    for name in door:
        if state.doorStatus[name] != wanted:
            state.doorStatus[name] = wanted
            state.remainingUnlockedDoors += step
    return {"lockStatus": wanted, "remainingUnlockedDoors": state.remainingUnlockedDoors}


@vehicle.tool
def adjustClimateControl(
    state: VehicleState, temperature: Number, unit: str = "celsius", fanSpeed: int = 50, mode: str = "auto"
) -> Any:
    """Sets the climate control.

    Args:
        temperature: Temperature in degrees.
        unit: celsius or fahrenheit.
        fanSpeed: From 0 to 100.
        mode: auto, cool, heat or defrost.
    """
    if not 0 <= fanSpeed <= 100:
        return {"error": "Fan speed must be between 0 and 100."}
    state.acTemperature = (temperature - 32) * 5 / 9 if unit == "fahrenheit" else temperature
    state.fanSpeed, state.acMode = fanSpeed, mode
    return {"currentACTemperature": temperature, "climateMode": mode, "humidityLevel": state.humidityLevel}


@vehicle.tool
def get_outside_temperature_from_google(state: VehicleState) -> Any:
    """Returns the outside temperature in degrees Celsius."""
    weather = {} if state._weather is None else state._weather
    return {**weather, "outsideTemperature": state.uniform(-10.0, 40.0)}


@vehicle.tool
def get_outside_temperature_from_weather_com(_: VehicleState) -> Any:
    """Returns the outside temperature from another source."""
    return {"error": 404}


@vehicle.tool
def setHeadlights(state: VehicleState, mode: str) -> Any:
    """Switches the headlights.

    Args:
        mode: on, off or auto.
    """
    if mode not in ("on", "off", "auto"):
        return {"error": "Invalid headlight mode."}
    state.headLightStatus = "on" if mode == "on" else "off"
    return {"headlightStatus": state.headLightStatus}


@vehicle.tool
def displayCarStatus(state: VehicleState, option: str) -> Any:
    """Shows a part of the car's status.

    Args:
        option: fuel, battery, doors, climate, headlights, parkingBrake, brakePedal or engine.
    """
    shown: dict[str, dict[str, Any]] = {
        "fuel": {"fuelLevel": state.fuelLevel},
        "battery": {"batteryVoltage": state.batteryVoltage},
        "doors": {"doorStatus": state.doorStatus},
        "climate": {
            "currentACTemperature": state.acTemperature,
            "fanSpeed": state.fanSpeed,
            "climateMode": state.acMode,
            "humidityLevel": state.humidityLevel,
        },
        "headlights": {"headlightStatus": state.headLightStatus},
        "parkingBrake": {
            "parkingBrakeStatus": state.parkingBrakeStatus,
            "parkingBrakeForce": state._parkingBrakeForce,
            "slopeAngle": state._slopeAngle,
        },
        "brakePedal": {"brakePedalStatus": state.brakePedalStatus, "brakePedalForce": state._brakePedalForce},
        "engine": {"engineState": state.engine_state},
    }
    metadata = {} if state._metadata is None else {"metadata": state._metadata}
    return metadata | shown.get(option, {"error": "Invalid option"})


@vehicle.tool
def activateParkingBrake(state: VehicleState, mode: str) -> Any:
    """Engages or releases the parking brake.

    Args:
        mode: engage or release.
    """
    if mode not in ("engage", "release"):
        return {"error": "Invalid mode"}
    status, force = ("engaged", 500.0) if mode == "engage" else ("released", 0.0)
    state.parkingBrakeStatus, state._parkingBrakeForce, state._slopeAngle = status, force, 10.0
    instruction = {} if state._parking is None else {"parkingBrakeInstruction": state._parking}
    return instruction | {"parkingBrakeStatus": status, "_parkingBrakeForce": force, "_slopeAngle": 10.0}


@vehicle.tool
def pressBrakePedal(state: VehicleState, pedalPosition: Number) -> Any:
    """Presses the brake pedal, and keeps it pressed until it is released.

    Args:
        pedalPosition: From 0, released, to 1, fully pressed.
    """
    if not 0 <= pedalPosition <= 1:
        return {"error": "Pedal position must be between 0 and 1."}
    if pedalPosition == 0:
        return _release(state)
    state.brakePedalStatus, state._brakePedalForce = "pressed", pedalPosition * _FULL_FORCE
    return {"brakePedalStatus": "pressed", "brakePedalForce": float(state._brakePedalForce)}


@vehicle.tool
def releaseBrakePedal(state: VehicleState) -> Any:
    """Releases the brake pedal."""
    return _release(state)


def _release(state: VehicleState) -> dict[str, Any]:
    state.brakePedalStatus, state._brakePedalForce = "released", 0.0
    return {"brakePedalStatus": "released", "brakePedalForce": 0.0}


@vehicle.tool
def setCruiseControl(
    state: VehicleState,
    speed: Number,
    activate: bool,  # noqa: FBT001 - the original's parameter
    distanceToNextVehicle: Number,
) -> Any:
    """Switches the cruise control.

    Args:
        speed: From 0 to 120, a multiple of 5.
        activate: True to switch it on.
        distanceToNextVehicle: Distance to the next car in metres.
    """
    speed, distance = float(speed), float(distanceToNextVehicle)
    if state.engine_state == "stopped":
        return {"error": "Start the engine before activating the cruise control."}
    state.distanceToNextVehicle = distance
    if activate and (speed < 0 or speed > 120 or speed % 5 != 0):
        return {"error": "Invalid speed"}
    state.cruiseStatus = "active" if activate else "inactive"
    return {"cruiseStatus": state.cruiseStatus, "currentSpeed": speed, "distanceToNextVehicle": distance}


@vehicle.tool
def get_current_speed(state: VehicleState) -> Any:
    """Returns the current speed in km/h."""
    return {"currentSpeed": state.uniform(0.0, 120.0)}


@vehicle.tool
def display_log(_: VehicleState, messages: list[str]) -> Any:
    """Shows messages.

    Args:
        messages: The messages.
    """
    return {"log": messages}


@vehicle.tool
def estimate_drive_feasibility_by_mileage(state: VehicleState, distance: Number) -> Any:
    """Says whether the fuel suffices for a distance.

    Args:
        distance: Distance in miles.
    """
    return {"canDrive": not state.fuelLevel * _MILES_PER_GALLON < distance}


@vehicle.tool
def liter_to_gallon(_: VehicleState, liter: Number) -> Any:
    """Converts litres to gallons.

    Args:
        liter: Amount in litres.
    """
    return {"gallon": liter * 0.264172}


@vehicle.tool
def gallon_to_liter(_: VehicleState, gallon: Number) -> Any:
    """Converts gallons to litres.

    Args:
        gallon: Amount in gallons.
    """
    return {"liter": gallon * 3.78541}


@vehicle.tool
def estimate_distance(state: VehicleState, cityA: str, cityB: str) -> Any:
    """Estimates the distance of two cities in km.

    Args:
        cityA: Zip code of the first city.
        cityB: Zip code of the second city.
    """
    found = _DISTANCES.get(frozenset((cityA, cityB)))
    shown: dict[str, Any] = {"error": "distance not found in database."} if found is None else {"distance": found}
    return shown if state._cities is None else {**shown, "intermediaryCities": state._cities}


@vehicle.tool
def get_zipcode_based_on_city(_: VehicleState, city: str) -> Any:
    """Returns the zip code of a city.

    Args:
        city: Name of the city.
    """
    return {"zipcode": _ZIP_CODES.get(city, "00000")}


@vehicle.tool
def set_navigation(state: VehicleState, destination: str) -> Any:
    """Navigates to a destination.

    Args:
        destination: Street, city and state.
    """
    state.destination = destination
    return {"status": f"Navigating to {destination}"}


@vehicle.tool
def check_tire_pressure(state: VehicleState) -> Any:
    """Shows the pressure of the tires, in psi, and whether it is healthy."""
    names = ("frontLeftTirePressure", "frontRightTirePressure", "rearLeftTirePressure", "rearRightTirePressure")
    pressures = {name: getattr(state, name) for name in names}
    healthy = 30 <= sum(pressures.values()) / 4 <= 35
    return {**pressures, "healthy_tire_pressure": healthy, "car_info": state._metadata or {}}


@vehicle.tool
def find_nearest_tire_shop(_: VehicleState) -> Any:
    """Finds the nearest tire shop."""
    return {"shopLocation": "456 Oakwood Avenue, Rivermist, 83214"}
