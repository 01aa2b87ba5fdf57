//! Nothing compares each item of a list with all others: a list of a body is as long as the body.
//!
//! The rule reads what stands inside loops. Searches through a list are refused there, unless the
//! list is written in the sources, belongs to the item of the loop, or is a set. A comment
//! `// linear: ` with a reason, at most three lines above, allows any other.

use crate::source::{Source, product};

/// Where the lists of bodies and of stored objects are read.
const READERS: [&str; 4] = ["api/src", "kinds/src", "src/admission", "src/registry"];

/// The types of all kinds are written in the sources and read once.
const TYPES: [&str; 2] = ["api/src/schema", "kinds/src/types"];

const ALLOWED: &str = "// linear: ";

/// Methods whose closures run once for each item.
const ADAPTERS: &str = "map filter filter_map flat_map for_each retain retain_mut any all find \
                        find_map position rfind take_while skip_while map_while fold try_fold \
                        try_for_each partition";

/// Methods that go through a list.
const SEARCHES: &str = "any all find find_map position rfind rposition";

const SETS: [&str; 4] = ["HashSet", "HashMap", "BTreeSet", "BTreeMap"];

fn has_word(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The words of a text that may be names of variables.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c| !is_word(c));
    words.filter(|word| word.starts_with(|c: char| c.is_lowercase() || c == '_'))
}

/// The word at the end of a text.
fn last_word(text: &str) -> &str {
    let begin = text.trim_end_matches(is_word).len();
    &text[begin..]
}

/// Where the bracket that opens at `at` is closed.
fn closing(code: &str, at: usize) -> usize {
    let mut depth = 0;
    for (place, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 1 => return place,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// A part of the code that runs for each item.
struct Loop<'c> {
    begin: usize,
    end: usize,
    /// The names of the item.
    items: Vec<&'c str>,
}

/// The bodies of `for` and `while`, closures that methods call for each item, and closures with
/// names and parameters.
fn loops(code: &str) -> Vec<Loop<'_>> {
    let mut found = Vec::new();
    for word in ["for ", "while ", "loop "] {
        for (at, _) in code.match_indices(word) {
            let is_inside = code[..at].ends_with(|c| is_word(c) || c == '.');
            let Some(head) = code[at..].find('{').map(|length| &code[at..at + length]) else {
                continue;
            };
            let names_type = word == "for " && !head.contains(" in ");
            if !is_inside && !names_type && !head.contains(';') {
                let begin = at + head.len();
                let pattern = head.split(" in ").next().unwrap();
                let items = names(pattern).skip(1).filter(|_| word == "for ");
                found.push(Loop {
                    begin,
                    end: closing(code, begin),
                    items: items.collect(),
                });
            }
        }
    }
    for (at, _) in code.match_indices('|') {
        let before = code[..at].trim_end().trim_end_matches("move").trim_end();
        let Some(length) = code[at + 1..].find('|').filter(|length| *length > 0) else {
            continue;
        };
        let items: Vec<&str> = names(&code[at + 1..at + 1 + length]).collect();
        if let Some(call) = before.strip_suffix('(') {
            let method = last_word(call);
            let is_method = call[..call.len() - method.len()].ends_with('.');
            if is_method && has_word(ADAPTERS, method) {
                found.push(Loop {
                    begin: at,
                    end: closing(code, before.len() - 1),
                    items,
                });
            }
        } else if before.ends_with('=') {
            // It ends with its statement.
            let mut end = at;
            while let Some(byte) = code.as_bytes().get(end).filter(|byte| **byte != b';') {
                end = match byte {
                    b'(' | b'[' | b'{' => closing(code, end) + 1,
                    _ => end + 1,
                };
            }
            found.push(Loop {
                begin: at,
                end,
                items,
            });
        }
    }
    found
}

/// The expression that ends at `end`, in front of a method.
fn receiver(code: &str, end: usize) -> &str {
    let bytes = code.as_bytes();
    let mut at = end;
    while at > 0 {
        let c = bytes[at - 1] as char;
        if c.is_whitespace() {
            // A chain goes on in the next line.
            let above = code[..at].trim_end();
            if !code[above.len()..].trim_start().starts_with('.') {
                break;
            }
            at = above.len();
        } else if c == ')' || c == ']' {
            let mut depth = 0;
            while at > 0 {
                at -= 1;
                match bytes[at] {
                    b')' | b']' | b'}' => depth += 1,
                    b'(' | b'[' | b'{' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        } else if is_word(c) || "_.:?".contains(c) {
            at -= 1;
        } else {
            break;
        }
    }
    code[at..end].trim()
}

/// The statements that declare a variable of this name.
fn declarations<'c>(code: &'c str, name: &str) -> impl Iterator<Item = (usize, &'c str)> {
    let all = code.match_indices("let ").map(|(at, _)| {
        let end = code[at..]
            .find(';')
            .map_or(code.len(), |length| at + length);
        (at, &code[at..end])
    });
    all.filter(move |(_, text)| {
        let pattern = text.split('=').next().unwrap_or_default();
        names(pattern).any(|one| one == name)
    })
}

/// Whether a name is that of a set or a map, or of a list that is written in the sources.
fn is_known(code: &str, name: &str) -> bool {
    let is_set = |text: &str| SETS.iter().any(|set| text.contains(set));
    let types = code.match_indices(name).filter_map(|(at, _)| {
        let of = code[at + name.len()..].strip_prefix(": ")?;
        (last_word(&code[..at + name.len()]) == name).then_some(of)
    });
    let mut types = types.map(|of| of.trim_start_matches(['&', ' ']).trim_start_matches("mut "));
    // Functions of the file that make sets.
    let makers = code.match_indices("fn ").filter_map(|(at, _)| {
        let head = code[at + 3..].split(['{', ';']).next()?;
        let (head, made) = head.split_once("->")?;
        is_set(made).then(|| head.split(|c| !is_word(c)).next())?
    });
    let makers: Vec<&str> = makers.collect();
    types.any(|of| SETS.iter().any(|set| of.starts_with(set)))
        || declarations(code, name).any(|(_, text)| {
            let value = text
                .split_once('=')
                .map_or("", |(_, value)| value.trim_start());
            is_set(text) || value.starts_with('[') || names(value).any(|one| makers.contains(&one))
        })
}

/// The lines on which a list is searched inside a loop.
fn searches(source: &Source) -> Vec<usize> {
    let code = &source.code;
    let loops = loops(code);
    let mut found = Vec::new();
    for (at, _) in code.match_indices('(') {
        let method = last_word(&code[..at]);
        let Some(dot) = code[..at - method.len()].strip_suffix('.').map(str::len) else {
            continue;
        };
        if method != "contains" && !has_word(SEARCHES, method) {
            continue;
        }
        let inside = loops.iter().filter(|one| one.begin < dot && dot < one.end);
        let inside: Vec<&Loop<'_>> = inside.collect();
        if inside.is_empty() {
            continue;
        }
        let whole = receiver(code, dot);
        let argument = code[at + 1..closing(code, at)].trim();
        let base = whole.trim_start_matches(['&', '*']);
        let base = base.split(|c| !is_word(c)).next().unwrap_or_default();
        let is_item = |name: &str| inside.iter().any(|one| one.items.contains(&name));
        let list = match whole.strip_suffix(".iter()") {
            Some(list) => list.trim_end(),
            None if method == "contains" => whole,
            // An iterator that begins again for each item.
            None => {
                let begins = declarations(code, whole).filter(|(at, text)| {
                    let value = text.split_once('=').map_or("", |(_, value)| value.trim());
                    let of = value.split(|c| !is_word(c)).next().unwrap_or_default();
                    let is_inside = inside.iter().any(|one| one.begin < *at && *at < one.end);
                    is_inside && value.contains(".iter()") && !is_item(of)
                });
                if begins.count() == 0 {
                    continue;
                }
                whole
            }
        };
        // Characters of a text, and ranges. What stands in quotes is blank.
        let is_text = argument.is_empty() || argument.starts_with("|c") || list.contains("..");
        let name = last_word(list.trim_end_matches("()"));
        let is_written = list.is_empty()
            || list.starts_with(['[', 'b']) && list.len() < 2
            || list.starts_with('[')
            || name
                .chars()
                .all(|c| c.is_uppercase() || c.is_numeric() || c == '_')
            || base.starts_with(char::is_uppercase);
        if is_text || is_written || is_item(base) || is_known(code, name) {
            continue;
        }
        let line = code[..at].matches('\n').count();
        let lines = source
            .text
            .lines()
            .take(line + 1)
            .skip(line.saturating_sub(3));
        if !lines.into_iter().any(|line| line.contains(ALLOWED)) {
            found.push(line + 1);
        }
    }
    found
}

#[test]
fn nothing_compares_each_item_of_a_list_with_all_others() {
    let mut report = String::new();
    for source in READERS.into_iter().flat_map(product) {
        let is_free = TYPES.into_iter().any(|free| source.path.starts_with(free));
        for line in searches(&source).into_iter().filter(|_| !is_free) {
            report += &format!("{}:{line}\n", source.path.display());
        }
    }
    assert!(
        report.is_empty(),
        "a list is searched for each item of another one; use api::keyed or a set, or say behind \
         `{ALLOWED}` what bounds the list:\n{report}"
    );
}

#[test]
fn searches_inside_of_loops_are_found() {
    let lines = |text: &str| {
        let code = crate::source::plain(text);
        let path = "api/src/a.rs".into();
        searches(&Source {
            path,
            text: text.into(),
            code,
            module: vec![],
        })
    };
    for refused in [
        "for item in items { if seen.contains(&item) {} }",
        "items.retain(|item| !others.iter().any(|other| other == item));",
        "let of = items.map(|item| others.iter()\n.position(|other| other == item));",
        "let is_same = |item: &Value| others.iter().all(|other| other == item);",
        "while go { let mut known = list.iter(); known.find(is_same); }",
    ] {
        assert!(!lines(refused).is_empty(), "{refused}");
    }
    for allowed in [
        "if seen.contains(&item) { others.iter().any(is_same); }",
        "for item in items { KNOWN.contains(&item); text.contains(\"a\"); (1..3).contains(&item); }",
        "let mut seen = HashSet::new(); for item in items { seen.contains(&item); }",
        "fn f(seen: &HashSet<u8>) { for item in items { seen.contains(&item); } }",
        "for item in items { item.parts.iter().any(is_same); [1, 2].contains(&item); }",
        "let modes = [1, 2]; items.filter(|item| modes.contains(item));",
        "for item in items {\n// linear: a Service has two families.\nfew.contains(&item); }",
        "impl Rule for Of { fn f() { few.contains(&item); } }",
    ] {
        assert!(lines(allowed).is_empty(), "{allowed}");
    }
}
