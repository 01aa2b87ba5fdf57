//! What `/version` says of a build: commit, date and compiler; and the one file that is C.
//!
//! Whoever packages sets TAFFRAIL_GIT_COMMIT, TAFFRAIL_GIT_TREE_STATE, TAFFRAIL_BUILD_DATE or
//! SOURCE_DATE_EPOCH. Without them a release build looks for its commit in `.git`, without the help
//! of git, and takes the clock's time. A debug build does neither: it would be built anew after
//! every commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

fn main() {
    #[cfg(not(test))]
    compile_heap();
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    let commit = variable("TAFFRAIL_GIT_COMMIT").or_else(|| {
        let found = find_commit(Path::new("."))?;
        if !is_release {
            return None;
        }
        // The files that change with the commit; one that is missing would count as changed.
        for path in found.files.iter().filter(|path| path.exists()) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        Some(found.commit)
    });
    let date = variable("TAFFRAIL_BUILD_DATE").or_else(|| {
        let clock = || {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            now.ok().map(|since| since.as_secs()).filter(|_| is_release)
        };
        let epoch = variable("SOURCE_DATE_EPOCH").and_then(|text| text.parse().ok());
        epoch.or_else(clock).map(rfc3339)
    });
    tell("TAFFRAIL_GIT_COMMIT", commit);
    tell("TAFFRAIL_BUILD_DATE", date);
    tell(
        "TAFFRAIL_GIT_TREE_STATE",
        variable("TAFFRAIL_GIT_TREE_STATE"),
    );
    tell("TAFFRAIL_COMPILER", compiler());
}

/// Compiles what gives memory back to the system. Nothing calls it, so it has to be linked as a
/// whole.
#[cfg(not(test))]
fn compile_heap() {
    println!("cargo::rerun-if-changed=src/heap.c");
    let mut build = cc::Build::new();
    let build = build.file("src/heap.c").warnings(true);
    if let Some(headers) = variable("DEP_MIMALLOC_INCLUDE_DIR") {
        build.include(headers).define("HAS_MIMALLOC", None);
    }
    // Only the daemon's binary: a program that has a server inside owns its heap.
    for object in build.cargo_metadata(false).compile_intermediates() {
        println!("cargo::rustc-link-arg-bins={}", object.display());
    }
}

/// A variable that is set to something; the build is done again when it changes.
fn variable(name: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={name}");
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Hands a value to the compiler.
fn tell(name: &str, value: Option<String>) {
    if let Some(value) = value.filter(|value| !value.contains(['\n', '\r'])) {
        println!("cargo::rustc-env={name}={value}");
    }
}

/// The compiler's name and version: the first two words of `rustc 1.95.0 (… 2026-04-14)`.
fn compiler() -> Option<String> {
    let output = Command::new(std::env::var_os("RUSTC")?)
        .arg("--version")
        .output()
        .ok()?;
    let printed = String::from_utf8(output.stdout).ok()?;
    let words: Vec<&str> = printed.split_whitespace().take(2).collect();
    Some(words.join(" "))
}

/// A commit, and the files that say that it is the one.
#[derive(Debug)]
pub struct Found {
    /// Its hash.
    pub commit: String,
    /// Where that is written.
    pub files: Vec<PathBuf>,
}

/// The commit that is checked out in a folder, if that is a repository or a worktree of one.
pub fn find_commit(folder: &Path) -> Option<Found> {
    let entry = folder.join(".git");
    let own = if entry.is_dir() {
        entry
    } else {
        // A worktree has a file instead, which says where its folder is.
        let text = std::fs::read_to_string(&entry).ok()?;
        folder.join(text.trim().strip_prefix("gitdir:")?.trim())
    };
    let common = match std::fs::read_to_string(own.join("commondir")) {
        Ok(path) => own.join(path.trim()),
        Err(_) => own.clone(),
    };
    let head = own.join("HEAD");
    let text = std::fs::read_to_string(&head).ok()?;
    let Some(branch) = text.trim().strip_prefix("ref:") else {
        return Some(Found {
            commit: hash(&text)?,
            files: vec![head],
        });
    };
    let branch = branch.trim();
    let loose = common.join(branch);
    let packed = common.join("packed-refs");
    let commit = std::fs::read_to_string(&loose)
        .ok()
        .and_then(|text| hash(&text))
        .or_else(|| {
            let lines = std::fs::read_to_string(&packed).ok()?;
            lines.lines().find_map(|line| {
                let (commit, name) = line.split_once(' ')?;
                (name.trim() == branch).then(|| hash(commit)).flatten()
            })
        })?;
    Some(Found {
        commit,
        // The log grows with every commit, also with the first of a branch that was packed.
        files: vec![head, own.join("logs/HEAD"), loose, packed],
    })
}

/// A commit's hash, SHA-1 or SHA-256; nothing else may get into the document.
fn hash(text: &str) -> Option<String> {
    let text = text.trim();
    let is_hash = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| text.to_owned())
}

/// Seconds since 1970 as a date and time of UTC.
pub fn rfc3339(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if days < length || year == 9999 {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let day = days.min(30) + 1;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
