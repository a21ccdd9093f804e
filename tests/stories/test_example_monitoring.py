"""examples/monitoring and its page: each metric, label and alert that they name is there in a real scrape (rule P4)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from redisjobs.webhooks import generate_secret
from tests.support.builders import Conn, stage
from tests.support.eventually import eventually_now
from tests.support.http import get
from tests.support.metrics import Scrape
from tests.support.processes import CHECKOUT, Processes, Program

FOLDER = CHECKOUT / "examples" / "monitoring"
PAGE = CHECKOUT / "docs" / "monitoring.md"
SHOP = """
    import asyncio, os
    from redisjobs import App, BatchCall
    from redisjobs.webhooks import Endpoint, webhook

    app = App()
    webhook(app, endpoints=[Endpoint("shop", os.environ["RECEIVER"], os.environ["SECRET"])], allow=["127.0.0.0/8"])

    @app.job
    async def well(): ...

    @app.job(max_attempts=1)
    async def ill():
        raise ValueError("no")

    @app.job(limit=1)
    async def narrow():
        await asyncio.sleep(0.3)

    @app.batch_job(size=1)
    async def many(calls: list[BatchCall[int]]): ...
"""
SELECTOR = re.compile(r"(redisjobs_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Expression:
    """A PromQL expression, and where it stands."""

    place: str
    text: str

    def selectors(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Each metric in it, with its matchers: label, operator, value."""
        return [(found[1], MATCHER.findall(found[2] or "")) for found in SELECTOR.finditer(self.text)]

    def grouped_by(self) -> set[str]:
        """The labels that it groups or joins by."""
        return {name.strip() for found in GROUPING.finditer(self.text) for name in found[1].split(",") if name.strip()}


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return document


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def expressions() -> list[Expression]:
    rules = [Expression(rule["alert"], rule["expr"]) for rule in alerts()]
    panels = [
        Expression(panel["title"], target["expr"])
        for panel in dashboard()["panels"]
        for target in panel.get("targets", ())
    ]
    queries = [Expression(each["name"], each["definition"]) for each in dashboard()["templating"]["list"][1:]]
    assert len(rules) > 10
    assert len(panels) > 30
    return [*rules, *panels, *queries]


def port_of(program: Program) -> int:
    found = re.search(r"http.serving port=(\d+)", program.says_now("http.serving"))
    assert found
    return int(found[1])


@pytest.fixture
def scrape(processes: Processes, conn: Conn) -> Scrape:
    """A relay, a worker and a scheduler as processes, which have worked: what they tell."""
    processes.module("shop", SHOP)
    serving = ("--http-port", "0", "--http-host", "127.0.0.1")
    relay = processes.redisjobs("relay", *serving)
    processes.env |= {"RECEIVER": f"http://127.0.0.1:{port_of(relay)}/hook", "SECRET": generate_secret()}
    worker = processes.redisjobs(
        "worker", "shop:app", "-q", "default,webhooks", *serving, "--heartbeat-interval", "0.5s"
    )
    scheduler = processes.redisjobs("scheduler", *serving)
    for job in ("well", "ill", "nobody_knows"):
        stage(conn, job)
    stage(conn, "many", {"argument": 1}, queue="webhooks")
    for _ in range(2):
        stage(conn, "narrow", queue="webhooks")
    stage(conn, "webhook", {"endpoint": "shop", "type": "order.placed", "data": {}}, queue="webhooks")
    conn.commit()

    def has_worked() -> Scrape:
        found = Scrape(*(get(port_of(each), "/metrics")[1] for each in (worker, relay, scheduler)))
        ended = found.counts("redisjobs_attempts_ended_total", "outcome", queue="default")
        assert ended.keys() == {"succeeded", "dead", "parked"}
        assert found.value("redisjobs_published_total", queue="default") == 3
        assert found.values("redisjobs_heartbeat_age_seconds")
        assert found.values("redisjobs_dead_letters", queue="default")
        assert found.values("redisjobs_webhook_attempts_total")
        assert found.values("redisjobs_batch_calls_count")
        assert found.values("redisjobs_limited_wait_seconds_count")
        assert found.values("redisjobs_webhook_endpoint_enabled")
        assert sum(found.values("redisjobs_ready")) == 3
        return found

    return eventually_now(has_worked, "both have worked, and the relay has looked at the stores", 40)


def test_everything_that_is_asked_for_is_told(scrape: Scrape):
    wrong: list[str] = []
    labels: dict[str, dict[str, set[str]]] = {}
    for sample in scrape.samples:
        known = labels.setdefault(sample.name, {})
        for name, value in sample.labels.items():
            known.setdefault(name, set()).add(value)
    for each in expressions():
        for metric, matchers in each.selectors():
            if metric not in labels:
                wrong.append(f"{each.place}: nobody tells {metric}")
                continue
            for name, operator, value in matchers:
                values = labels[metric].get(name)
                wanted = value.split("|") if operator == "=~" else [value]
                if values is None:
                    wrong.append(f"{each.place}: {metric} has no label {name}")
                elif not value.startswith("$") and not set(wanted) <= values:
                    wrong.append(f"{each.place}: {metric} has no {name} {value!r}")
            grouped = each.grouped_by() - {"le", "instance"}
            if not grouped <= labels[metric].keys():
                wrong.append(f"{each.place}: {metric} has not the labels {grouped - labels[metric].keys()}")

    assert wrong == []
    reserved = {"job", "instance"}  # Prometheus gives these to all that it reads, and renames ours
    ours = {name: found.keys() & reserved for name, found in labels.items() if name.startswith("redisjobs_")}
    assert not any(ours.values()), ours

    page = _metrics_of_the_page()
    told = {
        name: (family.type, ",".join(sorted({label for each in family.samples for label in each.labels} - {"le"})))
        for name, family in scrape.families.items()
        if name.startswith("redisjobs_")
    }
    assert page == told, "the page has a line for every metric, with its kind and labels"


def _metrics_of_the_page() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `redisjobs_"):
            name, kind, labels = (cell.strip() for cell in line.split("|")[1:4])
            listed = ",".join(sorted(re.findall(r"`(\w+)`", labels)))
            found[name.strip("`").removesuffix("_total")] = (kind, listed)
    return found


def test_each_alert_has_its_line_on_the_page_and_says_what_is_wrong():
    told = re.findall(r"^\| `(Redisjobs\w+)`", PAGE.read_text(), re.MULTILINE)

    assert told == [rule["alert"] for rule in alerts()]
    for rule in alerts():
        assert rule["labels"]["severity"] in ("page", "ticket")
        named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert named <= Expression(rule["alert"], rule["expr"]).grouped_by() | {"instance", "store"}


def test_no_panel_lies_upon_another_and_each_has_its_number():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        assert grid["x"] + grid["w"] <= 24
        taken |= cells


def test_prometheus_is_told_of_the_rules_that_are_there():
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())

    assert [(FOLDER / name).exists() for name in config["rule_files"]] == [True]
    assert {job["job_name"] for job in config["scrape_configs"]} == {"redisjobs"}
