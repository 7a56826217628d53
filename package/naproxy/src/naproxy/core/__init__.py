"""Words that all rooms share: states, reasons, schemas, units, files, processes, the week."""

from naproxy.core.reason import Reason
from naproxy.core.words import words as _english

# Set once for all reasons: logs and terminals show them in words.
Reason.words = _english
