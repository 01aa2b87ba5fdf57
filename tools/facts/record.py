#!/usr/bin/env python3
"""Records what a kube-apiserver answers to bodies: record.py FILE --server URL --token TOKEN [--warnings]

FILE has a list of cases. A case has a name, the path of a collection, a body, and for an update the object before it
as "old", with its status. Each is tried without effect (dryRun=All), and its answer is written beside it: {"object": ...} without
metadata and status, or {"causes": [[reason, message, field], ...]}, or {"message": ...} where there are no causes.
Cases that have an answer are asked again. --warnings writes the texts of the Warning headers instead, as "warnings".
"""
import argparse
import json
import pathlib
import re
import ssl
import urllib.error
import urllib.request


class Server:
    def __init__(self, url, token):
        self.url, self.token = url, token
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.warnings = []

    @classmethod
    def of_arguments(cls, about):
        """The server of a program that has no other arguments."""
        arguments = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        for name in ("server", "token"):
            arguments.add_argument("--" + name, required=True)
        given = arguments.parse_args()
        return cls(given.server, given.token)

    def call(self, verb, path, body=None):
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        media = "application/merge-patch+json" if verb == "PATCH" else "application/json"
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": media}
        request = urllib.request.Request(self.url + path, data, headers, method=verb)
        try:
            with urllib.request.urlopen(request, context=self.tls) as answer:
                self.warnings = [text_of(header) for header in answer.headers.get_all("Warning") or []]
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            self.warnings = [text_of(header) for header in error.headers.get_all("Warning") or []]
            text = error.read()
            try:
                return error.code, json.loads(text)
            except ValueError:
                return error.code, {"message": text.decode(errors="replace")}


def text_of(header):
    quoted = header.removeprefix("299 - ")[1:-1]
    return re.sub(r"\\(.)", r"\1", quoted.encode("latin-1").decode())


def answer_of(code, found):
    if code < 300:
        return {"object": {name: found[name] for name in found if name not in ("metadata", "status", "kind", "apiVersion")}}
    causes = (found.get("details") or {}).get("causes")
    if causes:
        return {"causes": [[cause.get("reason", ""), cause.get("message", ""), cause.get("field", "")] for cause in causes]}
    return {"code": code, "message": found.get("message", "")}


def record(server, case, answer_of):
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
        for _ in range(9):
            sent["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
            code, found = server.call("PUT", f"{at}{case.get('subresource', '')}?dryRun=All", sent)
            if found.get("reason") != "Conflict":
                break
            # A controller has written in between.
            made = server.call("GET", at)[1]
        return answer_of(code, found)
    finally:
        server.call("DELETE", at, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        # Some wait for a controller before they go.
        server.call("PATCH", at, {"metadata": {"finalizers": None}})


def warnings_of(server, case):
    def warnings(code, found):
        if code >= 300:
            raise SystemExit(f"{case['name']}: refused: {found.get('message')}")
        return server.warnings

    return record(server, case, warnings)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=pathlib.Path)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    arguments.add_argument("--warnings", action="store_true")
    given = arguments.parse_args()
    server = Server(given.server, given.token)
    cases = json.loads(given.file.read_text())
    for case in cases:
        if given.warnings:
            case["warnings"] = warnings_of(server, case)
        else:
            case["answer"] = record(server, case, answer_of)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    given.file.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
