#!/usr/bin/env python3
"""Records what the OpenAPI documents of a kube-apiserver say: openapi.py FILE --server URL --token TOKEN

FILE, a .json.gz, has an entry for each document, "v2" and the keys of /openapi/v3. Each has the operations by method and path, in
short, and of each schema eight digits of the SHA-256 of its JSON without descriptions. `rest` is what else documents have, and
shared parameters stand where they are used. The test `documents_are_those_of_kube_apiserver` reads it.
"""
import argparse
import gzip
import hashlib
import json
import ssl
import urllib.request


def plain(value):
    """A value without descriptions."""
    if isinstance(value, dict):
        return {name: plain(of) for name, of in value.items() if name != "description" or not isinstance(of, str)}
    return [plain(of) for of in value] if isinstance(value, list) else value


def digest(value):
    text = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def parameters(document, listed):
    """Parameters in the order of their names, each in its own place."""
    found = [document["parameters"][one["$ref"].split("/")[-1]] if "$ref" in one else one for one in listed]
    return sorted((plain(one) for one in found), key=lambda one: (one["name"], one["in"]))


def operations(document):
    facts = {}
    for path, item in document["paths"].items():
        for method, of in item.items():
            if method == "parameters":
                facts[f"parameters {path}"] = parameters(document, of)
                continue
            fact = plain(of)
            if "parameters" in fact:
                fact["parameters"] = parameters(document, of["parameters"])
            facts[f"{method} {path}"] = fact
    return facts


def facts(document):
    schemas = document.get("definitions") or document["components"].get("schemas", {})
    left_out = ("paths", "definitions", "parameters", "components")
    return {
        "operations": operations(document),
        "schemas": {name: digest(schema) for name, schema in schemas.items()},
        "rest": plain({name: of for name, of in document.items() if name not in left_out}),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file")
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    given = arguments.parse_args()
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

    def read(path):
        request = urllib.request.Request(given.server + path, headers={"Authorization": "Bearer " + given.token})
        with urllib.request.urlopen(request, context=tls) as answer:
            return json.load(answer)

    found = {"v2": facts(read("/openapi/v2"))}
    for key, place in read("/openapi/v3")["paths"].items():
        found[key] = facts(read(place["serverRelativeURL"]))
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    with open(given.file, "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))


main()
