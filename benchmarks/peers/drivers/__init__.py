"""One driver for each contestant; `base.py` says what it must do. Only its own environment can import it."""
