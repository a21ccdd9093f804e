"""The history of its tables."""
