"""Text that a terminal does not obey. Apart from `render`, for workers have no use for tables and their memory."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with its control characters made visible; line ends and tabs stay."""
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)
