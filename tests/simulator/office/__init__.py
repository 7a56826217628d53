"""A virtual office: client, box and server as network namespaces on one switch.

What is real in it and what is not: docs/virtual-office.md.
"""

from tests.simulator.office.mainboard import Mainboard, Settings
from tests.simulator.office.namespace import Namespace
from tests.simulator.office.office import Office
from tests.simulator.office.wire import Frame

__all__ = ["Frame", "Mainboard", "Namespace", "Office", "Settings"]
