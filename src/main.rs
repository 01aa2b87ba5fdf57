//! The daemon's binary.

use std::process::ExitCode;

/// The heap of static binaries, because that of musl has one lock for all threads. With glibc the
/// daemon uses glibc's heap, which `heap.c` trims.
#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    taffrail::program::main()
}
