"""`make bench-tasks`: ten tasks of an administrator, in clicks and seconds.

The stories are tests of the web interface; each leaves its figures in build/tasks.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

from tests.bench.result import goal, output_path, write
from tests.simulator.office.namespace import ROOT
from tests.webui.story import KEPT, MOST_CLICKS

STORIES = (
    "test_history.py::test_a_rule_is_undone_with_one_click",
    "test_https.py::test_one_is_issued_shown_with_its_renewal_and_renewed_at_once",
    "test_settings.py::test_a_backup_is_made_and_restored",
    "test_tasks.py",
    "test_update.py::test_an_update_from_the_file_to_the_restart_and_back_again",
)
TASKS = 10


def main() -> None:
    path = output_path()
    shutil.rmtree(KEPT, ignore_errors=True)
    told = [f"tests/webui/{story}" for story in STORIES]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *told],
        cwd=ROOT,
        check=True,
        stdout=sys.stderr,
    )
    tasks = [json.loads(file.read_text()) for file in sorted(KEPT.glob("*.json"))]
    for each in tasks:
        print(
            f"{each['clicks']} clicks, {each['fields']} fields, {each['seconds']} s: {each['task']}"
        )
    write(
        path,
        [
            goal("tasks told", len(tasks), TASKS, ">="),
            *(goal(f"clicks: {each['task']}", each["clicks"], MOST_CLICKS, "<=") for each in tasks),
        ],
        {"tasks": tasks},
    )


if __name__ == "__main__":
    main()
