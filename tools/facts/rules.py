#!/usr/bin/env python3
"""Records the rules by which a kube-apiserver treats objects of each kind: rules.py --server URL --token TOKEN

An object of each resource in kinds/recorded/discovery.json is created from the smaller body of sweep_bodies.json,
treated without effect (dryRun=All) and deleted. kinds/recorded/rules.json then has a row for each:

- generation: "one" if the server sets it, "kept" if it keeps what a body says; onLabels, onAnnotations: whether it
  rises when these change
- createOnUpdate: whether PUT creates; unconditionalUpdate: whether PUT takes an object without a version
- onDelete: whether DELETE answers the object; finalizers: those of an object that is being deleted
- create, update: the faults that the kind's own validation finds in a label (L), a finalizer (F), and two finalizers
  without a domain (SS); names: whether it takes a subdomain, capitals, a colon, 71 characters
- for each subresource that is updated as the object is: what of the metadata stays as stored (keeps), and all faults
  that are found in the same metadata (checks)
"""
import copy
import json
import pathlib

from record import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "kinds/recorded/rules.json"
BAD = {"labels": {"l": "a b"}, "finalizers": ["example.com/a b", "one", "two"]}
# What every update is checked for, in front of what its kind checks.
COMMON = "LFL"
NAMES = ["a.b", "Ab", "a:b", "a" * 71]
DRY = "?dryRun=All"
KEPT = [("labels", {"kept": "no"}), ("annotations", {"kept": "no"}), ("finalizers", ["example.com/kept"])]
OWNER = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}]


def faults(found):
    """The faults of metadata in the order in which they are told."""
    kinds = ""
    for cause in (found.get("details") or {}).get("causes", []):
        if cause["field"].startswith("metadata.labels"):
            kinds += "L"
        elif cause["field"].startswith("metadata.finalizers"):
            kinds += "S" if "neither a standard finalizer name" in cause["message"] else "F"
    return kinds


def changed(made, **metadata):
    body = copy.deepcopy(made)
    body["metadata"].update(metadata)
    return body


class Kind:
    def __init__(self, server, row, path, body):
        self.server, self.row, self.path, self.body = server, row, path, body

    def named(self, name):
        return changed(self.body, name=name)

    def create(self, body):
        return self.server.call("POST", self.path + DRY, body)

    def put(self, body, subresource=""):
        return self.server.call("PUT", f"{self.path}/{body['metadata']['name']}{subresource}{DRY}", body)

    def latest(self):
        return self.server.call("GET", f"{self.path}/{self.body['metadata']['name']}")[1]

    def rises(self, **metadata):
        made = self.latest()
        code, found = self.put(changed(made, **metadata))
        if code != 200:
            raise SystemExit(f"{self.path}: {found}")
        return found["metadata"].get("generation") != made["metadata"].get("generation")

    def part(self, name):
        made = self.latest()
        checks = faults(self.put(changed(made, **BAD), "/" + name)[1])
        wanted = [*KEPT, ("ownerReferences", OWNER)]
        found = self.put(changed(made, **dict(wanted)), "/" + name)[1]["metadata"]
        keeps = [member for member, _ in wanted if found.get(member) == made["metadata"].get(member)]
        return {"keeps": ["owners" if member == "ownerReferences" else member for member in keeps], "checks": checks}

    def rules(self):
        given = self.create(changed(self.body, generation=7))[1]
        code, made = self.server.call("POST", self.path, self.body)
        if code != 201:
            raise SystemExit(f"{self.path}: {made}")
        try:
            return self.rules_of(made, given["metadata"].get("generation") == 7)
        finally:
            at = f"{self.path}/{made['metadata']['name']}"
            self.server.call("DELETE", at, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            self.server.call("PATCH", at, {"metadata": {"finalizers": None}})

    def rules_of(self, made, kept):
        name = made["metadata"]["name"]
        bare = self.latest()
        del bare["metadata"]["resourceVersion"]
        code, deleted = self.server.call("DELETE", f"{self.path}/{name}{DRY}")
        is_object = deleted["kind"] != "Status"
        rules = {
            "generation": "kept" if kept else "one",
            "onLabels": self.rises(labels={"l": "1"}),
            "onAnnotations": self.rises(annotations={"a": "1"}),
            "createOnUpdate": self.put(self.named("absent"))[0] == 201,
            "unconditionalUpdate": self.put(bare)[0] == 200,
            "onDelete": is_object,
            "finalizers": deleted["metadata"].get("finalizers", []) if is_object else [],
            "create": faults(self.create(changed(self.body, **BAD))[1]),
            "update": faults(self.put(changed(self.latest(), **BAD))[1]).removeprefix(COMMON),
            "names": [self.create(self.named(name))[0] == 201 for name in NAMES],
        }
        for part in self.row["subresources"]:
            # A Scale is written by the rules of its object.
            if part != "scale":
                rules[part] = self.part(part)
        return rules


def main():
    server = Server.of_arguments(__doc__)
    bodies = json.loads((ROOT / "tools/facts/sweep_bodies.json").read_text())
    lines = []
    for row in json.loads((ROOT / "kinds/recorded/discovery.json").read_text()):
        group, version, plural = row["group"], row["version"], row["plural"]
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        path = root + ("/namespaces/default/" if row["namespaced"] else "/") + plural
        named = {"group": group, "version": version, "plural": plural}
        rules = Kind(server, row, path, bodies[path][0]).rules()
        lines.append(json.dumps({**named, **rules}, separators=(",", ":")))
    text = ",\n".join(lines)
    OUT.write_text(f"[\n{text}\n]\n")


main()
