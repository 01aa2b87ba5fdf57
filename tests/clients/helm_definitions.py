"""Helm installs a chart whose folder crds has definitions, with objects of them, and prints what a server holds.

    PYTHONPATH=... python3 helm_definitions.py KUBECONFIG server|client

The last word says who merges: the server (server-side apply) or Helm by three-way patches.
"""

import sys
import time

from helm_python.errors import HelmError

from helm_actions import Helm, summary, without_times
from transcript import Server, Transcript, plain

NAME = "clients-lamps"
NAMESPACE = "/namespaces/default/"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LAMPS = f"/apis/helm.example.com/v1{NAMESPACE}lamps"
BULBS = "/apis/helm.example.com/v1alpha1/bulbs"
PATHS = [DEFINITIONS, LAMPS, BULBS, f"/api/v1{NAMESPACE}configmaps", f"/api/v1{NAMESPACE}secrets"]
SECONDS = 60
MERGE = "application/merge-patch+json"
# Without it Helm 4 goes on before a definition is established.
WAIT = {"wait": "watcher"}


def held(server):
    """The definitions, their objects, and the releases."""
    objects = []
    for path in PATHS:
        answer = server.call("GET", path)
        for item in answer.get("items", []):
            kind = answer["kind"].removesuffix("List")
            item = plain({"apiVersion": answer["apiVersion"], "kind": kind, **item})
            name = item["metadata"]["name"]
            if kind == "CustomResourceDefinition" and name.endswith(".helm.example.com"):
                conditions = item["status"]["conditions"]
                for condition in conditions:
                    condition.pop("lastTransitionTime")
                conditions.sort(key=lambda condition: condition["type"])
            elif NAME not in name:
                continue
            if item.get("type", "").startswith("helm.sh/"):
                without_times(item)
            objects.append(item)
    return objects


def until(what, holds):
    end = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what} does not come")
        time.sleep(0.05)


def main():
    kubeconfig, merging = sys.argv[1:]
    helm = Helm(kubeconfig, "lamps", NAME, merging == "server")
    server = Server(kubeconfig)
    transcript = Transcript()
    hall = f"{LAMPS}/{NAME}-hall"

    def holds(step):
        transcript.holds(step, held(server))

    transcript.add("install", helm.install({}, **WAIT))
    holds("installed")
    blue = {"colour": "blue", "watts": 7, "cellar": True, "notes": {"a": "1"}}
    transcript.add("upgrade", helm.upgrade(blue))
    holds("upgraded")
    transcript.add("upgrade without a change", helm.upgrade(blue))
    holds("upgraded without a change")
    # The controller writes the status, and somebody else changes the spec.
    server.call("PATCH", f"{hall}/status", {"status": {"lit": True}}, MERGE)
    server.call("PATCH", hall, {"spec": {"watts": 9, "notes": {"b": "2"}}}, MERGE)
    holds("changed by others")
    green = {**blue, "colour": "green", "watts": 8}
    if helm.is_server:
        transcript.refused("upgrade what somebody owns", HelmError, lambda: helm.upgrade(green))
        transcript.add("upgrade by force", helm.upgrade(green, force_conflicts=True))
    else:
        transcript.add("upgrade what somebody changed", helm.upgrade(green))
    holds("upgraded what somebody owns")
    long = {**blue, "colour": "of a long name"}
    transcript.refused("upgrade with a fault", HelmError, lambda: helm.upgrade(long))
    holds("upgraded with a fault")
    helm.rollback(1)
    holds("rolled back")
    transcript.add("history", [summary(release) for release in helm.config.history(NAME)])

    # Definitions stay, and the next install takes them as they are.
    server.call("PATCH", f"{DEFINITIONS}/lamps.helm.example.com", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    helm.config.uninstall(NAME)
    holds("uninstalled")
    transcript.add("install once more", helm.install(blue, **WAIT))
    holds("installed once more")
    helm.config.uninstall(NAME)
    for name in ("lamps", "bulbs"):
        server.call("DELETE", f"{DEFINITIONS}/{name}.helm.example.com")
    until("the end of the definitions", lambda: server.call("GET", LAMPS).get("code") == 404)
    until("the end of the definitions", lambda: server.call("GET", BULBS).get("code") == 404)
    helm.config.close()
    # The other remembers what was served.
    helm = Helm(kubeconfig, "lamps", NAME, helm.is_server)
    transcript.refused("install without definitions", HelmError, lambda: helm.install({}, skip_crds=True))
    helm.config.close()
    transcript.print()


main()
