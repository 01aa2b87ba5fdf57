//! Counts openings and words that make a text read like a translation, so that they become fewer.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::prose::{Sentence, of_page, of_source};
use crate::source::{CRATES, files, product, root};

/// A pattern of words to be replaced, and how many places may still have it.
struct Pattern {
    name: &'static str,
    /// The words to use instead.
    instead: &'static str,
    limit: usize,
    /// Returns the words at which the pattern begins in a sentence.
    find: fn(&Sentence, &[String]) -> Vec<usize>,
}

/// The limits only decrease.
const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "What …, Who …, Whoever …, Whatever …, Whose … as the subject",
        instead: "name the subject first: \"Fields that a plugin reads …\", \"A client that …\"",
        limit: 6,
        find: |sentence, words| at_beginning(sentence, words),
    },
    Pattern {
        name: "tell, tells, told, telling",
        instead: "report, return, notify, distinguish, or say",
        limit: 0,
        find: |_, words| any_of(words, "tell tells told telling"),
    },
    Pattern {
        name: "is none, are none, is no X, are no X",
        instead: "is absent, is unset, does not exist, is not a valid X, or is not an X",
        limit: 1,
        find: |_, words| negated(words),
    },
    Pattern {
        name: "good, believed",
        instead: "valid, trusted, accepted, or counts as",
        limit: 0,
        find: |_, words| good(words),
    },
    Pattern {
        name: "anew",
        instead: "again",
        limit: 0,
        find: |_, words| any_of(words, "anew"),
    },
    Pattern {
        name: "in vain",
        instead: "without success, or what failed",
        limit: 0,
        find: |_, words| phrase(words, &["in", "vain"]),
    },
    Pattern {
        name: "beside",
        instead: "with, next to, or in addition to",
        limit: 0,
        find: |_, words| any_of(words, "beside"),
    },
    Pattern {
        name: "behind",
        instead: "after, or below",
        limit: 4,
        find: |_, words| behind(words),
    },
    Pattern {
        name: "in front of",
        instead: "before",
        limit: 0,
        find: |_, words| phrase(words, &["in", "front", "of"]),
    },
];

fn is_one_of(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

fn any_of(words: &[String], list: &str) -> Vec<usize> {
    let all = words.iter().enumerate();
    let found = all.filter(|(_, word)| is_one_of(list, word));
    found.map(|(at, _)| at).collect()
}

fn phrase(words: &[String], phrase: &[&str]) -> Vec<usize> {
    let starts = 0..words.len();
    let found = starts.filter(|at| {
        let here = words[*at..].iter().take(phrase.len());
        here.eq(phrase)
    });
    found.collect()
}

/// Finds a relative clause at the beginning of a sentence that is neither a question nor a heading.
fn at_beginning(sentence: &Sentence, words: &[String]) -> Vec<usize> {
    let Some((first, _)) = sentence.words.first() else {
        return Vec::new();
    };
    let first = first.trim_start_matches(|c: char| !c.is_alphanumeric());
    let is_pronoun = is_one_of("what who whoever whatever whose", &words[0]);
    let is_clause = is_pronoun || words.starts_with(&["that".to_owned(), "which".to_owned()]);
    let is_question = sentence.text().contains('?');
    let is_found = is_clause && first.starts_with(char::is_uppercase);
    if is_found && !is_question && !sentence.is_heading {
        vec![0]
    } else {
        Vec::new()
    }
}

/// Finds "is no pattern", but neither "there is no pattern" nor "is no longer".
fn negated(words: &[String]) -> Vec<usize> {
    let starts = any_of(words, "is are");
    let found = starts.into_iter().filter(|at| {
        let is_there = *at > 0 && words[at - 1] == "there";
        let next = words.get(at + 1).map_or("", String::as_str);
        let after = words.get(at + 2).map_or("", String::as_str);
        let is_compared = is_one_of("longer more less fewer later earlier better worse", after);
        !is_there && (next == "none" || next == "no" && !after.is_empty() && !is_compared)
    });
    found.collect()
}

/// Finds "good credentials", but neither "for good" nor "good practice".
fn good(words: &[String]) -> Vec<usize> {
    let starts = any_of(words, "good believe believes believed believing");
    let found = starts.into_iter().filter(|at| {
        let is_ever = *at > 0 && words[at - 1] == "for";
        let next = words.get(at + 1).map_or("", String::as_str);
        let is_usual = is_one_of("practice health", next);
        words[*at] != "good" || !is_ever && !is_usual
    });
    found.collect()
}

/// Finds "behind the name", but neither "lags behind" nor "left behind".
fn behind(words: &[String]) -> Vec<usize> {
    const USUAL: &str = "lag lags lagged lagging fall falls fell leave leaves left leaving";
    let found = any_of(words, "behind").into_iter();
    let found = found.filter(|at| *at == 0 || !is_one_of(USUAL, &words[at - 1]));
    found.collect()
}

/// Returns the sentences of all texts that people read, each with its file.
fn texts() -> Vec<(PathBuf, Vec<Sentence>)> {
    let mut all = Vec::new();
    for folder in CRATES {
        // The error texts in the other crates are kube-apiserver's.
        let errors = matches!(folder, "src" | "actors/src");
        let sources = product(folder).into_iter();
        all.extend(sources.map(|source| (source.path, of_source(&source.text, errors))));
    }
    let pages = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "tests/deviations.md",
    ];
    let pages = pages.map(|page| root().join(page)).into_iter();
    let below = files("docs", ".md").into_iter().chain(files("src", ".md"));
    for path in pages.chain(below) {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let below = path.strip_prefix(root()).unwrap().to_owned();
        all.push((below, of_page(lines)));
    }
    // The most recently changed files come first, because they probably contain the new place.
    let changed = |path: &PathBuf| {
        let data = std::fs::metadata(root().join(path));
        data.and_then(|data| data.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    };
    all.sort_by_cached_key(|(path, _)| std::cmp::Reverse(changed(path)));
    all
}

/// Returns the places of a pattern, one on each line.
fn places(pattern: &Pattern, texts: &[(PathBuf, Vec<Sentence>)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, sentences) in texts {
        for sentence in sentences {
            for at in (pattern.find)(sentence, &sentence.lower()) {
                let line = sentence.words[at].1;
                found.push(format!("{}:{line}: {}", path.display(), sentence.text()));
            }
        }
    }
    found
}

/// With `TAFFRAIL_WORDS` set, the output lists all places of each pattern.
#[test]
fn texts_read_less_and_less_like_a_translation() {
    const SHOWN: usize = 10;
    let texts = texts();
    let mut report = String::new();
    for pattern in PATTERNS {
        let Pattern {
            name,
            instead,
            limit,
            ..
        } = pattern;
        let places = places(pattern, &texts);
        let count = places.len();
        println!("{name}: {count} of at most {limit}");
        if std::env::var_os("TAFFRAIL_WORDS").is_some() {
            println!("{}", places.join("\n"));
        }
        if count > *limit {
            let some = places[..count.min(SHOWN)].join("\n  ");
            let head =
                format!("{name}: {count} places, {limit} at most. Write instead: {instead}.");
            writeln!(report, "{head}\nIn the files that changed last:\n  {some}").unwrap();
        } else if count < *limit {
            let this = file!();
            writeln!(
                report,
                "{name}: lower the limit in {this} from {limit} to {count}"
            )
            .unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// Returns the names of the patterns in a text, each as often as it occurs.
fn found_in(text: &str) -> Vec<&'static str> {
    let texts = [(PathBuf::from("a.md"), of_page([(1, text)]))];
    let found = PATTERNS.iter().flat_map(|pattern| {
        let count = places(pattern, &texts).len();
        std::iter::repeat_n(pattern.name.split([' ', ',']).next().unwrap(), count)
    });
    found.collect()
}

#[test]
fn patterns_find_what_they_are_about() {
    for text in [
        "What a plugin reads comes through it.",
        "Good. Whoever asks waits.",
        "- **Who** asks, waits.",
        "That which is new.",
    ] {
        assert!(found_in(text).contains(&"What"), "{text}");
    }
    for text in [
        "What is it?",
        "It is what a plugin reads.",
        "## What there is",
        "Which one",
    ] {
        assert!(found_in(text).is_empty(), "{text}");
    }
    for (text, names) in [
        ("It tells owners; others are told.", &["tell", "tell"][..]),
        ("The value is none, they are no texts.", &["is", "is"]),
        (
            "There is none, and there are no others; it is no longer one.",
            &[],
        ),
        ("`is none` and `told`", &[]),
        ("Good credentials are believed.", &["good", "good"]),
        ("It stops for good, which is good practice.", &[]),
        ("It lags behind what was left behind.", &[]),
        ("It tries anew and in vain.", &["anew", "in"]),
        (
            "One beside and one behind, in front of it, besides.",
            &["beside", "behind", "in"],
        ),
    ] {
        assert_eq!(found_in(text), names, "{text}");
    }
}
