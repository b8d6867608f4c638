"""deploy/compose.yml fits together with the files that it mounts, as seen without containers."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.config.tables import ResourceAlarms
from cluster.process.watermarks import Watermarks
from cluster.system import resources
from tests.structure.tree import ROOT

DEPLOY = ROOT / "deploy"
GRAFANA = DEPLOY / "grafana" / "provisioning"
NODES = {"n1", "n2", "n3"}
SPARK = {"spark-master", "spark-worker-1", "spark-worker-2"}

# https://grafana.com/docs/grafana/latest/administration/provisioning/
DATA_SOURCE_KEYS = {
    "name", "type", "uid", "access", "orgId", "url", "user", "database", "basicAuth", "basicAuthUser",
    "withCredentials", "isDefault", "jsonData", "secureJsonData", "version", "editable",
}  # fmt: skip
PROVIDER_KEYS = {
    "name", "orgId", "folder", "folderUid", "type", "disableDeletion", "updateIntervalSeconds",
    "allowUiUpdates", "options",
}  # fmt: skip


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = read(DEPLOY / "compose.yml")["services"]
    return found


def test_everything_is_published_on_loopback_and_each_port_once(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert published and all(port.startswith("127.0.0.1:") for port in published)
    # ${NAME:-DEFAULT}: each with a name of its own, and a port that no other has unless it is chosen.
    chosen = [re.fullmatch(r"127\.0\.0\.1:\$\{(\w+):-(\d+)\}:\d+", port) for port in published]
    assert all(chosen)
    for place in (1, 2):
        assert len({one[place] for one in chosen if one}) == len(published)


def test_each_node_has_a_volume_and_a_key_of_its_own(services: dict[str, Any]) -> None:
    for name in NODES:
        own = {volume.partition(":")[0] for volume in services[name]["volumes"]}
        assert own == {f"{name}-data", f"{name}-key", "shared"}
        assert services[name]["environment"]["QUORATE_NODE__NAME"] == services[name]["hostname"] == name


def test_what_is_mounted_from_the_tree_is_there(services: dict[str, Any]) -> None:
    mounted = [volume.split(":") for service in services.values() for volume in service.get("volumes", ())]
    files = [source for source, *_ in mounted if source.startswith(".")]
    assert len(files) >= 6 and all((DEPLOY / source).exists() for source in files)
    assert all(mode == ["ro"] for source, _, *mode in mounted if source.startswith("."))


def test_secrets_are_in_files_and_only_the_founding_gets_them(services: dict[str, Any]) -> None:
    (secret,) = read(DEPLOY / "compose.yml")["secrets"].values()
    assert secret == {"file": "${QUORATE_PASSWORD_FILE:-./no-password}"}
    assert (DEPLOY / "no-password").read_bytes() == b""
    assert [name for name, service in services.items() if "secrets" in service] == ["founding"]
    said = [key for service in services.values() for key in service.get("environment", ())]
    assert not [key for key in said if "PASSWORD" in key or "SECRET" in key]


def test_no_node_sees_a_password(services: dict[str, Any]) -> None:
    """The volumes with passwords are those of the founding, of the load, and of Prometheus for its own."""
    having = {
        volume: {
            name
            for name, service in services.items()
            if volume in {mount.partition(":")[0] for mount in service.get("volumes", ())}
        }
        for volume in ("secret", "prometheus-password")
    }
    assert having == {
        "secret": {"founding", "publisher", "consumer", *SPARK},
        "prometheus-password": {"founding", "prometheus"},
    }
    (mount,) = [one for one in services["prometheus"]["volumes"] if one.startswith("prometheus-password:")]
    jobs = read(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"]
    for job in jobs:
        if job.get("metrics_path", "/metrics") != "/metrics":
            assert job["basic_auth"]["username"] == "prometheus"
            assert job["basic_auth"]["password_file"].startswith(mount.split(":")[1] + "/")


GIB = 1 << 30
UNITS = {"m": 1 << 20, "g": GIB}


def octets(limit: str) -> int:
    """A limit with its default, as compose reads it."""
    default = limit.rpartition(":-")[2].rstrip("}")
    return int(default[:-1]) * UNITS[default[-1]]


def test_all_containers_fit_into_a_machine_of_four_gibibytes(services: dict[str, Any]) -> None:
    assert all("mem_limit" in service for service in services.values())
    together = {name: octets(service["mem_limit"]) for name, service in services.items()}
    assert sum(size for name, size in together.items() if name not in {"founding", *SPARK}) <= 4 * GIB
    assert sum(together[name] for name in SPARK) <= 6 * GIB, "docs/pipeline.md says so"
    fourth = read(DEPLOY / "n4.yml")["services"]["n4"]
    for node in (*(services[name] for name in NODES), fourth):
        assert node["mem_limit"] == node["memswap_limit"] == "${QUORATE_MEMORY:-1g}"
        assert octets(node["mem_reservation"]) * 2 == octets(node["mem_limit"])


def test_a_node_s_memory_alarm_goes_by_its_container_s_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(f"{256 << 20}\n", encoding="ascii")
    monkeypatch.setattr(resources, "_CGROUP_LIMITS", (limit,))
    assert Watermarks(ResourceAlarms(), tmp_path, lambda: None).memory == int(0.6 * (256 << 20))
    limit.write_text("max\n", encoding="ascii")
    assert Watermarks(ResourceAlarms(), tmp_path, lambda: None).memory > int(0.6 * (256 << 20))


@pytest.mark.parametrize("gibibytes", [1, 2, 4, 24, 256])
@pytest.mark.parametrize("nodes", [3, 4])
def test_nodes_share_the_memory_that_there_is(tmp_path: Path, gibibytes: int, nodes: int) -> None:
    meminfo, file = tmp_path / "meminfo", tmp_path / ".env"
    meminfo.write_text(f"MemTotal: {gibibytes << 20} kB\nMemFree: 1 kB\n", encoding="ascii")
    file.write_text("GRAFANA_IMAGE=x@sha256:1\nQUORATE_MEMORY=1\n", encoding="ascii")
    command = [DEPLOY / "share-memory.sh", str(nodes), file]
    done = subprocess.run(command, env=os.environ | {"MEMINFO": str(meminfo)}, check=False)
    if gibibytes == 1 and nodes == 4:
        assert done.returncode == 1, "a node needs 256 MiB"
        return
    assert done.returncode == 0
    said = dict(line.split("=", 1) for line in file.read_text(encoding="ascii").splitlines())
    limit, reserved = int(said["QUORATE_MEMORY"]), int(said["QUORATE_MEMORY_RESERVATION"])
    rest = (gibibytes << 30) - nodes * limit
    assert min(GIB, gibibytes * GIB // 4) <= rest < min(GIB, gibibytes * GIB // 4) + nodes
    assert reserved == limit // 2
    assert said["GRAFANA_IMAGE"] == "x@sha256:1"


def test_images_of_others_can_be_pinned_by_digest(tmp_path: Path, services: dict[str, Any]) -> None:
    """A docker of our own stands in for the registry: it tells a digest for each image that is asked for."""
    docker = tmp_path / "docker"
    docker.write_text(
        '#!/bin/sh\n[ "$1" = pull ] && exit 0\nfor last; do :; done\n'
        'echo "${last%:*}@sha256:$(printf %064d 7)"\n'
    )
    docker.chmod(0o755)
    file = tmp_path / ".env"
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for _ in range(2):
        subprocess.run([DEPLOY / "pin-images.sh", file], env=environment, check=True)
    said = dict(line.split("=", 1) for line in file.read_text(encoding="ascii").splitlines())
    assert len(said) == len(file.read_text(encoding="ascii").splitlines())
    named = [service["image"] for service in services.values()]
    named.append(services["n1"]["build"]["args"]["BASE"])
    variables = {
        match[1]: match[2] for one in named if (match := re.fullmatch(r"\$\{(\w+):-(.+)\}", one)) is not None
    }
    assert {one for one in named if not one.startswith("${")} == {"quorate:latest", "quorate-spark:latest"}
    assert said == {
        name: f"{tag.rpartition(':')[0]}@sha256:{'7'.zfill(64)}" for name, tag in variables.items()
    }
    for file in (DEPLOY / "Dockerfile", DEPLOY / "spark.Dockerfile"):
        base = re.search(r"^ARG BASE=(.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert base is not None and base[1] == variables["PYTHON_IMAGE"]


@pytest.mark.requirement("F3.3")
def test_prometheus_scrapes_each_node_and_knows_the_alerts(services: dict[str, Any]) -> None:
    service = services["prometheus"]
    assert "./prometheus:/etc/prometheus:ro" in service["volumes"]
    assert "--config.file=/etc/prometheus/prometheus.yml" in service["command"]
    config = read(DEPLOY / "prometheus" / "prometheus.yml")
    for job in config["scrape_configs"]:
        (static,) = job["static_configs"]
        assert {target.partition(":")[0] for target in static["targets"]} == NODES
    assert config["rule_files"] == ["alerts.yml"]
    (group,) = read(DEPLOY / "prometheus" / "alerts.yml")["groups"]
    assert "QuorateNodeDown" in [rule["alert"] for rule in group["rules"]]


@pytest.mark.requirement("F3.2")
def test_grafana_finds_prometheus_and_its_dashboards(services: dict[str, Any]) -> None:
    (source,) = read(GRAFANA / "datasources" / "prometheus.yml")["datasources"]
    assert source.keys() <= DATA_SOURCE_KEYS
    host, port = source["url"].removeprefix("http://").split(":")
    assert [published.rpartition(":")[2] for published in services[host]["ports"]] == [port]
    (provider,) = read(GRAFANA / "dashboards" / "quorate.yml")["providers"]
    assert provider.keys() <= PROVIDER_KEYS
    mounts = dict(volume.split(":")[1::-1] for volume in services["grafana"]["volumes"])
    assert mounts["/etc/grafana/provisioning"] == "./grafana/provisioning"
    assert mounts[provider["options"]["path"]] == "./grafana/dashboards"
    home = Path(services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (DEPLOY / "grafana" / "dashboards" / home.name).exists()
    assert str(home.parent) == provider["options"]["path"]


def test_viewers_of_grafana_may_only_look(services: dict[str, Any]) -> None:
    settings = services["grafana"]["environment"]
    assert settings["GF_AUTH_ANONYMOUS_ENABLED"] == "true"
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"


@pytest.mark.requirement("F8.1")
def test_the_profile_spark_is_a_master_and_two_workers(services: dict[str, Any]) -> None:
    """With one image, in which is what the pipeline needs; and the same code, password and data for all."""
    found = {name: one for name, one in services.items() if one.get("profiles") == ["spark"]}
    assert found.keys() == SPARK
    for name, service in found.items():
        assert service["image"] == "quorate-spark:latest" and service["hostname"] == name
        assert service["networks"] == services["n1"]["networks"]
        mounts = dict(volume.split(":")[1::-1] for volume in service["volumes"])
        assert mounts == {
            "/opt/quorate/pipeline": "../pipeline", "/run/quorate/secret": "secret", "/data": "spark-data",
        }  # fmt: skip
        assert (DEPLOY / mounts["/opt/quorate/pipeline"] / "spark" / "submit.py").is_file()
        assert service["environment"]["PYTHONPATH"] == "/opt/quorate"
        assert all(volume in read(DEPLOY / "compose.yml")["volumes"] for volume in ("secret", "spark-data"))
    master, *workers = (found[name] for name in sorted(SPARK))
    said = dict(zip(master["command"][1::2], master["command"][2::2], strict=True))
    address = f"spark://{said['--host']}:{said['--port']}"
    assert said["--host"] == master["hostname"] and master["depends_on"].keys() == NODES
    classes = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
    assert [one["command"][0] for one in (master, *workers)] == [classes[0], *classes[1:] * 2]
    for worker in workers:
        assert worker["command"][-1] == address
        assert worker["depends_on"] == {"spark-master": {"condition": "service_healthy"}}
    pages = [
        *master["ports"][0].split(":")[-1:],
        workers[0]["command"][workers[0]["command"].index("--webui-port") + 1],
    ]
    for service, page in zip((master, *workers), [pages[0], pages[1], pages[1]], strict=True):
        assert f"127.0.0.1', {page}," in service["healthcheck"]["test"][-1]
        compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")


@pytest.mark.requirement("F8.1")
def test_the_image_of_spark_has_what_jobs_need(services: dict[str, Any]) -> None:
    build = services["spark-worker-1"]["build"]
    lines = (
        (DEPLOY / Path(build["dockerfile"]).name)
        .read_text(encoding="utf-8")
        .replace("\\\n", " ")
        .splitlines()
    )
    assert build["args"] == services["n1"]["build"]["args"]
    (copied,) = [line.split()[1] for line in lines if line.startswith("COPY ")]
    assert f"!{copied}" in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    pinned = (ROOT / copied).read_text(encoding="utf-8")
    assert all(re.search(rf"^{name}==", pinned, re.MULTILINE) for name in ("pyspark", "pyarrow", "deltalake"))
    assert (
        any("openjdk-17-jre-headless" in line for line in lines) and lines[-1] == 'ENTRYPOINT ["spark-class"]'
    )
    user = re.search(r"useradd --uid (\d+)", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
    assert user is not None and any(user[0] in line for line in lines), (
        "the file with the password is this user's"
    )


@pytest.mark.requirement("F8.1")
def test_the_page_about_the_pipeline_runs_a_job_on_the_profile(services: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    section = page.partition("### In containers")[2].partition("\n### ")[0]
    (submitted,) = re.findall(r"spark-submit (?:.|\n)*?(?=\n```)", section)
    assert f"--master {services['spark-worker-1']['command'][-1]} " in submitted
    assert "/opt/quorate/pipeline/spark/submit.py archive /data/" in submitted
    assert "--password-file /run/quorate/secret/password" in submitted
    assert set(re.findall(r"http://(\w+):15672", submitted)) == NODES
    assert all(name in section for name in ("--profile spark", "SPARK_WORKER_MEMORY", "SPARK_MASTER_PORT"))
