"""The official client runs commands in a pod, forwards ports, follows a log and watches, and prints what it gets.

    PYTHONPATH=... python3 kubernetes_connections.py KUBECONFIG

The pods p and forward are on a node whose kubelet is the stand-in of tests/blackbox/connections.
"""

import json
import sys
import threading

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import portforward, stream

SENT = "one line of many\n" * 5000
SECONDS = 60


def done(step, *results):
    print(json.dumps([step, *results]), flush=True)


def run(core, *command, pod="p", attach=False, **options):
    """Starts a command, or attaches to one."""
    options = {"container": "command", "stdout": True, "stderr": True, "stdin": False, "tty": False, **options}
    if attach:
        call = core.connect_get_namespaced_pod_attach
    else:
        call, options["command"] = core.connect_get_namespaced_pod_exec, list(command)
    return stream(call, pod, "default", _preload_content=False, _request_timeout=SECONDS, **options)


def ended(session):
    """What both outputs got, and the code of the end."""
    session.run_forever(timeout=SECONDS)
    return session.read_stdout(), session.read_stderr(), session.returncode


def refusal(action):
    try:
        action()
    except ApiException as refused:
        return refused
    except AttributeError as fault:
        # Release 36.0.3 wants to decode the body of a refusal, which has none here.
        return fault.__context__
    raise AssertionError("it was not refused")


def commands(core, protocol):
    done(f"{protocol}: both", *ended(run(core, "both")))
    done(f"{protocol}: exit", *ended(run(core, "exit", "3")))
    session = run(core, "cat", stdin=True)
    session.write_stdin(SENT)
    got = ""
    while len(got) < len(SENT):
        got += session.read_stdout(timeout=SECONDS)
    done(f"{protocol}: cat", got == SENT, session.subprotocol)
    if protocol == "v4":
        # Nothing but its close says that the input ends.
        session.close()
    else:
        session.close_channel(0)
        done(f"{protocol}: the end of the input", *ended(session))
    done(f"{protocol}: attach", *ended(run(core, attach=True)))
    session = run(core, "size", stdin=True, tty=True, stderr=False)
    session.write_channel(4, json.dumps({"Width": 80, "Height": 24}))
    done(f"{protocol}: size", *ended(session))


def ports(core):
    forwarded = portforward(
        core.connect_get_namespaced_pod_portforward, "forward", "default", ports="80,81,82", _request_timeout=SECONDS
    )
    for port in (82, 80):
        sent = f"bytes of {port}\n".encode() * 20_000
        socket = forwarded.socket(port)
        socket.settimeout(SECONDS)
        writer = threading.Thread(target=socket.sendall, args=(sent,))
        writer.start()
        got = b""
        while len(got) < len(sent):
            got += socket.recv(1 << 16)
        writer.join()
        done(f"port {port}", got == sent.upper())
    # The error came before the answers of the others.
    done("port 81", forwarded.error(81), forwarded.error(80))
    forwarded.close()


def watched(core):
    versions = core.list_namespaced_config_map("default").metadata.resource_version
    name = "clients-kubernetes"
    core.create_namespaced_config_map("default", client.V1ConfigMap(metadata={"name": name}, data={"a": "1"}))
    core.patch_namespaced_config_map(name, "default", {"data": {"a": "2"}})
    core.delete_namespaced_config_map(name, "default")
    stream_of = watch.Watch()
    types = []
    for event in stream_of.stream(
        core.list_namespaced_config_map, "default", resource_version=versions, timeout_seconds=SECONDS
    ):
        types.append((event["type"], event["object"].data))
        if event["type"] == "DELETED":
            stream_of.stop()
    done("watch", types)


def main():
    config.load_kube_config(sys.argv[1])
    core = client.CoreV1Api()
    commands(core, "v5")
    refused = refusal(lambda: run(core, "both", pod="none"))
    done("refused", refused.reason.split(" -+-")[0])
    old = client.CoreV1Api(client.ApiClient())
    old.api_client.set_default_header("sec-websocket-protocol", "v4.channel.k8s.io")
    commands(old, "v4")
    ports(core)
    lines = watch.Watch().stream(core.read_namespaced_pod_log, "p", "default", container="open", follow=True)
    done("log", list(lines))
    watched(core)


if __name__ == "__main__":
    main()
