"""Builds the daemon for packages: linked for old machines, without symbols, and without paths of this machine."""

import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

import project
from contents import Binary
from project import Failure, run

MOST_BYTES = 32 * 1024 * 1024
# zig has a C compiler, a linker, musl, and the symbols of each version of glibc, for all processors.
ZIG = ("cargo-zigbuild==0.24.1", "ziglang==0.17.1")
DEFLATE = "deflate==0.9.0"
# Where Debian has the sources of the standard library for this compiler.
DEBIAN_SUITE = "trixie-backports"
DEFAULTS = ("x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl")
TARGETS = (
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-musl",
    "x86_64-unknown-linux-gnu.2.17",
    "aarch64-unknown-linux-gnu.2.17",
)


def tools_folder():
    """Where tools are kept that are fetched once."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "taffrail" / "tools"


def fetch(*packages):
    """The folder with packages of PyPI, which are fetched once."""
    folder = tools_folder() / "-".join(packages).replace("==", "-")
    if not folder.exists():
        # Two may fetch at a time.
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="part-") as part:
            run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", f"{part}/new", *packages, quiet=True)
            try:
                os.rename(f"{part}/new", folder)
            except OSError:
                if not folder.exists():
                    raise
    return folder


def compressor():
    """The module that compresses better than zlib."""
    folder = str(fetch(DEFLATE))
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("deflate")


def compiler():
    """The version of the compiler, and its folder."""
    lines = run("rustc", "-vV").splitlines()
    version = next(line.split(": ")[1] for line in lines if line.startswith("release: "))
    return version, Path(run("rustc", "--print", "sysroot").strip())


def toolchain(triple):
    """The folder of a toolchain that can build for a target, and whether the standard library has to be built, too."""
    version, sysroot = compiler()
    if list((sysroot / "lib/rustlib" / triple / "lib").glob("libstd-*.rlib")):
        return sysroot, False
    sources = "lib/rustlib/src/rust/library"
    if (sysroot / sources / "std").is_dir():
        return sysroot, True
    copy = tools_folder() / f"rust-{version}"
    if not (copy / sources / "std").is_dir():
        fetched = fetch_sources(version)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(sysroot, copy, symlinks=True, copy_function=link_or_copy)
        (copy / sources).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(fetched, copy / sources)
        shutil.rmtree(tools_folder() / "rust-src")
    return copy, True


def link_or_copy(source, destination):
    """A second name of a file, where it is on the same file system."""
    try:
        os.link(source, destination)
    except OSError:
        shutil.copy2(source, destination)


def fetch_sources(version):
    """The folder with the sources of the standard library, from Debian."""
    work = tools_folder() / "rust-src"
    script = (
        '. tests/debian.sh; debian_fetch "$1" "$2" download "rust-src=$3*" >&2 || { echo "$debian_why" >&2; exit 1; }'
    )
    try:
        run("bash", "-c", script, "bash", DEBIAN_SUITE, work, version)
        return next((work / "unpacked/usr/src").glob("rustc-*/library"))
    except (Failure, StopIteration) as error:
        raise Failure(
            f"the standard library for this target is not installed, and its sources for rustc {version} can't be had: "
            "install it by `rustup target add`, or the sources by `rustup component add rust-src`"
        ) from error


def environment(triple, folder, builds_std, target_folder):
    """The variables of the build."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").resolve()
    hidden = {
        **{source: "/crates" for source in (home / "registry/src").glob("*")},
        project.ROOT: "/taffrail",
        target_folder: "/build",
        folder / "lib/rustlib/src/rust": "/rust",
    }
    maps = [f"--remap-path-prefix={path}={name}" for path, name in hidden.items()]
    # zig brings the files that a program of musl begins and ends with.
    flags = (["-C", "link-self-contained=no"] if triple.endswith("-musl") else []) + maps
    zig = fetch(*ZIG)
    env = {
        **os.environ,
        "PATH": f"{zig / 'bin'}:{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(zig),
        "RUSTC": str(folder / "bin/rustc"),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CARGO_PROFILE_DIST_STRIP": "symbols",
        "CFLAGS": " ".join(f"-ffile-prefix-map={path}={name}" for path, name in hidden.items()),
        "SOURCE_DATE_EPOCH": str(project.date()),
        "TAFFRAIL_GIT_COMMIT": project.commit(),
    }
    if builds_std:
        # The flag that builds it is unstable. The sources are those of this version of the compiler.
        env["RUSTC_BOOTSTRAP"] = "1"
    return env, [str(path) for path in hidden if path != project.ROOT] + [f"{project.ROOT}/"]


def build(target, folder):
    """Builds the daemon for a target, which may end in a version of glibc, and copies it into a folder."""
    triple = target.split(".")[0]
    tools, builds_std = toolchain(triple)
    target_folder = Path(os.environ.get("CARGO_TARGET_DIR") or project.ROOT / "target").resolve()
    env, hidden = environment(triple, tools, builds_std, target_folder)
    words = [tools / "bin/cargo", "zigbuild", "--locked", "--profile", "dist", "--bin", "taffrail", "--target", target]
    if builds_std:
        words.append("-Zbuild-std=std,panic_unwind")
    run(*words, env=env)
    built = target_folder / triple / "dist/taffrail"
    check(built, target, hidden)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"taffrail-{target}"
    shutil.copyfile(built, path)
    path.chmod(0o755)
    return Binary(path)


def check(path, target, hidden):
    """Refuses a binary that is too large, needs too much, or names folders of this machine."""
    binary = Binary(path)
    if len(binary.data) > MOST_BYTES:
        raise Failure(f"{path} has {len(binary.data)} bytes; the limit is {MOST_BYTES}")
    wanted = target.partition(".")[2]
    if not wanted and not binary.elf.is_static:
        raise Failure(f"{path} is not static: it needs {', '.join(binary.elf.libraries)}")
    if wanted and binary.elf.glibc > tuple(int(part) for part in wanted.split(".")):
        raise Failure(f"{path} needs glibc {'.'.join(map(str, binary.elf.glibc))}, which is newer than {wanted}")
    for text in hidden:
        if text.encode() in binary.data:
            raise Failure(f"{path} names {text}, a folder of this machine")
