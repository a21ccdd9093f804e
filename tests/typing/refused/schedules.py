"""Schedules that no user should get past a checker."""

from __future__ import annotations

import psycopg

from redisjobs import App

app = App("shop")


@app.job
async def report(region: str) -> None: ...


app.schedule("* * * * *", catch_up="all", name="a", call=report.call("eu"))  # refused
app.schedule("* * * * *", overlap=True, name="b", call=report.call("eu"))  # refused
app.schedule("* * * * *", name="c", call=report)  # refused


def change(connection: psycopg.Connection) -> None:
    app.schedules.create(connection, "a", report, "* * * * *")  # refused
    app.schedules.pause(connection, 7)  # refused
