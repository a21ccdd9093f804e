"""Prints where redisjobs was found, and a hash of every script, statement and migration in it."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files

import redisjobs
from redisjobs.base import scripts, statements

migrations = files("redisjobs").joinpath("sql", "migrations").iterdir()
found = {f"script {name}": scripts.load(name).sha for name in scripts.names()}
for station in statements.stations():
    sql = statements.load(station)
    found |= {f"statement {station}.{name}": hashlib.sha1(sql[name]).hexdigest() for name in sql}
found |= {f"migration {file.name}": hashlib.sha1(file.read_bytes()).hexdigest() for file in migrations}

print(json.dumps({"from": str(redisjobs.__file__), "found": found}))
