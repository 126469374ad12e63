"""The manifests: valid for Kubernetes, and at one with each other and with the product."""

import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from redis import Redis

from gateway.metrics import Metrics
from shared.broker import keys
from shared.settings import environment_variables
from tests.support.compose import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
# The oldest release that the manifests are for, and the newest that the validator knows.
RELEASES = ("1.30", "1.37")
# Custom resources have their schemas in the cluster.
CUSTOM = {"Kustomization", "ScaledObject", "TriggerAuthentication", "PodMonitor"}

Manifest = dict[str, Any]


def manifests() -> list[tuple[str, Manifest]]:
    return [
        (path.name, document)
        for path in sorted(FOLDER.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]


def of_kind(*kinds: str) -> list[Manifest]:
    return [document for _, document in manifests() if document["kind"] in kinds]


def pods() -> list[tuple[str, Manifest]]:
    """Name and pod template of everything that runs."""
    found = of_kind("Deployment", "StatefulSet", "Job")
    return [(document["metadata"]["name"], document["spec"]["template"]) for document in found]


def containers() -> Iterator[tuple[str, Manifest, Manifest]]:
    for name, template in pods():
        for container in template["spec"]["containers"]:
            yield name, template["spec"], container


@pytest.mark.parametrize("release", RELEASES)
def test_every_manifest_is_valid(release: str):
    for _, document in manifests():
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, release, strict=True)


def test_the_validator_refuses_what_is_wrong():
    (deployment, *_) = of_kind("Deployment")
    deployment["spec"]["template"]["spec"]["containers"][0]["imgae"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, RELEASES[-1], strict=True)


def test_the_kustomization_names_what_there_is():
    (kustomization,) = of_kind("Kustomization")
    files = {path.name for path in FOLDER.glob("*.yaml")}
    assert set(kustomization["resources"]) <= files
    optional = {"kustomization.yaml", "secret.example.yaml", "scaling.yaml", "monitoring.yaml", "ingress.yaml"}
    assert files - set(kustomization["resources"]) == optional
    images = {container["image"] for _, _, container in containers() if "gepard" in container["image"]}
    assert {image["name"] for image in kustomization["images"]} == images


def test_selectors_find_the_pods_they_mean():
    labels = {name: template["metadata"]["labels"] for name, template in pods()}
    for document in of_kind("Deployment", "StatefulSet"):
        assert document["spec"]["selector"]["matchLabels"].items() <= labels[document["metadata"]["name"]].items()
    wanted = [document["spec"]["selector"] for document in of_kind("Service")]
    wanted += [document["spec"]["selector"]["matchLabels"] for document in of_kind("PodDisruptionBudget", "PodMonitor")]
    wanted += [document["spec"]["podSelector"]["matchLabels"] for document in of_kind("NetworkPolicy")]
    for selector in wanted:
        assert any(selector.items() <= own.items() for own in labels.values()), selector


def test_every_secret_and_setting_that_is_named_exists():
    (secret,) = of_kind("Secret")
    (config, *_) = [document for document in of_kind("ConfigMap") if document["metadata"]["name"] == "gepard"]
    known = set(environment_variables())
    assert set(config["data"]) <= known
    for name, spec, container in containers():
        used = {entry["valueFrom"]["secretKeyRef"]["key"] for entry in container.get("env", []) if "valueFrom" in entry}
        for volume in spec.get("volumes", []):
            used |= {item["key"] for item in volume.get("secret", {}).get("items", [])}
        assert used <= set(secret["stringData"]), name
        own = {entry["name"] for entry in container.get("env", []) if entry["name"].startswith("GEPARD_")}
        assert {each.removesuffix("_FILE") for each in own} <= known, name


def test_nothing_runs_as_root_or_may_become_it():
    for name, spec, container in containers():
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        locked = container["securityContext"]
        assert locked["readOnlyRootFilesystem"] is True, name
        assert locked["allowPrivilegeEscalation"] is False, name
        assert locked["capabilities"] == {"drop": ["ALL"]}, name
        assert spec["automountServiceAccountToken"] is False, name
        assert "memory" in container["resources"]["limits"], name


def test_a_pod_may_end_its_replies_before_it_is_killed():
    (config, *_) = [document for document in of_kind("ConfigMap") if document["metadata"]["name"] == "gepard"]
    needed = float(config["data"]["GEPARD_WORKER_DRAIN_S"]) + float(config["data"]["GEPARD_SERVER_DRAIN_DELAY_S"])
    for document in of_kind("Deployment"):
        grace_s = document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace_s > needed, document["metadata"]["name"]


def test_what_serves_has_probes_and_a_budget():
    budgets = {document["metadata"]["name"] for document in of_kind("PodDisruptionBudget")}
    for document in of_kind("Deployment"):
        (container,) = document["spec"]["template"]["spec"]["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(container)
        assert document["metadata"]["name"] in budgets


def test_a_gpu_worker_asks_for_one_gpu_on_a_node_that_has_some():
    (worker,) = [template for name, template in pods() if name == "worker-gpu"]
    resources = worker["spec"]["containers"][0]["resources"]
    assert resources["requests"]["nvidia.com/gpu"] == resources["limits"]["nvidia.com/gpu"] == 1
    assert worker["spec"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}


def test_what_scales_exists_and_is_scaled_by_metrics_there_are():
    deployments = {document["metadata"]["name"] for document in of_kind("Deployment")}
    names = {family.name for family in Metrics(lambda: ()).registry.collect()}
    authentications = {document["metadata"]["name"] for document in of_kind("TriggerAuthentication")}
    for document in of_kind("ScaledObject"):
        spec = document["spec"]
        assert spec["scaleTargetRef"]["name"] in deployments
        assert 1 <= spec["minReplicaCount"] <= spec["maxReplicaCount"]
        for trigger in spec["triggers"]:
            metadata = trigger["metadata"]
            assert all(isinstance(value, str) for value in metadata.values()), "KEDA takes texts only"
            if trigger["type"] == "prometheus":
                assert set(re.findall(r"gepard_\w+", metadata["query"])) <= names
                float(metadata["threshold"])
            else:
                assert trigger["type"] == "redis"
                assert metadata["listName"] == keys.queue("gepard")
                assert trigger["authenticationRef"]["name"] in authentications


def test_keda_can_count_the_queue_as_it_does(redis_url: str):
    """KEDA asks for the type of the key and takes ZCARD of a sorted set, which arq's queue is."""
    with Redis.from_url(redis_url) as redis:
        redis.zadd(keys.queue("gepard"), {"job.1": 1, "job.2": 2})
        assert redis.type(keys.queue("gepard")) == b"zset"
        assert redis.zcard(keys.queue("gepard")) == 2
