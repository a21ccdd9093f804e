"""What redisjobs costs and how far it goes: measured, simulated beyond, checked: `python -m benchmarks.capacity`."""
