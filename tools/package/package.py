#!/usr/bin/env python3
"""Makes everything that users install: programs for old and other machines, a package of Debian, an image, a wheel,
crates, bills of materials and checksums. It uploads nothing. docs/packages.md describes them.

    tools/package/package.py                  all that this machine can make, in target/packages
    tools/package/package.py STEP...          some of it; steps but build take the programs of --binary, or those that
                                              build left in the folder

Everything but the programs has the same bytes whenever it is made of the same commit and the same programs.
"""

import argparse
import hashlib
import os
import shutil
import sys
from pathlib import Path

import archives
import build
import crates
import deb
import image
import project
import sbom
import wheel
from archives import Entry, gz, tar
from contents import Binary, Manual, unit
from project import Failure

MOST_BYTES_OF_WHEEL = 14_000_000
SUMS = "SHA256SUMS"


class Work:
    """The settings that all steps share."""

    def __init__(self, options):
        self.options = options
        self.folder = Path(options.output).absolute()
        self.left_out = []
        self.certificates = None
        if options.ca_bundle:
            try:
                self.certificates = Path(options.ca_bundle).read_bytes()
            except OSError as error:
                raise Failure(f"--ca-bundle={options.ca_bundle}: {error.strerror}") from error
            if b"-----BEGIN CERTIFICATE-----" not in self.certificates:
                raise Failure(f"--ca-bundle={options.ca_bundle}: it holds no certificate in PEM")
        self._binaries = [Binary(path) for path in options.binary]
        self._manual = None

    def binaries(self):
        """The programs to pack: one for each processor, the static one where there are two."""
        found = self._binaries or [Binary(path) for path in sorted((self.folder / "binaries").glob("taffrail-*"))]
        if not found:
            raise Failure(f"{self.folder / 'binaries'} has no program: name one by --binary, or let the step build make it")
        chosen = {}
        for binary in sorted(found, key=lambda binary: binary.elf.is_static):
            chosen[binary.processor] = binary
        return [chosen[processor] for processor in sorted(chosen, reverse=True)]

    def manual(self):
        """The manual, which one of the programs writes."""
        if self._manual is None:
            self._manual = Manual(self.binaries())
        return self._manual

    def leave_out(self, name, why):
        """Notes what is not made, and why."""
        self.left_out.append(f"{name}: {why}")

    def step_build(self):
        """programs for each target"""
        for target in self.options.target or build.DEFAULTS:
            try:
                yield build.build(target, self.folder / "binaries").path
            except Failure as error:
                if self.options.target:
                    raise
                self.leave_out(f"the program for {target}", error)

    def step_archive(self):
        """archives with a program, its manual and its unit"""
        for binary in self.binaries():
            name = f"taffrail-{project.version()}-{binary.triple}"
            manual = self.manual()
            entries = [
                Entry("bin/taffrail", binary.data, 0o755),
                Entry("LICENSE", project.read("LICENSE")),
                Entry("THIRD-PARTY", project.notices(binary.triple)),
                Entry("README.md", project.read("README.md")),
                Entry("CHANGELOG.md", project.read("CHANGELOG.md")),
                Entry("config/taffrail.yaml", project.read("config/taffrail.yaml")),
                Entry("config/taffrail.service", unit("/usr/local/bin/taffrail")),
                *(Entry(f"share/man/man1/{page}", text) for page, text in manual.pages.items()),
                *(Entry(f"share/completions/taffrail.{shell}", text) for shell, text in manual.completions.items()),
            ]
            entries = [Entry(f"{name}/{entry.path}", entry.data, entry.mode) for entry in entries]
            path = self.folder / f"{name}.tar.gz"
            path.write_bytes(gz(tar(entries, project.date())))
            yield path

    def step_deb(self):
        """packages of Debian"""
        for binary in self.binaries():
            yield deb.make(binary, self.manual(), self.options.maintainer, self.folder)

    def step_image(self):
        """an image in the layout of OCI"""
        static = []
        for binary in self.binaries():
            if binary.elf.is_static:
                static.append(binary)
            else:
                self.leave_out(f"the image for {binary.processor}", f"{binary.path} is not static, and the image has no libc")
        if static:
            yield image.make(static, self.certificates, self.folder)

    def step_wheel(self):
        """wheels of Python"""
        for binary in self.binaries():
            path = wheel.make(binary, self.folder)
            # A program with symbols is for tests of this tool.
            if path.stat().st_size > MOST_BYTES_OF_WHEEL and not self.options.any_size:
                raise Failure(f"{path} has {path.stat().st_size} bytes; the limit is {MOST_BYTES_OF_WHEEL}")
            yield path

    def step_crates(self):
        """crates for crates.io"""
        yield from crates.make(self.folder)

    def step_sbom(self):
        """bills of materials"""
        for binary in self.binaries():
            yield sbom.make(binary, self.folder)

    def step_sums(self):
        """SHA256SUMS of all files in the folder"""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file() and path != self.folder / SUMS)
        if not paths:
            raise Failure(f"{self.folder} has no files")
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(self.folder)}\n" for path in paths]
        (self.folder / SUMS).write_text("".join(lines))
        yield self.folder / SUMS

    def step_verify_crates(self):
        """(not part of all) builds each crate by itself, as a publication would, which takes minutes"""
        crates.verify()
        return iter(())

    def forget_earlier(self):
        """Removes what an earlier run made."""
        sums = self.folder / SUMS
        if sums.exists():
            for line in sums.read_text().splitlines():
                (self.folder / line.split("  ", 1)[1]).unlink(missing_ok=True)
            sums.unlink()
            shutil.rmtree(self.folder / "crates", ignore_errors=True)

    def run(self, steps):
        """Takes the steps, and prints what each has made."""
        if {"archive", "image", "wheel"} & set(steps):
            try:
                archives.smaller = build.compressor()
            except (Failure, ImportError) as error:
                self.leave_out("better compression", error)
        for name in steps:
            for path in getattr(self, f"step_{name.replace('-', '_')}")():
                files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
                print(f"{sum(file.stat().st_size for file in files):>10}  {path}", flush=True)
        for line in self.left_out:
            print(f"left out: {line}")


STEPS = ["build", "archive", "deb", "image", "wheel", "crates", "sbom", "sums"]


def read_options():
    """The command line."""
    names = [*STEPS, "verify-crates"]
    steps = "".join(f"  {name:<15}{getattr(Work, 'step_' + name.replace('-', '_')).__doc__}\n" for name in names)
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"steps:\n{steps}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", metavar="STEP", nargs="*", choices=[*names, []], help="what to make; everything by default")
    parser.add_argument("--output", default=project.ROOT / "target/packages", metavar="DIR", help="target/packages")
    parser.add_argument(
        "--target", action="append", default=[], choices=build.TARGETS, help="what to build for; static programs by default"
    )
    parser.add_argument("--binary", action="append", default=[], metavar="FILE", help="a program to pack, instead of building")
    parser.add_argument(
        "--maintainer",
        default="Taffrail <taffrail@packages.invalid>",
        metavar="'NAME <ADDRESS>'",
        help="who answers for the package of Debian",
    )
    parser.add_argument("--ca-bundle", metavar="FILE", help="certificates of authorities (PEM) that the image has")
    parser.add_argument("--any-size", action="store_true", help="pack programs that are larger than packages should be")
    options = parser.parse_args()
    if "\n" in options.maintainer or not options.maintainer.endswith(">") or " <" not in options.maintainer:
        parser.error(f"--maintainer={options.maintainer!r}: it has to be 'NAME <ADDRESS>'")
    if options.binary and options.target:
        parser.error("--binary names programs that are built, so --target has nothing to build")
    return options


def main():
    """Makes the packages."""
    os.umask(0o022)
    options = read_options()
    steps = options.steps or [step for step in STEPS if step != "build" or not options.binary]
    if options.binary and "build" in steps:
        sys.exit("package.py: --binary names programs that are built, so the step build has nothing to do")
    try:
        work = Work(options)
        work.folder.mkdir(parents=True, exist_ok=True)
        if not options.steps:
            work.forget_earlier()
        work.run(steps)
    except Failure as error:
        sys.exit(f"package.py: {error}")
    except OSError as error:
        sys.exit(f"package.py: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
