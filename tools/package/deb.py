"""A package of Debian: the program, its manual, a systemd unit and its configuration."""

import hashlib

import project
from archives import Entry, ar, gz, tar, with_folders, xz
from contents import unit

CONFIGURATION = "etc/taffrail/taffrail.yaml"

# The unit is neither enabled nor started: its port is that of a kube-apiserver, which may be on the same machine.
AFTER = """#!/bin/sh
set -e
if [ "$1" = configure ] || [ "$1" = abort-upgrade ] || [ "$1" = abort-deconfigure ] || [ "$1" = abort-remove ]; then
  if command -v deb-systemd-helper > /dev/null; then
    deb-systemd-helper unmask taffrail.service > /dev/null || true
    # Links follow the unit where the administrator has enabled it.
    if deb-systemd-helper --quiet was-enabled taffrail.service && [ -n "$2" ]; then
      deb-systemd-helper enable taffrail.service > /dev/null || true
    else
      deb-systemd-helper update-state taffrail.service > /dev/null || true
    fi
  fi
  if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload > /dev/null || true
    # An upgrade restarts a daemon that runs.
    if [ -n "$2" ] && command -v deb-systemd-invoke > /dev/null; then
      deb-systemd-invoke try-restart taffrail.service > /dev/null || true
    fi
  fi
fi
"""
BEFORE_REMOVAL = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ] && command -v deb-systemd-invoke > /dev/null; then
  deb-systemd-invoke stop taffrail.service > /dev/null || true
fi
"""
# The data in /var/lib/taffrail stay, also after a purge: they are the user's.
AFTER_REMOVAL = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl --system daemon-reload > /dev/null || true
fi
if command -v deb-systemd-helper > /dev/null; then
  if [ "$1" = remove ]; then
    deb-systemd-helper mask taffrail.service > /dev/null || true
  elif [ "$1" = purge ]; then
    deb-systemd-helper purge taffrail.service > /dev/null || true
    deb-systemd-helper unmask taffrail.service > /dev/null || true
  fi
fi
"""
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: taffrail

Files: *
Copyright: {year} The authors of Taffrail
License: Apache-2.0
 On Debian systems, the complete text of the Apache License, Version 2.0, is in
 /usr/share/common-licenses/Apache-2.0.
Comment:
 The program is linked with crates that have licences of their own. Their texts
 are in /usr/share/doc/taffrail/third-party-licenses.gz.
"""


def files(binary, manual, maintainer):
    """The files of the package."""
    pages = {f"usr/share/man/man1/{name}.gz": gz(page) for name, page in manual.pages.items()}
    news = (
        f"taffrail ({debian_version()}) unstable; urgency=medium\n\n"
        "  * Packaged by the project itself. changelog.gz has its features.\n\n"
        f" -- {maintainer}  {project.date_as_time():%a, %d %b %Y %H:%M:%S +0000}\n"
    )
    texts = {
        "usr/lib/systemd/system/taffrail.service": unit("/usr/bin/taffrail"),
        CONFIGURATION: project.read("config/taffrail.yaml"),
        "usr/share/bash-completion/completions/taffrail": manual.completions["bash"],
        "usr/share/zsh/vendor-completions/_taffrail": manual.completions["zsh"],
        "usr/share/fish/vendor_completions.d/taffrail.fish": manual.completions["fish"],
        "usr/share/doc/taffrail/copyright": COPYRIGHT.replace("{year}", str(project.date_as_time().year)).encode(),
        "usr/share/doc/taffrail/changelog.gz": gz(project.read("CHANGELOG.md")),
        "usr/share/doc/taffrail/changelog.Debian.gz": gz(news.encode()),
        "usr/share/doc/taffrail/third-party-licenses.gz": gz(project.notices(binary.triple)),
        "usr/share/lintian/overrides/taffrail": overrides(binary),
    }
    return [Entry("usr/bin/taffrail", binary.data, 0o755)] + [
        Entry(path, data) for path, data in {**pages, **texts}.items()
    ]


def overrides(binary):
    """The complaints of lintian that are overridden, and the reasons."""
    text = (
        "# Debian itself has no package of it, so no bug asked for one.\n"
        "taffrail: initial-upload-closes-no-bugs [usr/share/doc/taffrail/changelog.Debian.gz:1]\n"
    )
    if binary.elf.is_static:
        text += (
            "# It brings its C library, so that it runs on machines with any other.\n"
            "taffrail: statically-linked-binary [usr/bin/taffrail]\n"
        )
    return text.encode()


def debian_version():
    """The version in Debian's form: a version that is not released yet comes before the release."""
    return project.version().replace("-", "~") + "-1"


def needed(binary):
    """The packages that the binary's libraries are in."""
    if binary.elf.is_static:
        return []
    packages = ["libc6 (>= %d.%d)" % binary.elf.glibc]
    return packages + [p for lib, p in {"libgcc_s.so.1": "libgcc-s1"}.items() if lib in binary.elf.libraries]


def control(binary, entries, maintainer):
    """The files that dpkg reads."""
    size = sum((len(entry.data) + 1023) // 1024 if entry.data is not None else 1 for entry in with_folders(entries))
    fields = {
        "Package": "taffrail",
        "Version": debian_version(),
        "Architecture": project.PROCESSORS[binary.processor][0],
        "Maintainer": maintainer,
        "Installed-Size": str(size),
        "Depends": ", ".join(needed(binary)),
        # Its unit is for a machine that has systemd; the program needs nothing of it.
        "Section": "net",
        "Priority": "optional",
        "Description": "storage daemon that speaks the Kubernetes API\n" + folded(project.DESCRIPTION),
    }
    sums = "".join(f"{hashlib.md5(entry.data).hexdigest()}  {entry.path}\n" for entry in entries if entry.path != CONFIGURATION)
    return [
        Entry("control", "".join(f"{name}: {value}\n" for name, value in fields.items() if value).encode()),
        Entry("md5sums", sums.encode()),
        Entry("conffiles", f"/{CONFIGURATION}\n".encode()),
        Entry("postinst", AFTER.encode(), 0o755),
        Entry("prerm", BEFORE_REMOVAL.encode(), 0o755),
        Entry("postrm", AFTER_REMOVAL.encode(), 0o755),
    ]


def folded(text):
    """A text as continuation lines of a field."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > 76:
            lines.append("")
        lines[-1] += f" {word}"
    return "\n".join(lines)


def make(binary, manual, maintainer, folder):
    """Writes the package, and returns its path."""
    entries = sorted(files(binary, manual, maintainer), key=lambda entry: entry.path)
    date = project.date()
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", xz(tar(control(binary, entries, maintainer), date, "./"))),
        ("data.tar.xz", xz(tar(entries, date, "./"))),
    ]
    path = folder / f"taffrail_{debian_version()}_{project.PROCESSORS[binary.processor][0]}.deb"
    path.write_bytes(ar(members, date))
    return path
