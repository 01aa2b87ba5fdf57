"""lightkube creates, applies, patches, watches and deletes typed objects, and prints what it is answered.

    PYTHONPATH=... python3 lightkube_objects.py KUBECONFIG
"""

import sys

from lightkube import ApiError, Client, KubeConfig
from lightkube.models.apps_v1 import DeploymentSpec, DeploymentStatus
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import Container, EnvVar, NodeSpec, PodSpec, PodTemplateSpec, Taint
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import ConfigMap, Node
from lightkube.types import PatchType

from transcript import Transcript, plain

NAME = "clients-lightkube"
LABELS = {"by": NAME}


def configmap(data, name=NAME):
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", labels=LABELS), data=data)


def deployment(*containers, replicas=None):
    template = PodTemplateSpec(metadata=ObjectMeta(labels=LABELS), spec=PodSpec(containers=list(containers)))
    return Deployment(
        # Objects that are applied name their type.
        apiVersion="apps/v1",
        kind="Deployment",
        metadata=ObjectMeta(name=NAME, namespace="default"),
        spec=DeploymentSpec(replicas=replicas, selector=LabelSelector(matchLabels=LABELS), template=template),
    )


def main():
    client = Client(config=KubeConfig.from_file(sys.argv[1]), namespace="default", field_manager="lightkube")
    transcript = Transcript()

    def done(step, thing):
        transcript.add(step, plain(thing.to_dict()))
        return thing

    def refused(step, action):
        transcript.refused(step, ApiError, action)

    def names():
        return [thing.metadata.name for thing in client.list(ConfigMap, labels=LABELS)]

    # Plain writes.
    first = done("create", client.create(configmap({"a": "1"})))
    refused("create again", lambda: client.create(configmap({"a": "1"})))
    changed = configmap({"a": "2"})
    done("replace", client.replace(changed))
    changed.metadata.resourceVersion = first.metadata.resourceVersion
    refused("replace what is stale", lambda: client.replace(changed))

    # Server-side apply: its own fields, those of others, conflicts, force, and fields left out.
    till = Container("till", image="till:1", env=[EnvVar("A", "a"), EnvVar("B", "b")])
    done("apply", client.apply(deployment(till, Container("log", image="log:1"), replicas=2)))
    done("apply again", client.apply(deployment(till, Container("log", image="log:1"), replicas=2)))
    other = deployment(Container("till", image="till:2"))
    refused("apply by another", lambda: client.apply(other, field_manager="other"))
    done("dry run", client.apply(other, field_manager="other", force=True, dry_run=True))
    done("apply by force", client.apply(other, field_manager="other", force=True))
    refused("apply what was taken", lambda: client.apply(deployment(till, replicas=2)))
    less = Container("till", env=[EnvVar("A", "a")])
    done("apply less", client.apply(deployment(less, replicas=2)))
    # Of an object that is applied to its status the rest does not count.
    status = Deployment.Status(
        apiVersion="apps/v1",
        kind="Deployment",
        metadata=ObjectMeta(name=NAME),
        spec=deployment(Container("none"), replicas=9).spec,
        status=DeploymentStatus(observedGeneration=1, replicas=2),
    )
    done("apply a status", client.apply(status, NAME, field_manager="controller"))

    # Patches of each type.
    def patch(step, body, form, kind=Deployment):
        return done(step, client.patch(kind, NAME, body, patch_type=form, field_manager="patcher"))

    containers = [{"name": "log", "$patch": "delete"}, {"name": "audit", "image": "audit:1"}]
    patch("strategic", {"spec": {"template": {"spec": {"containers": containers}}}}, PatchType.STRATEGIC)
    patch("merge", {"metadata": {"labels": {"k": "v"}}, "spec": {"replicas": None}}, PatchType.MERGE)
    replica = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
    patch("json", replica, PatchType.JSON)
    refused("json of nothing", lambda: patch("", [{"op": "remove", "path": "/spec/x"}], PatchType.JSON))
    refused("apply what was patched", lambda: client.apply(deployment(less, replicas=2)))
    scale = client.get(Deployment.Scale, NAME)
    scale.spec = ScaleSpec(replicas=5)
    done("scale", client.replace(scale, NAME))
    done("scaled", client.get(Deployment, NAME))
    # It has the taint that the admission of kube-apiserver adds.
    spec = NodeSpec(taints=[Taint("NoSchedule", "node.kubernetes.io/not-ready")])
    node = Node(apiVersion="v1", kind="Node", metadata=ObjectMeta(name=NAME), spec=spec)
    done("apply a node", client.apply(node))

    # What happened since the first object is watched.
    for key in ("b", "c"):
        done("create more", client.create(configmap({key: "1"}, f"{NAME}-{key}")))
    client.patch(ConfigMap, f"{NAME}-b", {"data": {"b": "2"}}, patch_type=PatchType.MERGE)
    client.delete(ConfigMap, f"{NAME}-c")
    version = first.metadata.resourceVersion
    watch = client.watch(ConfigMap, labels=LABELS, resource_version=version, server_timeout=20)
    for operation, thing in watch:
        transcript.add(f"watched {operation}", plain(thing.to_dict()))
        if operation == "DELETED":
            break
    transcript.add("list", names())

    for name in names():
        client.delete(ConfigMap, name)
    client.delete(Deployment, NAME)
    client.delete(Node, NAME)
    transcript.add("deleted", names())
    refused("get what is gone", lambda: client.get(Deployment, NAME))
    transcript.print()


main()
