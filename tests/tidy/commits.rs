//! Tests the script that checks commit subjects, in repositories made for the tests.

use std::path::Path;
use std::process::{Command, Output};

use crate::source::root;

const SCRIPT: &str = "tests/commit-subjects.sh";
const VERBS: &str = "tests/fixtures/commit-verbs.txt";

/// Runs a program in a folder, without the user's settings of git.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.current_dir(folder).args(arguments);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "nobody");
        command.env(format!("GIT_{role}_EMAIL"), "nobody@example.com");
    }
    command.output().unwrap()
}

fn git(folder: &Path, arguments: &[&str]) {
    let output = run(folder, "git", arguments);
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
}

fn commit(folder: &Path, subject: &str) {
    git(
        folder,
        &["commit", "--quiet", "--allow-empty", "--message", subject],
    );
}

/// Returns whether the script passes in a folder, and its output.
fn check(folder: &Path) -> (bool, String) {
    let output = run(folder, &folder.join(SCRIPT).display().to_string(), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), text)
}

/// Creates a folder with the script and its list of verbs.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("tests/fixtures")).unwrap();
    for file in [SCRIPT, VERBS] {
        std::fs::copy(root().join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn has_git() -> bool {
    let has = Command::new("git").arg("--version").output().is_ok();
    if !has {
        println!("git is missing: NOT CHECKED");
    }
    has
}

#[test]
fn subjects_after_the_rule_begin_with_a_verb_and_are_short() {
    if !has_git() {
        return;
    }
    let folder = folder();
    let path = folder.path();
    git(path, &["init", "--quiet", "--initial-branch", "main"]);
    commit(path, "Whoever wrote this did not know the rule");
    git(path, &["branch", "before"]);
    git(path, &["add", "tests"]);
    assert!(check(path).1.contains("NOT CHECKED: no commit has"));
    commit(path, "What brings the rule is left alone");
    assert_eq!(
        check(path),
        (true, "commit subjects: 0 checked, 0 wrong\n".to_owned())
    );

    // The limit is in characters, and this subject has 72.
    let longest = format!("Add {}", "ü".repeat(68));
    commit(path, &longest);
    commit(path, "Read, write and delete");
    git(path, &["checkout", "--quiet", "before"]);
    commit(path, "Work that was begun before");
    git(path, &["checkout", "--quiet", "main"]);
    git(
        path,
        &[
            "merge",
            "--quiet",
            "--message",
            "Merge branch 'before'",
            "before",
        ],
    );
    let (passes, text) = check(path);
    assert_eq!(
        (passes, &*text),
        (true, "commit subjects: 2 checked, 0 wrong\n")
    );

    commit(path, &format!("{longest}ü"));
    commit(path, "Tell what is none");
    commit(path, "Adds a thing");
    let (passes, text) = check(path);
    assert!(
        !passes && text.ends_with("commit subjects: 5 checked, 3 wrong\n"),
        "{text}"
    );
    for wrong in [
        "73 characters, at most 72",
        "\"Tell\" is not in",
        "\"Adds\" is not in",
    ] {
        assert!(text.contains(wrong), "{text}");
    }

    // A shallow clone lacks the commit that added the rule.
    let clone = tempfile::tempdir().unwrap();
    let source = format!("file://{}", path.display());
    git(
        clone.path(),
        &["clone", "--quiet", "--depth", "1", &source, "."],
    );
    let (passes, text) = check(clone.path());
    assert!(
        passes && text.contains("NOT CHECKED: the clone is shallow"),
        "{text}"
    );
}

#[test]
fn subjects_are_not_checked_without_a_history() {
    let folder = folder();
    let (passes, text) = check(folder.path());
    assert!(
        passes && text.starts_with("commit subjects NOT CHECKED: there is no "),
        "{text}"
    );
}

#[test]
fn verbs_are_in_order_and_imperative() {
    let text = std::fs::read_to_string(root().join(VERBS)).unwrap();
    let verbs: Vec<&str> = text.lines().collect();
    assert!(verbs.is_sorted() && verbs.len() > 100);
    for verb in &verbs {
        let is_word = verb.chars().all(|c| c.is_ascii_alphabetic());
        assert!(is_word && verb.starts_with(char::is_uppercase), "{verb}");
    }
    for word in ["Tell", "Told", "What", "Who", "The"] {
        assert!(!verbs.contains(&word), "{word}");
    }
}
