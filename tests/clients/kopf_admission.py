"""kopf serves the mutating and the validating webhooks of an operator, and manages their configurations.

    PYTHONPATH=... python3 kopf_admission.py KUBECONFIG

It prints what a client is answered and what the webhooks were asked (HK-19 to HK-46).
"""

import datetime
import ipaddress
import json
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import kopf
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kopf_running import Operator, until
from transcript import Server, Transcript, plain

GROUP, PLURAL = "admission.example.com", "lamps"
MANAGED = "kopf.admission.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LAMPS = f"/apis/{GROUP}/v1/namespaces/default/{PLURAL}"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{HOOKS}/mutatingwebhookconfigurations/{MANAGED}"
VALIDATING = f"{HOOKS}/validatingwebhookconfigurations/{MANAGED}"
MERGE = "application/merge-patch+json"

server = Server(sys.argv[1])
registry = kopf.OperatorRegistry()
of_lamps = (GROUP, "v1", PLURAL)
asked = []
folder = tempfile.TemporaryDirectory()


def own_certificate():
    """Writes a key and a certificate that it signs itself, and returns their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = Path(folder.name, "cert.pem"), Path(folder.name, "key.pem")
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    paths[0].write_bytes(made.public_bytes(encoding))
    paths[1].write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return paths


@kopf.on.login(registry=registry)
def login(**_):
    return kopf.ConnectionInfo(server=server.url, token=server.token, insecure=True)


@kopf.on.startup(registry=registry)
def configure(settings, **_):
    settings.posting.enabled = False
    certificate, key = own_certificate()
    settings.admission.server = kopf.WebhookServer(addr="127.0.0.1", certfile=certificate, pkeyfile=key)
    settings.admission.managed = MANAGED


def note(handler, operation, dryrun, subresource, body, userinfo):
    asked.append(
        {
            "handler": handler,
            "operation": operation,
            "dryrun": dryrun,
            "subresource": subresource,
            "name": body["metadata"].get("name"),
            "spec": dict(body.get("spec", {})),
            "user": userinfo["username"],
        }
    )


@kopf.on.mutate(*of_lamps, registry=registry)
def complete(spec, patch, warnings, operation, dryrun, subresource, body, userinfo, **_):
    note("complete", operation, dryrun, subresource, body, userinfo)
    patch.metadata.labels["colour"] = str(spec.get("colour"))
    if "watts" not in spec:
        patch.spec["watts"] = 7
        warnings.append("the lamp got 7 watts")
    if spec.get("note") == "":
        patch.spec["note"] = None


@kopf.on.validate(*of_lamps, registry=registry)
def judge(spec, old, diff, warnings, operation, dryrun, subresource, body, userinfo, **_):
    note("judge", operation, dryrun, subresource, body, userinfo)
    if operation == "DELETE":
        if spec.get("colour") == "red":
            raise kopf.AdmissionError("red lamps stay", code=409)
        return
    if spec.get("colour") == "black":
        raise kopf.AdmissionError("a lamp is not black", code=418)
    if spec.get("colour") == "grey":
        raise kopf.AdmissionError("no code and grey", code=None)
    if spec.get("colour") == "broken":
        raise ValueError("it is broken")
    if operation == "UPDATE":
        changed = [".".join(path) for _, path, _, _ in diff if path[0] == "spec"]
        warnings.append(f"changed: {','.join(changed)}")


@kopf.on.validate(*of_lamps, subresource="status", operations=["UPDATE"], registry=registry)
def judge_status(status, operation, dryrun, subresource, body, userinfo, **_):
    note("judge_status", operation, dryrun, subresource, body, userinfo)
    if status.get("lit") is False:
        raise kopf.AdmissionError("lamps are lit", code=422)


@kopf.on.validate(
    *of_lamps,
    labels={"guarded": "yes"},
    operations=["CREATE", "UPDATE"],
    ignore_failures=True,
    persistent=True,
    side_effects=True,
    registry=registry,
)
def guard(spec, operation, dryrun, subresource, body, userinfo, **_):
    note("guard", operation, dryrun, subresource, body, userinfo)
    raise kopf.PermanentError("guarded")


def definition():
    text = {"type": "string"}
    properties = {"colour": text, "watts": {"type": "integer"}, "note": text}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "required": ["colour"], "properties": properties},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": PLURAL, "singular": "lamp", "kind": "Lamp"},
            "versions": [version],
        },
    }


def lamp(name, colour, labels=None, **spec):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Lamp",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"colour": colour, **spec},
    }


def configured(configuration):
    """Returns a configuration without the place and the certificate of the server."""
    found = plain(configuration)
    for name in ("generation", "managedFields"):
        found["metadata"].pop(name, None)
    for webhook in found.get("webhooks", []):
        client = webhook["clientConfig"]
        client["caBundle"] = bool(client.get("caBundle"))
        client["url"] = client["url"].split("/", 3)[3]
    return found


def exchange(method, path, body=None, form="application/json"):
    """Sends a request. Returns the status, the warnings and the body of its answer."""
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": form}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, headers, method=method)
    try:
        answer = urllib.request.urlopen(request, context=server.context, timeout=30)
    except urllib.error.HTTPError as refused:
        answer = refused
    with answer:
        warnings = answer.headers.get_all("warning", [])
        body = plain(json.load(answer))
        body.get("details", {}).pop("uid", None)
        return {"code": answer.status, "warnings": warnings, "body": body}


class Steps:
    """Requests about lamps, and what the webhooks were asked about each."""

    def __init__(self, transcript):
        self.transcript = transcript

    def step(self, name, *request):
        asked.clear()
        answer = exchange(*request)
        self.transcript.add(name, answer)
        calls = {}
        for call in asked:
            # A server may ask several times about one request (HK-6).
            calls[json.dumps(call, sort_keys=True)] = call
        self.transcript.add(f"{name}: asked", [calls[key] for key in sorted(calls)])

    def configurations(self, name, count):
        for path in (MUTATING, VALIDATING):
            wanted = count[path]
            holds = lambda found: len(found.get("webhooks", [])) == wanted
            look = lambda: server.call("GET", path)
            found = until(f"{name} {path}", look, holds)
            self.transcript.add(f"{name}: {path}", configured(found))

    def in_force(self):
        """Waits until both configurations are: a server may need some time."""
        look = lambda: exchange("POST", f"{LAMPS}?dryRun=All", lamp("probe", "black"))
        until("the validating webhook", look, lambda answer: answer["code"] == 418)
        look = lambda: exchange("POST", f"{LAMPS}?dryRun=All", lamp("probe", "white"))
        until("the mutating webhook", look, lambda answer: answer["body"]["spec"].get("watts") == 7)

    def objects(self):
        at = lambda name: f"{LAMPS}/{name}"
        self.step("created", "POST", LAMPS, lamp("one", "red", note=""))
        self.step("created complete", "POST", LAMPS, lamp("two", "gold", watts=1))
        self.step("denied", "POST", LAMPS, lamp("three", "black"))
        self.step("denied without a code", "POST", LAMPS, lamp("three", "grey"))
        self.step("denied by an exception", "POST", LAMPS, lamp("three", "broken"))
        self.step("invalid", "POST", LAMPS, lamp("Three", "white"))
        self.step("guarded", "POST", LAMPS, lamp("four", "white", {"guarded": "yes"}))
        self.step("a dry run", "POST", f"{LAMPS}?dryRun=All", lamp("dry", "white"))
        guarded = lamp("dry", "white", {"guarded": "yes"})
        self.step("a guarded dry run", "POST", f"{LAMPS}?dryRun=All", guarded)
        self.step("changed", "PATCH", at("one"), {"spec": {"watts": 9}}, MERGE)
        self.step("a denied change", "PATCH", at("one"), {"spec": {"colour": "black"}}, MERGE)
        status = f"{at('one')}/status"
        self.step("a status", "PATCH", status, {"status": {"lit": True}}, MERGE)
        self.step("a denied status", "PATCH", status, {"status": {"lit": False}}, MERGE)
        self.step("a denied deletion", "DELETE", at("one"))
        self.step("deleted", "DELETE", at("two"))
        self.step("deleted in a dry run", "DELETE", f"{at('one')}?dryRun=All")
        self.step("what is left", "GET", at("one"))

    def without_operator(self):
        """The persistent webhook is left, and its failures are ignored."""
        self.step("created without an operator", "POST", LAMPS, lamp("five", "black", {"guarded": "yes"}))


def main():
    transcript = Transcript()
    steps = Steps(transcript)
    server.call("POST", DEFINITIONS, definition())
    until("the resource", lambda: server.call("GET", LAMPS), lambda list: "items" in list)
    operator = Operator(registry)
    try:
        steps.configurations("managed", {MUTATING: 1, VALIDATING: 3})
        steps.in_force()
        steps.objects()
    finally:
        operator.end()
    steps.configurations("after the end", {MUTATING: 0, VALIDATING: 1})
    until(
        "their end",
        lambda: exchange("POST", f"{LAMPS}?dryRun=All", lamp("probe", "black")),
        lambda answer: answer["code"] == 201 and not answer["warnings"],
    )
    steps.without_operator()
    for path in (MUTATING, VALIDATING, f"{DEFINITIONS}/{PLURAL}.{GROUP}"):
        server.call("DELETE", path)
    transcript.print()


if __name__ == "__main__":
    main()
