#!/usr/bin/env python3
"""Records what a kube-apiserver says of its resources: discovery.py --server URL --token TOKEN

The resources that are watched go to kinds/recorded/discovery.json, a row for each version, with the subresources that
show a part of the object. The columns of all that are listed go to kinds/recorded/columns.json. The documents of
discovery themselves, plain and aggregated, go to tests/fixtures/discovery.json.gz, by their paths.
tests/blackbox/discovery.rs compares with them.
"""
import gzip
import json
import pathlib
import urllib.request

from record import Server

ROOT = pathlib.Path(__file__).resolve().parents[2]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
# Subresources that show a part of the object, and no connection to it.
PART = {"get", "patch", "update"}


def document(server, path, accept="application/json"):
    headers = {"Authorization": "Bearer " + server.token, "Accept": accept}
    request = urllib.request.Request(server.url + path, headers=headers)
    with urllib.request.urlopen(request, context=server.tls) as answer:
        return json.load(answer)


def versions(aggregated):
    """Each version of each group, with its path and its resources."""
    for root, groups in aggregated.items():
        for group in groups["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name", "")
                path = f"{root}/{name}/{version['version']}" if name else f"{root}/{version['version']}"
                yield name, version["version"], path, version["resources"]


def row(group, version, resource):
    parts = {part["subresource"]: part["verbs"] for part in resource.get("subresources", [])}
    return {
        "group": group,
        "version": version,
        "plural": resource["resource"],
        "kind": resource["responseKind"]["kind"],
        "singular": resource["singularResource"],
        "namespaced": resource["scope"] == "Namespaced",
        "shortNames": resource.get("shortNames", []),
        "categories": resource.get("categories", []),
        "verbs": resource["verbs"],
        "subresources": {name: verbs for name, verbs in parts.items() if "update" in verbs and set(verbs) <= PART},
    }


def columns(server, path):
    found = document(server, path + "?limit=1", TABLE)["columnDefinitions"]
    return {"path": path, "columns": [[column[name] for name in ("name", "type", "format", "priority")] for column in found]}


def write(path, rows):
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (ROOT / path).write_text(f"[\n{lines}\n]\n")


def main():
    server = Server.of_arguments(__doc__)
    aggregated = {root: document(server, root, AGGREGATED) for root in ("/api", "/apis")}
    rows, tables, plain = [], [], {root: document(server, root) for root in aggregated}
    # The address at which a client reaches the server is its own.
    del plain["/api"]["serverAddressByClientCIDRs"]
    for group, version, path, resources in versions(aggregated):
        plain[path] = document(server, path)
        for resource in resources:
            if "watch" in resource["verbs"]:
                rows.append(row(group, version, resource))
            if "list" in resource["verbs"]:
                tables.append(columns(server, f"{path}/{resource['resource']}"))
    for group in plain["/apis"]["groups"]:
        plain[f"/apis/{group['name']}"] = document(server, f"/apis/{group['name']}")
    write("kinds/recorded/discovery.json", rows)
    write("kinds/recorded/columns.json", tables)
    documents = {"plain": plain, "aggregated": aggregated}
    text = json.dumps(documents, separators=(",", ":"), sort_keys=True).encode()
    (ROOT / "tests/fixtures/discovery.json.gz").write_bytes(gzip.compress(text, mtime=0))


main()
