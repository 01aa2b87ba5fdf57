"""The files that packages have in common: the binary, its manual, completions, licences, and the systemd unit."""

import os
import subprocess
import tempfile
from pathlib import Path

import project
from elf import Elf
from project import Failure


class Binary:
    """A daemon that was built, and the processor and C library that it was built for."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        if not self.path.is_file():
            raise Failure(f"{path}: no such file")
        try:
            self.elf = Elf(self.path)
        except ValueError as error:
            raise Failure(str(error)) from error
        self.processor = self.elf.processor
        self.data = self.elf.data

    @property
    def triple(self):
        """Rust's name of the target."""
        return f"{self.processor}-unknown-linux-{'musl' if self.elf.is_static else 'gnu'}"

    def run(self, *words):
        """Runs the program, and returns what it prints; nothing if this machine can't run it."""
        # Its man pages must not depend on what the caller has set for a daemon.
        env = {"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent", "COLUMNS": "80"}
        try:
            done = subprocess.run([self.path, *words], env=env, check=False, capture_output=True)
        except OSError:
            return None
        if done.returncode != 0:
            raise Failure(f"{self.path} {' '.join(map(str, words))}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout


class Manual:
    """Man pages and completions, which the program itself writes. They are the same for all processors."""

    def __init__(self, binaries):
        for binary in binaries:
            printed = binary.run("version")
            if printed is not None:
                self._write(binary)
                return
        names = ", ".join(str(binary.path) for binary in binaries)
        raise Failure(f"this machine can run none of {names}, which would write their manual")

    def _write(self, binary):
        with tempfile.TemporaryDirectory() as folder:
            binary.run("man", "--output", folder)
            # Each help command has pages of its own, which say nothing.
            self.pages = {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.1")) if "-help" not in path.name}
        self.completions = {shell: binary.run("completions", shell) for shell in ("bash", "zsh", "fish")}
        if not self.pages or not all(self.completions.values()):
            raise Failure(f"{binary.path} wrote no manual")


def unit(program):
    """The systemd unit, for a program at a path."""
    text = project.read("config/taffrail.service").decode()
    old = "ExecStart=/usr/local/bin/taffrail "
    if text.count(old) != 1:
        raise Failure(f"config/taffrail.service has no line {old!r}")
    # The comment at its top tells how to install it by hand.
    lines = text.splitlines(keepends=True)
    begin = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "".join(lines[begin:]).replace(old, f"ExecStart={program} ").encode()
