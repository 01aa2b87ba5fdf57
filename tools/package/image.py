"""An image as a folder in the layout of OCI, which needs no Docker daemon: one layer, for each processor."""

import hashlib
import json
import re
import shutil

import project
from archives import Entry, gz, tar
from project import Failure

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIGURATION = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
PROGRAM = "usr/local/bin/taffrail"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"


def instructions():
    """How config/Dockerfile has the program run: user, ports, volume, commands. The image does the same."""
    found = {}
    for line in project.read("config/Dockerfile").decode().splitlines():
        match = re.match(r"(VOLUME|EXPOSE|USER|STOPSIGNAL|ENTRYPOINT|CMD) (.+)", line)
        if match:
            found[match[1]] = match[2]
    for name in ("VOLUME", "EXPOSE", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD"):
        if name not in found:
            raise Failure(f"config/Dockerfile has no {name}")
    if json.loads(found["ENTRYPOINT"]) != [f"/{PROGRAM}"]:
        raise Failure(f"config/Dockerfile runs {found['ENTRYPOINT']}, and the image has /{PROGRAM}")
    return found


def layer(binary, certificates):
    """The files of the image."""
    user = int(instructions()["USER"].split(":")[0])
    volume = json.loads(instructions()["VOLUME"])[0].strip("/")
    entries = [
        Entry(PROGRAM, binary.data, 0o755),
        Entry("licenses/taffrail", project.read("LICENSE")),
        Entry("licenses/third-party", project.notices(binary.triple)),
        # Throwaway servers are made in it.
        Entry("tmp", mode=0o1777),
        # The user of the image owns the volume.
        Entry(volume, mode=0o700, owner=user),
    ]
    if certificates is not None:
        entries.append(Entry(CERTIFICATES, certificates))
    return tar(entries, project.date())


class Layout:
    """A folder of blobs that are named by their hashes."""

    def __init__(self, folder):
        self.folder = folder
        if folder.exists():
            shutil.rmtree(folder)
        (folder / "blobs/sha256").mkdir(parents=True)
        (folder / "oci-layout").write_bytes(b'{"imageLayoutVersion":"1.0.0"}')

    def add(self, kind, data):
        """Adds a blob, and returns what others name it by."""
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, kind, value):
        """Adds a document."""
        return self.add(kind, compact(value))


def compact(value):
    """JSON in one form."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def labels():
    """The labels of the image, by the names of OCI."""
    name = "org.opencontainers.image."
    said = {
        f"{name}title": "taffrail",
        f"{name}description": project.SUMMARY,
        f"{name}version": project.version(),
        f"{name}licenses": "Apache-2.0",
        f"{name}created": created(),
    }
    if project.commit():
        said[f"{name}revision"] = project.commit()
    return said


def created():
    """The date of the image."""
    return project.date_as_time().strftime("%Y-%m-%dT%H:%M:%SZ")


def manifest(layout, binary, certificates):
    """Adds the image for a processor, and returns its descriptor."""
    content = layer(binary, certificates)
    packed = layout.add(LAYER, gz(content))
    platform = {"os": "linux", "architecture": project.PROCESSORS[binary.processor][1]}
    said = instructions()
    configuration = {
        **platform,
        "created": created(),
        "config": {
            "User": said["USER"],
            "ExposedPorts": {f"{port}/tcp": {} for port in said["EXPOSE"].split()},
            "Volumes": {path: {} for path in json.loads(said["VOLUME"])},
            "Entrypoint": json.loads(said["ENTRYPOINT"]),
            "Cmd": json.loads(said["CMD"]),
            "StopSignal": said["STOPSIGNAL"],
            "WorkingDir": "/",
            "Env": ["PATH=/usr/local/bin"],
            "Labels": labels(),
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
        "history": [{"created": created(), "created_by": "tools/package/package.py image"}],
    }
    descriptor = layout.add_json(
        MANIFEST,
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": layout.add_json(CONFIGURATION, configuration),
            "layers": [packed],
            "annotations": labels(),
        },
    )
    return {**descriptor, "platform": platform}


def make(binaries, certificates, folder):
    """Writes the layout, and returns its path."""
    for binary in binaries:
        if not binary.elf.is_static:
            raise Failure(f"{binary.path} needs {', '.join(binary.elf.libraries)}, and the image holds no libraries")
    path = folder / f"taffrail-{project.version()}-oci"
    layout = Layout(path)
    manifests = [manifest(layout, binary, certificates) for binary in binaries]
    top = manifests[0]
    if len(manifests) > 1:
        top = layout.add_json(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
    named = {**top, "annotations": {"org.opencontainers.image.ref.name": project.version()}}
    (path / "index.json").write_bytes(compact({"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}))
    return path
