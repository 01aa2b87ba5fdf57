//! A program that stands in for the daemon.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::run;

/// A program that answers the tool as the daemon does: its version, manual and completions.
const SOURCE: &str = include_str!("stand-in.c");

/// The numbers of x86-64 and of arm64 in ELF files, where they are, and their names.
const MACHINES: [(u8, &str); 2] = [(62, "x86_64"), (183, "aarch64")];
const MACHINE: usize = 18;

/// A program, and the folder that it is in.
pub(crate) struct StandIn {
    folder: TempDir,
    pub(crate) bytes: Vec<u8>,
    is_static: bool,
}

impl StandIn {
    /// Compiles it.
    pub(crate) fn build(flags: &[&str]) -> StandIn {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("stand-in.c");
        std::fs::write(&source, SOURCE).unwrap();
        // The linker notes the names of its inputs, which are those of temporary files.
        run(Command::new("cc")
            .args([
                "-s",
                "-O1",
                "-Wl,--build-id=none",
                "-o",
                "taffrail",
                "stand-in.c",
            ])
            .args(flags)
            .current_dir(folder.path()));
        StandIn {
            bytes: std::fs::read(folder.path().join("taffrail")).unwrap(),
            folder,
            is_static: flags.contains(&"-static"),
        }
    }

    /// A copy that says it is for a processor that this machine does not have.
    pub(crate) fn of_another_processor(&self) -> StandIn {
        let mut bytes = self.bytes.clone();
        let own = MACHINES
            .iter()
            .position(|(number, _)| *number == bytes[MACHINE]);
        bytes[MACHINE] = MACHINES[1 - own.expect("a processor that packages are for")].0;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taffrail");
        std::fs::write(&path, &bytes).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        StandIn {
            folder,
            bytes,
            is_static: self.is_static,
        }
    }

    /// Its processor, in Rust's words.
    pub(crate) fn processor(&self) -> &'static str {
        let machine = MACHINES
            .iter()
            .find(|(number, _)| *number == self.bytes[MACHINE]);
        machine.unwrap().1
    }

    /// Its processor, in Debian's words.
    pub(crate) fn debian(&self) -> &'static str {
        match self.processor() {
            "x86_64" => "amd64",
            _ => "arm64",
        }
    }

    /// Its target, in Rust's words.
    pub(crate) fn triple(&self) -> String {
        let library = if self.is_static { "musl" } else { "gnu" };
        format!("{}-unknown-linux-{library}", self.processor())
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &str {
        let path: &'static str = Box::leak(self.file().into_boxed_path()).to_str().unwrap();
        path
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("taffrail")
    }
}
