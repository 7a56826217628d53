"""Runs the test files of some folders under MicroPython, which has no pytest.

micropython run.py FOLDER...    (the modules under test and fakes/ on MICROPYPATH)
"""

import os
import sys


def run(folders):
    """Call every test_* of every test_*.py; (passed, failed)."""
    passed = failed = 0
    for folder in folders:
        sys.path.insert(0, folder)
        for name in sorted(os.listdir(folder)):
            if not (name.startswith("test_") and name.endswith(".py")):
                continue
            module = __import__(name[:-3])
            for test in sorted(dir(module)):
                if not test.startswith("test_"):
                    continue
                try:
                    getattr(module, test)()
                    passed += 1
                except Exception as error:  # whatever it was, it failed
                    failed += 1
                    print(f"FAILED {name}::{test}")
                    sys.print_exception(error)
    version = ".".join(str(part) for part in sys.implementation[1][:3])
    print(f"MicroPython {version} on {sys.platform}: {passed} passed, {failed} failed")
    return passed, failed


if __name__ == "__main__":
    counts = run(sys.argv[1:])
    sys.exit(0 if counts[0] and not counts[1] else 1)
