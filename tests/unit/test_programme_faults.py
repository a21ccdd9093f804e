"""The faults of the fault programme are all registered, and told in its table."""

from __future__ import annotations

from pathlib import Path

from tests.faults.programme import faults
from tests.faults.programme.table import PAGE, table


def test_the_table_of_faults_is_that_of_the_code():
    assert PAGE.read_text() == table(), "python -m tests.faults.programme.table"


def test_every_module_of_faults_is_imported_and_has_faults():
    folder = Path(str(faults.__file__)).parent
    with_faults = {fault.strike.__module__.rpartition(".")[2] for fault in faults.FAULTS.values()}
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == with_faults


def test_every_fault_says_in_a_sentence_what_it_does():
    assert all(fault.told.endswith(".") and "|" not in fault.told for fault in faults.FAULTS.values())
