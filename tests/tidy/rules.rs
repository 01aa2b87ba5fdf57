//! Each rule of how storage behaves is cited by a test that proves it, or by the entry of
//! `tests/deviations.md` that says why Taffrail differs. Pages name tests that exist.

use std::collections::BTreeSet;

use crate::citations::{DEVIATIONS, Rule, STORAGE, defined_by, in_names, in_prose, list};
use crate::source::{CRATES, FOLDERS, files, has_tests, is_test, root};

/// The rules that need a proof: those of the page about storage, but for the registry's.
fn given() -> BTreeSet<Rule> {
    let rules = defined_by(STORAGE).into_iter();
    rules.filter(|(family, _)| *family != "RG").collect()
}

/// What the tests cite.
fn by_tests() -> BTreeSet<Rule> {
    let mut cited = BTreeSet::new();
    for folder in CRATES.into_iter().chain(["tests"]) {
        for path in files(folder, ".rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let below = path.strip_prefix(root()).unwrap();
            let tests = match (below.starts_with("tests"), is_test(&path)) {
                // Examples of citations cite nothing.
                _ if below.starts_with("tests/tidy") => continue,
                (true, _) | (_, true) => text.as_str(),
                // Unit tests stand at the end of the file they test.
                _ => match text.split_once("#[cfg(test)]\nmod tests {") {
                    Some((_, tests)) => tests,
                    None => continue,
                },
            };
            cited.extend(in_prose(tests));
            cited.extend(in_names(tests));
        }
    }
    // What was recorded from kube-apiserver is played by a test; its steps say what they are about.
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

/// What the page about security claims is proved by the tests that it names.
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
        let path = root().join(format!("tests/blackbox/{module}.rs"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        seen += 1;
        if !text.contains(&format!("fn {test}(")) {
            missing.push(format!("{module}::{test}"));
        }
    }
    assert!(seen > 20 && missing.is_empty(), "{seen}: {missing:?}");
}

/// The names that macros of a file make tests of: the words of their lists.
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

/// Whether there is a test of this name: a function below `tests/blackbox`, one of those that a
/// macro makes there, or the unit tests of a module.
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
    // `kubectl::changes` stands for `changes_1_20` and so on.
    let versions = format!("{test}_1_");
    let made = |name: &&str| *name == test || name.starts_with(&versions);
    text.contains(&format!("fn {test}(")) || made_by_macros(&text).iter().any(made)
}

/// The page about compatibility names tests that there are. Each row of its tables has a result,
/// and says how that is known.
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

/// The files that a text names by their paths from the root of the repository.
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

/// Pages, sources and tools name files that there are.
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
        // Examples name nothing.
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
