"""The manifests in examples/kubernetes are what Kubernetes understands, and fit to what the commands do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes_validate
import psycopg
import pytest
import yaml

from tests.support.commands import complaints
from tests.support.compose import entrypoint, seconds
from tests.support.eventually import eventually_now
from tests.support.http import get
from tests.support.net import free_port
from tests.support.processes import CHECKOUT, Processes

FOLDER = CHECKOUT / "examples" / "kubernetes"
OTHERS = ("kustomize.config.k8s.io", "keda.sh", "monitoring.coreos.com")  # kinds that a cluster does not bring itself


def read(file: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(file.read_text()) if each]


MANIFESTS = [each for file in sorted(FOLDER.glob("*.yaml")) for each in read(file)]
WORKLOADS = [each for each in MANIFESTS if each["kind"] in ("Deployment", "Job")]
DEPLOYMENTS = [each for each in WORKLOADS if each["kind"] == "Deployment"]


def name_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}-{manifest.get('metadata', {}).get('name', '')}"


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    return dict(manifest["spec"]["template"]["spec"])


def container(manifest: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod(manifest)["containers"]
    return dict(found)


def only(kind: str) -> dict[str, Any]:
    (found,) = [each for each in MANIFESTS if each["kind"] == kind]
    return found


ours = pytest.mark.parametrize("manifest", WORKLOADS, ids=name_of)
lasting = pytest.mark.parametrize("manifest", DEPLOYMENTS, ids=name_of)


@pytest.mark.parametrize(
    "manifest", [each for each in MANIFESTS if not each["apiVersion"].startswith(OTHERS)], ids=name_of
)
def test_a_manifest_has_every_field_that_its_kind_needs_and_no_other(manifest: dict[str, Any]):
    assert kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


def test_every_file_is_applied():
    assert sorted(only("Kustomization")["resources"]) == sorted(
        file.name for file in FOLDER.glob("*.yaml") if file.name != "kustomization.yaml"
    )


@ours
def test_a_container_runs_a_command_that_exists(manifest: dict[str, Any]):
    assert "command" not in container(manifest), "the image's entrypoint takes the signals"
    assert complaints(" ".join([*entrypoint(), *container(manifest)["args"]])) == []


@lasting
def test_a_pod_has_longer_to_end_than_its_command_needs(manifest: dict[str, Any]):
    args = container(manifest)["args"]
    needs = 15 if args[0] == "relay" else seconds(args[args.index("--shutdown-grace") + 1]) + 10

    assert pod(manifest)["terminationGracePeriodSeconds"] > needs


@lasting
def test_a_pod_is_killed_for_a_hanging_loop_alone_and_a_release_waits_until_it_is_ready(manifest: dict[str, Any]):
    probes = {name: container(manifest)[name]["httpGet"] for name in container(manifest) if name.endswith("Probe")}

    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready",
    }  # fmt: skip
    (port,) = container(manifest)["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert str(port["containerPort"]) in container(manifest)["args"]
    assert manifest["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@lasting
def test_a_budget_keeps_some_pods_through_a_drain_of_nodes(manifest: dict[str, Any]):
    labels = manifest["spec"]["selector"]["matchLabels"]
    budgets = [each["spec"]["selector"]["matchLabels"] for each in MANIFESTS if each["kind"] == "PodDisruptionBudget"]

    assert labels == manifest["spec"]["template"]["metadata"]["labels"]
    assert budgets.count(labels) == 1


@ours
def test_a_container_has_no_rights_no_password_and_bounds(manifest: dict[str, Any]):
    given = container(manifest)

    assert pod(manifest)["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod(manifest)["automountServiceAccountToken"] is False
    assert given["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert {"cpu", "memory"} <= set(given["resources"]["requests"])
    assert "memory" in given["resources"]["limits"]
    assert not [each for each in given.get("env", []) if "PASSWORD" in each["name"] and "value" in each]


def test_the_urls_hold_no_password():
    urls = [value for name, value in only("ConfigMap")["data"].items() if name.endswith("_URL")]
    urls += [each["value"] for manifest in WORKLOADS for each in container(manifest).get("env", []) if "value" in each]

    assert len(urls) == 3
    assert all(":" not in url.partition("://")[2].partition("@")[0] for url in urls)


def test_prometheus_reads_every_pod_that_answers():
    (endpoint,) = only("PodMonitor")["spec"]["podMetricsEndpoints"]
    rules = {each["key"]: each["values"] for each in only("PodMonitor")["spec"]["selector"]["matchExpressions"]}

    for manifest in DEPLOYMENTS:
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        assert all(labels[key] in values for key, values in rules.items())
        assert endpoint["port"] in [port["name"] for port in container(manifest)["ports"]]


def test_a_worker_is_given_redis_alone():
    (worker,) = [each for each in DEPLOYMENTS if container(each)["args"][0] == "worker"]

    assert "envFrom" not in container(worker)
    assert not [each for each in container(worker)["env"] if "DATABASE" in each["name"]]


def test_what_a_container_refers_to_is_in_the_config_map():
    for manifest in WORKLOADS:
        sources = [each.get("valueFrom", {}).get("configMapKeyRef") for each in container(manifest).get("env", [])]
        assert {each["key"] for each in sources if each} <= set(only("ConfigMap")["data"])


def test_the_number_of_workers_is_the_autoscalers_alone():
    target = only("ScaledObject")["spec"]["scaleTargetRef"]["name"]
    (scaled,) = [each for each in DEPLOYMENTS if each["metadata"]["name"] == target]

    assert "replicas" not in scaled["spec"]
    (trigger,) = only("ScaledObject")["spec"]["triggers"]
    assert trigger["authenticationRef"]["name"] == only("TriggerAuthentication")["metadata"]["name"]


@pytest.fixture
def age(database_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def test_the_autoscaler_asks_for_the_age_of_the_oldest_job_that_is_due(age: psycopg.Connection[tuple[int]]):
    (trigger,) = only("ScaledObject")["spec"]["triggers"]

    def oldest() -> int:
        row = age.execute(trigger["metadata"]["query"].encode()).fetchone()
        assert row
        return row[0]

    assert trigger["metricType"] == "Value"
    assert oldest() == 0
    age.execute("SELECT redisjobs.enqueue('later', queue => 'mail', delay => interval '1 hour')")
    age.execute("SELECT redisjobs.enqueue('elsewhere', queue => 'other')")
    age.execute("UPDATE redisjobs.outbox SET staged_at = now() - interval '2 hours'")
    assert oldest() == 0, "one is not due, the other of another queue"
    age.execute("SELECT redisjobs.enqueue('one', queue => 'stock')")
    age.execute("UPDATE redisjobs.outbox SET staged_at = now() - interval '90 s' WHERE job = 'one'")
    assert 90 <= oldest() < 150
    age.execute("UPDATE redisjobs.outbox SET run_at = now() - interval '20 s' WHERE job = 'one'")
    assert 20 <= oldest() < 80, "from the moment when it was due"


@lasting
def test_the_probes_are_answered_by_the_command_of_the_manifest(
    manifest: dict[str, Any], tmp_path: Path, processes: Processes
):
    port = free_port()
    args = [str(port) if word == "8080" else word for word in container(manifest)["args"]]
    processes.module("app", (CHECKOUT / "examples" / "orders" / "app.py").read_text())
    program = processes.redisjobs(*args)

    def answers(path: str) -> bool:
        return get(port, path)[0] == 200

    for path in ("/health", "/ready"):
        eventually_now(partial(answers, path), f"{path} says yes", within=30, despite=(OSError,))
    assert program.stop(within=pod(manifest)["terminationGracePeriodSeconds"]) == 0
