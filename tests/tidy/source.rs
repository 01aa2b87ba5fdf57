//! Parses Rust sources as far as the rules need it.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file of a crate.
pub struct Source {
    /// Relative to the root of the repository.
    pub path: PathBuf,
    /// The complete text.
    pub text: String,
    /// The text without comments, the content of strings, and code that is compiled only for tests.
    pub code: String,
    /// The path of the module in its crate, such as `["storage", "embedded", "record"]`.
    pub module: Vec<String>,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all files below a folder of the repository with this ending, sorted.
pub fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root().join(folder), ending, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, ending, found);
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
}

/// The folders with product sources, one for each crate.
pub const CRATES: [&str; 5] = [
    "src",
    "actors/src",
    "api/src",
    "descriptions/src",
    "kinds/src",
];

/// The folders with everything that people write.
pub const FOLDERS: [&str; 9] = [
    "src",
    "actors",
    "api",
    "descriptions",
    "kinds",
    "tests",
    "config",
    "docs",
    ".ci",
];

/// Returns the sources of all crates.
pub fn whole_product() -> Vec<Source> {
    CRATES.iter().flat_map(|folder| product(folder)).collect()
}

/// Returns the folder of a module, or its file without the ending: `api::protobuf` is
/// `api/src/protobuf`. A path that begins with no crate's name is in the daemon.
pub fn place_of(module: &str) -> PathBuf {
    let (first, rest) = module.split_once("::").unwrap_or((module, ""));
    let (folder, rest) = match first {
        "actors" | "api" | "descriptions" | "kinds" => (format!("{first}/src"), rest),
        _ => ("src".to_owned(), module),
    };
    root().join(folder).join(rest.replace("::", "/"))
}

/// Whether a module exists and has unit tests.
pub fn has_tests(module: &str) -> bool {
    let place = place_of(module);
    let files = [place.with_extension("rs"), place.join("mod.rs")];
    let texts = files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok());
    texts
        .into_iter()
        .any(|text| text.contains("#[cfg(test)]\nmod tests"))
}

/// Returns the sources of a crate, without files that contain only unit tests.
pub fn product(folder: &str) -> Vec<Source> {
    let base = root().join(folder);
    files(folder, ".rs")
        .into_iter()
        .filter(|path| !is_test(path))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let below = path.strip_prefix(&base).unwrap();
            Source::parse(path.strip_prefix(root()).unwrap(), below, text)
        })
        .collect()
}

/// Whether a file of a crate is compiled only for tests.
pub fn is_test(path: &Path) -> bool {
    path.strip_prefix(root()).unwrap().iter().any(|part| {
        let part = part.to_str().unwrap();
        matches!(part, "tests" | "tests.rs" | "fixture.rs" | "testing.rs")
            || part.ends_with("_tests.rs")
    })
}

/// A comment or a literal.
pub struct Piece {
    /// Its first line, counted from 0.
    pub line: usize,
    /// Whether only spaces precede it on its line.
    pub is_first: bool,
    /// Its position in the result of [`plain`], in bytes.
    pub at: usize,
    /// Its text, including quotes or slashes.
    pub text: String,
}

/// Replaces comments and the content of strings and characters by spaces, and keeps line breaks.
pub fn plain(text: &str) -> String {
    pieces(text).0
}

/// Returns the result of [`plain`], and the pieces that it replaced.
pub fn pieces(text: &str) -> (String, Vec<Piece>) {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut left_out = Vec::new();
    let (mut at, mut line, mut is_first) = (0, 0, true);
    while at < chars.len() {
        let rest = &chars[at..];
        let length = match rest {
            ['/', '/', ..] => rest.iter().take_while(|c| **c != '\n').count(),
            ['/', '*', ..] => block_comment(rest),
            ['r', '"' | '#', ..] if at == 0 || !is_word(chars[at - 1]) => raw_string(rest),
            ['"', ..] => quoted(rest, '"'),
            ['\'', '\\', ..] => quoted(rest, '\''),
            ['\'', _, '\'', ..] => 3,
            _ => 0,
        };
        if length > 0 {
            left_out.push(Piece {
                line,
                is_first,
                at: out.len(),
                text: rest[..length].iter().collect(),
            });
        }
        for c in &rest[..length.max(1)] {
            let blank = if *c == '\n' { '\n' } else { ' ' };
            out.push(if length == 0 { *c } else { blank });
            line += usize::from(*c == '\n');
            is_first = *c == '\n' || is_first && c.is_whitespace();
        }
        at += length.max(1);
    }
    (out, left_out)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn block_comment(text: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match &text[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn raw_string(text: &[char]) -> usize {
    let hashes = text[1..].iter().take_while(|c| **c == '#').count();
    if text.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut at = 2 + hashes;
    while at < text.len() {
        if text[at] == '"' && text[at + 1..].iter().take(hashes).all(|c| *c == '#') {
            return at + 1 + hashes;
        }
        at += 1;
    }
    at
}

fn quoted(text: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Replaces items under `#[cfg(test)]` by spaces, and keeps line breaks.
fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    for item in items_for_tests(code) {
        let lines = out[item.clone()].chars();
        let blank: String = lines.map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(item, &blank);
    }
    out
}

/// Returns the items under `#[cfg(test)]` in [`plain`] code, from the last one to the first.
pub fn items_for_tests(code: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let out = code;
    let mut from = 0;
    const MARK: &str = "#[cfg(test)]";
    while let Some(start) = out[from..].find(MARK).map(|start| from + start) {
        let ends: &[char] = match is_field(&out[start + MARK.len()..]) {
            true => &[','],
            false => &['{', ';'],
        };
        let body = start + out[start..].find(ends).unwrap_or(out.len() - start - 1);
        let mut end = body + 1;
        let mut depth = usize::from(out.as_bytes()[body] == b'{');
        while depth > 0 && end < out.len() {
            match out.as_bytes()[end] {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            end += 1;
        }
        found.push(start..end);
        from = end;
    }
    found.reverse();
    found
}

/// Whether the next code is a field of a struct instead of an item.
fn is_field(code: &str) -> bool {
    let code = code.trim_start();
    let name = code.split_once(") ").map_or(code, |(visibility, rest)| {
        let is_visibility =
            visibility.starts_with("pub(") && !visibility.contains(char::is_whitespace);
        if is_visibility { rest } else { code }
    });
    let behind = name.trim_start_matches(is_word);
    behind.starts_with(',') || (behind.starts_with(':') && !behind.starts_with("::"))
}

impl Source {
    /// Parses a file, given its path in the repository and its path below the folder of its crate.
    pub fn parse(path: &Path, below: &Path, text: String) -> Source {
        let below = below.with_extension("");
        let parts = below.iter().map(|part| part.to_str().unwrap().to_owned());
        Source {
            path: path.to_owned(),
            code: without_tests(&plain(&text)),
            text,
            module: parts
                .filter(|part| !matches!(part.as_str(), "mod" | "lib"))
                .collect(),
        }
    }

    /// Returns every path within this crate that the code names, from the root of the crate.
    pub fn names_inside(&self) -> Vec<Vec<String>> {
        let mut all = self.names_of("crate");
        let mut above = self.module.clone();
        let is_folder = self.path.ends_with("mod.rs") || self.path.ends_with("lib.rs");
        if !is_folder {
            above.pop();
        }
        for path in self.names_of("super") {
            let mut from = self.module.clone();
            from.pop();
            let ups = path.iter().take_while(|part| *part == "super").count();
            from.truncate(from.len().saturating_sub(ups));
            from.extend(path.into_iter().skip(ups));
            all.push(from);
        }
        all
    }

    /// Returns every path of several names, and every path of a `use`, as written.
    pub fn paths(&self) -> Vec<Vec<String>> {
        let tokens = tokens(&self.code);
        let mut all = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            let is_use = tokens[at] == "use";
            let is_path = tokens[at].starts_with(is_word)
                && tokens.get(at + 1).is_some_and(|token| token == "::");
            // `pub(in crate::server)` limits the visibility of an item, and uses nothing.
            let is_visibility = at > 2 && tokens[at - 3..at] == ["pub", ";", "in"];
            if is_use || is_path && !is_visibility {
                let begin = at + usize::from(is_use);
                at = tree(&tokens, begin, &mut Vec::new(), &mut all);
            } else {
                at += 1 + usize::from(is_visibility && is_path) * 2;
            }
        }
        all
    }

    /// Returns every path that begins with a word, such as `actors` or `crate`.
    pub fn names_of(&self, first: &str) -> Vec<Vec<String>> {
        let tokens = tokens(&self.code);
        let mut all = Vec::new();
        for at in 0..tokens.len().saturating_sub(1) {
            let starts = at == 0 || tokens[at - 1] != "::";
            if tokens[at] == first && tokens[at + 1] == "::" && starts {
                tree(&tokens, at + 2, &mut Vec::new(), &mut all);
            }
        }
        all
    }

    /// Counts the lines of code, without comments, blank lines and unit tests.
    pub fn product_lines(&self) -> usize {
        self.code
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count()
    }

    /// Returns each function with its first line and its number of lines.
    pub fn functions(&self) -> Vec<(String, usize, usize)> {
        let lines: Vec<&str> = self.code.lines().collect();
        let mut found = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            let words: Vec<&str> = line.split(|c: char| !is_word(c)).collect();
            let Some(name) = words
                .iter()
                .position(|w| *w == "fn")
                .and_then(|i| words.get(i + 1))
            else {
                continue;
            };
            if let Some(length) = body(&lines[number..]) {
                found.push(((*name).to_owned(), number + 1, length));
            }
        }
        found
    }
}

/// Returns the number of lines of the item that begins here, if it has a body.
fn body(lines: &[&str]) -> Option<usize> {
    let (mut depth, mut brackets, mut opened) = (0i32, 0i32, false);
    for (number, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets -= 1,
                '{' => (depth, opened) = (depth + 1, true),
                '}' => depth -= 1,
                ';' if !opened && brackets == 0 => return None,
                _ => {}
            }
        }
        if opened && depth <= 0 {
            return Some(number + 1);
        }
    }
    None
}

/// Splits code into words, `::`, brackets, commas and stars. `;` stands for every other sign.
fn tokens(code: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut last = ' ';
    for c in code.chars() {
        if is_word(c) {
            word.push(c);
        } else {
            if !word.is_empty() {
                all.push(std::mem::take(&mut word));
            }
            if c == ':' && last == ':' {
                all.push("::".to_owned());
                last = ' ';
                continue;
            }
            if matches!(c, '{' | '}' | ',' | '*') {
                all.push(c.to_string());
            } else if c != ':' && !c.is_whitespace() {
                all.push(";".to_owned());
            }
        }
        last = c;
    }
    all.push(word);
    all
}

/// Expands `a::{b, c::d}` from a token on. Returns the index of the token after it.
fn tree(
    tokens: &[String],
    mut at: usize,
    before: &mut Vec<String>,
    all: &mut Vec<Vec<String>>,
) -> usize {
    let depth = before.len();
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = tree(tokens, at, before, all);
                    while tokens
                        .get(at)
                        .is_some_and(|token| token == "," || token == ";")
                    {
                        at += 1;
                    }
                }
                before.truncate(depth);
                return at + 1;
            }
            Some(word) if word.starts_with(is_word) => {
                before.push(word.to_owned());
                at += 1;
                if tokens.get(at).is_some_and(|token| token == "::") {
                    at += 1;
                    continue;
                }
                all.push(before.clone());
                // `as name`
                if tokens.get(at).is_some_and(|token| token == "as") {
                    at += 2;
                }
            }
            _ => {
                all.push(before.clone());
                at += 1;
            }
        }
        before.truncate(depth);
        return at;
    }
}

#[test]
fn use_trees_are_expanded() {
    let text = "use crate::{a::{self, b as x}, c};\nfn f() { crate::d::e(\"crate::no\"); } // crate::no\n\
                #[cfg(test)]\nmod tests { use crate::no; }\nuse crate::api::*;\n\
                struct S { #[cfg(test)]\npub(super) a: crate::no, b: crate::e }";
    let code = without_tests(&plain(text));
    let source = Source {
        path: "src/m/n.rs".into(),
        text: text.into(),
        code,
        module: vec![],
    };
    let names: Vec<String> = source
        .names_of("crate")
        .iter()
        .map(|p| p.join("::"))
        .collect();
    assert_eq!(names, ["a::self", "a::b", "c", "d::e", "api", "e"]);
}

#[test]
fn functions_are_measured() {
    let text =
        "impl A {\n    fn a(\n        &self,\n    ) {\n        \"}\";\n    }\n    fn b();\n}\n";
    let code = plain(text);
    let source = Source {
        path: "a.rs".into(),
        text: text.into(),
        code,
        module: vec![],
    };
    assert_eq!(source.functions(), [("a".to_owned(), 2, 5)]);
}
