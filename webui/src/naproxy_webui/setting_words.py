"""What the controller, or a route of ours, says is wrong with a field, in the user's language."""

from __future__ import annotations

import re
from typing import Any, Final

from naproxy_webui.errors import ApiError
from naproxy_webui.texts import t

_N: Final = r"[0-9.e+-]+"
_KNOWN: Final[tuple[tuple[str, str], ...]] = (
    (r"must be true or false", "boolean"),
    (r"must be a whole number(?: or null)?", "integer"),
    (r"must be a number(?: or null)?", "number"),
    (r"must be a text(?: in quotes| or null)?", "text"),
    (r"must be a list in square brackets|must be a list of texts", "list"),
    (rf"must be (?P<low>{_N}) to (?P<high>{_N}) bytes long", "bytes_between"),
    (rf"must be at most (?P<high>{_N}) bytes long", "bytes_most"),
    (rf"must be at least (?P<low>{_N}) bytes long", "bytes_least"),
    (rf"must be (?P<low>{_N}) to (?P<high>{_N})", "between"),
    (rf"must be at most (?P<high>{_N})", "most"),
    (rf"must be at least (?P<low>{_N})", "least"),
    (rf"must have at most (?P<high>{_N}) characters", "bytes_most"),
    (rf"must have at least (?P<low>{_N}) characters", "bytes_least"),
    (rf"must be (?P<high>{_N}) or less", "most"),
    (rf"must be (?P<low>{_N}) or more", "least"),
    (rf"must have (?P<low>{_N}) to (?P<high>{_N}) items", "items"),
    (rf"must be given (?P<low>{_N}) to (?P<high>{_N}) times", "items"),
    (r"must be one of (?P<names>.+)", "one_of"),
    (r"is missing.*|is empty", "missing"),
    (r"must be a finite number|is too large a number", "finite"),
    (r"must not have control characters", "control"),
    (r"must be a host name in lower case, without a port", "host"),
    (r"must be an IPv4 or IPv6 address", "address"),
    (r"must be an IPv4 address|.+ is not an IPv4 address", "ipv4"),
    (r"must be the address of one machine", "one_machine"),
    (r"must be an Ethernet address such as .+", "mac"),
    (r"must be the address of one card, .+", "one_card"),
    (r"must be the name of a network interface", "interface"),
    (r"must be an absolute path, starting with /", "absolute"),
    (r"must be the path of a URL: .+", "url_path"),
    (r"must start with /", "slash"),
    (r'must be as "mon-fri .+', "hours"),
    (r'must be as "2026-12-25" .+', "dates"),
    (r"(?P<name>.+) is not a day or days such as .+", "day"),
    (r"begins when it ends; .+", "no_length"),
    (r"ends before it begins", "backwards"),
    (r"must be made of a to z, 0 to 9 and -", "id"),
    (r"must be three capital letters, .+", "currency"),
    (r"must be an MQTT topic: .+", "topic"),
    (r"must be https://HOST or https://HOST:PORT", "https"),
    (r"must be printable ASCII, .+", "printable"),
    (r"must be given where there is a fleet.url", "fleet_token"),
    (r"there is no time zone (?P<name>.+?)(?: on this machine)?", "time_zone"),
    (r"must be a host name or an address", "host_or_address"),
    (r"must be a user's name", "user"),
    (r"must be an HTTP status, 100 to 599", "http_status"),
    (r"must be (?P<low>[0-9]+) to (?P<high>[0-9]+) watts", "watts"),
    (r"must be a SHA-256 fingerprint of 64 hex digits, .+", "fingerprint"),
    (r"must be the name of a file in (?P<name>.+), without a path", "file_in"),
    (r"must be a domain's name of .+", "domain"),
    (r"must be a libvirt connection such as .+", "libvirt"),
    (r"must be the Id of a member of (?P<name>.+)", "redfish"),
    (r"must be an absolute path or empty", "path_or_empty"),
    (r"must be an object's number, as (?P<name>.+)", "oid"),
    (r"must be the name of a UPS, as (?P<name>.+)", "ups"),
    (r"must be a variable of NUT, as (?P<name>.+)", "nut"),
    (r"must be the name of a GPIO chip, such as (?P<name>.+)", "gpio"),
    (r"must be 4 or 6 bytes such as (?P<name>.+)", "secure_on"),
    (r'must be a time of the day such as "(?P<name>.+)"', "time_of_day"),
    (r'must be hours and minutes such as "(?P<name>.+)"', "hours_minutes"),
    (r"no magic packet wakes a virtual machine: libvirt", "not_by_packet"),
    (r"is the box, but there is a server (?P<name>\S+) too", "box_or_server"),
    (r"is used by more than one (?:server|meter)", "twice"),
    (r"(?P<name>\S+) is served by more than one server", "host_twice"),
    (r"is true for (?P<names>.+)", "default_twice"),
    (r"must be more than off_w", "more_than_asleep"),
    (r"there is no server (?P<name>\S+)", "no_server"),
    (r"is not an address or a network: .+", "network"),
    (r"must have one value for each adapter_w", "one_each"),
    (r"must grow from point to point", "growing"),
    (r"needs a restart of the controller to change", "restart"),
    (r"the settings were changed meanwhile; .+", "meanwhile"),
    (r"the file was changed by hand .+", "by_hand"),
    (r"this is the machine's own setting; .+", "not_ours"),
    (r"must be an IPv4 address with its prefix, .+|needs its prefix, .+", "prefix"),
    (r"is not a machine's address in (?P<name>\S+)", "not_machine"),
    (r"is not an address that a machine can have", "not_possible"),
    (r"is the box itself", "itself"),
    (r"is not in the box's own network, (?P<name>\S+)", "not_in_network"),
    (r"must be a to z, 0 to 9 and -, at most 63, .+", "host_name"),
    (r"type the box's name to confirm", "confirm"),
    (r"is not a whole backup: .+|is not a backup of Naproxy", "no_backup"),
    (r"no backup was sent yet", "no_backup_yet"),
    (r"there is too little room on the box: (?P<mb>[0-9]+) MiB are missing", "no_room"),
    (r"another backup is being made or read", "backup_busy"),
    (r"this machine has no system log that Naproxy can read", "no_system_log"),
    (r"Varnish does not empty its cache: (?P<words>.+)", "varnish"),
)
_RULES: Final = tuple((re.compile(pattern, re.DOTALL), key) for pattern, key in _KNOWN)
KEYS: Final = frozenset(key for _, key in _KNOWN)


def told(words: str) -> str:
    """Return what is wrong in the user's language; what is not known as it came."""
    for rule, key in _RULES:
        if found := rule.fullmatch(words):
            return t(f"settings.wrong.{key}", **found.groupdict())
    return words


def translated(error: ApiError) -> ApiError:
    """Return the same refusal in the user's language."""
    problems: list[dict[str, Any]] = [
        {**each, "error": told(each["error"])} for each in error.problems
    ]
    return ApiError(error.status, told(error.words), error.where, problems, error.headers)
