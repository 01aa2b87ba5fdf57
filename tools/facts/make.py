#!/usr/bin/env python3
"""Makes the facts about built-in kinds (kinds/src/types) of the Go sources that define them:

    tools/facts/make.py FOLDER

FOLDER has k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver below it, as Debian's packages
golang-k8s-*-dev install them below /usr/share/gocode/src. tools/facts/fetch.sh fetches them.

The types of versions that are not served go to kinds/recorded/unserved-types.json.gz, for tests. Stored objects of such
versions are read by the types of the version that is served, but for the types in kinds/src/types/former.txt, whose
fields or numbers differ.

The result has names, types, numbers and markers, and no prose. api/src/schema/notation.rs describes its form.
"""

import gzip
import json
import pathlib
import re
import sys

# The packages, with the group and version of their kinds.
PACKAGES = {
    "api/admissionregistration/v1": "admissionregistration.k8s.io/v1",
    "api/apps/v1": "apps/v1",
    "api/authentication/v1": "authentication.k8s.io/v1",
    "api/authorization/v1": "authorization.k8s.io/v1",
    "api/autoscaling/v1": "autoscaling/v1",
    "api/autoscaling/v2": "autoscaling/v2",
    "api/batch/v1": "batch/v1",
    "api/certificates/v1": "certificates.k8s.io/v1",
    "api/coordination/v1": "coordination.k8s.io/v1",
    "api/core/v1": "v1",
    "api/discovery/v1": "discovery.k8s.io/v1",
    "api/events/v1": "events.k8s.io/v1",
    "api/flowcontrol/v1": "flowcontrol.apiserver.k8s.io/v1",
    "api/networking/v1": "networking.k8s.io/v1",
    "api/node/v1": "node.k8s.io/v1",
    "api/policy/v1": "policy/v1",
    "api/rbac/v1": "rbac.authorization.k8s.io/v1",
    "api/resource/v1": "resource.k8s.io/v1",
    "api/scheduling/v1": "scheduling.k8s.io/v1",
    "api/storage/v1": "storage.k8s.io/v1",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1": "apiextensions.k8s.io/v1",
    "apimachinery/pkg/apis/meta/v1": "",
}

# Packages of versions that are not served, and of bodies that are not stored. Tests alone read their types.
UNSERVED = {
    "api/admission/v1": "admission.k8s.io/v1",
    "api/admission/v1beta1": "admission.k8s.io/v1beta1",
    "api/admissionregistration/v1alpha1": "admissionregistration.k8s.io/v1alpha1",
    "api/admissionregistration/v1beta1": "admissionregistration.k8s.io/v1beta1",
    "api/apidiscovery/v2": "apidiscovery.k8s.io/v2",
    "api/apidiscovery/v2beta1": "apidiscovery.k8s.io/v2beta1",
    "api/apiserverinternal/v1alpha1": "internal.apiserver.k8s.io/v1alpha1",
    "api/apps/v1beta1": "apps/v1beta1",
    "api/apps/v1beta2": "apps/v1beta2",
    "api/authentication/v1beta1": "authentication.k8s.io/v1beta1",
    "api/authorization/v1beta1": "authorization.k8s.io/v1beta1",
    "api/batch/v1beta1": "batch/v1beta1",
    "api/certificates/v1alpha1": "certificates.k8s.io/v1alpha1",
    "api/certificates/v1beta1": "certificates.k8s.io/v1beta1",
    "api/coordination/v1alpha2": "coordination.k8s.io/v1alpha2",
    "api/coordination/v1beta1": "coordination.k8s.io/v1beta1",
    "api/discovery/v1beta1": "discovery.k8s.io/v1beta1",
    "api/events/v1beta1": "events.k8s.io/v1beta1",
    "api/extensions/v1beta1": "extensions/v1beta1",
    "api/flowcontrol/v1beta1": "flowcontrol.apiserver.k8s.io/v1beta1",
    "api/flowcontrol/v1beta2": "flowcontrol.apiserver.k8s.io/v1beta2",
    "api/flowcontrol/v1beta3": "flowcontrol.apiserver.k8s.io/v1beta3",
    "api/imagepolicy/v1alpha1": "imagepolicy.k8s.io/v1alpha1",
    "api/networking/v1beta1": "networking.k8s.io/v1beta1",
    "api/node/v1alpha1": "node.k8s.io/v1alpha1",
    "api/node/v1beta1": "node.k8s.io/v1beta1",
    "api/policy/v1beta1": "policy/v1beta1",
    "api/rbac/v1alpha1": "rbac.authorization.k8s.io/v1alpha1",
    "api/rbac/v1beta1": "rbac.authorization.k8s.io/v1beta1",
    "api/resource/v1alpha3": "resource.k8s.io/v1alpha3",
    "api/resource/v1beta1": "resource.k8s.io/v1beta1",
    "api/resource/v1beta2": "resource.k8s.io/v1beta2",
    "api/scheduling/v1alpha2": "scheduling.k8s.io/v1alpha2",
    "api/scheduling/v1beta1": "scheduling.k8s.io/v1beta1",
    "api/storage/v1alpha1": "storage.k8s.io/v1alpha1",
    "api/storage/v1beta1": "storage.k8s.io/v1beta1",
    "api/storagemigration/v1beta1": "storagemigration.k8s.io/v1beta1",
}

# The packages that serve the kinds of packages with another group.
SERVED_AS = {"extensions.v1beta1": ("apps.v1", "networking.v1")}

# Structs of versions that are not served which are kept though only pointers differ, because what is filled in depends
# on it, and the fields in which it depends on an empty list, too.
KEPT = {"certificates.v1beta1.CertificateSigningRequestSpec": ("usages",)}

# Packages whose kinds kube-apiserver does not know.
UNKNOWN = ("apidiscovery.v2", "apidiscovery.v2beta1")

# Go types that have a form of their own in JSON, and what the facts call it.
FORMS = {
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "quantity",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intorstring",
    "k8s.io/apimachinery/pkg/apis/meta/v1.Time": "time",
    "k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime": "microtime",
    "k8s.io/apimachinery/pkg/apis/meta/v1.Duration": "duration",
    "k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1": "fieldset",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "raw",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON": "json",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool": "JSONSchemaProps|bool",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray": "JSONSchemaProps|[]",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "JSONSchemaProps|[]string",
}

# Named texts outside of the packages above.
TEXTS = {
    "k8s.io/apimachinery/pkg/types.UID": "types.UID",
    "k8s.io/apimachinery/pkg/types.NodeName": "types.NodeName",
}

# Types that no kind is made of, and that documents of OpenAPI have.
BESIDE_KINDS = ["k8s.io/apimachinery/pkg/apis/meta/v1.Patch", "k8s.io/apimachinery/pkg/apis/meta/v1.WatchEvent"]

# The fields whose objects say their apiVersion and kind in JSON, unlike other objects in objects.
TYPED = {"volumeClaimTemplates"}

# The fields of which Kubernetes tells an empty list or map from none while it checks an object. tools/facts/sweep.py
# finds them: its cases "empty".
EMPTY = {
    "meta.v1.LabelSelector": {"matchLabels", "matchExpressions"},
    "meta.v1.LabelSelectorRequirement": {"values"},
    "meta.v1.ObjectMeta": {"labels", "ownerReferences", "finalizers", "managedFields"},
    "apiextensions.v1.CustomResourceDefinitionSpec": {"versions"},
    "apiextensions.v1.JSONSchemaProps": {"allOf", "anyOf", "definitions", "dependencies", "enum", "oneOf", "patternProperties", "properties", "required", "x-kubernetes-list-map-keys"},
    "autoscaling.v2.HPAScalingRules": {"policies"},
    "batch.v1.PodFailurePolicyOnExitCodesRequirement": {"values"},
    "core.v1.NodeSelector": {"nodeSelectorTerms"},
    "core.v1.PersistentVolumeSpec": {"capacity"},
    "networking.v1.IngressSpec": {"rules"},
    "networking.v1.ServiceCIDRSpec": {"cidrs"},
    "resource.v1.ResourceSliceSpec": {"devices", "sharedCounters"},
    "admissionregistration.v1.MutatingWebhookConfiguration": {"webhooks"},
    "admissionregistration.v1.ValidatingWebhookConfiguration": {"webhooks"},
    "storage.v1.CSINodeDriver": {"topologyKeys"},
    "storage.v1.StorageClass": {"parameters"},
}

# Types that refusals show whole, or of which any change raises the generation: the same is true of all lists and maps
# in them.
TOLD = [
    "k8s.io/api/admissionregistration/v1.MutatingWebhook",
    "k8s.io/api/admissionregistration/v1.ValidatingWebhook",
    "k8s.io/api/batch/v1.PodFailurePolicy",
    "k8s.io/api/batch/v1.SuccessPolicy",
    "k8s.io/api/core/v1.PersistentVolumeClaimSpec",
    "k8s.io/api/core/v1.PersistentVolumeSpec",
    "k8s.io/api/core/v1.PodSpec",
    "k8s.io/api/networking/v1.NetworkPolicySpec",
    "k8s.io/api/resource/v1.AllocationResult",
    "k8s.io/api/resource/v1.ResourceClaimSpec",
]

SCALARS = {"string", "bool", "int", "int32", "int64", "float64", "byte"}

FIELD = re.compile(r"^(?:(\w+)\s+)?([\w.*\[\]]+)\s+`(.*)`")
CONSTANT = re.compile(r'^(?:const )?(?P<name>\w+)\s+(?P<type>\w+)\s+=\s+"(?P<value>.*)"')
CONVERTED = re.compile(r'^(?P<name>\w+)\s+=\s+(?P<type>[A-Z]\w+)\((?:"(?P<value>.*)"|(?P<other>\w+\.\w+))\)')
MARKER = re.compile(r"^//\s*\+(.*)$")


def short(path):
    """core.v1 of api/core/v1."""
    parts = path.split("/")
    return f"{parts[-2]}.{parts[-1]}"


class Package:
    def __init__(self, root, path):
        self.path = path
        self.go_path = "k8s.io/" + path
        self.structs = {}
        self.named = {}
        self.aliases = {}
        # The values of constants: by their own names, and by the names of their types.
        self.constants = {}
        self.values = {}
        for file in sorted((root / "k8s.io" / path).glob("*.go")):
            named = file.name.startswith("types") or file.name in ("group_version.go", "watch.go")
            if named and not file.name.endswith(("_test.go", "_generated.go")):
                self.read(file.read_text())

    def read(self, text):
        imports = self.imports(text)
        comments, struct, skipping = [], None, False
        for raw in text.splitlines():
            line = raw.strip()
            if skipping:
                skipping = "*/" not in line
                continue
            if line.startswith("/*"):
                skipping = "*/" not in line
                continue
            if line.startswith("//"):
                comments.append(line)
                continue
            markers = [found.group(1) for found in map(MARKER.match, comments) if found]
            opened = re.match(r"^type (\w+) struct\s*\{(\})?", line)
            named = re.match(r"^(?:type )?(\w+) (=\s*)?([\w.\[\]*]+)$", line.split("//")[0].strip())
            constant = CONSTANT.match(line) or CONVERTED.match(line)
            if opened:
                fields = []
                self.structs[opened.group(1)] = {"markers": markers, "fields": fields}
                struct = fields if not opened.group(2) else None
            elif struct is not None and line == "}":
                struct = None
            elif struct is not None and line:
                field = FIELD.match(line)
                if field:
                    struct.append(self.field(field, markers, imports))
            elif line.startswith("type ") and named:
                of = {"type": self.resolve(named.group(3), imports), "markers": markers}
                (self.aliases if named.group(2) else self.named)[named.group(1)] = of
            elif constant:
                constant_name, of, value = constant.group("name", "type", "value")
                if value is None:
                    # The constant of another package.
                    alias, other = constant.group("other").split(".")
                    value = (imports[alias], other)
                self.constants[constant_name] = value
                self.values.setdefault(of, []).append(value)
            comments = []

    def imports(self, text):
        found = {}
        for alias, path in re.findall(r'^\s*(?:import\s+)?(\w+)?\s*"((?:k8s\.io|time)[^"]*)"', text, re.M):
            found[alias or path.rsplit("/", 1)[-1]] = path
        return found

    def resolve(self, go, imports):
        """The type with whole names of packages."""
        prefix = re.match(r"^(\*|\[\]|map\[[\w.]+\])", go)
        if prefix:
            head = prefix.group(1)
            if head.startswith("map["):
                head = f"map[{self.resolve(head[4:-1], imports)}]"
            return head + self.resolve(go[len(prefix.group(1)):], imports)
        if go in SCALARS:
            return go
        alias, _, name = go.rpartition(".")
        return f"{imports[alias] if alias else self.go_path}.{name}"

    def field(self, match, markers, imports):
        go_name, go_type, tags = match.groups()
        tags = dict(re.findall(r'(\w+):"([^"]*)"', tags))
        json_name, *options = tags.get("json", "").split(",")
        number = tags.get("protobuf", ",").split(",")[1]
        return {
            "go": go_name,
            "name": json_name,
            "inline": "inline" in options or (go_name is None and not json_name),
            "omit": "omitempty" in options,
            "omitzero": "omitzero" in options,
            "type": self.resolve(go_type, imports),
            "number": number,
            "strategy": tags.get("patchStrategy"),
            "merge_key": tags.get("patchMergeKey"),
            "markers": markers,
        }


def marker(markers, name):
    return [text[len(name) + 1:].strip('"') for text in markers if text.startswith(name + "=")]


class Facts:
    def __init__(self, root):
        self.packages = {f"k8s.io/{path}": Package(root, path) for path in PACKAGES | UNSERVED}
        self.told = {whole for whole in self.reached(TOLD) if "/meta/" not in whole}

    def find(self, whole):
        path, _, name = whole.rpartition(".")
        package = self.packages.get(path)
        if package and name in package.aliases:
            return self.find(package.aliases[name]["type"])
        return package, name

    def written(self, go, package):
        """A type as the facts write it. Names of the same package stand alone."""
        if go.startswith("*"):
            return "*" + self.written(go[1:], package)
        if go == "[]byte":
            return "bytes"
        if go.startswith("[]"):
            return "[]" + self.written(go[2:], package)
        if go.startswith("map["):
            key, value = go[4:].split("]", 1)
            return f"map[{self.written(key, package)}]{self.written(value, package)}"
        if go in SCALARS:
            return go
        if go in FORMS:
            return FORMS[go]
        if go in TEXTS:
            return TEXTS[go]
        of, name = self.find(go)
        if of is None:
            sys.exit(f"{package.path}: the type {go} is unknown")
        return name if of is package else f"{short(of.path)}.{name}"

    def mentioned(self, go):
        """The struct or named type that a type is made of."""
        found = re.findall(r"(?:^|[*\]\[])((?:k8s\.io/)[\w./-]+)", go)
        return [whole for whole in found if whole not in FORMS and whole not in TEXTS]

    def used(self):
        """The types that kinds are made of, those of kinds included."""
        roots = list(BESIDE_KINDS)
        for path, package in self.packages.items():
            for name, struct in package.structs.items():
                if self.is_kind(struct):
                    roots.append(f"{path}.{name}")
        return self.reached(roots)

    def reached(self, roots):
        """These types and all that they are made of."""
        known, todo = set(), list(roots)
        while todo:
            whole = todo.pop()
            if whole in known:
                continue
            package, name = self.find(whole)
            known |= {whole, f"{package.go_path}.{name}"}
            if name in package.structs:
                types = [field["type"] for field in package.structs[name]["fields"]]
            else:
                types = [package.named[name]["type"]]
            for go in types:
                todo += self.mentioned(go)
        return known

    def is_kind(self, struct):
        inline = [field["type"] for field in struct["fields"] if field["inline"]]
        return "k8s.io/apimachinery/pkg/apis/meta/v1.TypeMeta" in inline

    def write(self, package, used):
        lines = []
        for name, named in sorted(package.named.items()):
            if f"{package.go_path}.{name}" in used:
                lines.append(self.named_line(package, name, named))
        if lines:
            lines.append("")
        for name, struct in sorted(package.structs.items()):
            if f"{package.go_path}.{name}" not in used or f"{package.go_path}.{name}" in FORMS:
                continue
            if name == "TypeMeta":
                continue
            head = ["type", name]
            if self.is_kind(struct):
                head.append("kind")
            head += [f"map={value}" for value in marker(struct["markers"], "structType")]
            if "union" in struct["markers"]:
                head.append("union")
            lines.append(" ".join(head))
            for field in struct["fields"]:
                told = self.tells_empty(package, name, field)
                lines += [line + " empty" * told for line in self.field_lines(package, field)]
            lines.append("")
        return "\n".join(lines).rstrip() + "\n"

    def tells_empty(self, package, name, field):
        """Whether an empty list or map is told from none."""
        if field["name"] in EMPTY.get(f"{short(package.go_path)}.{name}", ()):
            return True
        of, named = self.find(field["type"])
        go = of.named[named]["type"] if of and named in of.named else field["type"]
        has_items = go.startswith(("[]", "map[")) and go != "[]byte"
        return has_items and f"{package.go_path}.{name}" in self.told

    def named_line(self, package, name, named):
        words = ["name", name, self.written(named["type"], package)]
        if any(text == "enum" or text == "k8s:enum" for text in named["markers"]):
            values = {self.constant(value) for value in package.values.get(name, [])}
            words.append("enum " + "|".join(sorted(value or '""' for value in values)))
        return " ".join(words)

    def constant(self, value):
        """The value of a constant, which may be the one of another package."""
        while isinstance(value, tuple):
            path, name = value
            value = self.packages[path].constants[name]
        return value

    def field_lines(self, package, field):
        if field["inline"]:
            if field["type"].endswith("/meta/v1.TypeMeta"):
                return []
            return [f"  {field['number'] or '-'} inline {self.written(field['type'], package)}"]
        if not field["name"] or field["name"] == "-":
            return []
        markers = field["markers"]
        words = [field["number"] or "-", field["name"], self.written(field["type"], package)]
        if not field["omit"]:
            words.append("always")
        if field["omitzero"]:
            words.append("omitzero")
        optional = any(text in ("optional", "k8s:optional") for text in markers)
        required = any(text in ("required", "k8s:required") for text in markers)
        if required or not (optional or field["omit"] or field["omitzero"]):
            words.append("required")
        for kind in ("listType", "k8s:listType"):
            for value in marker(markers, kind)[:1]:
                keys = marker(markers, kind.replace("listType", "listMapKey"))
                words.append(f"list={value}" + (f"({','.join(keys)})" if keys else ""))
            if words[-1].startswith("list="):
                break
        words += [f"map={value}" for value in marker(markers, "mapType") + marker(markers, "structType")]
        if field["strategy"]:
            key = f"({field['merge_key']})" if field["merge_key"] else ""
            words.append(f"patch={field['strategy']}{key}")
        for value in marker(markers, "default"):
            constant = re.match(r"^ref\((\w+)\)$", value)
            words.append(f"default={package.constants[constant.group(1)] if constant else value}")
        if any(text == "unionDiscriminator" for text in markers):
            words.append("discriminator")
        if field["name"] in TYPED:
            words.append("typed")
        return ["  " + " ".join(words)]


def kinds_of(text):
    """The kinds of a package of which nothing but their names is told, without those of lists."""
    head = text.splitlines()[0]
    if head.split()[1] in UNKNOWN:
        return ""
    kinds = re.findall(r"^type (\w+) kind", text, re.M)
    return f"{head}\nkinds {' '.join(kind for kind in kinds if not (kind.endswith('List') and kind[:-4] in kinds))}\n"


class Former:
    """Finds the types of versions that are not served which differ from those of the version that is."""

    def __init__(self, texts):
        self.heads, self.names, self.structs = {}, {}, {}
        for text in texts:
            package = text.split(maxsplit=2)[1]
            self.heads[package] = text.splitlines()[0]
            for line in text.splitlines()[1:]:
                words = line.split()
                if line.startswith("name "):
                    self.names[f"{package}.{words[1]}"] = (package, words[2])
                elif line.startswith("type "):
                    fields = []
                    self.structs[f"{package}.{words[1]}"] = (package, words[2:], fields)
                elif words:
                    fields.append(words)

    def resolved(self, written, package):
        """What lists and maps are around a type, and its name with its package, or what JSON is of it."""
        around = ""
        while True:
            found = re.match(r"\*|\[\]|map\[[^\]]*\]", written)
            if found:
                around += {"*": "", "[": "[]", "m": "map[string]"}[found.group()[0]]
                written = written[found.end() :]
                continue
            whole = next((name for name in (f"{package}.{written}", written) if name in self.names), None)
            if whole is None:
                break
            package, written = self.names[whole]
        struct = next((name for name in (f"{package}.{written}", written) if name in self.structs), None)
        return around, struct or written

    def form(self, struct, above=()):
        """The numbers, names and forms of all fields of a struct and below. Whether one is a pointer does not count."""
        package, _, fields = self.structs[struct]
        lines = []
        for number, name, of, *_ in ((*words, "") for words in fields):
            around, below = self.resolved(of, package)
            if struct in KEPT:
                around += of
            if below in self.structs and below not in above:
                below = self.form(below, (*above, struct))
            lines.append((number, name, around, below))
        return tuple(sorted(lines, key=repr))

    def served(self, struct):
        """The struct of the version that is served with the same name, if its form is the same."""
        package, name = struct.rsplit(".", 1)
        group = package.split(".")[0]
        others = SERVED_AS.get(package) or [f"{group}.v1"]
        others = [f"{other}.{name}" for other in others if f"{other}.{name}" in self.structs]
        return next((other for other in others if self.form(other) == self.form(struct)), None)

    def renamed(self, written, package):
        """A type as it is written in a struct that is kept, and the struct of this package that it names."""
        found = re.match(r"^((?:\*|\[\]|map\[[^\]]*\])*)([\w.]+)$", written)
        around, name = found.groups()
        around = re.sub(r"map\[[^\]]*\]", "map[string]", around)
        struct = f"{package}.{name}"
        if struct in self.structs:
            other = self.served(struct)
            return (around + other, None) if other else (around + name, struct)
        if struct in self.names:
            lists, below = self.resolved(name, package)
            return around + lists + below, None
        return written, None

    def text(self, package, kinds):
        """The structs of these kinds, and below them, that differ."""
        todo, done, lines = [f"{package}.{kind}" for kind in kinds], {}, []
        while todo:
            struct = todo.pop()
            if struct in done or (struct.rsplit(".", 1)[1] in kinds and self.served(struct)):
                continue
            _, words, fields = self.structs[struct]
            written = done[struct] = [" ".join(["type", struct.rsplit(".", 1)[1], *words])]
            for field in fields:
                of, below = self.renamed(field[2], package)
                todo += [below] if below else []
                known = [word for word in field[3:] if word in ("always", "omitzero", "typed")]
                empty = ["empty"] * (field[1] in KEPT.get(struct, ()))
                written.append("  " + " ".join([*field[:2], of, *known, *empty]))
        for struct in sorted(done):
            lines += [*done[struct], ""]
        return "\n".join([self.heads[package], "", *lines]) if lines else ""


def former_texts(texts):
    """The types by which stored objects of versions are read that are not served, if they differ."""
    former, all_texts = Former(texts), []
    for package in sorted({short(path) for path in UNSERVED}):
        group, head = package.split(".")[0], former.heads[package].split()[1]
        if head in UNKNOWN or group in ("authentication", "authorization", "imagepolicy"):
            continue
        others = SERVED_AS.get(package) or [f"{group}.v1"]
        kinds = [name.rsplit(".", 1)[1] for name, found in former.structs.items() if found[0] == package]
        kinds = [kind for kind in kinds if "kind" in former.structs[f"{package}.{kind}"][1]]
        # Their lists are not stored, and other kinds are not served.
        served = [kind for kind in kinds if any(f"{other}.{kind}" in former.structs for other in others)]
        all_texts.append(former.text(package, [kind for kind in served if not kind.endswith("List")]))
    return "\n".join(filter(None, all_texts))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    facts = Facts(pathlib.Path(sys.argv[1]))
    used = facts.used()
    root = pathlib.Path(__file__).resolve().parents[2]
    served, unserved = [], []
    for path, package in facts.packages.items():
        path = path.removeprefix("k8s.io/")
        head = f"package {short(path)}"
        group_version = (PACKAGES | UNSERVED)[path]
        if group_version:
            head += f" {group_version}"
        if short(path) == "meta.v1":
            # The machinery of all kinds refuses these owners.
            head += "\nneverowner v1 Event"
        text = f"{head}\n\n{facts.write(package, used)}"
        if path in UNSERVED:
            unserved.append(text)
            continue
        served.append(text)
        # Every object has parts of this package, so it belongs to the crate that knows no kind.
        place = root / "api/src/schema" if short(path) == "meta.v1" else root / "kinds/src/types"
        (place / f"{short(path)}.txt").write_text(text)
    (root / "kinds/src/types/unserved.txt").write_text("\n".join(filter(None, map(kinds_of, unserved))))
    (root / "kinds/src/types/former.txt").write_text(former_texts(served + unserved))
    texts = gzip.compress(json.dumps(unserved, indent=0).encode(), mtime=0)
    (root / "kinds/recorded/unserved-types.json.gz").write_bytes(texts)


if __name__ == "__main__":
    main()
