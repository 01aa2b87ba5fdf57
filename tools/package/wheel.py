"""A wheel: `pip install` puts the program into the environment's folder of scripts. It has no code to be compiled."""

import base64
import hashlib
import re

import project
from archives import Entry, zip_file
from project import Failure

MODULE = '''"""Where the program taffrail is that this package has installed."""

import os
import shutil
import sys
import sysconfig

__version__ = "{version}"


def binary():
    """Return the path of the program taffrail."""
    name = "taffrail"
    places = [sysconfig.get_path("scripts")]
    # Where `pip install --user` and `--target` put scripts.
    if sys.version_info >= (3, 10):
        places.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    places.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for place in places:
        path = os.path.join(place, name)
        if os.path.isfile(path):
            return path
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError("the program taffrail is in none of " + ", ".join(places) + " nor in PATH")
    return found
'''
MAIN = '''"""`python -m taffrail` is the program taffrail."""

import os
import sys

from . import binary

path = binary()
os.execv(path, [path] + sys.argv[1:])
'''
# A static program runs everywhere. pip knows these names for the oldest glibc and musl.
STATIC = "manylinux_2_17_{0}.manylinux2014_{0}.musllinux_1_1_{0}"


def tags(binary):
    """The systems that the wheel is for."""
    if binary.elf.is_static:
        return STATIC.format(binary.processor)
    major, minor = binary.elf.glibc
    strange = [lib for lib in binary.elf.libraries if not lib.startswith(ALLOWED)]
    if strange:
        raise Failure(f"{binary.path} needs {', '.join(strange)}, which no wheel may need")
    tag = f"manylinux_{major}_{max(minor, 17)}_{binary.processor}"
    return f"{tag}.manylinux2014_{binary.processor}" if minor <= 17 else tag


# The libraries that all Linux systems with glibc have (PEP 599).
ALLOWED = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so", "libgcc_s.so", "ld-linux")


def python_version():
    """The version in Python's form."""
    match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-(alpha|beta|rc)\.?(\d+))?", project.version())
    if match is None:
        raise Failure(f"{project.version()} has no form as a version of Python")
    letters = {"alpha": "a", "beta": "b", "rc": "rc"}
    return match[1] + (letters[match[2]] + match[3] if match[2] else "")


def make(binary, folder):
    """Writes the wheel, and returns its path."""
    version, tag = python_version(), tags(binary)
    name = f"taffrail-{version}"
    metadata = (
        f"Metadata-Version: 2.1\nName: taffrail\nVersion: {version}\nSummary: {project.SUMMARY}\n"
        "License: Apache-2.0\nKeywords: kubernetes,apiserver,testing,envtest\n"
        "Classifier: License :: OSI Approved :: Apache Software License\n"
        "Classifier: Operating System :: POSIX :: Linux\nClassifier: Topic :: Software Development :: Testing\n"
        "Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
        f"{project.DESCRIPTION}\n\n`pip install taffrail` installs the program `taffrail`. `taffrail test -- COMMAND` "
        "runs a command, such as a test suite, with a throwaway server; `taffrail.binary()` returns the path of the "
        "program.\n"
    )
    wheel = "Wheel-Version: 1.0\nGenerator: taffrail\nRoot-Is-Purelib: false\n"
    python, abi = "py3", "none"
    wheel += "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in tag.split("."))
    entries = [
        Entry("taffrail/__init__.py", MODULE.replace("{version}", version).encode()),
        Entry("taffrail/__main__.py", MAIN.encode()),
        Entry(f"{name}.data/scripts/taffrail", binary.data, 0o755),
        Entry(f"{name}.dist-info/METADATA", metadata.encode()),
        Entry(f"{name}.dist-info/WHEEL", wheel.encode()),
        Entry(f"{name}.dist-info/licenses/LICENSE", project.read("LICENSE")),
        Entry(f"{name}.dist-info/licenses/THIRD-PARTY", project.notices(binary.triple)),
    ]
    record = f"{name}.dist-info/RECORD"
    lines = [f"{entry.path},sha256={digest(entry.data)},{len(entry.data)}\n" for entry in entries]
    entries.append(Entry(record, ("".join(lines) + f"{record},,\n").encode()))
    path = folder / f"{name}-{python}-{abi}-{tag}.whl"
    path.write_bytes(zip_file(entries, project.date_as_time()))
    return path


def digest(data):
    """A hash in the form of RECORD."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
