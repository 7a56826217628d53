"""Choices that depend on where the office is: time zones and currencies."""

from __future__ import annotations

from functools import cache
from typing import Final
from zoneinfo import available_timezones

_CODES: Final = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD
CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS
GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW
KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR
MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR
SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
USD UYU UZS VED VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG
"""
CURRENCIES: Final = tuple(_CODES.split())
"""ISO 4217, list one, of 2026: the money of countries, without funds and precious metals."""

_NO_PLACES: Final = ("Etc/", "SystemV/", "US/", "posix/", "right/")


@cache
def zones() -> tuple[str, ...]:
    """Return the time zones that this box knows, by the names of places; UTC is one of them."""
    known = available_timezones()
    return tuple(
        sorted(n for n in known if n == "UTC" or ("/" in n and not n.startswith(_NO_PLACES)))
    )
