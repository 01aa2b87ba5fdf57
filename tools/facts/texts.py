#!/usr/bin/env python3
"""Records hashes of what a kube-apiserver says of types, fields and operations: texts.py FILE --server URL --token TOKEN

The texts themselves are not in this repository. FILE, a .json.gz, has eight digits of the SHA-256 of each: by schema and field,
where the type itself is the field "", and by method and path of OpenAPI v2. What is said of the values of a field is left
out: "Possible enum values:" and what follows, and an empty line before it.
"""
import argparse
import gzip
import hashlib
import json
import ssl
import urllib.request


def digest(text):
    text = text.split("\n\nPossible enum values:")[0].rstrip()
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file")
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    given = arguments.parse_args()
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(given.server + "/openapi/v2", headers={"Authorization": "Bearer " + given.token})
    with urllib.request.urlopen(request, context=tls) as answer:
        document = json.load(answer)
    schemas = {}
    for name, schema in document["definitions"].items():
        said = {field: of["description"] for field, of in schema.get("properties", {}).items() if "description" in of}
        if "description" in schema:
            said[""] = schema["description"]
        schemas[name] = {field: digest(text) for field, text in said.items()}
    operations = {
        f"{method} {path}": digest(operation["description"])
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters" and "description" in operation
    }
    text = json.dumps({"schemas": schemas, "operations": operations}, sort_keys=True, separators=(",", ":"))
    with open(given.file, "wb") as file:
        file.write(gzip.compress(text.encode(), mtime=0))


main()
