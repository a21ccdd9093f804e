"""The fault programme: seeded trials of the whole system under load, with faults and an audit. See README.md."""
