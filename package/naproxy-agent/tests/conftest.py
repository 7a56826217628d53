import sys
from pathlib import Path

# Installed, the agent and its protocol lie beside each other in one folder, as here.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
