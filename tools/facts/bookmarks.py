#!/usr/bin/env python3
"""Records the bookmark that ends the initial events of each resource that a kube-apiserver lets watch:

    bookmarks.py --server URL --token TOKEN

The selector selects nothing, so the bookmark is the first event. By the path of the collection it is written as JSON
and as the frame in protobuf to tests/fixtures/bookmarks.json.
"""
import base64
import json
import pathlib
import urllib.request

from record import Server

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/fixtures/bookmarks.json"
QUERY = (
    "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    "&labelSelector=nobody%3Dhas-it&timeoutSeconds=5"
)


def watch(server, path, accept):
    headers = {"Authorization": "Bearer " + server.token, "Accept": accept}
    request = urllib.request.Request(server.url + path + QUERY, headers=headers)
    return urllib.request.urlopen(request, context=server.tls)


def collections(server):
    groups = server.call("GET", "/apis")[1]["groups"]
    roots = ["/api/v1"] + ["/apis/" + version["groupVersion"] for group in groups for version in group["versions"]]
    for root in roots:
        for resource in server.call("GET", root)[1]["resources"]:
            if "watch" in resource["verbs"]:
                yield f"{root}/{resource['name']}"


def main():
    server = Server.of_arguments(__doc__)
    found = {}
    for path in collections(server):
        with watch(server, path, "application/json") as events:
            event = json.loads(events.readline())
        with watch(server, path, "application/vnd.kubernetes.protobuf;stream=watch") as events:
            frame = events.read(int.from_bytes(events.read(4), "big"))
        found[path] = {"json": event, "protobuf": base64.b64encode(frame).decode()}
    lines = ",\n".join(f"{json.dumps(path)}:{json.dumps(found[path])}" for path in sorted(found))
    OUT.write_text(f"{{\n{lines}\n}}\n")


main()
