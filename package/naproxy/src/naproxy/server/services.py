"""A server's other services: the ports at which it listens, their names and treatment. Pure.

The server tells its ports in one line of words (`parse`): `445/tcp/smbd` for each, the program may
be missing; `flows` if it keeps a table of connections (conntrack), without which the use of a UDP
port cannot be seen; `more/12` for those that it did not name. Ports that only the server itself
reaches are not among them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from naproxy.core.reason import Reason, WrongError

NEVER: Final = "never"
"""It must not sleep: others need it at any time, and nobody calls it before."""
USED: Final = "used"
"""It stays awake while somebody is connected."""
IGNORE: Final = "ignore"
"""Its use does not keep the server awake."""
CHOICES: Final = (IGNORE, USED, NEVER)
"""The strongest comes last."""
MOST_BYTES: Final = 8192
MOST: Final = 256
"""Ports of one server."""
_TCP: Final = "tcp"
_UDP: Final = "udp"
_LAST_PORT: Final = 65535
_FIRST_PASSING_PORT: Final = 32768
"""Linux assigns client ports from here on: for UDP they look the same as a service's."""
_TOKEN: Final = re.compile(r"([1-9][0-9]{0,4})/(tcp|udp)(?:/([A-Za-z0-9._-]{0,15}))?", re.ASCII)
_MORE: Final = re.compile(r"more/([0-9]{1,6})", re.ASCII)
_PORT_KEY: Final = re.compile(r"([1-9][0-9]{0,4})/(tcp|udp)", re.ASCII)


class UnreadableError(ValueError):
    """The server's report of its ports is invalid."""


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A port at which a server listens; `program` is empty where nobody knows."""

    port: int
    protocol: str
    program: str = ""

    @property
    def key(self) -> str:
        """Return how it is written: `445/tcp`."""
        return f"{self.port}/{self.protocol}"

    @property
    def token(self) -> str:
        """Return it with its program, as the server's line has it."""
        return f"{self.key}/{self.program}" if self.program else self.key


@dataclass(frozen=True, slots=True)
class Listening:
    """A server's report."""

    listeners: tuple[Listener, ...] = ()
    flows: bool = False
    """It keeps a table of connections."""
    more: int = 0
    """Ports that it did not name."""

    def text(self) -> str:
        """Return the line; `parse` takes it back."""
        words = ["flows"] * self.flows + [each.token for each in self.listeners]
        return " ".join([*words, *([f"more/{self.more}"] if self.more else [])])


def parse(text: str) -> Listening:
    """Read the line; UnreadableError says what is wrong with it."""
    words = text.split()
    if len(text) > MOST_BYTES or len(words) > MOST:
        raise UnreadableError("its list of ports is too long")
    found: dict[str, Listener] = {}
    flows, more = False, 0
    for word in words:
        if word == "flows":
            flows = True
        elif match := _MORE.fullmatch(word):
            more = int(match[1])
        elif (match := _TOKEN.fullmatch(word)) and int(match[1]) <= _LAST_PORT:
            one = Listener(int(match[1]), match[2], match[3] or "")
            found[one.key] = max(one, found.get(one.key, one))
        else:
            raise UnreadableError(f"its list of ports has a bad word: {word[:40]!r}")
    return Listening(tuple(sorted(found.values())), flows, more)


def joined(told: Listening, met: Iterable[Listener]) -> Listening:
    """Return what a server told, and the ports that it did not tell and answered from."""
    there = {each.key for each in told.listeners}
    more = [each for each in met if each.key not in there]
    return replace(told, listeners=tuple(sorted([*told.listeners, *more])))


# ------------------------------------------------------------------ what the ports are


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that servers do, and how it is known: by its ports, or its programs at others."""

    code: str
    """Of its text in the catalogues."""
    proposal: str
    ports: frozenset[str]
    programs: frozenset[str] = frozenset()
    all_of: frozenset[str] = frozenset()
    """Only with all of these ports is it this."""

    @property
    def key(self) -> str:
        """Return its name in the configuration."""
        return self.code.partition(".")[2]


def _kind(code: str, proposal: str, ports: str, programs: str = "", all_of: str = "") -> Kind:
    sets = (frozenset(text.split()) for text in (ports, programs, all_of))
    return Kind(code, proposal, *sets)


KINDS: Final = (
    # Others need these at any time.
    _kind("serves.dhcp", NEVER, "67/udp 547/udp", "dhcpd kea-dhcp4 kea-dhcp6"),
    _kind("serves.dns", NEVER, "53/udp 53/tcp 853/tcp"),
    _kind(
        "serves.vpn",
        NEVER,
        "1194/udp 1194/tcp 51820/udp 500/udp 4500/udp 1701/udp 1723/tcp",
        "openvpn charon pluto",
    ),
    _kind(
        "serves.directory",
        NEVER,
        "88/tcp 88/udp 389/tcp 389/udp 464/tcp 464/udp 636/tcp 3268/tcp 3269/tcp",
        "slapd krb5kdc",
    ),
    _kind("serves.radius", NEVER, "1812/udp 1813/udp", "radiusd freeradius"),
    _kind("serves.mail", NEVER, "25/tcp 465/tcp 587/tcp 110/tcp 995/tcp 143/tcp 993/tcp 4190/tcp"),
    _kind("serves.phones", NEVER, "5060/udp 5060/tcp 5061/tcp", "asterisk freeswitch"),
    _kind("serves.cameras", NEVER, "554/tcp 8554/tcp", "zmc frigate"),
    _kind("serves.ups", NEVER, "3493/tcp 3551/tcp", "upsd apcupsd"),
    _kind("serves.mqtt", NEVER, "1883/tcp 8883/tcp", "mosquitto"),
    _kind("serves.home", NEVER, "8123/tcp", "hass"),
    _kind(
        "serves.wlan",
        NEVER,
        "8443/tcp 8080/tcp 8843/tcp 8880/tcp 6789/tcp 3478/udp 10001/udp",
        all_of="8443/tcp 3478/udp",
    ),
    _kind("serves.calls", NEVER, "3478/udp 3478/tcp 5349/tcp 5349/udp", "turnserver"),
    _kind("serves.chat", NEVER, "5222/tcp 5269/tcp 8448/tcp"),
    _kind("serves.logs", NEVER, "514/udp 514/tcp 6514/tcp 162/udp"),
    _kind("serves.watches", NEVER, "10051/tcp 5665/tcp", "zabbix_server icinga2"),
    _kind("serves.machines", NEVER, "8006/tcp", "pveproxy"),
    _kind("serves.boot", NEVER, "69/udp 4011/udp", "in.tftpd"),
    # The users of these are connected.
    _kind("serves.smb", USED, "139/tcp 445/tcp 137/udp 138/udp", "smbd nmbd"),
    _kind("serves.nfs", USED, "2049/tcp 2049/udp"),
    _kind("serves.files", USED, "21/tcp 548/tcp", "vsftpd proftpd afpd"),
    _kind(
        "serves.database",
        USED,
        "3306/tcp 5432/tcp 1433/tcp 1521/tcp 27017/tcp 6379/tcp 5984/tcp",
        "mysqld mariadbd postgres mongod redis-server",
    ),
    _kind("serves.desktop", USED, "3389/tcp 5900/tcp 5901/tcp 5902/tcp 5903/tcp", "xrdp"),
    _kind(
        "serves.media",
        USED,
        "32400/tcp 8096/tcp 8920/tcp 8200/tcp 4533/tcp 1900/udp",
        "Plex_Media_Serv jellyfin minidlnad EmbyServer",
    ),
    _kind("serves.print", USED, "631/tcp 9100/tcp 515/tcp", "cupsd"),
    _kind(
        "serves.backup",
        USED,
        "873/tcp 8007/tcp 55413/tcp 55414/tcp 55415/tcp 9101/tcp 9103/tcp 6162/tcp",
        "urbackupsrv",
    ),
    _kind("serves.disks", USED, "3260/tcp"),
    # These come with the system, or are looked at otherwise.
    _kind("serves.web", IGNORE, "80/tcp 443/tcp 443/udp"),
    _kind("serves.ssh", IGNORE, "22/tcp", "sshd"),
    _kind("serves.time", IGNORE, "123/udp 323/udp", "chronyd ntpd"),
    _kind("serves.watched", IGNORE, "161/udp 10050/tcp", "node_exporter zabbix_agentd snmpd"),
    _kind(
        "serves.system",
        IGNORE,
        "68/udp 546/udp 111/tcp 111/udp 5353/udp 5355/tcp 5355/udp 3702/udp 5357/tcp 631/udp",
        "avahi-daemon systemd-resolve systemd-network NetworkManager dhclient dhcpcd wsdd"
        " rpcbind rpc.mountd rpc.statd cups-browsed",
    ),
)
"""The first that fits counts."""
_BY_KEY: Final = {kind.key: kind for kind in KINDS}
PROGRAMS_FIRST: Final = frozenset({"node_exporter"})
"""At a port that usually is another's: 9100 is printers', too."""
_CHATTER: Final = frozenset({"1900/udp", "137/udp", "138/udp"})
"""Hosts send to these all the time, even without using the service."""
DEFAULTS: Final = ("139/tcp", "445/tcp", "2049/tcp")
"""Looked at also where nobody knows what the server does: an open file is the worst to lose."""


@dataclass(frozen=True, slots=True)
class Service:
    """A server's service; an unknown one is a port alone."""

    key: str
    proposal: str
    listeners: tuple[Listener, ...]
    choice: str | None = None
    """The office's; None: it has not chosen."""

    @property
    def effect(self) -> str:
        """The proposed treatment, in force until the office chooses."""
        return self.choice or self.proposal

    @property
    def unanswered(self) -> bool:
        """Is the office to choose?"""
        return self.choice is None and self.proposal != IGNORE

    @property
    def name(self) -> Reason:
        """Return what it does, in words."""
        return name_of(self.key, next((x.program for x in self.listeners if x.program), ""))

    def plain(self) -> dict[str, Any]:
        """Return it as JSON types; the name is a reason."""
        return {
            "key": self.key,
            "name": self.name.plain(),
            "ports": [each.key for each in self.listeners],
            "programs": sorted({each.program for each in self.listeners if each.program}),
            "proposal": self.proposal,
            "choice": self.choice,
        }

    @property
    def watched(self) -> list[str]:
        """Return the ports at which a connection keeps the server awake.

        UDP ports only if the office chose so: traffic there need not be use.
        """
        if self.effect != USED:
            return []
        chosen = self.choice == USED
        return [
            each.key
            for each in self.listeners
            if (each.protocol == _TCP or chosen) and each.key not in _CHATTER
        ]


def name_of(key: str, program: str = "") -> Reason:
    """Return what a service is in words: one of KINDS, or a port."""
    if key in _BY_KEY:
        return Reason(_BY_KEY[key].code)
    if program:
        return Reason("serves.program", port=key, program=program)
    return Reason("serves.port", port=key)


def chosen(text: str) -> tuple[str, str]:
    """Read what the office chose for one service, `dns never`; WrongError."""
    key, _, choice = text.partition(" ")
    port = _PORT_KEY.fullmatch(key)
    if choice not in CHOICES or (key not in _BY_KEY and not (port and int(port[1]) <= _LAST_PORT)):
        raise WrongError("config.service", names=sorted(_BY_KEY), choices=list(CHOICES))
    return key, choice


@dataclass(frozen=True)
class Office:
    """The office's choices, and the ports that the box itself handles."""

    choices: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    """As `80/tcp`: of the web server, and of the way to sleep."""

    def _choices(self) -> dict[str, str]:
        """Return them by key; of two for the same the stronger one."""
        pairs = [chosen(text) for text in self.choices]
        return dict(sorted(pairs, key=lambda pair: CHOICES.index(pair[1])))

    def never(self) -> list[Reason]:
        """Return the services for which the server must never sleep."""
        return [name_of(key) for key, choice in self._choices().items() if choice == NEVER]

    @property
    def watches(self) -> bool:
        """Did the office choose that it stays awake while something is used?"""
        return USED in self._choices().values()

    def services(self, listeners: Iterable[Listener]) -> list[Service]:
        """Return what these ports are, in the order of KINDS, and then those nobody knows."""
        choices = self._choices()
        left = sorted(each for each in listeners if each.key not in self.own)
        there = {each.key for each in left}
        kinds = [kind for kind in KINDS if kind.all_of <= there]
        mine: dict[str, list[Listener]] = {}
        alone = []
        for each in left:
            if kind := _kind_of(each, kinds):
                mine.setdefault(kind.key, []).append(each)
            elif each.protocol == _TCP or each.port < _FIRST_PASSING_PORT or each.key in choices:
                alone.append(each)
        found = [
            Service(kind.key, kind.proposal, tuple(mine[kind.key]), choices.get(kind.key))
            for kind in kinds
            if kind.key in mine
        ]
        return found + [
            Service(
                each.key,
                USED if each.protocol == _TCP else IGNORE,
                (each,),
                choices.get(each.key),
            )
            for each in alone
        ]

    def watched(self, listeners: Iterable[Listener]) -> list[str]:
        """Return at which ports a connection keeps the server awake, as `445/tcp`."""
        choices = self._choices()
        shares = [
            key
            for key in DEFAULTS
            if key not in self.own
            and choices.get("nfs" if key == "2049/tcp" else "smb", USED) != IGNORE
        ]
        found = [key for each in self.services(listeners) for key in each.watched]
        return list(dict.fromkeys([*shares, *found]))

    def ignored(self, listeners: Iterable[Listener]) -> list[str]:
        """Return at which ports it does not though somebody else might think so."""
        of_choice = [each for each in self.services(listeners) if each.choice == IGNORE]
        return [one.key for each in of_choice for one in each.listeners]


def _kind_of(listener: Listener, kinds: Collection[Kind]) -> Kind | None:
    by_port = (kind for kind in kinds if listener.key in kind.ports)
    by_program = (kind for kind in kinds if listener.program in kind.programs)
    first = by_program if listener.program in PROGRAMS_FIRST else by_port
    return next(first, None) or next(by_program, None)


class Known:
    """The known services of one server: its own report, and answers from the network."""

    def __init__(self) -> None:
        """Nothing is."""
        self.told: Listening | None = None
        """By the server, or by somebody who was on it; each time all of it."""
        self.by_itself = False
        """It ever told so itself when it was asked: so it may be asked again."""
        self._met: tuple[Listener, ...] = ()

    @property
    def all(self) -> Listening:
        """Return what of both is there, each port once."""
        return joined(self.told or Listening(), self._met)

    def tell(self, told: Listening, *, by_itself: bool) -> None:
        """Take what was told, instead of all that was told before."""
        self.told = told
        self.by_itself = self.by_itself or by_itself

    def meet(self, met: Iterable[Listener]) -> None:
        """Take what answered from the network, likewise."""
        self._met = tuple(sorted(set(met)))[:MOST]

    def dump(self) -> dict[str, Any]:
        """Return what is kept over a restart, as JSON."""
        told = None if self.told is None else self.told.text()
        return {"told": told, "by_itself": self.by_itself, "met": Listening(self._met).text()}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Restore the output of `dump`; invalid parts count as unknown."""
        try:
            told, met = saved["told"], parse(str(saved["met"]))
            self.told = None if told is None else parse(str(told))
        except (KeyError, UnreadableError):
            return
        self.by_itself = self.told is not None and saved.get("by_itself") is True
        self._met = met.listeners
