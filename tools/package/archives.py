"""Writes archives whose bytes follow from their content alone: sorted, with one date and one owner."""

import gzip
import io
import lzma
import tarfile
import zipfile
from dataclasses import dataclass


@dataclass
class Entry:
    """A file, or a folder if it has no data. It belongs to root unless it says otherwise."""

    path: str
    data: bytes | None = None
    mode: int = 0o644
    owner: int = 0


def with_folders(entries):
    """The entries and the folders that they are in, sorted."""
    known = {entry.path: entry for entry in entries}
    if len(known) != len(entries):
        raise ValueError("a path occurs twice")
    for entry in entries:
        parts = entry.path.split("/")[:-1]
        for length in range(1, len(parts) + 1):
            folder = "/".join(parts[:length])
            known.setdefault(folder, Entry(folder, mode=0o755))
    return [known[path] for path in sorted(known)]


def tar(entries, date, prefix=""):
    """A tar archive of entries."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in with_folders(entries):
            info = tarfile.TarInfo(prefix + entry.path)
            info.mode, info.mtime = entry.mode, date
            info.uid = info.gid = entry.owner
            info.uname = info.gname = "root" if entry.owner == 0 else ""
            if entry.data is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(entry.data)
                archive.addfile(info, io.BytesIO(entry.data))
    return output.getvalue()


def gz(data):
    """Compressed by gzip, without a date."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def xz(data):
    """Compressed by xz."""
    return lzma.compress(data, preset=9)


def ar(members, date):
    """An ar archive, as packages of Debian are."""
    output = bytearray(b"!<arch>\n")
    for name, data in members:
        output += f"{name:<16}{date:<12}{0:<6}{0:<6}{0o100644:<8o}{len(data):<10}`\n".encode()
        output += data + (b"\n" if len(data) % 2 else b"")
    return bytes(output)


def zip_file(entries, date):
    """A zip archive of files, in their order."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for entry in entries:
            info = zipfile.ZipInfo(entry.path, date.timetuple()[:6])
            info.create_system = 3
            info.external_attr = (0o100000 | entry.mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, entry.data, compresslevel=9)
    return output.getvalue()
