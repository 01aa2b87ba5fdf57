#!/usr/bin/env python3
"""Counts the instructions that a daemon executes for one write or read.

    tests/bench/instructions.py BINARY...

For each binary and each kind of request the daemon runs twice under callgrind, with 400 requests and
with 200. The difference by 200 is the cost of one request: work that is done once is in both runs.
Starting and stopping are not counted, because a daemon that starts spins for a time to measure its
clock. With several binaries each figure is followed by its ratio to that of the first one. Reads
are those of the admin, and of a service account that 20 rules give rights; the ratio of the two
follows them. Creates are repeated with 3 admission policies of 5 expressions each, and beside 200
policies and 50 configurations of webhooks that match nothing; what each adds follows them.

It needs Python 3.8 and valgrind, with its vgdb. Build the binaries with the same profile.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

FEW, MANY = 200, 400

# One thread of each kind, and as little work as possible that no request causes.
FLAGS = [
    "--secure-port=0",
    "--metrics-bind-address=0",
    "--http-threads=1",
    "--data-threads=1",
    "--log-level=error",
    "--controllers=namespace-controller",
    "--enable-garbage-collector=false",
    "--verify-bytes-per-second=0",
    "--etcd-count-metric-poll-period=0",
    # Under valgrind everything takes fifty times as long.
    "--handshake-timeout=10m",
    "--header-timeout=10m",
    "--idle-timeout=10m",
    "--shutdown-timeout=10m",
    "--storage-initialization-timeout=10m",
]

# Seconds until a daemon is given up.
PATIENCE = 600

NAMESPACE = "/namespaces/default"


def config_map(name, number):
    """A ConfigMap of 1 KiB."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "data": {"number": str(number), "filler": "x" * 850},
    }


def container(number, version):
    return {
        "name": f"c{number}",
        "image": f"registry.example.com/team/app{number}:{version}",
        "args": ["--flag=a", "--other=b"],
        "ports": [{"containerPort": 8080 + number, "name": f"http{number}"}],
        "env": [{"name": f"VAR_{n}", "value": f"value {n}"} for n in range(6)],
        "resources": {
            "limits": {"cpu": "500m", "memory": "256Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080 + number}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080 + number}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/config"},
            {"name": "data", "mountPath": "/data"},
        ],
    }


def deployment(name, number):
    """The Deployment of 3 KiB that `cargo bench -- deployments` writes."""
    labels = {"app": "web", "tier": "front"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels, "annotations": {"note": "n" * 600}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [container(n, number) for n in range(3)],
                    "volumes": [
                        {"name": "config", "configMap": {"name": "cfg"}},
                        {"name": "data", "emptyDir": {}},
                    ],
                },
            },
        },
    }


HOOKS = "/apis/admissionregistration.k8s.io/v1"
# Rules for everything that is created, and for something else.
ALL = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"]}]
OTHER = [{"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["*"]}]
EXPRESSIONS = [
    "object.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
    "!has(object.metadata.annotations) || object.metadata.annotations.all(k, !k.startsWith('x-'))",
    "request.userInfo.username != '' && request.operation in ['CREATE', 'UPDATE']",
    "has(object.metadata.labels) && 'app' in object.metadata.labels"
    " && object.metadata.labels['app'] == 'web'",
    "!(request.namespace in ['kube-system', 'kube-public']) || 'exempt' in object.metadata.labels",
]


def unmatched(number):
    """Rules and selectors that match no object of this program, each third for another reason."""
    values = [f"team-{number}", f"group-{number}"]
    unmet = {"matchExpressions": [{"key": "tenant", "operator": "In", "values": values}]}
    return [
        {"rules": OTHER},
        {"rules": ALL, "namespaceSelector": unmet},
        {"rules": ALL, "objectSelector": unmet},
    ][number % 3]


def policy(name, constraints):
    """A policy, and its binding."""
    matched = {**constraints}
    matched["resourceRules"] = matched.pop("rules")
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": matched,
        "validations": [{"expression": expression} for expression in EXPRESSIONS],
    }
    meta = {"metadata": {"name": name}}
    return (
        ("validatingadmissionpolicies", {**meta, "spec": spec}),
        (
            "validatingadmissionpolicybindings",
            {**meta, "spec": {"policyName": name, "validationActions": ["Deny"]}},
        ),
    )


def configuration(name, constraints):
    """A configuration with one webhook, which nobody plays."""
    webhook = {
        "name": "w.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        **constraints,
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def three_policies():
    for number in range(3):
        yield from policy(f"p{number}", {"rules": ALL})


def unmatched_hooks():
    for number in range(200):
        yield from policy(f"p{number}", unmatched(number))
    plurals = ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"]
    for number in range(50):
        yield plurals[number % 2], configuration(f"c{number}", unmatched(number))


KINDS = {
    "ConfigMap": (f"/api/v1{NAMESPACE}/configmaps", config_map),
    "Deployment": (f"/apis/apps/v1{NAMESPACE}/deployments", deployment),
}
VERBS = ["create", "update"]
# Creates, and the hooks that exist meanwhile.
AMONG_HOOKS = {"create-3-policies": three_policies, "create-unmatched": unmatched_hooks}
# A read by the admin, and by an account.
ADMIN_READS, ACCOUNT_READS = "get", "get-as-account"
READS = [ADMIN_READS, ACCOUNT_READS]

RBAC = f"/apis/rbac.authorization.k8s.io/v1{NAMESPACE}"
ACCOUNT = "reader"
# The rules of the account. The last one allows the reads.
RULES = [
    {"apiGroups": ["example.com"], "resources": [f"r{number:02}"], "verbs": ["get", "list", "watch"]}
    for number in range(19)
] + [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]


class Daemon:
    """A daemon with a data directory, and one connection to it."""

    settings = FLAGS
    # Seconds between two looks whether it is ready.
    pause = 1

    def __init__(self, binary, flags, data, prefix=()):
        self.data = data
        command = [*prefix, binary, f"--data-dir={data}", *self.settings, *flags]
        # Nobody reads it while the daemon runs, so a pipe could fill and stop the daemon.
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.connection = None
        try:
            self.connect()
        except BaseException:
            self.process.kill()
            self.process.communicate()
            sys.stderr.write(self.said())
            raise

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def connect(self):
        port = None
        for line in self.process.stdout:
            found = re.search(r"https://[^\s]*:(\d+)", line)
            if found:
                port = int(found.group(1))
                break
        if port is None:
            raise RuntimeError("the daemon ended before it served")
        context = ssl.create_default_context(cafile=os.path.join(self.data, "pki/ca.crt"))
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=PATIENCE, context=context
        )
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with open(os.path.join(self.data, "admin.token"), encoding="ascii") as file:
            self.headers = {
                "Authorization": f"Bearer {file.read().strip()}",
                "Content-Type": "application/json",
            }
        deadline = time.monotonic() + PATIENCE
        while self.call("GET", "/readyz")[0] != 200:
            if time.monotonic() > deadline:
                raise RuntimeError("the daemon is not ready")
            time.sleep(self.pause)

    def call(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text, self.headers)
        response = self.connection.getresponse()
        return response.status, response.read()

    def write(self, method, path, body):
        status, text = self.call(method, path, body)
        if status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {status} {text.decode(errors='replace')}")

    def become_account(self):
        """Sends the following requests with the token of a service account."""
        self.write("POST", f"/api/v1{NAMESPACE}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
        role = {"metadata": {"name": ACCOUNT}, "rules": RULES}
        self.write("POST", f"{RBAC}/roles", role)
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}],
        }
        self.write("POST", f"{RBAC}/rolebindings", binding)
        path = f"/api/v1{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
        status, text = self.call("POST", path, {"spec": {}})
        if status != 201:
            raise RuntimeError(f"no token: {status} {text.decode(errors='replace')}")
        self.headers["Authorization"] = f"Bearer {json.loads(text)['status']['token']}"

    def read(self, path):
        status, text = self.call("GET", path)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {text.decode(errors='replace')}")

    def stop(self):
        self.connection.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)
        if self.process.returncode != 0:
            raise RuntimeError(f"the daemon ended with {self.process.returncode}: {self.said()}")


def instructions(binary, flags, fresh, kind, verb, count, output):
    """How many instructions so many requests take, after a first one."""
    path, body = KINDS[kind]
    with tempfile.TemporaryDirectory(prefix="taffrail-instructions-") as folder:
        data = os.path.join(folder, "data")
        shutil.copytree(fresh, data)
        prefix = ["valgrind", "--quiet", "--tool=callgrind", "--compress-strings=no", f"--callgrind-out-file={output}"]
        daemon = Daemon(binary, flags, data, prefix)
        try:
            # An object is updated once: the next update of it may begin from the object of the last
            # one or from the cache, which costs more or less by chance.
            names = [f"o{number:03}" for number in range(MANY)]
            for plural, hook in AMONG_HOOKS.get(verb, tuple)():
                daemon.write("POST", f"{HOOKS}/{plural}", hook)
            for name in names if verb == "update" else ["first"]:
                daemon.write("POST", path, body(name, 1))
            if verb == ACCOUNT_READS:
                daemon.become_account()
            if verb in READS:
                daemon.read(f"{path}/first")
            monitor(daemon, "zero")
            for name in names[:count]:
                if verb in READS:
                    daemon.read(f"{path}/first")
                elif verb == "update":
                    daemon.write("PUT", f"{path}/{name}", body(name, 2))
                else:
                    daemon.write("POST", path, body(name, 1))
            monitor(daemon, "dump")
            daemon.stop()
        finally:
            daemon.process.kill()
            daemon.process.wait()
    # The file without a number has the counts since the dump.
    os.replace(f"{output}.1", output)
    with open(output, encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("totals:"):
                return int(line.split()[1])
    raise RuntimeError(f"{output} has no sum")


def monitor(daemon, command):
    """Sends a command to callgrind."""
    subprocess.run(
        ["vgdb", f"--pid={daemon.process.pid}", command],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=PATIENCE,
    )


def measure(binary, flags, fresh, kind, verb, folder, label):
    """The instructions of one request."""
    sums = []
    for count in (FEW, MANY):
        output = os.path.join(folder, f"callgrind.{label}.{kind}.{verb}.{count}".lower())
        sums.append(instructions(binary, flags, fresh, kind, verb, count, output))
    return (sums[1] - sums[0]) / (MANY - FEW)


def make_fresh(binary, flags, folder):
    """A data directory with certificates and keys: making them takes a random time."""
    data = os.path.join(folder, "fresh")
    Daemon(binary, flags, data).stop()
    return data


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("binaries", nargs="+", metavar="BINARY")
    parser.add_argument("--rounds", type=int, default=3, help="take the median of so many (3)")
    parser.add_argument("--jobs", type=int, default=1, help="daemons at a time (1)")
    parser.add_argument("--keep", metavar="DIR", help="leave the files of callgrind there")
    parser.add_argument("--only", metavar="TEXT", help="measure those with TEXT in their name")
    parser.add_argument("--flag", action="append", default=[], help="a further flag of the daemon")
    options = parser.parse_args()
    for tool in ("valgrind", "vgdb"):
        if shutil.which(tool) is None:
            parser.error(f"there is no {tool}")

    binaries = [os.path.abspath(binary) for binary in options.binaries]
    requests = [(kind, verb) for kind in KINDS for verb in [*VERBS, *AMONG_HOOKS]]
    requests += [("ConfigMap", verb) for verb in READS]
    requests = [one for one in requests if (options.only or "") in " ".join(one)]
    with tempfile.TemporaryDirectory(prefix="taffrail-instructions-") as folder:
        if options.keep:
            os.makedirs(options.keep, exist_ok=True)
        kept = options.keep or folder
        fresh = []
        for number, binary in enumerate(binaries):
            below = os.path.join(folder, str(number))
            os.mkdir(below)
            fresh.append(make_fresh(binary, options.flag, below))
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            runs = {}
            for round_number in range(options.rounds):
                for kind, verb in requests:
                    for number, binary in enumerate(binaries):
                        label = f"{number}.{round_number}"
                        run = pool.submit(
                            measure, binary, options.flag, fresh[number], kind, verb, kept, label
                        )
                        runs.setdefault((kind, verb, number), []).append(run)
            for number, binary in enumerate(binaries):
                print(f"{number + 1}: {binary}")
            print("instructions for one request, and the ratio to the first binary")
            for kind, verb in requests:
                results = [
                    [run.result() for run in runs[kind, verb, number]]
                    for number in range(len(binaries))
                ]
                first = statistics.median(results[0])
                line = f"{kind + ' ' + verb:26}"
                for number, counts in enumerate(results):
                    middle = statistics.median(counts)
                    line += f"{middle:14,.0f}"
                    if number > 0:
                        line += f" {middle / first:6.3f}"
                    if len(counts) > 1:
                        spread = (max(counts) - min(counts)) / middle
                        line += f" (±{spread / 2:.1%})"
                print(line, flush=True)
            for number in range(len(binaries)):
                medians = {
                    (kind, verb): statistics.median(run.result() for run in runs[kind, verb, number])
                    for kind, verb in requests
                }
                by_admin, by_account = (medians.get(("ConfigMap", verb)) for verb in READS)
                if by_admin and by_account:
                    ratio = by_account / by_admin
                    print(f"{number + 1}: a read by the account, to one by the admin {ratio:.3f}")
                for kind in KINDS:
                    without = medians.get((kind, "create"))
                    for verb in AMONG_HOOKS:
                        with_hooks = medians.get((kind, verb))
                        if without and with_hooks:
                            more = with_hooks - without
                            print(f"{number + 1}: {verb} of a {kind} takes {more:,.0f} more")


if __name__ == "__main__":
    main()
