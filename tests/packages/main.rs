//! Tests of `tools/package`: packages that are made of a program, unpacked by other tools.
//!
//! The program is a small one in C that prints a version and writes a manual, because the daemon of
//! a debug build takes minutes to compress. Building the daemon for packages is part of
//! `tests/run.sh --long`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod archives;
mod crates;
mod image;
mod options;
mod stand_in;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use stand_in::StandIn;

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The date of all packages in tests: 2026-01-02.
const DATE: &str = "1767312000";

/// Runs the tool.
fn tool(words: &[&str]) -> Output {
    Command::new("python3")
        .arg(root().join("tools/package/package.py"))
        .args(words)
        .env("SOURCE_DATE_EPOCH", DATE)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 can be run")
}

/// Runs a program that has to succeed, and returns what it prints.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Packages of a program.
struct Made {
    _folder: TempDir,
    folder: PathBuf,
    program: StandIn,
    printed: String,
}

impl Made {
    fn of(program: StandIn, foreign: Option<&StandIn>) -> Made {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("packages");
        let mut words = vec!["archive", "deb", "image", "wheel", "sbom", "sums"];
        let output = folder.to_str().unwrap();
        words.extend(["--output", output, "--binary", program.path()]);
        if let Some(foreign) = foreign {
            words.extend(["--binary", foreign.path()]);
        }
        let done = tool(&words);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        Made {
            printed: String::from_utf8(done.stdout).unwrap(),
            _folder: temporary,
            folder,
            program,
        }
    }

    /// The only file or folder whose name begins and ends with these texts.
    #[track_caller]
    fn only(&self, begin: &str, end: &str) -> PathBuf {
        let names = std::fs::read_dir(&self.folder).unwrap().map(|entry| {
            let name = entry.unwrap().file_name();
            name.into_string().unwrap()
        });
        let found: Vec<String> = names
            .filter(|name| name.starts_with(begin) && name.ends_with(end))
            .collect();
        assert_eq!(found.len(), 1, "{begin}…{end}: {found:?}");
        self.folder.join(&found[0])
    }
}

/// The packages of a static program, and of the same for another processor.
fn of_static() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let program = StandIn::build(&["-static"]);
        let foreign = program.of_another_processor();
        Made::of(program, Some(&foreign))
    })
}

/// The packages of a program that loads libraries.
fn of_dynamic() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| Made::of(StandIn::build(&[]), None))
}

/// All files below a folder by their paths, with hashes.
fn hashes(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let below = path.strip_prefix(folder).unwrap().to_owned();
                found.push((below, hash(&path)));
            }
        }
    }
    found.sort();
    found
}

/// The SHA-256 of a file.
fn hash(path: &Path) -> String {
    let digest = Sha256::digest(std::fs::read(path).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_same_program_makes_the_same_bytes() {
    let first = of_static();
    let program = StandIn::build(&["-static"]);
    let foreign = program.of_another_processor();
    let second = Made::of(program, Some(&foreign));
    assert_eq!(hashes(&first.folder), hashes(&second.folder));
}

#[test]
fn the_sums_are_those_of_all_files() {
    let made = of_static();
    let sums = made.folder.join("SHA256SUMS");
    run(Command::new("sha256sum")
        .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
        .current_dir(&made.folder));
    let listed = std::fs::read_to_string(sums).unwrap().lines().count();
    assert_eq!(listed, hashes(&made.folder).len() - 1);
}

#[test]
fn a_bill_of_materials_has_each_crate_of_the_program() {
    let made = of_static();
    let path = made.only("taffrail-", &format!("{}.cdx.json", made.program.triple()));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(!text.contains("file://"), "it names folders");
    let bill: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let program = &bill["metadata"]["component"];
    assert_eq!(program["name"], "taffrail");
    assert_eq!(
        program["hashes"][0]["content"],
        hash(made.program.path().as_ref()).as_str()
    );
    let components = bill["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|one| one["name"] == name);
    // A crate of the workspace, one of crates.io, and one that is for musl alone.
    assert!(named("taffrail-kinds").is_some());
    assert!(named("mimalloc").is_some());
    let hash = named("tokio").unwrap()["hashes"][0]["content"].as_str();
    assert_eq!(hash.unwrap().len(), 64);
    // Those of tests and of build scripts are not in the program.
    assert!(named("kube").is_none() && named("proptest").is_none() && named("cc").is_none());
    let references: Vec<&str> = components
        .iter()
        .chain([program])
        .map(|one| one["bom-ref"].as_str().unwrap())
        .collect();
    for dependency in bill["dependencies"].as_array().unwrap() {
        for used in dependency["dependsOn"].as_array().unwrap() {
            assert!(references.contains(&used.as_str().unwrap()), "{used}");
        }
    }
}
