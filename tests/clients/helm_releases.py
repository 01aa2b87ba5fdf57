"""Helm installs, upgrades, rolls back and uninstalls the chart of this folder, and prints what a server holds then.

    PYTHONPATH=... python3 helm_releases.py KUBECONFIG server|client

The last word says who merges: the server (server-side apply) or Helm by three-way patches.
"""

import sys

from helm_python.errors import HelmError

from helm_actions import Helm, summary, without_times
from transcript import Server, Transcript, plain

NAME = "clients-till"
NAMESPACE = "/namespaces/default/"
# Where the objects of the chart are.
PATHS = [
    "/api/v1" + NAMESPACE + kind for kind in ("configmaps", "secrets", "services", "serviceaccounts")
] + [
    f"/apis/{group}/v1{NAMESPACE}{kind}"
    for group, kind in (
        ("apps", "deployments"),
        ("batch", "cronjobs"),
        ("networking.k8s.io", "ingresses"),
        ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"),
        ("rbac.authorization.k8s.io", "roles"),
        ("rbac.authorization.k8s.io", "rolebindings"),
    )
] + ["/apis/autoscaling/v2" + NAMESPACE + "horizontalpodautoscalers"]

STRICT = {
    "tag": "2",
    "replicas": 3,
    "strict": True,
    "prices": {"apple": "5", "plum": "1"},
    "sidecar": "audit",
    "hosts": ["till.example.com"],
    "verbs": ["get", "watch"],
}


def held(server):
    """All objects of the chart and its releases, without what releases say."""
    objects = []
    for path in PATHS:
        items = server.call("GET", path)
        kind = items["kind"].removesuffix("List")
        for item in items["items"]:
            if NAME not in item["metadata"]["name"]:
                continue
            item = plain({"apiVersion": items["apiVersion"], "kind": kind, **item})
            if item.get("type", "").startswith("helm.sh/"):
                without_times(item)
            objects.append(item)
    return objects


def main():
    kubeconfig, merging = sys.argv[1:]
    helm = Helm(kubeconfig, "chart", NAME, merging == "server")
    server = Server(kubeconfig)
    transcript = Transcript()
    deployment = f"/apis/apps/v1{NAMESPACE}deployments/{NAME}"

    def holds(step):
        transcript.holds(step, held(server))

    transcript.add("install", helm.install({}))
    holds("installed")
    transcript.refused("install again", HelmError, lambda: helm.install({}))
    transcript.add("upgrade", helm.upgrade(STRICT))
    holds("upgraded")
    transcript.add("upgrade without a change", helm.upgrade(STRICT))
    holds("upgraded without a change")

    # Somebody else scales it and adds a container.
    patch = {
        "spec": {
            "replicas": 7,
            "template": {"spec": {"containers": [{"name": "guest", "image": "guest:1"}]}},
        }
    }
    form = "application/strategic-merge-patch+json"
    server.call("PATCH", f"{deployment}?fieldManager=somebody", patch, form)
    more = {**STRICT, "replicas": 4}
    if helm.is_server:
        transcript.refused("upgrade what somebody owns", HelmError, lambda: helm.upgrade(more))
        holds("refused")
        transcript.add("upgrade by force", helm.upgrade(more, force_conflicts=True))
    else:
        transcript.add("upgrade what somebody changed", helm.upgrade(more))
    holds("upgraded what somebody owns")

    helm.rollback(1)
    holds("rolled back")
    history = helm.config.history(NAME)
    transcript.add("history", [summary(release) for release in history])
    transcript.add("values", helm.config.get_values(NAME))
    transcript.add("upgrade with a fault", str(fault(helm)))
    holds("upgraded with a fault")
    helm.config.uninstall(NAME)
    # Hooks stay.
    holds("uninstalled")
    server.call("DELETE", f"/api/v1{NAMESPACE}configmaps/{NAME}-opened")
    helm.config.close()
    transcript.print()


def fault(helm):
    """What an upgrade says whose Ingress is invalid."""
    try:
        return helm.upgrade({"hosts": ["No Host"]})
    except HelmError as refusal:
        return refusal


main()
