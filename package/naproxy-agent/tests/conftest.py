import sys
from pathlib import Path

from hypothesis import settings

# Installed, the agent and its protocol lie beside each other in one folder, as here.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

# The same examples every time, however slow the machine is.
settings.load_profile("ci")
