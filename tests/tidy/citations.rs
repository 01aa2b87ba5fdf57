//! Checks cited numbers: rules as `WA-25` or in the name of a test, deviations as `D-3`, sections
//! as `http.md 3.1`. A page must define every cited number.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::source::{FOLDERS, files, root};

/// Each family of numbers, with the page that defines it.
const FAMILIES: &[(&str, &str)] = &[
    ("ST", STORAGE),
    ("RG", STORAGE),
    ("LI", STORAGE),
    ("WA", STORAGE),
    ("WC", STORAGE),
    ("KV", STORAGE),
    ("EN", STORAGE),
    ("OP", STORAGE),
    ("ME", STORAGE),
    ("SF", STORAGE),
    ("TS", STORAGE),
    ("PF", STORAGE),
    ("API", "docs/behaviour/http.md"),
    ("CRD", "docs/behaviour/crd.md"),
    ("AC", "docs/behaviour/access.md"),
    ("HK", "docs/behaviour/hooks.md"),
    ("CN", "docs/behaviour/connect.md"),
    ("D", DEVIATIONS),
];

/// The pages whose sections are cited by number.
const NUMBERED: &[&str] = &[
    STORAGE,
    "docs/behaviour/http.md",
    "docs/behaviour/crd.md",
    "docs/behaviour/access.md",
    "docs/design.md",
];

pub const STORAGE: &str = "docs/behaviour/storage.md";
pub const DEVIATIONS: &str = "tests/deviations.md";

/// A family and a number.
pub type Rule = (&'static str, u32);

fn family(text: &str) -> Option<&'static str> {
    let mut families = FAMILIES.iter().map(|(family, _)| *family);
    families.find(|family| *family == text)
}

fn rule(word: &str) -> Option<Rule> {
    let (name, number) = word.split_once('-')?;
    Some((family(name)?, number.parse().ok()?))
}

/// Returns the rules that a page defines. The number is the first word of an item, a row or a
/// heading.
pub fn defined_by(page: &str) -> Vec<Rule> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    text.lines().filter_map(definition).collect()
}

fn definition(line: &str) -> Option<Rule> {
    let line = line.trim_start();
    let numbered = line
        .split_once(". ")
        .filter(|(number, _)| number.chars().all(|c| c.is_ascii_digit()));
    let item = ["- ", "| ", "### "]
        .iter()
        .find_map(|marker| line.strip_prefix(marker))
        .or(numbered.map(|(_, item)| item))?;
    let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    rule(item.trim_start_matches('*').split(is_end).next()?)
}

/// Returns the rules that a text cites, as first and last numbers: `WA-25`, and ranges as `WC-6 to
/// WC-9` or `WC-6..9`.
fn ranges(text: &str) -> Vec<(Rule, u32)> {
    let mut cited: Vec<(Rule, u32)> = Vec::new();
    let text = text.replace("..", " upto ");
    let is_break = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    let mut words = [""; 2];
    for word in text.split(is_break).filter(|word| !word.is_empty()) {
        let [before, between] = words;
        let from = rule(before).filter(|_| matches!(between, "to" | "upto"));
        let to = match (rule(word), from) {
            (Some(to), _) => Some(to),
            (None, Some((family, _))) if between == "upto" => {
                word.parse().ok().map(|number| (family, number))
            }
            _ => None,
        };
        match (from, to) {
            (Some(from), Some((family, to))) if from.0 == family => cited.push((from, to)),
            (_, Some(only)) => cited.push((only, only.1)),
            _ => {}
        }
        words = [between, word];
    }
    cited
}

/// Returns all rules that a text cites.
pub fn in_prose(text: &str) -> BTreeSet<Rule> {
    let ranges = ranges(text).into_iter();
    ranges
        .flat_map(|((family, from), to)| (from..=to).map(move |number| (family, number)))
        .collect()
}

/// Returns the rules that the names of functions cite: `ts_62_63_scopes`, `ts_15b_exact_lists`,
/// `.._wa_42_wa_43`.
pub fn in_names(text: &str) -> BTreeSet<Rule> {
    let mut cited = BTreeSet::new();
    let names = text.split("fn ").skip(1);
    for name in names {
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let name = name.split(is_end).next().unwrap_or_default();
        let mut current = None;
        for part in name.split('_') {
            let number = part.trim_end_matches(|c: char| c.is_ascii_lowercase());
            match (current, number.parse()) {
                (Some(family), Ok(number)) => _ = cited.insert((family, number)),
                _ => current = family(&part.to_uppercase()),
            }
        }
    }
    cited
}

/// Formats rules as pages write them.
pub fn list(rules: impl IntoIterator<Item = Rule>) -> String {
    let names = rules.into_iter();
    let names: Vec<String> = names
        .map(|(family, number)| format!("{family}-{number}"))
        .collect();
    names.join(", ")
}

/// Returns the sections of a page: `3`, `3.1`, `6a`, and `A1` for an example.
fn sections_of(page: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let first_words = text.lines().filter_map(|line| {
        let title = line
            .strip_prefix('#')
            .map(|rest| rest.trim_start_matches('#'));
        let word = title.unwrap_or(line).split_whitespace().next()?;
        let is_section = is_section(word) && (title.is_some() || word.starts_with('A'));
        is_section.then(|| word.trim_end_matches('.').to_owned())
    });
    first_words.collect()
}

fn is_section(word: &str) -> bool {
    word.strip_prefix('A')
        .unwrap_or(word)
        .starts_with(|c: char| c.is_ascii_digit())
}

/// Returns the sections of a page that a text cites: `http.md 3.1, 3.2 to 3.4`.
fn sections_cited(text: &str, page: &str) -> Vec<String> {
    let mut cited = Vec::new();
    for mut rest in text.split(page).skip(1) {
        while let Some(after) = [" to ", " and ", ", ", " "]
            .iter()
            .find_map(|between| rest.strip_prefix(between))
        {
            let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '.';
            let word = after.split(is_end).next().unwrap_or_default();
            let word = word.trim_end_matches('.');
            if !is_section(word) {
                break;
            }
            cited.push(word.to_owned());
            rest = &after[word.len()..];
        }
    }
    cited
}

/// Returns every file that may cite a rule, with its text.
fn citing() -> Vec<(PathBuf, String)> {
    let below = FOLDERS.iter().flat_map(|folder| files(folder, ""));
    let pages = ["README.md", "CONTRIBUTING.md"].map(|page| root().join(page));
    let below = below.chain(pages);
    below
        // The examples in this folder are not citations.
        .filter(|path| !path.starts_with(root().join("tests/tidy")))
        // Compressed stores are not text.
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(&path).ok()?)))
        .collect()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

#[test]
fn every_number_that_is_cited_is_defined_by_its_page() {
    let mut defined = BTreeSet::new();
    for page in FAMILIES
        .iter()
        .map(|(_, page)| *page)
        .collect::<BTreeSet<_>>()
    {
        for rule in defined_by(page) {
            let of_page = FAMILIES.contains(&(rule.0, page));
            assert!(of_page, "{page} defines {}", list([rule]));
            assert!(defined.insert(rule), "{} is defined twice", list([rule]));
        }
    }
    let mut unknown = BTreeMap::new();
    for (path, text) in citing() {
        // A range may include numbers that no page defines.
        let ends = ranges(&text)
            .into_iter()
            .flat_map(|(from, to)| [from, (from.0, to)]);
        let mut cited: BTreeSet<Rule> = ends.collect();
        if path.extension().is_some_and(|ending| ending == "rs") {
            cited.extend(in_names(&text));
        }
        let missing: Vec<Rule> = cited.difference(&defined).copied().collect();
        if !missing.is_empty() {
            unknown.insert(shown(&path), list(missing));
        }
    }
    assert!(unknown.is_empty(), "no page defines {unknown:#?}");
}

#[test]
fn every_section_that_is_cited_is_there() {
    let citing = citing();
    let mut unknown = Vec::new();
    for page in NUMBERED {
        let name = page.rsplit('/').next().unwrap();
        let sections = sections_of(page);
        assert!(sections.len() > 5, "{page}: {sections:?}");
        let mut seen = 0;
        for (path, text) in &citing {
            for section in sections_cited(text, name) {
                seen += 1;
                if !sections.contains(&section) {
                    unknown.push(format!("{}: {name} {section}", shown(path)));
                }
            }
        }
        assert!(seen > 0 || name == "crd.md", "no text cites {page}");
    }
    assert!(unknown.is_empty(), "no page has the sections {unknown:#?}");
}

#[test]
fn nobody_speaks_of_pages_that_are_not_there() {
    for (path, text) in citing() {
        let is_break = |c: char| !(c.is_ascii_alphanumeric() || "-_./".contains(c));
        for word in text.split(is_break) {
            let named = word
                .strip_prefix("docs/")
                .filter(|name| name.ends_with(".md"));
            let exists = named.is_none_or(|name| root().join("docs").join(name).exists());
            assert!(
                exists,
                "{} names {word}, which does not exist",
                shown(&path)
            );
        }
        assert!(!text.contains("DESIGN.md"), "{}", shown(&path));
    }
}

#[test]
fn citations_are_read() {
    let text = "LI-2, (WA-25): xWA-3 wa-4 WC-6 to WC-8, PF-1 to WA-2; ST-5 to be TS-15 b";
    assert_eq!(
        list(in_prose(text)),
        "LI-2, PF-1, ST-5, TS-15, WA-2, WA-25, WC-6, WC-7, WC-8"
    );
    assert_eq!(
        list(in_prose("API-129..131, ST-1 to 3; D-3")),
        "API-129, API-130, API-131, D-3, ST-1"
    );
    let names = "fn ts_62_63_x() { } pub async fn of_li_3_wa_42b_and_7(a: u8) wc_5 fn pf() {}";
    assert_eq!(list(in_names(names)), "LI-3, TS-62, TS-63, WA-42");
    let text = "(http.md 3.10, A1, 3.2 to 3.7). docs/http.md and http.md 6a.";
    assert_eq!(
        sections_cited(text, "http.md"),
        ["3.10", "A1", "3.2", "3.7", "6a"]
    );
}

#[test]
fn definitions_are_read() {
    let lines = [
        ("- **CRD-1 M** Served as", Some(("CRD", 1))),
        ("| LI-20 | - |", Some(("LI", 20))),
        ("12. **API-296** discovery", Some(("API", 296))),
        ("### D-3: events", Some(("D", 3))),
        ("  WA-3 goes on", None),
        ("| DNS-1123 label |", None),
    ];
    for (line, rule) in lines {
        assert_eq!(definition(line), rule, "{line}");
    }
}
