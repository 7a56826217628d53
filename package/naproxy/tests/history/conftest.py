import pytest
from history_box import Box


@pytest.fixture
def watching(box: Box) -> None:
    """Have the box watch its server."""
    box.history.watch(["web"])
