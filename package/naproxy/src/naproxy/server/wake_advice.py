"""How to shorten a wake: pure, from its long stages and the way the server sleeps.

The commands are for a server with Linux and systemd, for its own shell.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from naproxy.core.reason import Reason
from naproxy.server.stages import ANSWER, LINK, NETWORK, PORT, POWER, Stage

LONG_S: Final = 0.5
"""Less is not worth anybody's work."""
LONG_SHARE: Final = 0.2
"""Nor is less than this share of the whole wake."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a server sleeps: its state `ram`, `disk` or `off`; and its address."""

    state: str
    address: str


@dataclass(frozen=True, slots=True)
class Advice:
    """The cause of a long stage, and how to find out or change it."""

    stage: str
    reason: Reason
    commands: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "stage": self.stage,
            "reason": self.reason.plain(),
            "commands": list(self.commands),
        }


def advise(stages: Sequence[Stage], way: Way) -> list[Advice]:
    """Return advice for each long stage, the longest stage first."""
    whole_s = sum(stage.took_s for stage in stages)
    long = [s for s in stages if s.took_s >= max(LONG_S, LONG_SHARE * whole_s)]
    seen = {stage.name for stage in stages}
    long.sort(key=lambda stage: -stage.took_s)
    return [each for stage in long for each in _for_stage(stage, seen, way)]


def _for_stage(stage: Stage, seen: set[str], way: Way) -> Iterator[Advice]:
    boots = way.state != "ram"

    def say(code: str, *commands: str) -> Advice:
        return Advice(stage.name, Reason(code, took_s=stage.took_s), commands)

    # A stage that was not seen separately is part of the next one.
    link = stage.name == LINK or (stage.name == NETWORK and LINK not in seen)
    answers = stage.name == NETWORK or (stage.name == PORT and NETWORK not in seen)
    if stage.name in (POWER, LINK, NETWORK) and boots:
        yield say(
            "server.gain_disk" if way.state == "disk" else "server.gain_off",
            "cat /sys/power/state",
            _MEM_SLEEP,
        )
        yield say("server.gain_firmware", "systemd-analyze", *_NO_MENU)
    elif stage.name == POWER:
        yield say("server.gain_power", _MEM_SLEEP)
    if stage.name == NETWORK and not boots:
        yield say("server.gain_devices", *_DEVICES)
    if link:
        yield say("server.gain_link", *_link(way.address))
    if answers and ":" not in way.address:
        yield say("server.gain_address", *_fixed_address(way.address))
    if stage.name == PORT and boots:
        yield say(
            "server.gain_boot", "systemd-analyze blame | head", "systemd-analyze critical-chain"
        )
    elif stage.name == PORT:
        yield say("server.gain_services", *_RESUME)
    if stage.name == ANSWER:
        yield say("server.gain_answer", *_ANSWER)


_MEM_SLEEP: Final = "cat /sys/power/mem_sleep"
_NO_MENU: Final = (
    "sudo sed -i 's/^GRUB_TIMEOUT=.*/GRUB_TIMEOUT=0/' /etc/default/grub",
    "sudo update-grub",
)
_DEVICES: Final = (
    "echo 1 | sudo tee /sys/power/pm_print_times /sys/power/pm_debug_messages",
    "sudo dmesg | grep 'PM: resume of devices complete'",
    r"sudo dmesg | sed -n 's/.*\] \(.*\) returned .* after \([0-9]*\) usecs.*/\2 us \1/p'"
    " | sort -rn | head",
)
_RESUME: Final = (
    "ls /usr/lib/systemd/system-sleep /etc/systemd/system-sleep",
    "systemctl list-dependencies --reverse suspend.target",
    "journalctl -b -u systemd-suspend -o short-precise | tail -n 40",
)
_ANSWER: Final = (
    "journalctl -b -o short-precise | tail -n 60",
    "vmstat 1 5",
    "swapon --show",
)


def _device(address: str) -> str:
    shown = f"ip -o -4 addr show to {shlex.quote(address)}"
    if ":" in address:
        shown = f"ip -o -6 addr show to {shlex.quote(address)}"
    return f"dev=$({shown} | awk '{{ print $2; exit }}')"


def _link(address: str) -> tuple[str, ...]:
    return (
        _device(address),
        'sudo ethtool --show-eee "$dev"',
        'sudo ethtool --set-eee "$dev" eee off',
    )


def _fixed_address(address: str) -> tuple[str, ...]:
    """Return how to fix the server's DHCP address, for the program that manages its network.

    NetworkManager takes every card down and up around a sleep, also one with wake-on-LAN
    (`do_sleep_wake` in its nm-manager.c): a card of its own goes over to systemd-networkd, with
    wake-on-LAN, which may have been set in its connection.
    """
    return (
        _device(address),
        "net=$(ip -o -4 addr show dev \"$dev\" | awk '{ print $4; exit }')",
        "via=$(ip -4 route show default dev \"$dev\" | awk '{ print $3; exit }')",
        "dns=$(awk '/^nameserver/ { print $2; exit }' /etc/resolv.conf)",
        'if grep -qs "^iface $dev inet dhcp" /etc/network/interfaces; then',
        '    sudo sed -i "s|^iface $dev inet dhcp|iface $dev inet static'
        '\\n    address $net\\n    gateway $via|" /etc/network/interfaces',
        "else",
        "    printf '[Match]\\nName=%s\\n[Network]\\nAddress=%s\\nGateway=%s\\nDNS=%s\\n'"
        ' "$dev" "$net" "$via" "$dns" | sudo tee /etc/systemd/network/05-fixed.network',
        "    if systemctl is-active --quiet NetworkManager; then",
        "        printf '[Match]\\nMACAddress=%s\\n[Link]\\nNamePolicy=keep kernel database onboard"
        " slot path\\nMACAddressPolicy=persistent\\nWakeOnLan=magic\\n'"
        ' "$(cat /sys/class/net/$dev/address)" | sudo tee /etc/systemd/network/50-wake.link',
        "        printf '[main]\\ndns=none\\n[keyfile]\\nunmanaged-devices=interface-name:%s\\n'"
        ' "$dev" | sudo tee /etc/NetworkManager/conf.d/fixed.conf',
        "        sudo systemctl reload NetworkManager",
        "        sudo systemctl enable systemd-networkd",
        "        sudo systemctl restart systemd-networkd",
        "    else",
        "        sudo networkctl reload",
        "    fi",
        "fi",
    )
