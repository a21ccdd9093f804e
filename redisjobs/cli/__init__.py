"""The `redisjobs` command."""
