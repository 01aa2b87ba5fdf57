"""The crates of the workspace, as crates.io takes them."""

import shutil
import tempfile
from pathlib import Path

import project
from project import Failure, run

MOST_BYTES = 10 * 1024 * 1024


def published():
    """The names and versions of the crates that are meant for crates.io."""
    return [(p["name"], p["version"]) for p in project.metadata()["packages"] if p["publish"] != []]


def make(folder):
    """Writes the crates, and returns their paths. Cargo refuses files that are not committed."""
    target = folder / "crates"
    if target.exists():
        shutil.rmtree(target)
    target.mkdir()
    made = []
    with tempfile.TemporaryDirectory() as work:
        run("cargo", "package", "--workspace", "--locked", "--no-verify", "--quiet", "--target-dir", work)
        for name, version in published():
            path = Path(work) / "package" / f"{name}-{version}.crate"
            if path.stat().st_size > MOST_BYTES:
                raise Failure(f"{path.name} has {path.stat().st_size} bytes; crates.io takes {MOST_BYTES}")
            made.append(Path(shutil.copyfile(path, target / path.name)))
    return made


def verify():
    """Builds each crate from its package alone, and does all of a publication but the upload."""
    run("cargo", "publish", "--workspace", "--dry-run", "--locked")
