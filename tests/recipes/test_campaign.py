"""A cycle of `make faults-office`, and that it says what is lost, doubled or broken."""

import pytest

from tests.recipes import clients
from tests.recipes.campaign import NIGHT_EVERY, Campaign
from tests.recipes.place import Place


@pytest.fixture(scope="module")
def campaign(shared: Place) -> Campaign:
    shared.office.box.wake()
    shared.cloud.sync()
    return Campaign(shared, seed=17)


def test_a_night_s_backup_is_made_though_the_server_sleeps(campaign: Campaign) -> None:
    row = campaign.cycle(NIGHT_EVERY - 1)
    assert (row.wrong, row.kind, row.backups) == ([], "night", 1)
    assert "sleep.appointment" in row.refused
    assert "waking: sleep.appointment" in row.reasons


def test_what_is_wrong_is_said(campaign: Campaign) -> None:
    place = campaign.place
    for _ in range(2):
        clients.order(place.office, "twice")
    campaign.sent["order"] += ["twice", "never"]
    campaign.copied["cut"] = b"whole"
    (place.samba.share / "cut").write_bytes(b"part")
    row = campaign.cycle(0)
    assert sorted(row.wrong) == [
        "cut: another in the share",
        "order never: lost",
        "twice: 2 times",
    ]
