#!/usr/bin/env python3
"""Records what a kube-apiserver answers to bodies: record.py FILE --server URL --token TOKEN

FILE has a list of cases. A case has a name, the path of a collection, a body, and for an update the object before it
as "old", with its status. Each is tried without effect (dryRun=All), and its answer is written beside it: {"object": ...} without
metadata and status, or {"causes": [[reason, message, field], ...]}, or {"message": ...} where there are no causes.
Cases that have an answer are asked again.
"""
import argparse
import json
import pathlib
import ssl
import urllib.error
import urllib.request


class Server:
    def __init__(self, url, token):
        self.url, self.token = url, token
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    def call(self, verb, path, body=None):
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        media = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": media}
        request = urllib.request.Request(self.url + path, data, headers, method=verb)
        try:
            with urllib.request.urlopen(request, context=self.tls) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, {"message": text.decode(errors="replace")}


def answer_of(code, found):
    if code < 300:
        return {"object": {name: found[name] for name in found if name not in ("metadata", "status", "kind", "apiVersion")}}
    causes = (found.get("details") or {}).get("causes")
    if causes:
        return {"causes": [[cause.get("reason", ""), cause.get("message", ""), cause.get("field", "")] for cause in causes]}
    return {"code": code, "message": found.get("message", "")}


def record(server, case):
    path, body = case["path"], case["body"]
    if "old" not in case:
        return answer_of(*server.call("POST", path + "?dryRun=All", body))
    code, made = server.call("POST", path, case["old"])
    if code >= 300:
        raise SystemExit(f"{case['name']}: the object before the update is refused: {made.get('message')}")
    at = f"{path}/{made['metadata']['name']}"
    try:
        if "status" in case["old"]:
            code, made = server.call("PUT", at + "/status", {**made, "status": case["old"]["status"]})
            if code >= 300:
                raise SystemExit(f"{case['name']}: the status before the update is refused: {made.get('message')}")
        sent = json.loads(json.dumps(body))
        sent["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
        return answer_of(*server.call("PUT", f"{at}{case.get('subresource', '')}?dryRun=All", sent))
    finally:
        server.call("DELETE", at, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        # Some wait for a controller before they go.
        server.call("PATCH", at, {"metadata": {"finalizers": None}})


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=pathlib.Path)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    given = arguments.parse_args()
    server = Server(given.server, given.token)
    cases = json.loads(given.file.read_text())
    for case in cases:
        case["answer"] = record(server, case)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    given.file.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
