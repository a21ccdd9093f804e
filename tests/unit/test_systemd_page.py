"""The units that the systemd page has: started again, told to stop once, waited for, watched (case G13)."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "systemd.md").read_text()


def units() -> list[configparser.SectionProxy]:
    """The service sections of the page; the second says how it differs from the first."""
    found: list[configparser.SectionProxy] = []
    for block in re.findall(r"```ini[^\n]*\n(.+?)```", PAGE, re.DOTALL):
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(block)
        found.append(unit["Service"])
    return found


def test_a_service_that_ends_is_started_again_unless_that_is_in_vain():
    worker, _ = units()

    assert worker["Restart"] == "always"
    assert worker["RestartPreventExitStatus"] == "78"
    assert worker["SuccessExitStatus"] == "75"


def test_a_stop_is_told_to_the_first_process_and_waited_for_longer_than_its_grace():
    worker, relay = units()
    grace = re.search(r"--shutdown-grace (\d+)s", worker["ExecStart"])

    assert worker["KillMode"] == "mixed"
    assert grace
    assert int(worker["TimeoutStopSec"]) > int(grace[1]) + 10
    assert int(relay["TimeoutStopSec"]) > 10
    assert "KillMode" not in relay


def test_it_is_ready_when_it_says_so_and_watched_from_then_on():
    worker, relay = units()

    assert worker["Type"] == "notify"
    assert int(worker["WatchdogSec"]) >= 10
    assert "same but for these lines" in PAGE
    assert not {"Type", "Restart", "WatchdogSec"} & set(relay)
