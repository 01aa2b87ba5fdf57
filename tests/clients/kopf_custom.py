"""kopf runs an operator of a kind that is defined while it runs, and prints what becomes of the objects.

    PYTHONPATH=... python3 kopf_custom.py KUBECONFIG
"""

import json
import sys
import threading
import time

import kopf

from kopf_running import Operator, until
from transcript import Server, Transcript, plain

GROUP, PLURAL = "kopf.example.com", "lamps"
NAME = "clients-hall"
LABELS = {"by": "clients-kopf"}
OTHER = {"by": "clients-other"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/{PLURAL}.{GROUP}"
LAMPS = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
MERGE = "application/merge-patch+json"

server = Server(sys.argv[1])
registry = kopf.OperatorRegistry()
selected = {"registry": registry, "labels": LABELS}
is_released = threading.Event()
# What daemons, timers and handlers of events note.
lit, ended, ticks, seen = threading.Event(), threading.Event(), [], threading.Event()


@kopf.on.login(registry=registry)
def login(**_):
    return kopf.ConnectionInfo(server=server.url, token=server.token, insecure=True)


@kopf.on.startup(registry=registry)
def configure(settings, **_):
    settings.posting.loggers = False


@kopf.on.create(GROUP, "v1", PLURAL, **selected)
def make(body, spec, name, patch, **_):
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"colour": spec["colour"]},
    }
    kopf.adopt(child, owner=body)
    made = server.call("POST", CONFIGMAPS, child)
    patch.status["lit"] = True
    kopf.info(body, reason="Made", message=f"made {made['kind']} {name}")
    return {"child": made["metadata"]["name"]}


@kopf.on.update(GROUP, "v1", PLURAL, field="spec.colour", **selected)
def paint(name, old, new, **_):
    server.call("PATCH", f"{CONFIGMAPS}/{name}", {"data": {"colour": new}}, MERGE)
    return {"old": old, "new": new}


@kopf.on.update(GROUP, "v1", PLURAL, field="spec.colour", value="blue", **selected)
def only_blue(patch, **_):
    patch.status["blue"] = True


@kopf.on.field(GROUP, "v1", PLURAL, field="spec.watts", **selected)
def measure(new, patch, **_):
    patch.status["watts"] = new


@kopf.on.resume(GROUP, "v1", PLURAL, **selected)
def resume(patch, **_):
    patch.status["resumed"] = True


@kopf.daemon(GROUP, "v1", PLURAL, **selected)
def shine(stopped, **_):
    lit.set()
    stopped.wait()
    ended.set()


@kopf.timer(GROUP, "v1", PLURAL, interval=0.2, **selected)
def tick(name, **_):
    ticks.append(name)


@kopf.on.event(GROUP, "v1", PLURAL, registry=registry, labels=OTHER)
def see(**_):
    seen.set()


@kopf.on.delete(GROUP, "v1", PLURAL, **selected)
def release(**_):
    if not is_released.is_set():
        raise kopf.TemporaryError("it is still needed", delay=0.5)


def definition():
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["colour"],
                "properties": {"colour": text, "watts": {"type": "integer", "default": 5}},
            },
            "status": {
                "type": "object",
                "properties": {"lit": {"type": "boolean"}},
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "singular": "lamp", "kind": "Lamp"},
            "versions": [version],
        },
    }


def lamp(name, labels):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Lamp",
        "metadata": {"name": name, "labels": labels},
        "spec": {"colour": "red"},
    }


def handled(lamp):
    """kopf has noted that it has handled the current state, and is not in the middle of it."""
    annotations = lamp.get("metadata", {}).get("annotations", {})
    noted = json.loads(annotations.get("kopf.zalando.org/last-handled-configuration", "{}"))
    is_quiet = len(annotations) == 1 and not lamp.get("status", {}).get("kopf", {}).get("progress")
    return is_quiet and noted.get("spec") == lamp["spec"]


def owned(child):
    """A ConfigMap without what differs from one run to the next."""
    owner = child["metadata"]["ownerReferences"][0]["uid"]
    return json.loads(json.dumps(plain(child)).replace(owner, "UID"))


class Steps:
    """What is done with the lamp of a name, and what is found then."""

    def __init__(self, transcript):
        self.transcript = transcript
        self.path, self.child = f"{LAMPS}/{NAME}", f"{CONFIGMAPS}/{NAME}"

    def found(self):
        return server.call("GET", self.path)

    def add_handled(self, step, **status):
        """The status comes by a request of its own, after the rest."""
        has = lambda lamp: status.items() <= lamp.get("status", {}).items()
        found = until(step, self.found, lambda lamp: handled(lamp) and has(lamp))
        self.transcript.add(step, plain(found))
        self.transcript.add("its child", owned(server.call("GET", self.child)))

    def is_served(self):
        """kopf looks for kinds when a definition changes, and may not have watched them at first."""
        server.call("PATCH", DEFINITION, {"metadata": {"annotations": {"at": str(time.time())}}}, MERGE)
        return seen.wait(1)

    def define_and_create(self):
        server.call("POST", DEFINITIONS, definition())
        until("the resource", lambda: server.call("GET", LAMPS), lambda list: "items" in list)
        server.call("POST", LAMPS, lamp("clients-other", OTHER))
        until("kopf", self.is_served, bool)
        server.call("POST", LAMPS, lamp(NAME, LABELS))
        self.add_handled("created", lit=True, watts=5, make={"child": NAME})
        look = lambda: server.call("GET", f"{EVENTS}?fieldSelector=involvedObject.name={NAME}")
        event = until("an event", look, lambda list: list["items"])["items"][0]
        about = event["involvedObject"]
        answer = {name: event[name] for name in ("reason", "message", "type", "source")}
        about = {name: about[name] for name in ("apiVersion", "kind", "name", "namespace")}
        self.transcript.add("an event", {**answer, "involvedObject": about})
        until("the daemon", lit.is_set, bool)
        until("the timer", lambda: len(ticks), lambda number: number > 2)

    def change(self):
        server.call("PATCH", self.path, {"spec": {"watts": 7}}, MERGE)
        self.add_handled("another number", watts=7)
        for old, new, more in (("red", "green", {}), ("green", "blue", {"blue": True})):
            server.call("PATCH", self.path, {"spec": {"colour": new}}, MERGE)
            painted = {"paint/spec.colour": {"old": old, "new": new}}
            self.add_handled(f"painted {new}", **painted, **more)

    def delete(self):
        server.call("DELETE", self.path)
        is_marked = lambda found: "deletionTimestamp" in found["metadata"]
        waiting = until("a mark", self.found, is_marked)
        self.transcript.add("deleted and kept", waiting["metadata"]["finalizers"])
        until("the end of the daemon", ended.is_set, bool)
        is_released.set()
        gone = until("its end", self.found, lambda found: found.get("code") == 404)
        self.transcript.add("gone", gone)
        server.call("DELETE", self.child)
        self.transcript.add("the others", plain(server.call("GET", f"{LAMPS}/clients-other")))

    def end_definition(self):
        """A terminating definition has no patch in discovery, so kopf leaves its objects alone."""
        server.call("POST", LAMPS, lamp(NAME, LABELS))
        until("a finalizer", self.found, lambda lamp: lamp["metadata"].get("finalizers") and handled(lamp))
        server.call("DELETE", DEFINITION)
        kept = until("a mark", self.found, lambda lamp: "deletionTimestamp" in lamp["metadata"])
        self.transcript.add("kept by", kept["metadata"]["finalizers"])
        server.call("PATCH", self.path, {"metadata": {"finalizers": None}}, MERGE)
        look = lambda: server.call("GET", DEFINITION)
        gone = until("the end of the definition", look, lambda found: found.get("code") == 404)
        self.transcript.add("the definition is gone", gone)
        # The daemon stops serving it a moment later.
        look = lambda: server.call("GET", LAMPS)
        gone = until("the end of its resource", look, lambda found: found.get("code") == 404)
        self.transcript.add("its resource is gone", gone)
        server.call("DELETE", self.child)


def main():
    transcript = Transcript()
    steps = Steps(transcript)
    operator = Operator(registry)
    try:
        steps.define_and_create()
        steps.change()
        operator.end()
        server.call("PATCH", steps.path, {"spec": {"watts": 9}}, MERGE)
        operator = Operator(registry)
        steps.add_handled("resumed", resumed=True, watts=9)
        steps.delete()
        steps.end_definition()
    finally:
        operator.end()
    transcript.print()


if __name__ == "__main__":
    main()
