"""deploy/kubernetes against the schemas that Kubernetes publishes, and against itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

MANIFESTS = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
VERSION = "1.31"
NOT_PUBLISHED = ("ServiceMonitor",)
"""Kinds that are not Kubernetes' own."""


def documents() -> list[dict[str, Any]]:
    return [
        document
        for file in sorted(MANIFESTS.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
    ]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [one for one in documents() if one["kind"] == kind]


def pod() -> dict[str, Any]:
    (nodes,) = of_kind("StatefulSet")
    template: dict[str, Any] = nodes["spec"]["template"]
    return template


def name_of(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


@pytest.mark.parametrize(
    "document", [one for one in documents() if one["kind"] not in NOT_PUBLISHED], ids=name_of
)
def test_each_object_follows_its_schema(document: dict[str, Any]) -> None:
    kubernetes_validate.validate(document, VERSION, strict=True)


def test_a_wrong_field_would_be_found() -> None:
    (budget,) = of_kind("PodDisruptionBudget")
    budget["spec"]["maxUnavailble"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(budget, VERSION, strict=True)


def test_all_that_select_the_nodes_find_them() -> None:
    labels = pod()["metadata"]["labels"].items()
    for one in of_kind("Service"):
        assert one["spec"]["selector"].items() <= labels, name_of(one)
    for kind in ("PodDisruptionBudget", "StatefulSet"):
        (found,) = of_kind(kind)
        assert found["spec"]["selector"]["matchLabels"].items() <= labels
    (policy,) = of_kind("NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels


def test_services_probes_and_the_monitor_name_ports_that_are_there() -> None:
    (node,) = pod()["spec"]["containers"]
    ports = {port["name"] for port in node["ports"]}
    services = of_kind("Service")
    assert {port["targetPort"] for one in services for port in one["spec"]["ports"]} == ports
    assert {node[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {"http"}
    (monitor,) = of_kind("ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (monitored,) = [one for one in services if wanted <= one["metadata"]["labels"].items()]
    exposed = {port["name"] for port in monitored["spec"]["ports"]}
    assert {one["port"] for one in monitor["spec"]["endpoints"]} <= exposed


def test_nodes_find_one_another_before_they_are_ready() -> None:
    (nodes,) = of_kind("StatefulSet")
    (headless,) = [one for one in of_kind("Service") if one["spec"].get("clusterIP") == "None"]
    assert nodes["spec"]["serviceName"] == headless["metadata"]["name"]
    assert headless["spec"]["publishNotReadyAddresses"]
    assert nodes["spec"]["podManagementPolicy"] == "Parallel"


def test_pods_that_come_later_say_where_they_are() -> None:
    (node,) = pod()["spec"]["containers"]
    (headless,) = [one for one in of_kind("Service") if one["spec"].get("clusterIP") == "None"]
    told = {one["name"]: one.get("value", "") for one in node["env"]}
    for port in node["ports"]:
        advertised = told[f"QUORATE_NODE__ADVERTISED__{port['name'].upper()}"]
        where = f"$(QUORATE_NODE__NAME).{headless['metadata']['name']}:{port['containerPort']}"
        assert advertised == where
    # Kubernetes puts in what stands before.
    assert node["env"][0]["name"] == "QUORATE_NODE__NAME"


def test_nothing_runs_as_root_or_may_become_root() -> None:
    spec = pod()["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    for one in (*spec["initContainers"], *spec["containers"]):
        context = one["securityContext"]
        assert context["readOnlyRootFilesystem"], one["name"]
        assert not context["allowPrivilegeEscalation"], one["name"]
        assert context["capabilities"] == {"drop": ["ALL"]}, one["name"]
