"""The bill of materials of a binary, in CycloneDX 1.5: the crates that are compiled into it, and how they use each
other. It names no path of the machine that made it."""

import hashlib
import json
import re

import project


def checksums():
    """The hashes of crates in Cargo.lock, by name and version."""
    found = {}
    for part in project.read("Cargo.lock").decode().split("[[package]]")[1:]:
        fields = dict(re.findall(r'^(name|version|checksum) = "(.*)"$', part, re.MULTILINE))
        if "checksum" in fields:
            found[fields["name"], fields["version"]] = fields["checksum"]
    return found


def reference(package):
    """The identifier of a crate in other documents."""
    return f"pkg:cargo/{package['name']}@{package['version'].replace('+', '%2B')}"


def component(package, sums):
    """A crate."""
    described = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["description"]:
        described["description"] = " ".join(package["description"].split())
    if package["license"]:
        # Cargo still takes a slash for "or".
        described["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if (package["name"], package["version"]) in sums:
        described["hashes"] = [{"alg": "SHA-256", "content": sums[package["name"], package["version"]]}]
    if package["repository"]:
        described["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return described


def make(binary, folder):
    """Writes the bill, and returns its path."""
    used = project.dependencies(binary.triple)
    references = {package["id"]: reference(package) for package, _ in used}
    sums = checksums()
    components = {package["name"]: component(package, sums) for package, _ in used if package["name"] == "taffrail"}
    main = components["taffrail"] | {
        "type": "application",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(binary.data).hexdigest()}],
    }
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": project.date_as_time().strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": main,
            "properties": [{"name": "cdx:rustc:sbom:target:triple", "value": binary.triple}],
        },
        "components": [component(package, sums) for package, _ in used if package["name"] != "taffrail"],
        "dependencies": [
            {"ref": references[package["id"]], "dependsOn": sorted(references[name] for name in names)}
            for package, names in used
        ],
    }
    path = folder / f"taffrail-{project.version()}-{binary.triple}.cdx.json"
    path.write_text(json.dumps(bill, indent=1, ensure_ascii=False) + "\n")
    return path
