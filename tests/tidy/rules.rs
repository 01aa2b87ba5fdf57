//! The rules that the behaviour of Kubernetes' storage is numbered by: each is cited by a test that
//! proves it, or by the entry of `tests/deviations.md` that says why ours differs.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::source::{files, is_test, root};

/// The numbers that are given: the storage interface, leases and compaction and health, encryption,
/// the storage factory, metrics, keys and values; lists, watches, the watch cache, pitfalls, and
/// what the shared test suites of Kubernetes' own storages demand. OP-25 and ME-7 are a fork's.
const RULES: &[(&str, &[RangeInclusive<u32>])] = &[
    (
        "ST",
        &[
            1..=8,
            10..=17,
            20..=25,
            30..=34,
            40..=46,
            50..=64,
            70..=77,
            80..=83,
        ],
    ),
    ("OP", &[1..=5, 10..=17, 20..=24]),
    ("EN", &[1..=18]),
    ("SF", &[1..=22, 30..=33, 40..=50]),
    ("ME", &[1..=6, 8..=18, 20..=35, 40..=53, 60..=61, 70..=75]),
    ("KV", &[1..=7, 20..=26]),
    ("LI", &[1..=3, 10..=19, 20..=39, 40..=46, 50..=55]),
    ("WA", &[1..=6, 10..=19, 20..=25, 30..=38, 40..=47, 50..=53]),
    ("WC", &[1..=11, 20..=21, 30..=31, 40..=47, 50..=50, 53..=56]),
    ("PF", &[1..=30]),
    ("TS", &[1..=34, 50..=70, 80..=90]),
];

type Rule = (&'static str, u32);

fn family(text: &str) -> Option<&'static str> {
    let mut families = RULES.iter().map(|(family, _)| *family);
    families.find(|family| *family == text)
}

fn given() -> BTreeSet<Rule> {
    let of = |(family, ranges): &(&'static str, &'static [RangeInclusive<u32>])| {
        let family = *family;
        let numbers = ranges.iter().cloned().flatten();
        numbers.map(move |number| (family, number))
    };
    RULES.iter().flat_map(of).collect()
}

/// What a text cites as `WA-25`, and between two of a family, `WC-6 to WC-9`.
fn in_prose(text: &str) -> BTreeSet<Rule> {
    let mut cited = BTreeSet::new();
    let mut last: Option<Rule> = None;
    let mut is_range = false;
    let is_break = |c: char| !c.is_ascii_alphanumeric() && c != '-';
    for word in text.split(is_break).filter(|word| !word.is_empty()) {
        let rule = word.split_once('-').and_then(|(name, number)| {
            let rule = (family(name)?, number.parse().ok()?);
            Some(rule)
        });
        match (rule, last) {
            (Some((name, to)), Some((from_name, from))) if is_range && name == from_name => {
                cited.extend((from..=to).map(|number| (name, number)));
            }
            (Some(rule), _) => _ = cited.insert(rule),
            (None, _) => {}
        }
        is_range = word == "to" && last.is_some();
        if !is_range {
            last = rule;
        }
    }
    cited
}

/// What the names of functions cite: `ts_62_63_scopes`, `ts_15b_exact_lists`, `.._wa_42_wa_43`.
fn in_names(text: &str) -> BTreeSet<Rule> {
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

/// What the tests cite, with the file that does.
fn by_tests() -> Vec<(Rule, String)> {
    let mut cited = Vec::new();
    for folder in ["src", "actors/src", "tests"] {
        for path in files(folder, ".rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let below = path.strip_prefix(root()).unwrap();
            let tests = match (below.starts_with("tests"), is_test(&path)) {
                // The numbers above are no citations.
                _ if below.starts_with("tests/tidy") => continue,
                (true, _) | (_, true) => text.as_str(),
                // Unit tests stand at the end of the file they test.
                _ => match text.split_once("#[cfg(test)]\nmod tests {") {
                    Some((_, tests)) => tests,
                    None => continue,
                },
            };
            let rules = in_prose(tests).into_iter().chain(in_names(tests));
            cited.extend(rules.map(|rule| (rule, below.display().to_string())));
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
        let below = path.strip_prefix(root()).unwrap().display().to_string();
        let rules = in_prose(&titles.join("\n")).into_iter();
        cited.extend(rules.map(|rule| (rule, below.clone())));
    }
    cited
}

fn list(rules: impl Iterator<Item = Rule>) -> String {
    let names: Vec<String> = rules
        .map(|(family, number)| format!("{family}-{number}"))
        .collect();
    names.join(", ")
}

#[test]
fn each_rule_is_cited_by_a_test_or_a_deviation() {
    let tests = by_tests();
    let deviations = std::fs::read_to_string(root().join("tests/deviations.md")).unwrap();
    let meant = in_prose(&deviations);
    let mut cited = meant.clone();
    cited.extend(tests.iter().map(|(rule, _)| *rule));
    let given = given();
    let missing = list(given.difference(&cited).copied());
    assert!(
        missing.is_empty(),
        "neither a test nor tests/deviations.md cites {missing}"
    );
    let unknown = list(meant.difference(&given).copied());
    assert!(unknown.is_empty(), "tests/deviations.md cites {unknown}");
    for (rule, file) in tests {
        let known = given.contains(&rule);
        assert!(known, "{file} cites {}", list([rule].into_iter()));
    }
}

#[test]
fn citations_are_read() {
    let text = "LI-2, (WA-25): xWA-3 wa-4 WC-6 to WC-8, PF-1 to WA-2; ST-5 to be TS-15 b";
    let found = list(in_prose(text).into_iter());
    assert_eq!(
        found,
        "LI-2, PF-1, ST-5, TS-15, WA-2, WA-25, WC-6, WC-7, WC-8"
    );
    let names = "fn ts_62_63_x() { } pub async fn of_li_3_wa_42b_and_7(a: u8) wc_5 fn pf() {}";
    let found = list(in_names(names).into_iter());
    assert_eq!(found, "LI-3, TS-62, TS-63, WA-42");
}

/// What the page about security claims is proved by the tests that it names.
#[test]
fn the_page_about_security_names_tests_that_there_are() {
    let page = std::fs::read_to_string(root().join("docs/security.md")).unwrap();
    let named = page.split('`').skip(1).step_by(2);
    let named = named.filter_map(|text| text.rsplit_once("::"));
    let (mut seen, mut missing) = (0, Vec::new());
    for (module, test) in named.filter(|(_, test)| !test.contains("tests")) {
        let path = root().join(format!("tests/blackbox/{module}.rs"));
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        seen += 1;
        if !text.contains(&format!("fn {test}(")) {
            missing.push(format!("{module}::{test}"));
        }
    }
    assert!(seen > 20 && missing.is_empty(), "{seen}: {missing:?}");
}
