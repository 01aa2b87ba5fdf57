"""What a client was answered and what a server holds after each step, in a form that can be compared.

The scripts of this folder print it. tests/clients/recorded has what they print beside kube-apiserver 1.36.2:

    export PYTHONPATH=~/.cache/taffrail/python-clients
    python3 helm_releases.py KUBECONFIG server > recorded/helm_releases-server.jsonl
    python3 helm_releases.py KUBECONFIG client > recorded/helm_releases-client.jsonl
    python3 helm_definitions.py KUBECONFIG server > recorded/helm_definitions-server.jsonl
    python3 helm_definitions.py KUBECONFIG client > recorded/helm_definitions-client.jsonl
    python3 lightkube_objects.py KUBECONFIG > recorded/lightkube_objects.jsonl
    python3 kr8s_objects.py KUBECONFIG > recorded/kr8s_objects.jsonl
    python3 kopf_operator.py KUBECONFIG > recorded/kopf_operator.jsonl
    python3 kopf_custom.py KUBECONFIG > recorded/kopf_custom.jsonl
    python3 kopf_admission.py KUBECONFIG > recorded/kopf_admission.jsonl
    python3 helm_releases.py KUBECONFIG server-account | head -6 > recorded/helm_releases-server-refused.jsonl
    python3 helm_releases.py KUBECONFIG client-account | head -6 > recorded/helm_releases-client-refused.jsonl
    python3 kopf_operator.py KUBECONFIG account | head -4 > recorded/kopf_operator-refused.jsonl

helm_definitions and what Helm is refused were recorded with Helm's option disable_openapi_validation, because that
kube-apiserver was built without a readable OpenAPI v2. The daemon's is read and used.
"""

import json
import ssl
import urllib.error
import urllib.request

import yaml

# What an allocator of addresses fills in, which the daemon has none of (docs/compatibility.md).
ADDRESSES = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


class Server:
    """Plain requests to the server of a kubeconfig."""

    def __init__(self, kubeconfig):
        with open(kubeconfig) as file:
            self.config = yaml.safe_load(file)
        self.url = self.config["clusters"][0]["cluster"]["server"]
        self.token = self.config["users"][0]["user"]["token"]
        self.context = ssl.create_default_context()
        # Who is at the other end is tested elsewhere.
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE

    def call(self, method, path, body=None, form="application/json"):
        """The answer, a Status where it is refused."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": form}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            if refused.headers.get_content_type() == "application/json":
                return json.load(refused)
            # Paths that are not served.
            return {"code": refused.code, "text": refused.read().decode().strip()}


def plain(thing):
    """An object without what differs from one run to the next."""
    thing = json.loads(json.dumps(thing, default=str))
    metadata = thing.get("metadata", {})
    for name in ("uid", "resourceVersion", "creationTimestamp"):
        metadata.pop(name, None)
    owners = metadata.get("managedFields", [])
    for owner in owners:
        owner.pop("time", None)
    # kube-apiserver orders them by their times.
    owners.sort(key=lambda owner: (owner["operation"], owner["manager"], owner.get("subresource", "")))
    if thing.get("kind") == "Service":
        for name in ADDRESSES:
            thing.get("spec", {}).pop(name, None)
    return thing


class Transcript:
    """What happened, step by step."""

    def __init__(self):
        self.steps = []
        self.held = {}

    def add(self, step, value):
        """An answer."""
        self.steps.append({"step": step, "answer": value})

    def holds(self, step, objects):
        """Which objects a server holds now: those that differ from the step before, null where they went."""
        now = {f"{item['kind']} {item['metadata']['name']}": item for item in objects}
        for name in sorted(now.keys() | self.held.keys()):
            if now.get(name) != self.held.get(name):
                self.steps.append({"step": step, "object": name, "value": now.get(name)})
        self.held = now

    def refused(self, step, error, action):
        """Adds what a call is refused with that must be refused."""
        try:
            done = action()
        except error as refusal:
            self.add(step, str(refusal))
        else:
            raise AssertionError(f"{step}: not refused: {done}")

    def print(self):
        """One step or object a line."""
        for step in self.steps:
            print(json.dumps(step, sort_keys=True))
