"""What is wrong with a configuration."""

from naproxy.config import document
from naproxy.core.schema import ConfigError


def problems(text: str) -> list[tuple[str, str]]:
    """Return each place that is refused, and the code of the reason; none if all is taken."""
    try:
        document.parse(text)
    except ConfigError as refused:
        return [(each.where, each.reason.code) for each in refused.problems]
    return []
