//! Checks that no code compares each item of a list with all others, because a list in a body can
//! be as long as the body.
//!
//! The check reads the code inside loops. It refuses searches through a list there, unless the list
//! is written in the sources, belongs to the item of the loop, or is a set. A comment `// linear: `
//! with a reason, at most three lines above, permits any other search.

use crate::source::{Source, product};

/// The folders with code that reads the lists of bodies and of stored objects.
const READERS: [&str; 4] = ["api/src", "kinds/src", "src/admission", "src/registry"];

/// The type definitions of all kinds, which are part of the sources and read once.
const TYPES: [&str; 2] = ["api/src/schema", "kinds/src/types"];

const ALLOWED: &str = "// linear: ";

/// Methods that call their closures once for each item.
const ADAPTERS: &str = "map filter filter_map flat_map for_each retain retain_mut any all find \
                        find_map position rfind take_while skip_while map_while fold try_fold \
                        try_for_each partition";

/// Methods that search a list.
const SEARCHES: &str = "any all find find_map position rfind rposition";

/// Expressions that turn a list into an iterator, or return the list of a field.
const LISTS: [&str; 6] = [
    ".iter()",
    ".iter_mut()",
    ".into_iter()",
    ".items()",
    ".list()",
    ".entries()",
];

const SETS: [&str; 4] = ["HashSet", "HashMap", "BTreeSet", "BTreeMap"];

fn has_word(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the words of a text that may be names of variables.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c| !is_word(c));
    words.filter(|word| word.starts_with(|c: char| c.is_lowercase() || c == '_'))
}

/// Returns the word at the end of a text.
fn last_word(text: &str) -> &str {
    let begin = text.trim_end_matches(is_word).len();
    &text[begin..]
}

/// Returns the place of the bracket that closes the one at `at`.
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

/// Code that runs once for each item.
struct Loop<'c> {
    begin: usize,
    end: usize,
    /// The names of the item and its parts.
    items: Vec<&'c str>,
}

/// Whether this iterates over the few items of an array literal.
fn is_short(chain: &str) -> bool {
    chain.trim_start_matches('&').starts_with('[') && !chain.contains("flat")
}

/// Returns the bodies of `for` and `while`, closures that methods call for each item, and named
/// closures with parameters. Code that runs for the items of an array literal is left out.
fn loops(code: &str) -> Vec<Loop<'_>> {
    let mut found = Vec::new();
    for word in ["for ", "while ", "loop "] {
        for (at, _) in code.match_indices(word) {
            let is_inside = code[..at].ends_with(|c| is_word(c) || c == '.');
            let Some(head) = code[at..].find('{').map(|length| &code[at..at + length]) else {
                continue;
            };
            let names_type = word == "for " && !head.contains(" in ");
            let over = head.split_once(" in ").map_or("", |(_, over)| over);
            if !is_inside && !names_type && !head.contains(';') && !is_short(over) {
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
            let dot = call[..call.len() - method.len()].strip_suffix('.');
            let is_of_many = dot.is_some_and(|above| !is_short(receiver(code, above.len())));
            if is_of_many && has_word(ADAPTERS, method) {
                found.push(Loop {
                    begin: at,
                    end: closing(code, before.len() - 1),
                    items,
                });
            }
        } else if before.ends_with('=') {
            // The closure ends with its statement.
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

/// Returns the expression before a method. It ends at `end`.
fn receiver(code: &str, end: usize) -> &str {
    let bytes = code.as_bytes();
    let mut at = end;
    while at > 0 {
        let c = bytes[at - 1] as char;
        if c.is_whitespace() {
            // A chain continues on the next line.
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

/// Returns the statements that declare a variable of this name.
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

/// Returns the list at the beginning of a chain that iterates over it.
fn searched(chain: &str) -> Option<&str> {
    let places = LISTS.iter().filter_map(|list| chain.find(list));
    places.min().map(|place| chain[..place].trim_end())
}

/// Returns the name of a variable, a field or a function at the end of an expression.
fn name(expression: &str) -> &str {
    let called = expression.trim_end_matches('?');
    let Some(arguments) = called.strip_suffix(')') else {
        return last_word(called);
    };
    let mut depth = 1;
    let begin = arguments.rfind(|c| {
        depth += i32::from(c == ')') - i32::from(c == '(');
        depth == 0
    });
    last_word(&arguments[..begin.unwrap_or_default()])
}

/// Returns the first word of an expression, or of the first argument of the function it begins
/// with.
fn base(expression: &str) -> &str {
    let expression = expression.trim_start_matches(['&', '*', ' ']);
    let function = expression.trim_start_matches(is_word);
    if let (false, Some(arguments)) = (function == expression, function.strip_prefix('(')) {
        return base(arguments);
    }
    expression.split(|c| !is_word(c)).next().unwrap_or_default()
}

/// Returns the innermost function around a place.
fn function(code: &str, at: usize) -> &str {
    let begins = code[..at].rmatch_indices("fn ").map(|(begin, _)| begin);
    let mut functions = begins.filter_map(|begin| {
        let body = begin + code[begin..].find('{')?;
        let end = closing(code, body);
        (at < end).then(|| &code[begin..end])
    });
    functions.next().unwrap_or(code)
}

/// Whether a list is a set or a map, or is written in the sources. A variable is declared in its
/// function, a field anywhere in the file.
fn is_known(code: &str, at: usize, list: &str) -> bool {
    let name = name(list);
    let is_field = list.ends_with(&format!(".{name}"));
    let scope = if is_field { code } else { function(code, at) };
    let is_set = |text: &str| SETS.iter().any(|set| text.contains(set));
    let types = scope.match_indices(name).filter_map(|(at, _)| {
        let of = scope[at + name.len()..].strip_prefix(": ")?;
        (last_word(&scope[..at + name.len()]) == name).then_some(of)
    });
    let mut types = types.map(|of| of.trim_start_matches(['&', ' ']).trim_start_matches("mut "));
    // Functions of the file that return sets.
    let makers = code.match_indices("fn ").filter_map(|(at, _)| {
        let head = code[at + 3..].split(['{', ';']).next()?;
        let (head, made) = head.split_once("->")?;
        is_set(made).then(|| head.split(|c| !is_word(c)).next())?
    });
    let makers: Vec<&str> = makers.collect();
    types.any(|of| SETS.iter().any(|set| of.starts_with(set)))
        || !is_field
            && declarations(scope, name).any(|(_, text)| {
                let value = text
                    .split_once('=')
                    .map_or("", |(_, value)| value.trim_start());
                is_set(text)
                    || value.starts_with('[')
                    || names(value).any(|one| makers.contains(&one))
            })
}

/// Whether a variable is the item of a loop, or is declared in it as a part of the item.
fn is_item(code: &str, inside: &[&Loop<'_>], name: &str) -> bool {
    let is_named = |name: &str| inside.iter().any(|one| one.items.contains(&name));
    let is_inside = |at: usize| inside.iter().any(|one| one.begin < at && at < one.end);
    let is_part = |(at, text): (usize, &str)| {
        let value = text.split_once('=').map_or("", |(_, value)| value);
        is_inside(at) && base(value) != name && is_item(code, inside, base(value))
    };
    is_named(name) || declarations(code, name).any(is_part)
}

/// Whether the expression is a list of constants or a text in the sources.
fn is_written(list: &str) -> bool {
    let name = name(list);
    let is_constant = |c: char| c.is_uppercase() || c.is_numeric() || c == '_';
    list.is_empty()
        || list == "b"
        || list.starts_with('[')
        || list.starts_with('(') && list.contains("..")
        || !name.is_empty() && name.chars().all(is_constant)
        || base(list).starts_with(char::is_uppercase)
}

/// Returns the list that the method whose arguments begin at `at` searches, if it searches one.
fn list_of<'c>(code: &'c str, at: usize, inside: &[&Loop<'_>]) -> Option<&'c str> {
    let method = last_word(&code[..at]);
    let dot = at - method.len() - 1;
    let whole = receiver(code, dot);
    match method {
        "contains" => Some(searched(whole).unwrap_or(whole)),
        "next" => searched(whole).filter(|list| whole[list.len()..].contains(".filter")),
        _ if !has_word(SEARCHES, method) => None,
        _ => searched(whole).or_else(|| {
            // An iterator that begins again for each item.
            let mut begins = declarations(code, whole).filter(|(at, text)| {
                let value = text.split_once('=').map_or("", |(_, value)| value.trim());
                let is_inside = inside.iter().any(|one| one.begin < *at && *at < one.end);
                is_inside && searched(value).is_some() && !is_item(code, inside, base(value))
            });
            begins.next().map(|_| whole)
        }),
    }
}

/// Returns the lines on which a list is searched inside a loop.
fn searches(source: &Source) -> Vec<usize> {
    let code = &source.code;
    let loops = loops(code);
    let mut found = Vec::new();
    for (at, _) in code.match_indices('(') {
        let method = last_word(&code[..at]);
        let is_method = code[..at - method.len()].ends_with('.');
        if !is_method || !(["contains", "next"].contains(&method) || has_word(SEARCHES, method)) {
            continue;
        }
        let inside = loops.iter().filter(|one| one.begin < at && at < one.end);
        let inside: Vec<&Loop<'_>> = inside.collect();
        let list = list_of(code, at, &inside).filter(|_| !inside.is_empty());
        let Some(list) = list else {
            continue;
        };
        // A search for characters in a text. The code has blanks instead of quoted text.
        let argument = code[at + 1..closing(code, at)].trim();
        let is_text = method != "next"
            && (argument.is_empty() || argument.starts_with("|c|") || argument.starts_with("|c:"));
        let is_free = is_text || is_written(list) || is_item(code, &inside, base(list));
        if is_free || is_known(code, at, list) {
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
        "a list is searched for each item of another one; use api::keyed or a set, or state \
         the bound of the list after `{ALLOWED}`:\n{report}"
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
        "for item in items { seen.contains(|container| container == item); }",
        "for item in items { volumes.items().find(|volume| volume == item); }",
        "for item in items { list.iter().rev().find(is_same); }",
        "for item in items { list.iter().filter(is_same).next(); }",
        "for item in items { list.iter().skip(1).any(is_same); }",
        "for item in items { list.iter().copied().any(is_same); }",
        "for item in items { list.list().iter().any(is_same); }",
        "for item in items { spec.member(of).list().iter().any(is_same); }",
        "for item in items { list.into_iter().flatten().any(is_same); }",
        "for item in items { labels.entries().any(is_same); }",
        "for item in items { list[..3].contains(item); }",
        "for list in [a, b] { for item in list { list.iter().any(is_same); } }",
        "for item in items { list(spec, of).iter().any(is_same); }",
        "for item in items { let others = spec.items(); others.iter().any(is_same); }",
        "fn f() { let seen = HashSet::new(); } fn g() { for item in items { seen.contains(&item); } }",
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
        "for item in items { let parts = item.member(of); parts.items().any(is_same); }",
        "struct S { seen: HashSet<u8> } fn f() { for item in items { self.seen.contains(&item); } }",
        "for list in [a, b] { spec.items().any(is_same); }",
        "[a, b].iter().any(|list| spec.items().any(is_same));",
        "for item in items { list(item, of).iter().any(is_same); }",
        "for item in items { text.contains(|c: char| c == of); text.contains(|c| c == of); }",
        "impl Rule for Of { fn f() { few.contains(&item); } }",
    ] {
        assert!(lines(allowed).is_empty(), "{allowed}");
    }
}
