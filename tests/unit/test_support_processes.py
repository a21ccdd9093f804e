"""Programs that tests start leave nothing behind."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import Processes

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print(f"child {child.pid}", flush=True)  # in one piece
time.sleep(600)
"""


def test_a_child_in_a_group_of_its_own_ends_with_the_test(tmp_path: Path) -> None:
    with Processes(tmp_path, {}) as processes:
        child = int(processes.python("-c", PARENT).says_now("child").split()[1])
        assert not _is_gone(child)

    assert _is_gone(child)


def _is_gone(pid: int) -> bool:
    """It has ended; whoever inherited it may not have looked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True
