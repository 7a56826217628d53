"""`naproxy mqtt`: servers and meters for Home Assistant, by MQTT with discovery.

A process of its own, beside the controller: a broker that hangs holds nothing up. Names and
units are those of `naproxy export`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from naproxy import __version__
from naproxy.api.client import READERS_SOCKET
from naproxy.api.command import CommandError, add_config_option, call, socket_option
from naproxy.config.document import Mqtt
from naproxy.config.worked import Worked
from naproxy.core.reason import stored_reason
from naproxy.core.schema import ConfigError
from naproxy.core.state import State

if TYPE_CHECKING:
    from paho.mqtt.client import Client

Message = tuple[str, str]
"""Topic and payload; all are retained."""

_LEAVE_S: Final = 2.0
_MACHINE_ID: Final = Path("/etc/machine-id")
_DISCOVERY: Final = "homeassistant"
"""The prefix of topics that Home Assistant listens to by default."""
_POWER: Final = {
    "device_class": "power",
    "state_class": "measurement",
    "unit_of_measurement": "W",
    "value_template": "{{ value_json.power_w }}",
}
# The payload has joules as everywhere else; Home Assistant's energy pages want kWh.
_ENERGY: Final = {
    "device_class": "energy",
    "state_class": "total_increasing",
    "unit_of_measurement": "kWh",
    "value_template": "{{ value_json.energy_j / 3600000 }}",
}
_ENDS: Final = {
    "device_class": "timestamp",
    "value_template": "{{ value_json.not_after_s | timestamp_local }}",
}
_STATE: Final = {
    "device_class": "enum",
    "options": [state.name.lower() for state in State],
    "value_template": "{{ value_json.state }}",
}


def states(status: Mapping[str, Any], topic: str) -> Iterator[Message]:
    """Yield what a status of the control API says, one JSON object a server and a meter."""
    energy_j = status["box"]["energy_j"]
    for meter in status["meters"]:
        said = {"power_w": meter["power_w"], "energy_j": energy_j.get(meter["id"], 0)}
        yield f"{topic}/meter/{meter['id']}", json.dumps(said)
    for certificate in status["box"]["edge"]["certificates"]:
        said = {"not_after_s": certificate["not_after_s"], "names": certificate["names"]}
        yield f"{topic}/certificate/{certificate['id']}", json.dumps(said)
    for server in status["servers"]:
        said = {
            "state": server["state"],
            "reason": str(stored_reason(server["reason"])),
            "held": server["held"],
            "alert": str(stored_reason(server["alert"])) if server["alert"] else None,
        }
        yield f"{topic}/server/{server['id']}", json.dumps(said)


def discovery(status: Mapping[str, Any], settings: Mqtt, host: str) -> Iterator[Message]:
    """Yield what tells Home Assistant which sensors there are; `host` is the box's name."""
    box = {
        "identifiers": [settings.topic],
        "name": f"Naproxy {host}",
        "sw_version": __version__,
    }
    for meter in status["meters"]:
        where = f"meter/{meter['id']}"
        about = " (estimated)" if meter["estimated"] else ""
        yield _sensor(
            settings, box, where, "power", {**_POWER, "name": f"{meter['id']} power{about}"}
        )
        yield _sensor(
            settings, box, where, "energy", {**_ENERGY, "name": f"{meter['id']} energy{about}"}
        )
    for certificate in status["box"]["edge"]["certificates"]:
        where = f"certificate/{certificate['id']}"
        name = next(iter(certificate["names"]), certificate["id"])
        yield _sensor(
            settings, box, where, "ends", {**_ENDS, "name": f"certificate of {name} ends"}
        )
    for server in status["servers"]:
        where = f"server/{server['id']}"
        yield _sensor(settings, box, where, "state", {**_STATE, "name": f"{server['id']} state"})


def _sensor(
    settings: Mqtt, box: Mapping[str, Any], where: str, what: str, about: Mapping[str, Any]
) -> Message:
    sensor = f"{settings.topic}_{where}_{what}".replace("/", "_")
    said = {
        **about,
        "unique_id": sensor,
        "state_topic": f"{settings.topic}/{where}",
        "availability_topic": f"{settings.topic}/status",
        "device": box,
    }
    return f"{_DISCOVERY}/sensor/{sensor}/config", json.dumps(said)


def add_parser(subparsers: Any) -> None:
    """Declare `naproxy mqtt`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "mqtt",
        help="report to Home Assistant over MQTT (runs in the foreground)",
        description="Publish servers and meters over MQTT, with Home Assistant's discovery, in the"
        " foreground. [mqtt] in the configuration names the broker.",
        parents=[socket_option(READERS_SOCKET)],
    )
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Publish until SIGTERM or SIGINT."""
    try:
        settings = Worked(args.config).choose().found.config.mqtt
    except ConfigError as error:
        raise CommandError(f"{args.config}: {error}") from None
    client = _client(settings, _client_id(args.config))
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    client.connect_async(settings.host, settings.port)
    client.loop_start()
    said = ""
    while True:
        wrong = _publish(client, settings, args.socket)
        if wrong and wrong != said:
            print(f"naproxy mqtt: {wrong}", file=sys.stderr, flush=True)
        said = wrong
        if stopping.wait(settings.every_s):
            break
    client.publish(f"{settings.topic}/status", "offline", 1, True).wait_for_publish(_LEAVE_S)
    client.disconnect()
    client.loop_stop()
    return 0


def _client_id(file: str) -> str:
    """Return an id that no other box has: a broker disconnects a client when its id comes again.

    Boxes are often called the same, and a copied card has the same machine-id. MQTT 3.1 brokers
    take 23 bytes.
    """
    try:
        machine = _MACHINE_ID.read_bytes()
    except OSError:
        machine = b""
    about = (machine, hex(uuid.getnode()).encode(), os.path.realpath(file).encode())
    return f"naproxy-{hashlib.sha256(b'|'.join(about)).hexdigest()[:12]}"


def _client(settings: Mqtt, name: str) -> Client:
    if not settings.host:
        raise CommandError("mqtt.host is empty: set it to the broker's address")
    try:
        from paho.mqtt.client import Client  # noqa: PLC0415 - optional
    except ImportError:
        raise CommandError("paho-mqtt is not installed: apt install python3-paho-mqtt") from None
    try:
        from paho.mqtt.enums import CallbackAPIVersion  # noqa: PLC0415 - optional
    except ImportError:  # Debian 12 has release 1.6, which knows one API only
        client = Client(client_id=name)
    else:
        client = Client(CallbackAPIVersion.VERSION2, client_id=name)
    if settings.user:
        client.username_pw_set(settings.user, settings.password)
    if settings.tls:
        client.tls_set()
    client.will_set(f"{settings.topic}/status", "offline", 1, True)
    return client


def _publish(client: Client, settings: Mqtt, control: str) -> str:
    """Publish all there is to say; returns what is wrong, in words, or nothing."""
    if not client.is_connected():
        # What is published now would only pile up; the client tries again by itself.
        return f"the broker {settings.host} is not reached yet"
    try:
        status = call(control, "status")
    except CommandError as error:
        client.publish(f"{settings.topic}/status", "offline", 1, True)
        return str(error)
    for topic, payload in (
        *discovery(status, settings, socket.gethostname()),
        *states(status, settings.topic),
    ):
        client.publish(topic, payload, 1, True)
    client.publish(f"{settings.topic}/status", "online", 1, True)
    return ""
