#!/usr/bin/env python3
"""Records what a kube-apiserver stores of every resource:

    stored.py FORM --server URL --token TOKEN --etcd URL

FORM is json, yaml or protobuf, the form that the kube-apiserver is run with (--storage-media-type). For each path of
sweep_bodies.json the fullest body that is accepted is created, the keys that etcd has then and had not before are
looked for the object, and the object is deleted. The keys and values go to FORM.json.gz in
tests/storage_suite/stored.
"""
import argparse
import base64
import gzip
import json
import pathlib
import urllib.request

from record import Server

HERE = pathlib.Path(__file__).resolve().parent
STORED = HERE.parents[1] / "tests/storage_suite/stored"


def keys(etcd):
    """The keys below /registry with their values."""
    encoded = [base64.b64encode(key).decode() for key in (b"/registry/", b"/registry0")]
    body = json.dumps({"key": encoded[0], "range_end": encoded[1]}).encode()
    with urllib.request.urlopen(etcd + "/v3/kv/range", body) as answer:
        found = json.load(answer).get("kvs", [])
    return {base64.b64decode(item["key"]).decode(): base64.b64decode(item["value"]) for item in found}


def created(server, path, bodies):
    """The first body that is accepted, the fullest one first."""
    refused = []
    for body in reversed(bodies):
        code, made = server.call("POST", path, body)
        if code < 300:
            return made
        refused.append(made.get("message"))
    raise SystemExit(f"{path}: {refused}")


def remove(server, at):
    server.call("DELETE", at, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    # Some wait for a controller before they go.
    server.call("PATCH", at, {"metadata": {"finalizers": None}})
    if server.call("GET", at)[0] == 200:
        server.call("PUT", at + "/finalize", {**server.call("GET", at)[1], "spec": {"finalizers": []}})


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("form", choices=["json", "yaml", "protobuf"])
    for name in ("server", "token", "etcd"):
        arguments.add_argument("--" + name, required=True)
    given = arguments.parse_args()
    server = Server(given.server, given.token)
    found = {}
    for path, bodies in json.loads((HERE / "sweep_bodies.json").read_text()).items():
        before = keys(given.etcd)
        made = created(server, path, bodies)
        at = f"{path}/{made['metadata']['name']}"
        after = keys(given.etcd)
        uid = made["metadata"]["uid"].encode()
        [key] = [key for key in after.keys() - before.keys() if uid in after[key]]
        value = after[key]
        text = base64.b64encode(value) if value.startswith(b"k8s\0") else value
        remove(server, at)
        found[path] = {"key": key, "value": text.decode()}
    lines = ",\n".join(f"{json.dumps(path)}:{json.dumps(found[path])}" for path in sorted(found))
    with open(STORED / f"{given.form}.json.gz", "wb") as file:
        file.write(gzip.compress(f"{{\n{lines}\n}}\n".encode(), mtime=0))


main()
