"""Writes archives whose bytes follow from their content alone: sorted, with one date and one owner."""

import io
import lzma
import struct
import tarfile
import zlib
from dataclasses import dataclass

# The module `deflate`, whose archives are 3 % smaller than those of zlib.
smaller = None


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


def deflate(data):
    """Compressed by deflate, without a header."""
    if smaller is not None:
        return bytes(smaller.deflate_compress(data, 12))
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def gz(data):
    """Compressed as by gzip, without a name and a date."""
    return b"\x1f\x8b\x08" + bytes(5) + b"\x02\x03" + deflate(data) + struct.pack("<II", zlib.crc32(data), len(data))


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
    output, directory = bytearray(), bytearray()
    day = (date.year - 1980) << 9 | date.month << 5 | date.day
    time = date.hour << 11 | date.minute << 5 | date.second // 2
    for entry in entries:
        name, packed = entry.path.encode(), deflate(entry.data)
        common = struct.pack(
            "<HHHHHIIIHH", 20, 0, 8, time, day, zlib.crc32(entry.data), len(packed), len(entry.data), len(name), 0
        )
        # Made by a Unix, which keeps the mode in the upper half.
        more = struct.pack("<HHHII", 0, 0, 0, (0o100000 | entry.mode) << 16, len(output))
        directory += b"PK\x01\x02" + struct.pack("<H", 3 << 8 | 20) + common + more + name
        output += b"PK\x03\x04" + common + name + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(entries), len(entries), len(directory), len(output), 0)
    return bytes(output + directory + b"PK\x05\x06" + end)
