"""The facts about the project in packages: its version, its date and commit, its texts, and the crates that it is built of."""

import functools
import json
import os
import subprocess
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = "A storage daemon that speaks the Kubernetes API"
DESCRIPTION = (
    "Taffrail keeps Kubernetes resources and serves them to very many watchers. kubectl, client libraries and "
    "controllers work with it unmodified. It keeps data in an embedded log or in etcd, and is a test server that "
    "starts in a moment."
)
PROCESSORS = {"x86_64": ("amd64", "amd64"), "aarch64": ("arm64", "arm64")}


class Failure(Exception):
    """Something that the caller has to change; its text says what."""


def run(*command, folder=ROOT, env=None, quiet=False):
    """Runs a program and returns its output. Its errors go to the terminal unless they are part of a failure."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None
        )
    except OSError as error:
        raise Failure(f"{words[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = f": {done.stderr.decode(errors='replace').strip()}" if quiet else ""
        raise Failure(f"{' '.join(words)} failed with {done.returncode}{said}")
    return done.stdout.decode()


def git(*words):
    """The output of git; empty where the sources are no repository."""
    try:
        return run("git", *words, quiet=True).strip()
    except Failure:
        return ""


@functools.cache
def date():
    """The date of everything in packages, in seconds: SOURCE_DATE_EPOCH, or that of the commit."""
    text = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
    if not text:
        raise Failure("these sources are no git repository: set SOURCE_DATE_EPOCH to the date of the packages")
    # Archives of zip begin in 1980.
    if not text.isdecimal() or not 315_532_800 <= int(text) < 2**32:
        raise Failure(f"SOURCE_DATE_EPOCH is {text!r}: it must be seconds since 1970, from 1980 to 2106")
    return int(text)


def date_as_time():
    """The date of packages as a time of UTC."""
    return datetime.fromtimestamp(date(), timezone.utc)


@functools.cache
def commit():
    """The commit that packages are made of, if that is known."""
    return os.environ.get("TAFFRAIL_GIT_COMMIT") or git("rev-parse", "HEAD")


@functools.cache
def metadata(triple=None):
    """The metadata that cargo has of the workspace and of its dependencies for a target."""
    words = ["cargo", "metadata", "--locked", "--format-version", "1"]
    if triple:
        words += ["--filter-platform", triple]
    else:
        words += ["--no-deps"]
    return json.loads(run(*words, quiet=True))


@functools.cache
def version():
    """The version of the daemon."""
    packages = metadata()["packages"]
    return next(package["version"] for package in packages if package["name"] == "taffrail")


def read(path):
    """A file of the project."""
    return (ROOT / path).read_bytes()


@functools.cache
def dependencies(triple):
    """The crates that are compiled into the daemon for a target, sorted: packages of cargo's metadata, and for each
    the identifiers of those that it uses."""
    known = metadata(triple)
    packages = {package["id"]: package for package in known["packages"]}
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    waiting = [package["id"] for package in known["packages"] if package["name"] == "taffrail"]
    used = {}
    while waiting:
        name = waiting.pop()
        if name in used:
            continue
        # Crates of build scripts and of tests are in no package.
        used[name] = sorted(
            dependency["pkg"]
            for dependency in nodes[name]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
        )
        waiting += used[name]
    ordered = sorted(used, key=lambda name: (packages[name]["name"], packages[name]["version"]))
    return [(packages[name], used[name]) for name in ordered]


@functools.cache
def notices(triple):
    """The licences of the crates that the daemon is built of, as one text: each text once, below those who use it."""
    texts = {}
    for package, _ in dependencies(triple):
        if package["source"] is None:
            continue
        folder = Path(package["manifest_path"]).parent
        name = f"{package['name']} {package['version']} ({package['license'] or 'see the text'})"
        found = [
            path
            for path in sorted(folder.iterdir())
            if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"))
        ]
        for path in found:
            text = "\n".join(line.rstrip() for line in path.read_text(errors="replace").strip().splitlines())
            texts.setdefault(text, []).append(name)
        if not found:
            texts.setdefault("Its package has no text of the licence.", []).append(name)
    parts = ["Taffrail is built of the crates below, which have these licences.\n"]
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        parts.append(f"{'=' * 80}\n" + "\n".join(names) + f"\n{'-' * 80}\n{text}\n")
    return "\n".join(parts).encode()
