#!/usr/bin/env python3
"""Packs the objects by which Kubernetes tests its codecs: every_field.py ARCHIVE

ARCHIVE has pairs of files, TYPE.json and TYPE.pb: an object with every field set, as JSON and as protobuf with its
envelope. They go to kinds/recorded/every-field.json.gz, a line for each, as "json" and as "protobuf" in base64.
"""
import base64
import gzip
import json
import pathlib
import sys
import tarfile

OUT = pathlib.Path(__file__).resolve().parents[2] / "kinds/recorded/every-field.json.gz"


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with tarfile.open(sys.argv[1]) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    lines = []
    for name in sorted(files):
        stem, _, ending = name.rpartition(".")
        if ending == "json":
            packed = base64.b64encode(files[stem + ".pb"]).decode()
            lines.append(json.dumps({"json": json.loads(files[name]), "protobuf": packed}, separators=(",", ":"), ensure_ascii=False))
    text = ",\n".join(lines)
    OUT.write_bytes(gzip.compress(f"[\n{text}\n]\n".encode(), 9, mtime=0))


main()
