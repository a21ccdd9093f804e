"""Writes the reference pages of the manual from the code: `python -m reference`."""
