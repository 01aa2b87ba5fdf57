//! Checks that a test cites each rule of storage behaviour, or that an entry of
//! `tests/deviations.md` describes how Taffrail differs. Tests that pages name must exist.

use std::collections::BTreeSet;

use regex::Regex;

use crate::citations::{DEVIATIONS, Rule, STORAGE, defined_by, in_names, in_prose, list};
use crate::source::{CRATES, FOLDERS, files, has_tests, is_test, root, whole_product};

/// Returns the rules that need a proof: those of the storage page, except those of the registry.
fn given() -> BTreeSet<Rule> {
    let rules = defined_by(STORAGE).into_iter();
    rules.filter(|(family, _)| *family != "RG").collect()
}

/// Returns the rules that tests cite.
fn by_tests() -> BTreeSet<Rule> {
    let mut cited = BTreeSet::new();
    for folder in CRATES.into_iter().chain(["tests"]) {
        for path in files(folder, ".rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let below = path.strip_prefix(root()).unwrap();
            let tests = match (below.starts_with("tests"), is_test(&path)) {
                // The examples in this folder are not citations.
                _ if below.starts_with("tests/tidy") => continue,
                (true, _) | (_, true) => text.as_str(),
                // Unit tests are at the end of the file they test.
                _ => match text.split_once("#[cfg(test)]\nmod tests {") {
                    Some((_, tests)) => tests,
                    None => continue,
                },
            };
            cited.extend(in_prose(tests));
            cited.extend(in_names(tests));
        }
    }
    // A test plays recordings of kube-apiserver. The titles of their steps cite rules.
    for path in files("tests/reference", ".json") {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_title = |line: &&str| {
            let line = line.trim_start();
            line.starts_with("\"about\":") || line.starts_with("\"name\":")
        };
        let titles: Vec<&str> = text.lines().filter(is_title).collect();
        cited.extend(in_prose(&titles.join("\n")));
    }
    cited
}

#[test]
fn each_rule_is_cited_by_a_test_or_a_deviation() {
    let deviations = std::fs::read_to_string(root().join(DEVIATIONS)).unwrap();
    let mut cited = in_prose(&deviations);
    cited.extend(by_tests());
    let given = given();
    assert!(given.len() > 300);
    let missing = list(given.difference(&cited).copied());
    assert!(
        missing.is_empty(),
        "neither a test nor {DEVIATIONS} cites {missing}"
    );
}

/// The tests that the security page names as proofs must exist.
#[test]
fn the_page_about_security_names_tests_that_there_are() {
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let named = page.split('`').skip(1).step_by(2);
    let named = named.filter_map(|text| text.rsplit_once("::"));
    let (mut seen, mut missing) = (0, Vec::new());
    for (module, test) in named {
        if test == "tests" {
            if !has_tests(module) {
                missing.push(format!("{module}::{test}"));
            }
            continue;
        }
        let path = root().join(format!("tests/blackbox/{}.rs", module.replace("::", "/")));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        seen += 1;
        if !text.contains(&format!("fn {test}(")) {
            missing.push(format!("{module}::{test}"));
        }
    }
    assert!(seen > 20 && missing.is_empty(), "{seen}: {missing:?}");
}

/// Returns the names of tests that macros generate: the words of their lists.
fn made_by_macros(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let begins = line.ends_with("! {") && !line.starts_with(' ');
        inside = begins || inside && line != "}";
        if inside && !begins {
            names.extend(line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        }
    }
    names
}

/// Whether a test of this name exists: a function below `tests/blackbox`, one that a macro
/// generates there, or the unit tests of a module.
fn is_there(named: &str) -> bool {
    let (module, test) = named.rsplit_once("::").unwrap();
    if test == "tests" {
        return has_tests(module);
    }
    let file = root()
        .join("tests/blackbox")
        .join(module.replace("::", "/"));
    let files = [file.with_extension("rs"), file.join("mod.rs")];
    let text = files
        .iter()
        .find_map(|file| std::fs::read_to_string(file).ok());
    let text = text.unwrap_or_default();
    // `kubectl::changes` means `changes_1_20` and so on.
    let versions = format!("{test}_1_");
    let made = |name: &&str| *name == test || name.starts_with(&versions);
    text.contains(&format!("fn {test}(")) || made_by_macros(&text).iter().any(made)
}

/// The tests that the compatibility page names must exist. Each row of its tables has a result and
/// the reason for it.
#[test]
fn the_page_about_compatibility_names_tests_that_there_are() {
    let page = std::fs::read_to_string(root().join("docs/compatibility.md")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let names = quoted.flat_map(|text| text.split(' '));
    let names: BTreeSet<&str> = names
        .filter(|name| name.contains("::") && !name.ends_with("::"))
        .collect();
    let missing: Vec<&&str> = names.iter().filter(|name| !is_there(name)).collect();
    assert!(names.len() > 30 && missing.is_empty(), "{missing:?}");

    let rows = page.lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(cells.split(" | ").collect::<Vec<_>>())
    });
    let (mut seen, mut wrong) = (0, Vec::new());
    for row in rows.filter(|row| row.get(1) != Some(&"result")) {
        let known = match row[..] {
            [_, "works" | "differs", how] => how.contains("::") || how.contains("by hand"),
            [_, "not yet" | "not tested", why] => !why.is_empty(),
            _ => false,
        };
        seen += 1;
        if !known {
            wrong.push(row);
        }
    }
    assert!(seen > 80 && wrong.is_empty(), "{seen} rows: {wrong:?}");
}

/// Returns the files that a text names by their paths from the root of the repository.
fn files_named(text: &str) -> impl Iterator<Item = &str> {
    const TOP: &str = "src actors api descriptions kinds tests config docs tools fuzz dashboards";
    const ENDINGS: &str = "rs py go md sh json gz txt toml yaml";
    let is_end = |c: char| !c.is_ascii_alphanumeric() && !"_./-".contains(c);
    let words = text.split(is_end).map(|word| word.trim_end_matches('.'));
    words.filter(|word| {
        let below = word.split_once('/').map(|(top, _)| top);
        let ending = word.rsplit_once('.').map(|(_, ending)| ending);
        let is = |list: &str, part| list.split(' ').any(|one| Some(one) == part);
        is(TOP, below) && is(ENDINGS, ending)
    })
}

/// Files that pages, sources and tools name must exist.
#[test]
fn files_that_are_named_are_there() {
    let folders = FOLDERS
        .into_iter()
        .chain(["tools/facts", "fuzz/fuzz_targets", "dashboards"]);
    let below = folders.flat_map(|folder| files(folder, ""));
    let pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|page| root().join(page));
    let (mut seen, mut missing) = (0, BTreeSet::new());
    for path in below.chain(pages) {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_text = matches!(ending, Some("md" | "rs" | "py" | "sh" | "toml" | "yaml"));
        // The examples in this folder name no files.
        if !is_text || path.starts_with(root().join("tests/tidy")) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for named in files_named(&text) {
            seen += 1;
            if !root().join(named).exists() {
                missing.insert(format!("{}: {named}", path.display()));
            }
        }
    }
    assert!(seen > 200 && missing.is_empty(), "{seen}: {missing:#?}");
}

#[test]
fn tests_are_found_by_name() {
    for name in [
        "kubectl::changes",
        "kubectl::restarts_1_36",
        "replay::tables",
        "watch::events_are_served_like_everything_else",
        "server::access_log::tests",
        "kinds::columns::tests",
    ] {
        assert!(is_there(name), "{name}");
    }
    for name in [
        "kubectl::change",
        "replay::table",
        "nowhere::tables",
        "nowhere::tests",
        "kinds::defaults::tests",
        "server::handlers::update::tests",
    ] {
        assert!(!is_there(name), "{name}");
    }
}

/// The behaviour of a kind is an object that may capture its data, so definitions hold no pointers
/// to functions.
#[test]
fn definitions_of_resources_hold_no_pointers_to_functions() {
    let files = files("api/src/resource", ".rs");
    assert!(files.len() > 5, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let found = code.contains("fn(") || code.contains("&'static LazyLock");
            assert!(!found, "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

/// The limit of arguments (`clippy.toml`) holds for what a caller passes: a tuple that its function
/// takes apart at once only hides some of them.
#[test]
fn parameters_are_not_hidden_in_tuples() {
    let names = r"(?:mut )?\w+";
    let pattern = format!(r"[(,]\s*\({names}(?:,\s*{names})+\)\s*:\s*\(");
    let pattern = Regex::new(&pattern).unwrap();
    assert!(pattern.is_match("fn f(&self, (mut a, b): (u8, &str)) {}"));
    assert!(!pattern.is_match("fn f((a, b): Pair) { let (a, b): (u8, u8) = (1, 2); }"));
    for source in whole_product() {
        let found = pattern.find(&source.code).map(|found| found.as_str());
        let path = source.path.display();
        assert_eq!(
            found, None,
            "{path}: pass them one by one, or give the pair a type"
        );
    }
}
