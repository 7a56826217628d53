"""A virtual office: client, box and server as network namespaces on one switch.

What is real in it and what is not: docs/virtual-office.md.
"""

from office.mainboard import Mainboard, Settings
from office.namespace import Namespace
from office.office import Office
from office.wire import Frame

__all__ = ["Frame", "Mainboard", "Namespace", "Office", "Settings"]
