#!/bin/sh
# What the build calls as protoc (.cargo/config.toml): the machine's own where there is one, else the crate beside this
# script, built on first use, so that a machine with Rust and a C compiler needs nothing more.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if own=$(command -v protoc); then
  exec "$own" "$@"
fi
# What the build around this one has set is about that one.
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_ENCODED_RUSTFLAGS RUSTFLAGS RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER MAKEFLAGS CARGO_MAKEFLAGS PROTOC
exec "${CARGO:-cargo}" run --locked --quiet --manifest-path "$here/Cargo.toml" \
  --target-dir "$here/../../target/protoc" -- "$@"
