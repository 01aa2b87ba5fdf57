"""kopf runs an operator of ConfigMaps, each of which gets a Secret, and prints what becomes of them.

    PYTHONPATH=... python3 kopf_operator.py KUBECONFIG [account]

With `account` the operator runs under a service account that may do no more than it needs. It first lacks each of
these rights, and what it logs then is printed first.
"""

import base64
import contextlib
import json
import logging
import re
import sys
import threading
import time

import kopf

import kopf_running
from accounts import Account, rule
from kopf_running import SECONDS
from transcript import Server, Transcript, plain

NAME = "clients-kopf"
LABELS = {"by": NAME}
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
EVENTS = "/api/v1/namespaces/default/events"
RULES = [
    rule("", "configmaps", "list watch patch"),
    rule("", "secrets", "create patch"),
    rule("", "events", "create"),
]
LACKING = [("configmaps", "patch"), ("secrets", "create"), ("events", "create"), ("configmaps", "list")]

server = Server(sys.argv[1])
account = Account(server, NAME, RULES) if sys.argv[2:] == ["account"] else None
# Who the operator is.
own = account.server if account else server
registry = kopf.OperatorRegistry()
is_released = threading.Event()


@kopf.on.login(registry=registry)
def login(**_):
    return kopf.ConnectionInfo(server=own.url, token=own.token, insecure=True)


@kopf.on.startup(registry=registry)
def configure(settings, **_):
    # ConfigMaps have no status.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()
    settings.posting.loggers = False
    if account:
        # It may read neither namespaces nor definitions of custom resources.
        settings.scanning.disabled = True
        # It tries again until it has the right.
        settings.networking.error_backoffs = [0.2] * 300
        settings.queueing.error_delays = [0.1]


@kopf.on.create("configmaps", labels=LABELS, registry=registry)
def make_secret(body, spec, name, **_):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "data": encoded(body["data"]),
    }
    kopf.adopt(secret, owner=body)
    made = own.call("POST", SECRETS, secret)
    if made["kind"] == "Status":
        raise kopf.TemporaryError(made["message"], delay=0.5)
    kopf.info(body, reason="Made", message=f"made {made['kind']} {name}")


@kopf.on.update("configmaps", labels=LABELS, field="data", registry=registry)
def change_secret(name, new, **_):
    patch = {"data": encoded(new)}
    own.call("PATCH", f"{SECRETS}/{name}", patch, "application/merge-patch+json")


@kopf.on.delete("configmaps", labels=LABELS, registry=registry)
def release(**_):
    if not is_released.is_set():
        raise kopf.TemporaryError("it is still needed", delay=0.5)


def encoded(data):
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


def until(what, path, holds):
    """Returns the object at a path, once it is as it has to be."""
    return kopf_running.until(what, lambda: server.call("GET", path), holds)


def handled(configmap):
    """kopf has noted that it has handled the current state, and is not in the middle of it."""
    annotations = configmap.get("metadata", {}).get("annotations", {})
    noted = annotations.get("kopf.zalando.org/last-handled-configuration", "")
    data = configmap.get("data", {}).get("k", "")
    return f'"k":"{data}"' in noted and len(annotations) == 1


def owned(secret):
    """A Secret without what differs from one run to the next."""
    owner = secret["metadata"]["ownerReferences"][0]["uid"]
    return json.loads(json.dumps(plain(secret)).replace(owner, "UID"))


def steps(transcript):
    path, secret = f"{CONFIGMAPS}/{NAME}", f"{SECRETS}/{NAME}"
    configmap = {"metadata": {"name": NAME, "labels": LABELS}, "data": {"k": "one"}}
    server.call("POST", CONFIGMAPS, configmap)
    transcript.add("created", plain(until("a handled object", path, handled)))
    transcript.add("its secret", owned(server.call("GET", secret)))
    about = until("an event", f"{EVENTS}?fieldSelector=involvedObject.name={NAME}", lambda list: list["items"])
    event = about["items"][0]
    transcript.add("an event", {name: event[name] for name in ("reason", "message", "type", "source")})

    patch = {"data": {"k": "two"}}
    server.call("PATCH", path, patch, "application/merge-patch+json")
    transcript.add("changed", plain(until("a handled change", path, handled)))
    transcript.add("its secret", owned(server.call("GET", secret)))

    server.call("DELETE", path)
    waiting = until("a mark", path, lambda found: "deletionTimestamp" in found["metadata"])
    transcript.add("deleted and kept", waiting["metadata"]["finalizers"])
    is_released.set()
    gone = until("its end", path, lambda found: found.get("code") == 404)
    transcript.add("gone", gone)
    server.call("DELETE", secret)


class Refusals(logging.Handler):
    """What kube-apiserver says in the log of the operator about rights that it lacks."""

    refusal = re.compile(r'(configmaps|secrets|events)( "[^"]*")? is forbidden: .*? in the namespace "default"')

    def __init__(self):
        super().__init__()
        self.messages = set()

    def emit(self, record):
        text = record.getMessage()
        if record.exc_info:
            text += f" {record.exc_info[1]}"
        if found := self.refusal.search(text):
            self.messages.add(found.group())


def fail(refusals):
    """The operator lacks a right, says so, and goes on when it has the right."""
    logged = Refusals()
    logging.getLogger().addHandler(logged)
    path = f"{CONFIGMAPS}/{NAME}"
    is_released.set()
    for resource, verb in LACKING:
        logged.messages.clear()
        account.lacks(resource, verb)
        with running():
            server.call("POST", CONFIGMAPS, {"metadata": {"name": NAME, "labels": LABELS}, "data": {"k": "one"}})
            end = time.monotonic() + SECONDS
            while not logged.messages and time.monotonic() < end:
                time.sleep(0.1)
            refusals.add(f"without {verb} of {resource}", sorted(logged.messages))
            account.has_all()
            until("a handled object", path, lambda found: handled(found) or touch(path))
            server.call("DELETE", path)
            until("its end", path, lambda found: found.get("code") == 404)
            server.call("DELETE", f"{SECRETS}/{NAME}")
    is_released.clear()
    for event in server.call("GET", f"{EVENTS}?fieldSelector=involvedObject.name={NAME}")["items"]:
        server.call("DELETE", f"{EVENTS}/{event['metadata']['name']}")


def touch(path):
    """Changes the object: after errors the operator waits for a change, and passes over some."""
    label = {"metadata": {"labels": {"touched": str(time.monotonic_ns())}}}
    server.call("PATCH", path, label, "application/merge-patch+json")
    time.sleep(0.4)


@contextlib.contextmanager
def running():
    """The operator, which runs meanwhile."""
    operator = kopf_running.Operator(registry)
    try:
        yield
    finally:
        operator.end()


def main():
    transcript, refusals = Transcript(), Transcript()
    if account:
        fail(refusals)
    with running():
        steps(transcript)
    if account:
        account.remove()
    refusals.print()
    transcript.print()


if __name__ == "__main__":
    main()
