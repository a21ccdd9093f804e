"""The race: redisjobs beside other job queues, each in its safest mode, on one machine in one run: `make peers`."""
