"""Words that all rooms share: states, reasons, schemas, units, files, processes, the week."""

from naproxy.core.reason import Reason
from naproxy.core.words import words as _english

# Whoever makes a reason: in a log and on a terminal it is told in words.
Reason.words = _english
