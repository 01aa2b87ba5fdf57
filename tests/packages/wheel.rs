//! The wheel.

use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::{of_dynamic, of_static, run};

#[test]
fn pip_installs_the_program_and_the_module_that_finds_it() {
    let made = of_static();
    let processor = made.program.processor();
    let wheel = made.only("taffrail-", &format!("musllinux_1_1_{processor}.whl"));
    let folder = tempfile::tempdir().unwrap();
    run(Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--target",
        ])
        .arg(folder.path())
        .arg(&wheel));
    let program = folder.path().join("bin/taffrail");
    assert_eq!(std::fs::read(&program).unwrap(), made.program.bytes);
    assert_eq!(
        run(Command::new(&program).arg("version")),
        "taffrail stands here\n"
    );
    let python = |words: &[&str]| {
        let mut command = Command::new("python3");
        command
            .args(words)
            .env("PYTHONPATH", folder.path())
            .env_remove("PATH");
        command.env("PATH", std::env::var_os("PATH").unwrap());
        run(&mut command)
    };
    assert_eq!(
        python(&["-m", "taffrail", "version"]),
        "taffrail stands here\n"
    );
    let found = python(&[
        "-c",
        "import taffrail; print(taffrail.binary(), taffrail.__version__)",
    ]);
    let expected = format!("{} {}\n", program.display(), env!("CARGO_PKG_VERSION"));
    assert_eq!(found, expected);
}

#[test]
fn the_record_of_a_wheel_has_each_of_its_files() {
    let made = of_static();
    let wheel = made.only("taffrail-", &format!("{}.whl", made.program.processor()));
    let folder = unzip(&wheel);
    let information = format!("taffrail-{}.dist-info", env!("CARGO_PKG_VERSION"));
    let record = std::fs::read_to_string(folder.path().join(&information).join("RECORD")).unwrap();
    let mut recorded: Vec<std::path::PathBuf> = Vec::new();
    for line in record.lines() {
        let [path, digest, size] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let bytes = std::fs::read(folder.path().join(path)).expect(path);
        if path.ends_with("/RECORD") {
            assert_eq!((digest, size), ("", ""));
        } else {
            let expected = URL_SAFE_NO_PAD.encode(Sha256::digest(&bytes));
            assert_eq!(digest, format!("sha256={expected}"), "{path}");
            assert_eq!(size, bytes.len().to_string(), "{path}");
        }
        recorded.push(path.into());
    }
    recorded.sort();
    let files: Vec<std::path::PathBuf> = crate::hashes(folder.path())
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(recorded, files);
    // The name of a wheel says what its tags say, which is what pip goes by.
    let tags = std::fs::read_to_string(folder.path().join(&information).join("WHEEL")).unwrap();
    let name = wheel.file_stem().unwrap().to_str().unwrap();
    let platforms = name.rsplit_once('-').unwrap().1;
    for platform in platforms.split('.') {
        assert!(
            tags.contains(&format!("Tag: py3-none-{platform}\n")),
            "{tags}"
        );
    }
}

#[test]
fn a_wheel_says_which_glibc_its_program_needs() {
    let made = of_dynamic();
    let wheel = made.only("taffrail-", ".whl");
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.contains("-py3-none-manylinux_2_"), "{name}");
    assert!(!name.contains("musllinux"), "{name}");
}

fn unzip(archive: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(Command::new("python3")
        .args(["-m", "zipfile", "-e"])
        .arg(archive)
        .arg(folder.path()));
    folder
}
