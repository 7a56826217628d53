"""The end of a failing `make test`, from what the real programs print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.failures import MOST_LINES, shortened, summary

MAKEFILE = """
test-one:
\t@'{python}' -m pytest -q -p no:cacheprovider --rootdir . one/tests
test-two:
\t@varnishtest -q -k two.vtc three.vtc
lint:
\t@false
"""
FAILING = "client c1 -connect 127.0.0.1:1 {\n\tdelay nonsense\n} -run\n"


def make(folder: Path) -> str:
    """Run three targets that fail, as `make test` runs its own, and return what they print."""
    (folder / "one/tests").mkdir(parents=True)
    (folder / "one/pyproject.toml").write_text("")
    (folder / "one/tests/test_sum.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 + 1 == 3\n"
        "@pytest.mark.parametrize('case', ['a b'])\n"
        "def test_case(case): assert False\n"
    )
    (folder / "two.vtc").write_text(f'varnishtest "fails"\n{FAILING}')
    (folder / "three.vtc").write_text('varnishtest "passes"\nshell "true"\n')
    (folder / "Makefile").write_text(MAKEFILE.format(python=sys.executable))
    done = subprocess.run(
        ["make", "-k", "-j2", "--output-sync=target", "test-one", "test-two", "lint"],
        cwd=folder,
        # Not as a part of the make that runs the tests.
        env={name: value for name, value in os.environ.items() if not name.startswith("M")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode
    return done.stdout


def test_each_failed_test_is_named_with_the_command_that_reruns_it(tmp_path: Path) -> None:
    found = summary(make(tmp_path))
    pytest = "sudo -E .venv/bin/python -m pytest "
    assert f"{pytest}one/tests/test_sum.py::test_bad  # assert (1 + 1) == 3" in found
    assert any(
        line.startswith(f"{pytest}'one/tests/test_sum.py::test_case[a b]'") for line in found
    )
    assert "make lint" in found
    assert any("TESTS=two.vtc" in line for line in found)
    assert len(found) == 4


def test_a_long_list_ends_after_thirty_lines_with_the_number_of_the_others() -> None:
    lines = shortened([f"make test-{number}" for number in range(100)], "build/test.log")
    assert len(lines) == MOST_LINES
    assert lines[-1] == "71 more failed; the whole output: build/test.log"
