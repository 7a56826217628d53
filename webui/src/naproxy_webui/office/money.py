"""What the office's energy is worth, by the time at which it was used."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from flask import current_app
from naproxy.core.rates import Rates, rates

from naproxy_webui.office.office import office, rates_said
from naproxy_webui.office.ranges import zone

_YEAR_S: Final = 365.25 * 86400


def means_of_year() -> dict[str, float | None]:
    """Return what a kilowatt-hour costs and emits in the coming year, on average."""
    now_s, known = time.time(), office_rates()
    year = now_s, now_s + _YEAR_S
    return {"mean_price": known.price.mean(*year), "mean_co2": known.co2.mean(*year)}


def office_rates() -> Rates:
    """Return the office's prices and CO2; those that were never told are not known.

    It is the same object until one of them changes: what was reckoned with it goes by that.
    """
    kept: dict[str, Any] = current_app.extensions.setdefault("naproxy_office_rates", {})
    # The machine's own zone is another object each time, so it is known by its file.
    made_of = rates_said(), office().time_zone or os.path.realpath("/etc/localtime")
    if kept.get("made_of") != made_of:
        kept.update(made_of=made_of, rates=rates(made_of[0], zone()))
    found: Rates = kept["rates"]
    return found
