#!/usr/bin/env python3
"""Records what a kube-apiserver answers to generated updates of all kinds: updates.py --server URL --token TOKEN

Of each kind one object is created from the fuller body of sweep_bodies.json, and its status is written. Then each part
of it is changed, removed and given a wrong value, in turn by updates, by patches of each type and by server-side
apply, without effect (dryRun=All). Its status endpoint is treated in the same way.
Controllers of kube-apiserver write the status of some kinds meanwhile. It is left out but for updates of the status,
whose bodies say "{version}" for the version that the object then has.
The result is tests/fixtures/updates.json.gz, a line for each request: a line with a "setup" is played for its effect,
before the cases of its kind. Objects, as answers and as bodies of updates, are written as "changes" of the object that
the last setup answered: pairs of a JSON pointer and a value, or a pointer alone where the part is not there.
"{uid}" stands for the identifier of the object, VERSION in texts for its version. Times of the day are all one.
A long text is its beginning and a hash. tests/blackbox/sweep/updates.rs plays them and compares the answers.
"""
import argparse
import copy
import datetime
import gzip
import hashlib
import http.client
import json
import pathlib
import re
import ssl
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sweep  # noqa: E402

FIXTURE = sweep.ROOT / "tests/fixtures/updates.json.gz"
# Other parts of a kube-apiserver write the status of these while they exist.
WATCHED = {"CustomResourceDefinition", "APIService", "FlowSchema", "PriorityLevelConfiguration"}
# What one kind tries of a pod's template, no other does again.
TEMPLATE = ("PodTemplate", "Pod")
OF_SERVER = {"uid", "creationTimestamp", "managedFields", "resourceVersion", "generation"}
WRONG = {"str": [7, {}, True], "int": ["x", {}, 1.5], "float": ["x"], "bool": ["x", 1], "list": ["x", {}], "dict": ["x", []], "NoneType": []}
# Definitions are established in time, and then immutable in part.
ESTABLISHED = {"conditions": [{"type": kind, "status": "True", "reason": "R", "message": "m"} for kind in ("NamesAccepted", "Established")], "storedVersions": ["v1"]}
# What stands for the identifier of the object.
MARK = "{uid}"
# What stands for the version that the object has when a body is sent.
VERSION_MARK = "{version}"
# What a server would choose otherwise.
CHOSEN = {"Service": {"spec": {"clusterIP": "10.0.0.245"}}}
# What stands for times of the day of the recording.
NOW = "2026-01-03T00:00:00Z"
# A whole object within a message.
OBJECT = re.compile(r'Invalid value: "\{\\"apiVersion.*\}": ', re.DOTALL)
# How many characters of a text are kept.
LONG = 300
JSON, MERGE, STRATEGIC = "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"
APPLY, PUT = "application/apply-patch+yaml", "application/json"


def different(value):
    """Another value of the same type, which rules may refuse."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value[:-1] if len(value) > 1 else value + copy.deepcopy(value)
    if isinstance(value, dict):
        return {**value, "k2": "v2"} if all(isinstance(item, str) for item in value.values()) else {}
    return "x"


def pointer(path):
    return "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in path)


def nested(whole, path, value):
    """The members on the way to a value; lists on the way are whole, with the value in them."""
    if not path:
        return value
    part = path[0]
    if isinstance(part, int):
        items = copy.deepcopy(whole)
        items[part] = merged(items[part], path[1:], value)
        return items
    return {part: nested(whole[part], path[1:], value) if len(path) > 1 else value}


def merged(whole, path, value):
    if not path:
        return value
    whole = copy.deepcopy(whole)
    whole[path[0]] = merged(whole[path[0]], path[1:], value)
    return whole


def parts(value, path=()):
    """All parts of an object with their paths, but for what the server sets."""
    if path:
        yield path, value
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        if not (path == ("metadata",) and name in OF_SERVER):
            yield from parts(inner, (*path, name))


def changes(base, value, path=()):
    """What makes the value of the base."""
    if type(base) is type(value) is dict:
        for name in [*base, *(name for name in value if name not in base)]:
            if name not in value:
                yield [pointer((*path, name))]
            elif name not in base:
                yield [pointer((*path, name)), value[name]]
            else:
                yield from changes(base[name], value[name], (*path, name))
    elif type(base) is type(value) is list and len(base) == len(value):
        for number, (one, other) in enumerate(zip(base, value)):
            yield from changes(one, other, (*path, number))
    elif base != value or type(base) is not type(value):
        yield [pointer(path), value]


def unwatched(answer, keeps_status):
    """An answer without what controllers write."""
    for place in (answer, *answer.get("causes", ())):
        if "message" in place:
            place["message"] = OBJECT.sub("Invalid value: ...: ", place["message"])
    found = answer.get("object", {})
    if not keeps_status:
        found.pop("status", None)
    metadata = found.get("metadata", {})
    if "managedFields" in metadata:
        metadata["managedFields"] = [entry for entry in metadata["managedFields"] if entry.get("subresource") != "status"]


class Updates:
    def __init__(self, client, whole):
        self.client, self.whole = client, whole
        self.lines, self.turn = [], 0
        # The object as the last setup answered it.
        self.base, self.uid = {}, ""

    def named(self, value):
        """A value without what another run would have otherwise: the object's identifier and version, and times."""
        text = json.dumps(value)
        text = text.replace(self.uid, MARK) if self.uid else text
        text = re.sub(r'(resourceVersion\\+":\\+")\d+', r"\1VERSION", text)
        return json.loads(re.sub(f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}T[0-9:]{{8}}Z", NOW, text))

    def shortened(self, answer):
        """An answer whose long texts are a beginning and a hash."""
        for place in (answer, *answer.get("causes", ())):
            text = place.get("message", "")
            if len(text) > LONG and not self.whole:
                place["message"] = f"{text[:LONG]} {hashlib.sha256(text.encode()).hexdigest()}"
        return answer

    def answer(self, method, path, content, body):
        """The answer to a body in which the version of the object is filled in."""
        if VERSION_MARK not in json.dumps(body):
            return self.client.call(method, path, content, body)
        at = path.split("?")[0].removesuffix("/status")
        for _ in range(9):
            version = self.client.get(at)["metadata"]["resourceVersion"]
            sent = json.loads(json.dumps(body).replace(VERSION_MARK, version))
            answer = self.client.call(method, path, content, sent)
            if not answer or answer["code"] != 409 or "has been modified" not in answer["message"]:
                # No controller has written in between.
                break
        return answer

    def play(self, kind, method, path, content, body, **said):
        answer = self.answer(method, path, content, body)
        if answer is None:
            return None
        if self.is_watched:
            unwatched(answer, method == "PUT" and "/status?" in path)
        self.uid = self.uid or answer.pop("uid", "")
        answer.pop("uid", None)
        answer, sent = self.named(answer), self.named(body)
        request = {"kind": kind, **said, "method": method, "path": path, "type": content}
        whole = answer.get("object")
        if "setup" in said:
            self.lines.append({**request, "body": sent, "answer": answer})
            self.base = whole or self.base
            return answer
        if method == "PUT":
            request["changes"] = list(changes(self.base, sent))
        else:
            request["body"] = sent
        if whole:
            answer = {"code": answer["code"], "changes": list(changes(self.base, whole)), **{name: answer[name] for name in ("warnings",) if name in answer}}
        self.lines.append({**request, "answer": self.shortened(answer)})
        return answer

    def request(self, row, whole, path, value, form, sub=""):
        """One request that gives the part at the path a value; none takes it away."""
        target = f"{row['path']}/{row['minimal']['metadata']['name']}{sub}?dryRun=All"
        if form == JSON:
            operation = {"op": "remove", "path": pointer(path)} if value is None else {"op": "replace", "path": pointer(path), "value": value}
            return "PATCH", target, JSON, [operation]
        if form in (MERGE, STRATEGIC):
            if value is None and isinstance(path[-1], int):
                items = sweep.at(whole, path[:-1])
                return "PATCH", target, form, nested(whole, path[:-1], [item for number, item in enumerate(items) if number != path[-1]])
            return "PATCH", target, form, nested(whole, path, value)
        body = sweep.changed(whole, list(path), value)
        if form == PUT:
            return "PUT", target, PUT, body
        head = {name: body[name] for name in ("apiVersion", "kind") if name in body}
        kept = nested(body, path[:1], body[path[0]]) if path[0] in body else {}
        body = {**head, **kept}
        if isinstance(body.setdefault("metadata", {}), dict):
            body["metadata"]["name"] = row["minimal"]["metadata"]["name"]
        force = "&force=true" if self.turn % 2 else ""
        return "PATCH", target + "&fieldManager=other" + force, APPLY, body

    def try_parts(self, row, whole, sub=""):
        for path, value in list(parts(whole)):
            if row["kind"] not in TEMPLATE and "template" in path[:-1] and path[-1] != "template" and self.turn % 9:
                self.turn += 1
                continue
            if path[0] in ("apiVersion", "kind") or sub and path[0] == "metadata" and len(path) > 1:
                continue
            self.turn += 1
            forms = [PUT] if sub and self.is_watched else [JSON, MERGE, STRATEGIC, PUT, APPLY]
            wrong = WRONG[type(value).__name__]
            tried = [("different", different(value)), ("removed", None), ("wrong type", wrong[self.turn % len(wrong)] if wrong else None)]
            for number, (case, other) in enumerate(tried):
                if case == "wrong type" and (other is None or self.turn % 3):
                    continue
                form = forms[(self.turn + number * 2) % len(forms)]
                method, target, content, body = self.request(row, whole, path, other, form, sub)
                self.play(row["name"], method, target, content, body, case=case, field=sub + sweep.written(list(path)))

    def row(self, row):
        self.is_watched = row["kind"] in WATCHED
        full, name = sweep.merge(row["full"], CHOSEN.get(row["kind"], {})), row["full"]["metadata"]["name"]
        self.uid = ""
        one = f"{row['path']}/{name}"
        # One may be left from before.
        self.client.ask("PATCH", one, MERGE, {"metadata": {"finalizers": None}})
        if row["kind"] == "Namespace":
            self.client.ask("PUT", one + "/finalize", "application/json", {"metadata": {"name": name}, "spec": {"finalizers": []}})
        self.client.ask("DELETE", one, "application/json", {"gracePeriodSeconds": 0})
        answer = self.play(row["name"], "POST", row["path"] + "?fieldManager=first", "application/json", full, setup="create")
        if answer["code"] != 201:
            raise SystemExit(f"{row['name']} is not created: {answer}")
        if not self.is_watched and row["has_status"] and row["full"].get("status"):
            self.play(row["name"], "PATCH", one + "/status?fieldManager=status", MERGE, {"status": row["full"]["status"]}, setup="status")
        if row["kind"] == "CustomResourceDefinition":
            self.play(row["name"], "PATCH", one + "/status", MERGE, {"status": ESTABLISHED}, setup="status")
        whole = self.client.get(one)
        whole["metadata"] = {name: value for name, value in whole["metadata"].items() if name not in OF_SERVER}
        if self.is_watched:
            whole.pop("status", None)
            whole["metadata"]["resourceVersion"] = VERSION_MARK
        self.try_parts(row, whole)
        if self.is_watched:
            whole["status"] = statuses()[row["kind"]]
        if row["has_status"] and "status" in whole:
            self.try_parts(row, {name: whole[name] for name in ("apiVersion", "kind", "metadata", "status")}, "/status")
            for part in ("spec", "metadata"):
                if part in whole:
                    body = {part: different({"labels": {"a": "b"}} if part == "metadata" else whole[part])}
                    self.play(row["name"], "PATCH", one + "/status?dryRun=All", MERGE, body, case="by status", field=part)
        if whole["metadata"].get("finalizers"):
            self.play(row["name"], "PATCH", one, MERGE, {"metadata": {"finalizers": None}}, setup="without finalizers")
        self.play(row["name"], "DELETE", one, "application/json", {"gracePeriodSeconds": 0}, setup="delete")


class Client:
    def __init__(self, server, token):
        url = urllib.parse.urlsplit(server)
        self.connection = http.client.HTTPSConnection(url.hostname, url.port, context=ssl._create_unverified_context())
        self.token = token

    def ask(self, method, path, content=None, body=None):
        headers = {"Authorization": "Bearer " + self.token, "User-Agent": "updates/1"}
        if content:
            headers["Content-Type"] = content
        # JSON of any form keeps its text, so the text is the one that the test sends.
        text = None if body is None else json.dumps(body, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
        self.connection.request(method, path, text, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.headers.get_all("Warning") or [], answer.read()

    def get(self, path):
        return json.loads(self.ask("GET", path)[2])

    def call(self, method, path, content, body):
        try:
            code, warnings, text = self.ask(method, path, content, body)
        except (http.client.HTTPException, OSError):
            self.connection.close()
            return None
        if code >= 500:
            return None
        if method == "DELETE":
            return {"code": code}
        found = json.loads(text)
        metadata = found.get("metadata", {})
        uid, managed = metadata.get("uid"), [without_time(entry) for entry in metadata.get("managedFields") or []]
        answer = sweep.answer_of(code, found, MARK)
        if "object" in answer:
            answer["uid"] = uid
            if managed:
                answer["object"]["metadata"]["managedFields"] = managed
        if warnings:
            answer["warnings"] = warnings
        return answer


def statuses():
    """The statuses of full_bodies.json by the kind."""
    bodies = json.loads((sweep.ROOT / "tools/facts/full_bodies.json").read_text())
    return {one["body"]["kind"]: one["body"]["status"] for one in bodies if one.get("to") == "/status"}


def without_time(entry):
    return {name: value for name, value in entry.items() if name != "time"}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    arguments.add_argument("--kind", action="append", help="record this kind alone, and keep the answers to the others")
    arguments.add_argument("--whole", action="store_true", help="keep long texts whole, to look at")
    given = arguments.parse_args()
    updates = Updates(Client(given.server, given.token), given.whole)
    statuses_served = {(found["group"], found["version"], found["plural"]) for found in json.loads((sweep.ROOT / "kinds/recorded/discovery.json").read_text()) if "status" in found["subresources"]}
    kept = {}
    for line in map(json.loads, gzip.decompress(FIXTURE.read_bytes()).splitlines() if given.kind else ()):
        kept.setdefault(line["kind"], []).append(line)
    for row in sweep.rows():
        if given.kind and row["kind"] not in given.kind:
            updates.lines += kept.get(row["name"], ())
            continue
        plural, version, *group = row["name"].split(".", 2)
        row["has_status"] = ("".join(group), version, plural) in statuses_served
        updates.row(row)
    lines = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in updates.lines)
    FIXTURE.write_bytes(gzip.compress(lines.encode(), 9, mtime=0))
    print(len(updates.lines), "requests,", FIXTURE.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
