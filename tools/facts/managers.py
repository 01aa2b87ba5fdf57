#!/usr/bin/env python3
"""Plays random writes of several field managers and records what a kube-apiserver makes of them.

    managers.py --server URL --token TOKEN                 records tests/fixtures/managers.json.gz
    managers.py --server URL --token TOKEN --other URL --other-token TOKEN [--seed N] [--kind deployments] [--steps N]
                                                           plays the same on both and prints where they differ

A session is a sequence of writes of one object: creates, applies with and without force, updates, JSON patches, merge
patches and strategic merge patches, of the object and of its status. They come from the types (kinds/src/types), the
bodies in sweep_bodies.json and a random generator whose seed is printed; the same seed makes the same sequence on the
same server. tests/blackbox/managers.rs plays the recorded ones against the daemon.

A line is a session. A step of it has the request and the answer. The body is "body", or "edit": the object as it was
last seen, changed. Answers are "object": what is different from the object before, or "status". Both are lists of
changes: a path and a value, or a path whose value goes. "moved" says whether the resourceVersion is another one.

The server that is recorded must run without the plugins that change objects:
    --disable-admission-plugins=ServiceAccount,Priority,DefaultTolerationSeconds,TaintNodesByCondition,
    StorageObjectInUseProtection,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,
    MutatingAdmissionPolicy,LimitRanger,ResourceQuota --enable-priority-and-fairness=false
It must be nobody else's: webhooks and limits are created in it.
"""
import argparse
import copy
import datetime
import gzip
import http.client
import json
import random
import re
import ssl
import time
import urllib.parse

from sweep import OPEN, ROOT, SCALARS, Types, merge, rows

MANAGERS = ["alice", "bob", "carol", "dave"]
MEDIA = {"apply": "application/apply-patch+yaml", "json": "application/json-patch+json", "merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
# What of metadata may change; the rest is the server's.
METADATA = {"labels", "annotations", "finalizers", "ownerReferences"}
# The server's own controllers write these while they are played: their status and entries are not compared.
WATCHED = {"customresourcedefinitions", "apiservices"}
# Over what sweep_bodies.json has: bodies that can be changed, and that nothing needs to be added to.
INSTEAD = {
    "configmaps": {"immutable": False},
    "secrets": {"type": "Opaque", "metadata": {"annotations": {"a": "b"}}, "data": {"a": "YQ=="}},
    "serviceaccounts": {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]},
    "apiservices": {"metadata": {"name": "v1.other.example"}, "spec": {"group": "other.example"}},
}
SERVICE = {"selector": {"a": "b"}, "clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP", "appProtocol": "http"}, {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53}], "externalIPs": ["1.2.3.4"], "internalTrafficPolicy": "Cluster"}
# Fields that are always given and never changed, as another value needs what is not compared here.
KEPT = {
    "services": {"clusterIP", "clusterIPs", "type", "ipFamilies", "ipFamilyPolicy"},
    "certificatesigningrequests": {"request", "signerName", "usages", "username", "uid", "groups", "extra"},
    "customresourcedefinitions": {"conversion", "names", "group", "scope", "versions"},
    "apiservices": {"group", "version", "service", "insecureSkipTLSVerify", "caBundle"},
    "endpointslices": {"deprecatedTopology"},
    "resourceslices": {"taints"},
}
# Fields that the server sets.
UNSENT = {"certificatesigningrequests": {"username", "uid", "groups", "extra"}}
STRINGS = ["a1", "b2", "c3"]
BY_NAME = {
    "image": ["i:1", "i:2"], "ip": ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "hostIP": ["10.0.0.9"], "podIP": ["10.1.0.1"], "path": ["/a", "/b"], "mountPath": ["/m1", "/m2", "/m3"],
    "topologyKey": ["t1", "t2"], "uid": ["u1", "u2", "u3"], "apiVersion": ["v1"], "finalizers": ["example.com/f1", "example.com/f2", "example.com/f3"], "message": ["so", "so it is"],
    "schedule": ["* * * * *", "5 * * * *"], "status": ["True", "False", "Unknown"], "devicePath": ["/d1", "/d2"], "driver": ["d.example.com", "e.example.com"],
}
VALUES = {"quantity": ["1", "2", "500m", "1Gi", "0.5"], "intorstring": [1, 2, "50%", "http"], "duration": ["1s", "1m0s"], "time": ["2024-01-02T03:04:05Z", "2024-02-03T04:05:06Z"], "microtime": ["2024-01-02T03:04:05.000006Z", "2024-02-03T04:05:06.000007Z"], "bytes": ["YQ==", "Yg=="], "float64": [1, 2.5]}


class Field:
    def __init__(self, types, name, go, words, package):
        self.name, self.go, self.package = name, go, package
        self.form, self.of = types.resolve(go, package)
        told = dict(word.split("=", 1) for word in words if "=" in word)
        self.required = "required" in words or "always" in words
        patch = told.get("patch", "")
        self.retains, self.merges = "retainKeys" in patch, "merge" in patch
        self.key = patch.split("(")[1].rstrip(")") if "(" in patch else None
        listed = told.get("list", "")
        self.keys = listed[4:-1].split(",") if listed.startswith("map(") else [self.key] if self.key else []


class Described(Types):
    """The types with all that is known of fields, and the values of enumerations."""

    def __init__(self):
        super().__init__()
        self.enums, self.known = {}, {}
        for file in sorted((ROOT / "kinds/src/types").glob("*.txt")):
            package = ""
            for line in file.read_text().splitlines():
                words = line.split()
                if words[:1] == ["package"]:
                    package = words[1]
                elif words[:1] == ["name"] and "enum" in words:
                    self.enums[f"{package}.{words[1]}"] = [text for text in words[4].split("|") if text != '""']

    def values(self, go, package):
        go = go.lstrip("*")
        return self.enums.get(go if "." in go else f"{package}.{go}")

    def described(self, struct):
        if struct not in self.known:
            found = {}
            for name, go, words, package in self.structs[struct]:
                if name == "inline":
                    found.update(self.described(self.resolve(go, package)[1]))
                else:
                    found[name] = Field(self, name, go, words, package)
            self.known[struct] = found
        return self.known[struct]


class Maker:
    """Makes values and changes of values by their types."""

    def __init__(self, types, row, dice):
        self.types, self.row, self.dice = types, row, dice
        # The field of pods belongs to a feature that is off. It is left out early here, and late there.
        self.kept = KEPT.get(row["plural"], set()) | {"schedulingGroup"}

    def often(self, share):
        return self.dice.random() < share

    # Values.

    def scalar(self, form, go, package, name):
        values = self.types.values(go, package) or (VALUES.get(form) if form != "string" else None)
        if values:
            return self.dice.choice(values)
        if form == "bool":
            return self.often(0.5)
        if form in ("int", "int32", "int64"):
            return self.dice.choice([1, 2, 3, 0] if name not in ("port", "containerPort") else [80, 81, 443])
        return self.dice.choice(BY_NAME.get(name, STRINGS))

    def made(self, go, package, name, depth):
        form, of = self.types.resolve(go, package)
        if form in ("raw", "json"):
            return {self.dice.choice("ab"): self.dice.choice([1, "x", [1, 2], {"c": True}])}
        if form in OPEN:
            return None
        if form in SCALARS:
            return self.scalar(form, go, package, name)
        if form == "map":
            return {self.dice.choice(["k0", "k1", "k2", "cpu"]): self.made(*of, "", depth - 1) for _ in range(self.dice.choice([1, 1, 2]))}
        if form == "list":
            return [self.made(*of, name, depth - 1) for _ in range(self.dice.choice([1, 1, 2]))]
        return self.struct(of, depth)

    def struct(self, struct, depth):
        """A value of a struct, with what it must have and some of what it may have."""
        value = {}
        for name, field in self.types.described(struct).items():
            if name == "metadata" or field.form in OPEN and field.form not in ("raw", "json"):
                continue
            if field.required or depth > 0 and self.often(0.25):
                made = self.made(field.go, field.package, name, depth - 1)
                if made is not None:
                    value[name] = made
        return value

    def fields(self, struct, path):
        """The fields that may change."""
        found = self.types.described(struct)
        if struct.endswith("ObjectMeta"):
            return {name: found[name] for name in sorted(METADATA if len(path) == 1 else METADATA - {"finalizers", "ownerReferences"})}
        names = [name for name in found if name not in self.kept and not (found[name].form in OPEN and found[name].form not in ("raw", "json"))]
        return {name: found[name] for name in names}

    # Parts of values, as appliers have them.

    def part(self, struct, value, path=(), keys=()):
        kept = {}
        fields = self.types.described(struct)
        for name, inner in value.items():
            field = fields.get(name)
            if field is None or name in keys or name in self.kept:
                kept[name] = inner
                continue
            if not field.required and len(path) < 6 and self.often(0.35 if path else 0.25):
                continue
            kept[name] = self.part_of(field.form, field.of, inner, (*path, name), field)
        return kept

    def part_of(self, form, of, value, path, field=None):
        if form == "struct" and isinstance(value, dict):
            return self.part(of, value, path)
        if form == "map" and isinstance(value, dict):
            return {name: inner for name, inner in value.items() if not self.often(0.25)}
        if form == "list" and isinstance(value, list):
            form, of = self.types.resolve(*of)
            items = [item for item in value if not self.often(0.2)] or value[:1]
            if form == "struct" and field is not None and field.keys:
                return [self.part(of, item, path, field.keys) if isinstance(item, dict) else item for item in items]
            return items
        return value

    # Changes.

    def changed(self, struct, value, times=1):
        value = copy.deepcopy(value)
        for _ in range(times):
            self.change(struct, value, ())
        return value

    def change(self, struct, value, path):
        """Changes something in a struct."""
        fields = self.fields(struct, path)
        if not path:
            fields = {name: field for name, field in fields.items() if name not in ("apiVersion", "kind")}
            if self.often(0.4) and isinstance(value.get("metadata"), dict):
                return self.change(fields["metadata"].of, value["metadata"], ("metadata",))
            fields.pop("metadata", None)
            if not self.row.get("with_status"):
                fields.pop("status", None)
        if not fields:
            return None
        there = [name for name in fields if name in value]
        name = self.dice.choice(there) if there and self.often(0.75) else self.dice.choice(list(fields))
        field, path = fields[name], (*path, name)
        if name not in value:
            if field.form in ("list", "map", "struct") and self.often(0.15):
                value[name] = self.dice.choice([None, [] if field.form == "list" else {}])
                return None
            made = self.made(field.go, field.package, name, 1)
            if made is not None:
                value[name] = made
            return None
        if not field.required and self.often(0.12) or value[name] is None:
            del value[name]
            return None
        value[name] = self.other(field, value[name], path)
        return None

    def other(self, field, value, path):
        """Another value of a field."""
        if field.form == "struct" and isinstance(value, dict):
            self.change(field.of, value, path)
            return value
        if field.form == "map" and isinstance(value, dict):
            name = self.dice.choice([*value, "k0", "k1", "k2"])
            if name in value and self.often(0.4):
                del value[name]
                return value
            value[name] = self.made(*field.of, name, 1)
            return value
        if field.form == "list" and isinstance(value, list):
            return self.other_list(field, value, path)
        return self.made(field.go, field.package, field.name, 1)

    def other_list(self, field, value, path):
        form, of = self.types.resolve(*field.of)
        turn = self.dice.random()
        if value and turn < 0.45 and form == "struct":
            place = self.dice.randrange(len(value))
            if isinstance(value[place], dict):
                self.change(of, value[place], (*path, place))
            return value
        if value and turn < 0.6:
            del value[self.dice.randrange(len(value))]
        elif value and turn < 0.7:
            self.dice.shuffle(value)
        elif value and turn < 0.73:
            value.append(copy.deepcopy(value[0]))
        elif turn < 0.76:
            value = []
        elif value and form == "struct" and isinstance(value[0], dict) and self.often(0.5):
            again = copy.deepcopy(value[0])
            for key in field.keys or list(again)[:1]:
                if key in again:
                    inner = self.types.described(of).get(key)
                    again[key] = self.made(inner.go, inner.package, key, 0) if inner else again[key]
            value.insert(self.dice.randrange(len(value) + 1), again)
        else:
            value.insert(self.dice.randrange(len(value) + 1), self.made(*field.of, field.name, 1))
        return value

    # Strategic merge patches.

    def strategic(self, struct, value, path=()):
        fields = dict(self.fields(struct, path))
        if not path:
            for name in ("apiVersion", "kind"):
                fields.pop(name, None)
            if not self.row.get("with_status"):
                fields.pop("status", None)
        if not fields:
            return {}
        there = [name for name in fields if name in value]
        patch = {}
        for _ in range(self.dice.choice([1, 1, 2, 3])):
            name = self.dice.choice(there) if there and self.often(0.85) else self.dice.choice(list(fields))
            self.patch_field(fields[name], value.get(name), (*path, name), patch)
        return patch

    def patch_field(self, field, value, path, patch):
        name = field.name
        if self.often(0.06):
            patch[name] = None
        elif self.often(0.02):
            patch[name] = self.dice.choice(["x", 7, [7], {"$patch": "bogus"}, {"$patch": 7}, [{"$patch": "bogus"}], [[]], [None]])
        elif field.form == "struct":
            patch[name] = self.patch_struct(field, value if isinstance(value, dict) else {}, path)
        elif field.form == "map":
            made = self.made(field.go, field.package, name, 1)
            made.update({key: None for key in value or {} if self.often(0.3)})
            if self.often(0.15):
                made["$patch"] = self.dice.choice(["replace", "delete", "merge"])
            patch[name] = made
        elif field.form == "list" and field.merges:
            form, of = self.types.resolve(*field.of)
            value = value if isinstance(value, list) else []
            if field.key and form == "struct":
                self.patch_items(field, of, value, path, patch)
            else:
                self.patch_scalars(field, value, patch)
        elif field.form == "list" and isinstance(value, list) and self.often(0.1):
            patch[name] = [{"$patch": self.dice.choice(["replace", "delete"])}, *value[:1]]
        else:
            made = self.made(field.go, field.package, name, 1)
            if made is not None:
                patch[name] = made

    def patch_struct(self, field, value, path):
        turn = self.dice.random()
        if turn < 0.06:
            return {"$patch": "delete"}
        if turn < 0.14:
            return {"$patch": "replace", **self.changed_part(field, value, path)}
        inner = self.strategic(field.of, value, path)
        if turn < 0.2:
            inner["$patch"] = "merge"
        if field.retains and self.often(0.6) or self.often(0.03):
            names = [name for name in inner if not name.startswith("$")]
            inner["$retainKeys"] = names + [name for name in value if name not in names and self.often(0.4)]
            if self.often(0.1):
                inner["$retainKeys"] = inner["$retainKeys"][1:]
        return inner

    def changed_part(self, field, value, path):
        part = copy.deepcopy(value)
        self.change(field.of, part, path)
        return part

    def patch_items(self, field, of, value, path, patch):
        items, name, key = [], field.name, field.key
        pool = [item for item in value if isinstance(item, dict) and key in item]
        for item in self.dice.sample(pool, min(len(pool), self.dice.choice([0, 1, 1, 2]))):
            if self.often(0.2):
                items.append({"$patch": "delete", key: item[key]})
            else:
                items.append({**self.strategic(of, item, (*path, 0)), key: item[key]})
        if not items or self.often(0.3):
            items.append(self.struct(of, 1))
            described = self.types.described(of)[key]
            items[-1].setdefault(key, self.made(described.go, described.package, key, 0))
        if self.often(0.08):
            items.append({"$patch": self.dice.choice(["replace", "replace", "merge", "delete"])})
        if self.often(0.03):
            items[-1].pop(key, None)
        if self.often(0.03):
            items.append(copy.deepcopy(items[0]))
        if self.often(0.9):
            patch[name] = items
        if self.often(0.3) or name not in patch:
            keys = [{key: item[key]} for item in items + pool if key in item]
            order = [item for place, item in enumerate(keys) if item not in keys[:place]]
            if self.often(0.5):
                self.dice.shuffle(order)
            if self.often(0.1):
                order = order[1:]
            patch[f"$setElementOrder/{name}"] = order

    def patch_scalars(self, field, value, patch):
        name = field.name
        added = self.made(field.go, field.package, name, 1)
        # What a patch adds and takes away at once is decided by the order of a map of Go.
        gone = [item for item in value if self.often(0.4) and item not in added]
        if self.often(0.6):
            patch[name] = added
        if gone and self.often(0.7):
            patch[f"$deleteFromPrimitiveList/{name}"] = gone
        if self.often(0.4) or not patch:
            order = [item for item in dict.fromkeys([*value, *added]) if item not in gone]
            self.dice.shuffle(order)
            patch[f"$setElementOrder/{name}"] = order


# Changes between values: lists of [path, value] and, for what goes, [path].


def delta(old, new, path=()):
    if type(old) is type(new) and old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        found = [[[*path, name]] for name in old if name not in new]
        for name, value in new.items():
            found += delta(old[name], value, (*path, name)) if name in old else [[[*path, name], value]]
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [change for place, value in enumerate(new) for change in delta(old[place], value, (*path, place))]
    return [[list(path), new]]


def with_changes(value, changes):
    value = copy.deepcopy(value)
    for change in changes:
        path = change[0]
        if not path:
            value = copy.deepcopy(change[1])
            continue
        place = value
        for part in path[:-1]:
            place = place[part]
        if len(change) == 1:
            del place[path[-1]]
        else:
            place[path[-1]] = copy.deepcopy(change[1])
    return value


def merge_patch(old, new):
    patch = {name: None for name in old if name not in new}
    for name, value in new.items():
        if name not in old or old[name] != value or type(old[name]) is not type(value):
            inner = old.get(name)
            patch[name] = merge_patch(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return patch


def json_patch(old, new):
    operations = []
    for change in delta(old, new):
        at = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in change[0])
        if len(change) == 1:
            operations.append({"op": "remove", "path": at})
        else:
            operations.append({"op": "add" if isinstance(change[0][-1], str) else "replace", "path": at, "value": change[1]})
    return operations


# What is compared.

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def without_now(value):
    """The value, in which the present time is one word."""
    if isinstance(value, dict):
        return {name: without_now(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_now(inner) for inner in value]
    if isinstance(value, str) and MOMENT.fullmatch(value):
        moment = datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
        if abs((datetime.datetime.now(datetime.UTC) - moment).total_seconds()) < 3600:
            return "NOW"
    return value


def order(entry):
    """By what entries of managedFields are ordered."""
    return [entry.get(name, "") for name in ("operation", "time", "manager", "apiVersion", "subresource")]


def compared(found, watched):
    found = copy.deepcopy(found)
    metadata = found["metadata"]
    uid = metadata.get("uid", "")
    metadata.pop("resourceVersion", None)
    entries, listed = {}, metadata.pop("managedFields", None) or []
    if listed != sorted(listed, key=order):
        raise SystemExit(f"an order that API-184 doesn't have: {listed}")
    for entry in listed:
        if watched and entry.get("subresource") == "status":
            continue
        if "time" in entry:
            entry["time"] = "a time"
        name = " ".join([entry.pop("manager"), entry.pop("operation"), entry.get("subresource", ""), entry["apiVersion"]])
        entries[name] = entry
    metadata["managedFields"] = entries
    if watched:
        found.pop("status", None)
    if found["kind"] == "CertificateSigningRequest":
        # Who asks is another one.
        for name in ("username", "uid", "groups"):
            found["spec"].pop(name, None)
    text = json.dumps(without_now(found), ensure_ascii=False)
    return json.loads(text.replace(uid, "UID") if uid else text)

# A whole object within a message.
OBJECT = re.compile(r'Invalid value: "\{\\"apiVersion.*\}": ', re.DOTALL)


def compared_status(found, uid):
    # Conflicts are in the order of a map of Go, and what a pod's update changes is told by a difference of Go's structs.
    causes = (found.get("details") or {}).get("causes") or []
    causes.sort(key=lambda cause: [cause.get(name, "") for name in ("field", "message", "reason")])
    for told in [found, *causes]:
        # Whether Go tells an empty list from none depends on where it came from.
        told["message"] = told.get("message", "").replace("[]", "null").replace("{}", "null")
        told["message"] = OBJECT.sub("Invalid value: ...: ", told.get("message", "").split("\n@@")[0])
    if len(causes) > 1:
        # So are some faults, which the causes repeat.
        found["message"] = found["message"].split(": [")[0]
    text = json.dumps(found, ensure_ascii=False)
    return json.loads(text.replace(uid, "UID") if uid else text)


class Server:
    def __init__(self, url, token):
        url = urllib.parse.urlsplit(url)
        self.token = token
        self.connection = http.client.HTTPSConnection(url.hostname, url.port, context=ssl._create_unverified_context(), timeout=60)

    def send(self, verb, path, media=None, body=None):
        headers = {"Authorization": "Bearer " + self.token, "User-Agent": "managers/1"}
        if media:
            headers["Content-Type"] = media
        try:
            self.connection.request(verb, path, None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(), headers)
            answer = self.connection.getresponse()
            code, text = answer.status, answer.read().decode()
        except (http.client.HTTPException, OSError) as error:
            self.connection.close()
            return 0, {"message": repr(error)}
        try:
            return code, json.loads(text)
        except ValueError:
            return code, {"message": text}


class Play:
    """A session on one server."""

    def __init__(self, server, session):
        self.server, self.watched = server, session["kind"].split(".")[0] in WATCHED
        self.at, self.last, self.known = session["at"], None, {}

    def body(self, step):
        if "edit" not in step:
            return step.get("body")
        body = with_changes({name: value for name, value in self.last.items()}, step["edit"])
        metadata, managed = body["metadata"], step.get("managed", "kept")
        if managed == "gone":
            metadata.pop("managedFields", None)
        elif managed == "empty":
            metadata["managedFields"] = []
        elif managed == "reset":
            metadata["managedFields"] = [{}]
        elif managed != "kept":
            metadata["managedFields"] = [entry for entry in metadata.get("managedFields", []) if entry["manager"] != managed]
        if step.get("version") == "gone":
            metadata.pop("resourceVersion", None)
        elif step.get("version") == "old":
            metadata["resourceVersion"] = "1"
        return body

    def step(self, step):
        """Carries out a step. What is compared of the answer."""
        if self.watched:
            time.sleep(0.3)
            code, found = self.server.send("GET", self.at)
            if code == 200:
                self.last = found
        code, found = self.server.send(step["verb"], step["path"], step["type"], self.body(step))
        if code >= 300 or code == 0:
            uid = (self.last or {}).get("metadata", {}).get("uid", "")
            return {"code": code, "status": compared_status(found, uid)}
        answer = {"code": code, "object": compared(found, self.watched)}
        if "dryRun" not in step["path"]:
            if not self.watched:
                before = (self.last or {}).get("metadata", {}).get("resourceVersion")
                answer["moved"] = found["metadata"]["resourceVersion"] != before
            self.last = found
        return answer

    def end(self):
        self.server.send("PATCH", self.at, MEDIA["merge"], {"metadata": {"finalizers": None}})
        code, found = self.server.send("DELETE", self.at + "?gracePeriodSeconds=0&propagationPolicy=Background")
        if self.at.startswith("/api/v1/namespaces/") and self.at.count("/") == 4 and code == 200:
            self.server.send("PUT", self.at + "/finalize", "application/json", {**found, "spec": {}})
        for _ in range(50):
            if self.server.send("GET", self.at)[0] == 404:
                return
            time.sleep(0.1)
        print("still there:", self.at)


class Session:
    """Makes the steps of a session, each by what the steps before made of the object."""

    def __init__(self, types, versions, seed, number, subresources):
        row = versions[0]
        self.types, self.versions = types, versions
        self.kind = row["name"] if len(versions) == 1 else row["name"] + " and others"
        self.dice = random.Random(f"{seed} {self.kind} {number}")
        self.seed = f"{seed}/{number}"
        self.status = "status" in subresources and row["plural"] not in WATCHED
        self.at = row["path"] + "/" + row["full"]["metadata"]["name"]
        self.records = {"kind": self.kind, "seed": self.seed, "at": self.at, "steps": []}

    def query(self, manager, **more):
        given = {"fieldManager": manager} if manager else {}
        if self.dice.random() < 0.04:
            more["dryRun"] = "All"
        return urllib.parse.urlencode({**given, **more})

    def manager(self, names=MANAGERS):
        return self.dice.choice(names)

    def base(self, maker, row):
        full = {name: value for name, value in row["full"].items() if name != "status"}
        full = merge(full, {"metadata": {"labels": {"a": "b", "k0": "v"}, "annotations": {"k1": "w"}}})
        return maker.changed(self.struct(row), full, self.dice.choice([0, 1, 2]))

    def struct(self, row):
        return self.types.kinds[(row["apiVersion"], row["kind"])]

    def first(self):
        row = self.dice.choice(self.versions)
        maker = Maker(self.types, row, self.dice)
        body = self.base(maker, row)
        if self.dice.random() < 0.5:
            name = body["metadata"]["name"]
            return self.step("PATCH", f"{row['path']}/{name}?{self.query(self.manager())}", "apply", body)
        return self.step("POST", f"{row['path']}?{self.query(self.manager())}", None, body)

    def step(self, verb, path, kind, body=None, **more):
        media = MEDIA[kind] if kind else "application/json"
        return {"verb": verb, "path": path, "type": media, **({"body": body} if body is not None else {}), **more}

    def next(self, last):
        if last is None:
            return self.first()
        row = self.dice.choice(self.versions)
        dice, struct = self.dice, self.struct(row)
        on_status = self.status and dice.random() < 0.25
        row = {**row, "with_status": on_status}
        maker = Maker(self.types, row, dice)
        at = f"{row['path']}/{last['metadata']['name']}" + ("/status" if on_status else "")
        current = {name: value for name, value in last.items() if name != "managedFields"}
        current = copy.deepcopy(current)
        for name in list(current["metadata"]):
            if name not in METADATA:
                del current["metadata"][name]
        is_other = row["apiVersion"] != last["apiVersion"]
        if is_other:
            # The fields have other names, so changes begin with what the version itself has.
            current = copy.deepcopy({name: value for name, value in row["full"].items() if name != "status"})
        if on_status and not isinstance(current.get("status"), dict):
            current["status"] = {}
        turn = dice.random()
        if turn < 0.42:
            return self.apply(maker, row, struct, at, current, on_status)
        if turn < 0.58 and not is_other:
            return self.put(maker, struct, at, current, on_status)
        if turn < 0.66 and not is_other:
            body = json_patch(current, self.altered(maker, struct, current, on_status))
            return self.step("PATCH", f"{at}?{self.query(self.manager(MANAGERS + ['']))}", "json", body)
        if turn < 0.75:
            body = merge_patch(current, self.altered(maker, struct, current, on_status))
            return self.step("PATCH", f"{at}?{self.query(self.manager(MANAGERS + ['']))}", "merge", body)
        body = maker.strategic(struct, current) if not on_status or dice.random() < 0.3 else {"status": maker.strategic(self.types.described(struct)["status"].of, current["status"], ("status",))}
        return self.step("PATCH", f"{at}?{self.query(self.manager())}", "strategic", body)

    def altered(self, maker, struct, current, on_status):
        if not on_status or self.dice.random() < 0.2:
            return maker.changed(struct, current, self.dice.choice([1, 1, 2, 3]))
        current = copy.deepcopy(current)
        for _ in range(self.dice.choice([1, 2])):
            maker.change(self.types.described(struct)["status"].of, current["status"], ("status",))
        return current

    def apply(self, maker, row, struct, at, current, on_status):
        dice = self.dice
        source = dice.random()
        if source < 0.5:
            body = self.base(maker, row)
        else:
            body = self.altered(maker, struct, current, on_status) if source < 0.8 else current
        if on_status:
            body = {"metadata": {}, "status": self.altered(maker, struct, current, True).get("status", {})}
        elif dice.random() < 0.9:
            body.pop("status", None)
        if dice.random() < 0.85:
            body = maker.part(struct, body)
        if dice.random() < 0.25:
            # As a controller that has to do with little.
            names = [name for name in body if name not in ("metadata", "apiVersion", "kind")]
            for name in names if dice.random() < 0.5 else names[1:]:
                body.pop(name, None)
        body = {"apiVersion": row["apiVersion"], "kind": row["kind"], **{name: value for name, value in body.items() if name not in ("apiVersion", "kind")}}
        body["metadata"] = {"name": row["full"]["metadata"]["name"], **{name: value for name, value in (body.get("metadata") or {}).items() if name in METADATA}}
        force = {"force": "true"} if dice.random() < 0.35 else {}
        return self.step("PATCH", f"{at}?{self.query(self.manager(), **force)}", "apply", body)

    def put(self, maker, struct, at, current, on_status):
        dice = self.dice
        edit = delta(current, self.altered(maker, struct, current, on_status))
        if on_status and "status" not in self.last_names:
            edit = [[["status"], {}], *[change for change in edit if change[0] != ["status"]]]
        more = {}
        if dice.random() < 0.3:
            more["managed"] = dice.choice(["gone", "empty", "reset", *MANAGERS])
        if dice.random() < 0.15:
            more["version"] = dice.choice(["gone", "old"])
        return self.step("PUT", f"{at}?{self.query(self.manager(MANAGERS + ['']))}", None, edit=edit, **more)

    def play(self, server, steps):
        play, before = Play(server, {"kind": self.kind, "at": self.at}), {}
        play.end()
        try:
            for _ in range(steps):
                last = compared(play.last, play.watched) if play.last else None
                self.last_names = set(last or {})
                step = self.next(last and {**last, "metadata": {name: value for name, value in last["metadata"].items() if name != "managedFields"}})
                answer = play.step(step)
                if answer["code"] == 0 or "panic" in json.dumps(answer):
                    # It panics over some requests, which closes the connection.
                    continue
                if answer["code"] == 500 and any(play.step(step) != answer for _ in range(5)):
                    # Of several faults of a patch the first one is told, in the order of a map of Go.
                    continue
                record = {**step, **answer}
                if "object" in answer:
                    record["object"] = delta(before, answer["object"])
                    if "dryRun" not in step["path"]:
                        before = answer["object"]
                self.records["steps"].append(record)
        finally:
            play.end()
        return self.records


def differences(records, server):
    """Plays a session on another server. Its differences as texts."""
    play, wanted, found = Play(server, records), {}, []
    play.end()
    try:
        for number, step in enumerate(records["steps"]):
            want = {name: step[name] for name in ("code", "status", "moved") if name in step}
            if "object" in step:
                want["object"] = with_changes(wanted, step["object"])
                if "dryRun" not in step["path"]:
                    wanted = want["object"]
            answer = {"code": "no object to edit"} if "edit" in step and play.last is None else play.step(step)
            if answer != want:
                found.append((number, step, "\n".join("      " + line(want, change) for change in delta(want, answer))))
    finally:
        play.end()
    return found


def line(want, change):
    for part in change[0]:
        want = want.get(part) if isinstance(want, dict) else want[part] if isinstance(want, list) and part < len(want) else None
    return f"{'.'.join(map(str, change[0]))}: wanted {json.dumps(want)}, got {json.dumps(change[1]) if len(change) > 1 else 'nothing'}"


def all_rows():
    plurals = {}
    for found in json.loads((ROOT / "kinds/recorded/discovery.json").read_text()):
        plurals[(found["group"], found["version"], found["plural"])] = found["subresources"]
    for row in rows():
        name, version, *group = row["name"].split(".", 2)
        row["plural"] = name
        full = merge(row["full"], INSTEAD.get(name, {}))
        if name == "services":
            full["spec"] = SERVICE
        if name == "resourceslices":
            # The server sets it to the present time.
            full["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2024-01-02T03:04:05Z"
        for unsent in UNSENT.get(name, ()):
            full["spec"].pop(unsent, None)
        yield {**row, "full": full}, plurals[("".join(group), version, name)]


def sessions(types, given):
    found = list(all_rows())
    groups = [[row] for row, _ in found]
    for name in ("horizontalpodautoscalers", "events"):
        groups.append([row for row, _ in found if row["plural"] == name])
    subresources = {row["name"]: parts for row, parts in found}
    for versions in groups:
        if given.kind and given.kind not in (versions[0]["plural"], versions[0]["name"]):
            continue
        for number in range(given.sessions):
            yield Session(types, versions, given.seed, number, subresources[versions[0]["name"]])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    arguments.add_argument("--other", help="a second server, which is compared with the first one; nothing is recorded")
    arguments.add_argument("--other-token")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--kind", help="the plural of one kind, alone or with version and group")
    arguments.add_argument("--sessions", type=int, default=1, help="how many for each kind")
    arguments.add_argument("--steps", type=int, default=40, help="how many in each")
    arguments.add_argument("--all", action="store_true", help="print all differences of a session, not the first only")
    given = arguments.parse_args()
    print("seed", given.seed)
    server, types, lines, total, codes = Server(given.server, given.token), Described(), [], 0, {}
    other = Server(given.other, given.other_token) if given.other else None
    differing = 0
    for session in sessions(types, given):
        records = session.play(server, given.steps)
        total += len(records["steps"])
        for step in records["steps"]:
            codes[step["code"]] = codes.get(step["code"], 0) + 1
        lines.append(json.dumps(records, separators=(",", ":"), ensure_ascii=False) + "\n")
        if other:
            found = differences(records, other)
            differing += len(found)
            for number, step, text in found if given.all else found[:1]:
                request = {name: step[name] for name in ("body", "edit", "managed", "version") if name in step}
                print(f"{records['kind']} {records['seed']} step {number}: {step['verb']} {step['path']} {step['type']}\n    {json.dumps(request)}\n    answer {step['code']}\n{text}")
            if len(found) > 1:
                print(f"  {records['kind']}: {len(found)} of {len(records['steps'])} steps differ")
    print(f"{total} steps, {differing} differ, by code: {dict(sorted(codes.items()))}")
    if not other:
        # Without a time, so that the same answers are the same file.
        (ROOT / "tests/fixtures/managers.json.gz").write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
