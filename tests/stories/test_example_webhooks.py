"""The example of webhooks works as its README says, with the packages `standardwebhooks` of both registries."""

from __future__ import annotations

import http.client
import shutil
from pathlib import Path

import pytest

from redisjobs.webhooks import generate_secret
from tests.support.cli import CommandLine
from tests.support.eventually import eventually_now
from tests.support.languages import node_copy
from tests.support.net import free_port
from tests.support.processes import CHECKOUT, Processes, Program

EXAMPLE = CHECKOUT / "examples" / "webhooks"
pytestmark = pytest.mark.timeout(300)  # the first run on a machine fetches the packages of npm


@pytest.fixture
def ports(tmp_path: Path) -> dict[str, int]:
    """A copy of the shop, with ports that are free here."""
    found = {"8021": free_port(), "8022": free_port()}
    text = (EXAMPLE / "shop.py").read_text()
    for told, port in found.items():
        assert told in text
        text = text.replace(told, str(port))
    (tmp_path / "shop.py").write_text(text)
    shutil.copy(EXAMPLE / "receiver.py", tmp_path)
    return found


@pytest.fixture
def receivers(processes: Processes, ports: dict[str, int]) -> tuple[Program, Program]:
    processes.env["SHOP_SECRET"] = generate_secret()
    node, folder, _ = node_copy(EXAMPLE / "node")
    started = (
        processes.python("receiver.py", env={"PORT": str(ports["8021"])}),
        processes.start(str(node), str(folder / "receiver.js"), env={"PORT": str(ports["8022"])}),
    )
    eventually_now(
        lambda: [post(port, {}) for port in ports.values()] == [400, 400], "both answer", 60, despite=(OSError,)
    )
    return started


def post(port: int, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", "/", b"{}", headers)
        with connection.getresponse() as response:  # which has the socket too
            return response.status
    finally:
        connection.close()


def test_both_receivers_verify_what_is_sent_and_refuse_what_is_not(
    processes: Processes, receivers: tuple[Program, Program], ports: dict[str, int], database_url: str
):
    processes.redisjobs("relay")
    processes.redisjobs("worker", "shop:app", "--queues", "webhooks")
    shop = processes.python("shop.py", "ada@example.com")
    assert shop.wait() == 0, shop.log()

    for receiver, name in zip(receivers, ("python", "node"), strict=True):
        receiver.says_now(f"{name}: order.placed 1 for ada@example.com", within=60)
    forged = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,AAAA"}
    assert [post(port, forged) for port in ports.values()] == [400, 400]
    command = CommandLine({"REDISJOBS_DATABASE_URL": database_url})
    listed = command.json("webhooks", "endpoints", "list")["endpoints"]
    assert {each["endpoint"]: each["state"] for each in listed} == {"python": "ok", "node": "ok"}


def test_the_readme_tells_these_commands():
    told = (EXAMPLE / "README.md").read_text()

    for command in ("python receiver.py", "(cd node && npm install && node receiver.js)",
                    "redisjobs dev --app shop:app --queues webhooks", "python shop.py ada@example.com",
                    "redisjobs webhooks endpoints test node"):  # fmt: skip
        assert f"    {command}\n" in told
