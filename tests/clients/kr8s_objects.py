"""kr8s creates, applies, patches, watches and deletes objects, and prints what it is answered.

    PYTHONPATH=... python3 kr8s_objects.py KUBECONFIG
"""

import asyncio
import json
import sys

import kr8s
from kr8s.asyncio.objects import ConfigMap, Deployment, Node

from transcript import Transcript, plain

NAME = "clients-kr8s"
LABELS = {"by": NAME}


def configmap(data, name=NAME):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": LABELS},
        "data": data,
    }


def deployment(*containers, **spec):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": list(containers)}},
            **spec,
        },
    }


async def answered(action):
    """What a call is answered, a Status where it is refused."""
    try:
        return await action
    except kr8s.ServerError as refusal:
        return refusal.response.json()


async def apply(api, body, manager, **options):
    """Server-side apply, for which kr8s has no words of its own."""
    version = body["apiVersion"]
    group = f"apis/{version}" if "/" in version else f"api/{version}"
    call = api.call_api(
        "PATCH",
        base=f"/{group}",
        version="",
        namespace="default",
        url=f"{body['kind'].lower()}s/{body['metadata']['name']}",
        params={"fieldManager": manager, **options},
        headers={"Content-Type": "application/apply-patch+yaml"},
        content=json.dumps(body),
    )
    async with call as response:
        return response.json()


async def watched(api, version, transcript):
    """Adds what happened to the ConfigMaps since a version, until one was deleted."""
    watch = api.async_watch("configmaps", namespace="default", label_selector=LABELS, since=version)
    async for operation, thing in watch:
        transcript.add(f"watched {operation}", plain(thing.raw))
        if operation == "DELETED":
            return


async def main():
    api = await kr8s.asyncio.api(kubeconfig=sys.argv[1])
    transcript = Transcript()

    def done(step, thing):
        transcript.add(step, plain(getattr(thing, "raw", thing)))

    first = await ConfigMap(configmap({"a": "1"}), api=api)
    await first.create()
    done("create", first)
    version = first.metadata.resourceVersion
    again = await ConfigMap(configmap({"a": "2"}), api=api)
    done("create again", await answered(again.create()))
    await first.patch({"data": {"a": "2", "b": "1"}})
    done("merge", first)
    operations = [{"op": "test", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/data/b"}]
    await first.patch(operations, type="json")
    done("json", first)
    done("json of nothing", await answered(first.patch(operations, type="json")))
    await first.label({"k": "v"})
    await first.annotate({"k": "v"})
    done("label and annotate", first)

    till = {"name": "till", "image": "till:1", "env": [{"name": "A", "value": "a"}]}
    log = {"name": "log", "image": "log:1"}
    done("apply", await apply(api, deployment(till, log, replicas=2), "one"))
    other = deployment({"name": "till", "image": "till:2"})
    done("apply by another", await answered(apply(api, other, "two")))
    done("dry run", await apply(api, other, "two", force="true", dryRun="All"))
    done("apply by force", await apply(api, other, "two", force="true"))
    done("apply less", await apply(api, deployment(log, replicas=2), "one"))
    scaled = await Deployment.get(NAME, namespace="default", api=api)
    await scaled.scale(4)
    done("scale", scaled)
    done("apply what was scaled", await answered(apply(api, deployment(log, replicas=2), "one")))

    # It has the taint that the admission of kube-apiserver adds.
    spec = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}, "spec": spec}
    node = await Node(node, api=api)
    await node.create()
    await node.cordon()
    await node.taint("a", value="b", effect="NoSchedule")
    done("cordon and taint", node)
    await node.uncordon()
    done("uncordon", node)

    second = await ConfigMap(configmap({"b": "1"}, f"{NAME}-b"), api=api)
    await second.create()
    names = [thing.name async for thing in api.async_get("configmaps", label_selector=LABELS, namespace="default")]
    transcript.add("list", sorted(names))
    await second.delete()
    await watched(api, version, transcript)

    for thing in (first, scaled, node):
        await thing.delete()
    transcript.add("exists", [await thing.exists() for thing in (first, second, scaled, node)])
    transcript.print()


asyncio.run(main())
