"""Reads from an ELF file which processor and which C library it needs."""

import struct

PROCESSORS = {62: "x86_64", 183: "aarch64"}
INTERPRETER, LOAD, DYNAMIC = 3, 1, 2
NEEDED, STRTAB, VERNEED, VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF


class Elf:
    """A program: its processor, the libraries that it loads, and the oldest glibc that it runs with."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01" or len(self.data) < 64:
            raise ValueError(f"{path}: not a 64-bit little-endian ELF file")
        machine = struct.unpack_from("<H", self.data, 18)[0]
        if machine not in PROCESSORS:
            raise ValueError(f"{path}: its processor {machine} is not one of {', '.join(PROCESSORS.values())}")
        self.processor = PROCESSORS[machine]
        try:
            self._read_segments()
        except (struct.error, ValueError, LookupError, OverflowError) as error:
            raise ValueError(f"{path}: a broken ELF file ({error})") from error

    def _read_segments(self):
        offset, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        segments = [struct.unpack_from("<IIQQQQ", self.data, offset + i * size) for i in range(count)]
        # Address, length and place in the file of each part that is loaded.
        self.loads = [(s[3], s[5], s[2]) for s in segments if s[0] == LOAD]
        self.is_static = not any(s[0] == INTERPRETER for s in segments)
        self.libraries, self.glibc = [], None
        if self.is_static:
            return
        tags = []
        for segment in (s for s in segments if s[0] == DYNAMIC):
            for place in range(segment[2], segment[2] + segment[5], 16):
                tags.append(struct.unpack_from("<QQ", self.data, place))
        single = dict(tags)
        texts = self._place(single[STRTAB])
        self.libraries = [self._text(texts + value) for tag, value in tags if tag == NEEDED]
        self.glibc = (0, 0)
        if VERNEED in single:
            # A program has a few; a broken file may name any number.
            self.glibc = self._newest_glibc(self._place(single[VERNEED]), min(single[VERNEEDNUM], 100), texts)

    def _newest_glibc(self, place, count, texts):
        found = [(0, 0)]
        for _ in range(count):
            _, names, _, name, following = struct.unpack_from("<HHIII", self.data, place)
            name += place
            for _ in range(names):
                text, after = struct.unpack_from("<II", self.data, name + 8)
                version = self._text(texts + text)
                if version.startswith("GLIBC_") and version[6:7].isdigit():
                    found.append(tuple(int(part) for part in version[6:].split(".")[:2]))
                name += after
            place += following
        return max(found)

    def _place(self, address):
        for start, length, place in self.loads:
            if start <= address < start + length:
                return address - start + place
        raise ValueError(f"the address {address:#x} is in no segment")

    def _text(self, place):
        return self.data[place : self.data.index(b"\0", place)].decode()
