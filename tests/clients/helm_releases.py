"""Helm installs, upgrades, rolls back and uninstalls the chart of this folder, and prints what a server holds then.

    PYTHONPATH=... python3 helm_releases.py KUBECONFIG server|client|server-account|client-account

The last word says who merges: the server (server-side apply) or Helm by three-way patches. With `account` Helm runs
under a service account that may do no more than it needs. It also fails for lack of each of a few rights, which is
printed first.
"""

import contextlib
import sys

from helm_python.errors import HelmError, HelmNotFoundError

from accounts import Account, rule
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


# What Helm does with the objects of the chart and with its releases.
VERBS = "get create patch delete"
RULES = [
    rule("", "configmaps services serviceaccounts", VERBS),
    rule("", "secrets", VERBS + " list update"),
    rule("apps", "deployments", VERBS),
    rule("batch", "cronjobs", VERBS),
    rule("networking.k8s.io", "ingresses networkpolicies", VERBS),
    rule("policy", "poddisruptionbudgets", VERBS),
    rule("autoscaling", "horizontalpodautoscalers", VERBS),
    rule("rbac.authorization.k8s.io", "roles rolebindings", VERBS),
    # The chart's role gives them.
    rule("", "configmaps", "get list watch"),
]
# Without each of these rights an installation fails.
LACKING = [("secrets", "create"), ("deployments", "get"), ("deployments", "create"), ("configmaps", "list")]


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
    kubeconfig, mode = sys.argv[1:]
    merging, _, account = mode.partition("-")
    server = Server(kubeconfig)
    transcript, refusals = Transcript(), Transcript()
    if account:
        account = Account(server, "tenant", RULES)
        kubeconfig = account.kubeconfig
    helm = Helm(kubeconfig, "chart", NAME, merging == "server")
    if account:
        fail_to_install(account, helm, refusals)
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
    if account:
        fail_to_change(account, helm, refusals)
        server.call("DELETE", f"/api/v1{NAMESPACE}configmaps/{NAME}-opened")
        account.remove()
    helm.config.close()
    refusals.print()
    transcript.print()


def fail_to_install(account, helm, refusals):
    """Each installation lacks a right, and is removed by its tenant who then has all again."""
    for resource, verb in LACKING:
        account.lacks(resource, verb)
        refusals.refused(f"install without {verb} of {resource}", HelmError, lambda: helm.install({}))
        account.has_all()
        with contextlib.suppress(HelmNotFoundError):
            helm.config.uninstall(NAME)


def fail_to_change(account, helm, refusals):
    """An upgrade and the end of a release lack a right."""
    helm.install({})
    account.lacks("deployments", "patch")
    refusals.refused("upgrade without patch of deployments", HelmError, lambda: helm.upgrade(STRICT))
    account.has_all()
    account.lacks("services", "delete")
    refusals.refused("uninstall without delete of services", HelmError, lambda: helm.config.uninstall(NAME))
    account.has_all()
    helm.config.uninstall(NAME)


def fault(helm):
    """What an upgrade says whose Ingress is invalid."""
    try:
        return helm.upgrade({"hosts": ["No Host"]})
    except HelmError as refusal:
        return refusal


main()
