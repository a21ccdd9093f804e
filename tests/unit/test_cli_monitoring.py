"""How a command is watched, and that nothing of it is needed where nobody watches (rule P4)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from redisjobs.cli.group import COMMANDS
from redisjobs.cli.monitoring import Watch


def test_several_processes_have_ports_in_a_row_and_a_file_each():
    watch = Watch(9400, "", Path("/run/alive"))

    made = [watch.of_process(number) for number in range(3)]

    assert [each.port for each in made] == [9400, 9401, 9402]
    assert [str(each.liveness_file) for each in made] == ["/run/alive", "/run/alive.1", "/run/alive.2"]


def test_any_free_port_stays_any_free_port_and_nothing_stays_nothing():
    assert Watch(0, "", None).of_process(3) == Watch(0, "", None)
    assert Watch(None, "", None).of_process(3) == Watch(None, "", None)


@pytest.mark.parametrize("command", ["worker", "relay"])
def test_a_command_needs_neither_prometheus_nor_opentelemetry(command: str):
    module = COMMANDS[command].partition(":")[0]
    code = f"""
import sys
sys.modules["prometheus_client"] = sys.modules["opentelemetry"] = None
import {module}
from redisjobs import App
from redisjobs.tracing import sending
from redisjobs.worker import Worker
assert Worker(App())._observing() is None
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert ended.returncode == 0, ended.stderr
