"""The actions of Helm with the options that its Python has no words for."""

import json
import pathlib

from helm_python import Config, _native


class Helm:
    """One release of a chart of this folder."""

    def __init__(self, kubeconfig, chart, name, is_server):
        self.config = Config(kubeconfig_path=kubeconfig, namespace="default")
        self.chart = str(pathlib.Path(__file__).parent / chart)
        self.name = name
        self.is_server = is_server

    def _release(self, action, values, **options):
        none = _native.HANDLE(0)
        options = json.dumps({**self.merging(action), **options})
        raw = self.config._raw()
        values = json.dumps(values)
        answer = _native.call_string(f"helm_{action}", raw, none, none, self.chart, self.name, values, options)
        return summary(json.loads(answer))

    def merging(self, action):
        if action == "install":
            return {"server_side_apply": self.is_server}
        return {"server_side_apply": "true" if self.is_server else "false"}

    def install(self, values, **options):
        return self._release("install", values, **options)

    def upgrade(self, values, **options):
        return self._release("upgrade", values, **options)

    def rollback(self, version, **options):
        options = json.dumps({"version": version, **self.merging("rollback"), **options})
        _native.call_status("helm_rollback", self.config._raw(), self.name, options)


def summary(release):
    return {name: release.get(name) for name in ("name", "namespace", "revision", "status")}


def without_times(release):
    """A Secret of a release without what differs from one run to the next."""
    release["data"] = sorted(release["data"])
    release["metadata"]["labels"].pop("modifiedAt", None)
