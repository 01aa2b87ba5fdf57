#!/usr/bin/env python3
"""Records what a kube-apiserver answers to requests that it refuses: errors.py FILE --server URL --token TOKEN --etcd URL

FILE has the requests that make what is there ("before") and the cases. A case has the rule that it is about, a name, a
request, headers, and a body as an object or as a text. "pad" fills the body up with blanks to so many bytes, "repeat"
is a text and a number of times, which takes the place of {long} in it. With "event" the answer is a watch, and its
first event is recorded.
The answer is written beside the case: its code, and its Status or its text. Cases that have an answer are asked again.
Those that are "compacted" are
asked when the history is forgotten. No case changes anything, so their order means nothing. The namespace `errors` must not be there. It is deleted.
"""
import argparse
import json
import pathlib
import re
import ssl
import urllib.error
import urllib.request

# What differs from run to run: what follows these texts, up to the first other character, and whole objects.
CHANGING = re.compile(r"(in record \(|UID in object meta: |current: )[0-9a-f-]+")
OBJECT = re.compile(r'Invalid value: "\{\\"apiVersion.*\}": ')


def body_of(case):
    body = case.get("body")
    if body is None:
        return None
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    if "repeat" in case:
        part, times = case["repeat"]
        text = text.replace("{long}", part * times)
    return text.encode().ljust(case.get("pad", 0))


def send(given, case):
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    verb, path = case["request"].split(" ", 1)
    usual = {"authorization": "Bearer " + given.token, "content-type": "", "user-agent": "errors/1"}
    headers = {**usual, **case.get("headers", {})}
    request = urllib.request.Request(given.server + path, body_of(case), headers, method=verb)
    try:
        answer = urllib.request.urlopen(request, context=tls)
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        found = answer.readline() if "event" in case and answer.status == 200 else answer.read()
    return answer.status, found.decode()


def without_changing(value):
    if isinstance(value, dict):
        return {name: without_changing(member) for name, member in value.items()}
    if isinstance(value, list):
        return [without_changing(item) for item in value]
    if not isinstance(value, str):
        return value
    return OBJECT.sub("Invalid value: ...: ", CHANGING.sub(r"\1...", value))


def answer_of(code, text):
    try:
        return {"code": code, "status": without_changing(json.loads(text))}
    except ValueError:
        return {"code": code, "text": without_changing(text)}


def compact(etcd):
    """Makes etcd forget what was before now."""

    def ask(path, body):
        with urllib.request.urlopen(etcd + path, json.dumps(body).encode()) as answer:
            return json.load(answer)

    revision = ask("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
    ask("/v3/kv/compaction", {"revision": revision})


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=pathlib.Path)
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    arguments.add_argument("--etcd", required=True, help="the URL of its etcd, which is compacted")
    given = arguments.parse_args()
    table = json.loads(given.file.read_text())
    for step in table["before"]:
        code, text = send(given, step)
        if code >= 300:
            raise SystemExit(f"{step['request']}: {text}")
    accepted = []
    try:
        cases = sorted(table["cases"], key=lambda case: "compacted" in case)
        for number, case in enumerate(cases):
            if "compacted" in case and "compacted" not in cases[number - 1]:
                compact(given.etcd)
            code, text = send(given, case)
            if code < 400 and "event" not in case:
                accepted.append(f"{case['rule']} {case['name']}: {code} {text[:200]}")
            case["answer"] = answer_of(code, text)
    finally:
        for step in reversed(table["before"]):
            verb, path = step["request"].split(" ", 1)
            if verb == "POST":
                at = f"{path}/{step['body']['metadata']['name']}"
                media = "application/merge-patch+json"
                bare = {"metadata": {"finalizers": None}}
                send(given, {"request": "PATCH " + at, "headers": {"content-type": media}, "body": bare})
                send(given, {"request": "DELETE " + at + "?gracePeriodSeconds=0"})
                if path == "/api/v1/namespaces":
                    # As the controller does it that may not run.
                    send(given, {"request": f"PUT {at}/finalize", "body": {**step["body"], "spec": {}}})
    if accepted:
        raise SystemExit("not refused:\n" + "\n".join(accepted))
    parts = [",\n".join(json.dumps(entry, separators=(",", ":")) for entry in table[name]) for name in ("before", "cases")]
    given.file.write_text('{"before":[\n%s\n],"cases":[\n%s\n]}\n' % tuple(parts))


if __name__ == "__main__":
    main()
