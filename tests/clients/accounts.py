"""Service accounts with few rights in the namespace default, under which the clients of this folder run."""

import copy
import json
import pathlib
import tempfile

from transcript import Server

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
GROUP = "rbac.authorization.k8s.io"
SECONDS = 3600


def rule(group, resources, verbs):
    """A rule of a role, whose lists are words in a text."""
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


class Account:
    """An account whose role has these rules, and its kubeconfig."""

    def __init__(self, admin, name, rules):
        self.admin, self.name, self.rules = admin, name, rules
        metadata = {"name": name}
        made(admin.call("POST", ACCOUNTS, {"metadata": metadata}))
        made(admin.call("POST", f"{RBAC}/roles", {"metadata": metadata, "rules": rules}))
        binding = {
            "metadata": metadata,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }
        made(admin.call("POST", f"{RBAC}/rolebindings", binding))
        review = {"spec": {"expirationSeconds": SECONDS}}
        token = made(admin.call("POST", f"{ACCOUNTS}/{name}/token", review))["status"]["token"]
        config = copy.deepcopy(admin.config)
        config["users"][0]["user"] = {"token": token}
        self.folder = tempfile.TemporaryDirectory()
        self.kubeconfig = str(pathlib.Path(self.folder.name) / "kubeconfig")
        # YAML can be JSON.
        pathlib.Path(self.kubeconfig).write_text(json.dumps(config))
        self.server = Server(self.kubeconfig)

    def lacks(self, resource, verb):
        """Takes one right away, until `has_all`."""
        rules = []
        for one in self.rules:
            others = [other for other in one["resources"] if other != resource]
            verbs = [other for other in one["verbs"] if other != verb]
            rules.append({**one, "resources": others})
            if others != one["resources"]:
                rules.append({**one, "resources": [resource], "verbs": verbs})
        self.set_rules([one for one in rules if one["resources"] and one["verbs"]])

    def has_all(self):
        """Gives all rights."""
        self.set_rules(self.rules)

    def set_rules(self, rules):
        path = f"{RBAC}/roles/{self.name}"
        made(self.admin.call("PATCH", path, {"rules": rules}, "application/merge-patch+json"))

    def remove(self):
        for path in (f"{RBAC}/rolebindings", f"{RBAC}/roles", ACCOUNTS):
            self.admin.call("DELETE", f"{path}/{self.name}")


def made(answer):
    """An answer that is no refusal."""
    if answer.get("kind") == "Status":
        raise AssertionError(answer)
    return answer
