//! Tests of the crates that crates.io would get.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{root, run};

/// The most that crates.io takes of a crate, compressed.
const MOST_BYTES: u64 = 10 << 20;

fn cargo(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    run(command.args(words).current_dir(root()))
}

/// The crates that are meant for crates.io.
fn published() -> Vec<Value> {
    let text = cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let found: Vec<Value> = packages
        .filter(|package| package["publish"] != serde_json::json!([]))
        .cloned()
        .collect();
    assert!(found.len() >= 5, "crates are missing");
    found
}

#[test]
fn a_crate_holds_its_sources_and_what_crates_io_shows() {
    for package in published() {
        let name = package["name"].as_str().unwrap();
        for field in ["description", "license", "readme", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        let folder = Path::new(package["manifest_path"].as_str().unwrap())
            .parent()
            .unwrap();
        let list = cargo(&["package", "--list", "--allow-dirty", "--package", name]);
        let files: Vec<&str> = list.lines().collect();
        for file in ["Cargo.toml", "README.md", "LICENSE"] {
            assert!(files.contains(&file), "{name} lacks {file}");
        }
        let mut bytes = 0;
        for file in files {
            let path = folder.join(file);
            let is_code = ["src/", "config/", "build.rs"]
                .iter()
                .any(|begin| file.starts_with(begin));
            let is_text = !file.contains('/');
            assert!(is_code || is_text, "{name} holds {file}");
            // Cargo writes a few files that the folder does not have.
            bytes += path.metadata().map_or(0, |metadata| metadata.len());
        }
        assert!(bytes < MOST_BYTES, "{name} has {bytes} bytes");
    }
}

#[test]
fn crates_name_the_versions_of_those_they_use() {
    for package in published() {
        for dependency in package["dependencies"].as_array().unwrap() {
            let has_version = dependency["req"] != "*" || dependency["kind"] == "dev";
            assert!(has_version, "{}: {}", package["name"], dependency["name"]);
        }
    }
}
