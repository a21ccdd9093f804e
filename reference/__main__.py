"""`python -m reference`: writes docs/reference anew. With a Postgres of its own, for the SQL page asks a database."""

from __future__ import annotations

from pathlib import Path

from redisjobs.embedded import Embedded
from redisjobs.migrations import migrate
from reference import cli, errors, settings, sql

FOLDER = Path(__file__).parents[1] / "docs" / "reference"


def pages(database_url: str) -> dict[str, str]:
    """The text of every generated page, from a database that has the tables."""
    return {
        "cli.md": cli.page_of_commands(),
        "errors.md": errors.page_of_errors(),
        "settings.md": settings.page_of_settings(),
        "sql.md": sql.page_of_sql(database_url),
    }


def main() -> None:
    """Write them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Embedded() as servers:
        migrate(servers.database_url)
        for name, text in pages(servers.database_url).items():
            (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
