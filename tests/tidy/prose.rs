//! Finds the sentences that people read: comments, log lines, error texts, help of metrics, pages.

use std::ops::Range;

use crate::source::{Piece, items_for_tests, pieces};

/// A sentence, or a text that is handled like one: a heading, a cell of a table, a message.
pub struct Sentence {
    /// Each word as it is written, with its line number from 1 on.
    pub words: Vec<(String, usize)>,
    pub is_heading: bool,
}

/// The macros whose texts operators read. Texts elsewhere may be kube-apiserver's.
const MACROS: &str = "error warn info debug trace println eprintln bail describe_counter describe_gauge \
                      describe_histogram";

impl Sentence {
    pub fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(|(word, _)| word.as_str()).collect();
        words.join(" ").replace(IN_CODE, " ")
    }

    /// Returns the words in lower case, without the punctuation around them. Code becomes empty
    /// words.
    pub fn lower(&self) -> Vec<String> {
        let bare = |word: &str| match word.contains('`') {
            true => String::new(),
            false => word
                .trim_matches(|c: char| !c.is_alphanumeric())
                .to_lowercase(),
        };
        self.words.iter().map(|(word, _)| bare(word)).collect()
    }
}

/// Replaces a space in code, which counts as one word of a sentence.
const IN_CODE: char = '\u{1}';

/// Returns the sentences of a Markdown page, given as numbered lines. Code blocks are left out.
pub fn of_page<'t>(lines: impl IntoIterator<Item = (usize, &'t str)>) -> Vec<Sentence> {
    let mut blocks = Blocks::default();
    for (number, line) in lines {
        blocks.add(number, line);
    }
    blocks.end();
    blocks.found
}

#[derive(Default)]
struct Blocks {
    found: Vec<Sentence>,
    /// The lines of the current paragraph.
    open: Vec<(usize, String)>,
    is_fenced: bool,
    /// Whether a line that is indented by four spaces begins or continues code.
    is_after_blank: bool,
}

impl Blocks {
    fn add(&mut self, number: usize, line: &str) {
        let text = line.trim();
        if text.starts_with("```") {
            self.end();
            self.is_fenced = !self.is_fenced;
        } else if text.is_empty() {
            self.end();
            self.is_after_blank = true;
        } else if self.is_fenced || self.is_after_blank && is_code(line) {
            self.end();
        } else if text.starts_with('|') {
            self.end();
            for cell in cells(text) {
                self.open.push((number, cell.to_owned()));
                self.end();
            }
        } else if let Some(heading) = text.strip_prefix('#') {
            self.end();
            let heading = heading.trim_start_matches('#').trim_start();
            self.open.push((number, heading.to_owned()));
            self.close(true);
        } else {
            let item = item(text);
            if item.is_some() {
                self.end();
            }
            self.open.push((number, item.unwrap_or(text).to_owned()));
            self.is_after_blank = false;
        }
    }

    fn end(&mut self) {
        self.close(false);
    }

    fn close(&mut self, is_heading: bool) {
        let open = std::mem::take(&mut self.open);
        for words in sentences(&words(&open)) {
            self.found.push(Sentence {
                words: words.to_vec(),
                is_heading,
            });
        }
    }
}

/// Whether a line is indented and does not begin an item of a list.
fn is_code(line: &str) -> bool {
    line.starts_with("    ") && item(line.trim()).is_none()
}

/// Returns the text of a list item, or of a quoted line.
fn item(text: &str) -> Option<&str> {
    let numbered = || {
        let (number, rest) = text.split_once(". ")?;
        let is_number = number.len() < 5 && number.chars().all(|c| c.is_ascii_digit());
        is_number.then_some(rest)
    };
    let markers = ["- ", "* ", "+ ", "> "];
    markers
        .iter()
        .find_map(|marker| text.strip_prefix(marker))
        .or_else(numbered)
}

fn cells(row: &str) -> impl Iterator<Item = &str> {
    row.split('|')
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
}

/// Returns the words of a paragraph. Code in backticks is one word.
fn words(lines: &[(usize, String)]) -> Vec<(String, usize)> {
    let mut is_code = false;
    let mut all = Vec::new();
    for (number, line) in lines {
        let shown = line.chars().map(|c| {
            is_code ^= c == '`';
            if is_code && c == ' ' { IN_CODE } else { c }
        });
        let line: String = shown.collect();
        all.extend(
            line.split_whitespace()
                .map(|word| (word.to_owned(), *number)),
        );
    }
    all
}

/// Splits a paragraph after a word that ends a sentence, unless the next word is in lower case.
fn sentences(words: &[(String, usize)]) -> Vec<&[(String, usize)]> {
    let ends = |word: &str| {
        let bare = word.trim_end_matches(|c: char| "\"')]}*_`".contains(c));
        bare.ends_with(['.', '!', '?'])
    };
    let goes_on = |word: &str| word.starts_with(char::is_lowercase);
    let mut found = Vec::new();
    let mut begin = 0;
    for at in 0..words.len() {
        let is_last = words.get(at + 1).is_none_or(|(next, _)| !goes_on(next));
        if at + 1 == words.len() || ends(&words[at].0) && is_last {
            found.push(&words[begin..=at]);
            begin = at + 1;
        }
    }
    found
}

/// Returns the sentences of a source file: those in comments, and in the macros that write logs,
/// describe metrics and name errors. Tests are left out. So are error texts (`errors` is false) in
/// crates that return kube-apiserver's messages.
pub fn of_source(text: &str, errors: bool) -> Vec<Sentence> {
    let (code, pieces) = pieces(text);
    let tests = items_for_tests(&code);
    let pieces: Vec<&Piece> = pieces
        .iter()
        .filter(|piece| !tests.iter().any(|item| item.contains(&piece.at)))
        .collect();
    let mut found = Vec::new();
    for comment in comments(&pieces) {
        found.extend(of_page(comment));
    }
    for range in calls(&code, errors) {
        let inside = pieces.iter().filter(|piece| range.contains(&piece.at));
        for piece in inside.filter(|piece| piece.text.contains('"')) {
            let lines = piece.text.lines().enumerate();
            let lines = lines.map(|(number, line)| {
                let line = line.trim().trim_end_matches('\\').trim_matches('"');
                (piece.line + number + 1, line.trim())
            });
            found.extend(of_page(lines));
        }
    }
    found
}

/// Returns the lines of each group of consecutive comments, with their numbers.
fn comments<'p>(pieces: &[&'p Piece]) -> Vec<Vec<(usize, &'p str)>> {
    let mut found: Vec<Vec<(usize, &str)>> = Vec::new();
    let mut last = ("", 0);
    for piece in pieces.iter().filter(|piece| piece.text.starts_with("//")) {
        let markers = ["///", "//!", "//"];
        let marker = markers
            .iter()
            .find(|marker| piece.text.starts_with(**marker))
            .unwrap();
        let text = &piece.text[marker.len()..];
        let line = (piece.line + 1, text.strip_prefix(' ').unwrap_or(text));
        let is_next = piece.is_first && last == (*marker, piece.line);
        match found.last_mut().filter(|_| is_next) {
            Some(group) => group.push(line),
            None => found.push(vec![line]),
        }
        last = (if piece.is_first { marker } else { "" }, piece.line + 1);
    }
    found
}

/// Returns the ranges of the arguments of [`MACROS`] and of `#[error(…)]`.
fn calls(code: &str, errors: bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('(') {
        let before = &code[..at];
        let is_error = errors && before.ends_with("#[error");
        let is_macro = before.strip_suffix('!').is_some_and(|before| {
            let name = before
                .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
                .next();
            name.is_some_and(|name| MACROS.split_whitespace().any(|one| one == name))
        });
        if is_error || is_macro {
            let mut depth = 0;
            let closed = code[at..].find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            });
            found.push(at..at + closed.unwrap_or(0));
        }
    }
    found
}

#[cfg(test)]
fn texts(sentences: &[Sentence]) -> Vec<String> {
    sentences.iter().map(Sentence::text).collect()
}

#[test]
fn pages_are_cut_into_sentences() {
    let page = "# A heading\n\nOne sentence, e.g. this\none. Another `in. Code` here!\n\n    code. Here\n\n\
                - An item\n  goes on.\n- \"Is it?\" Yes.\n\n```text\ncode\n```\n| a | b c |\n|---|---|\n";
    let sentences = of_page(page.lines().enumerate().map(|(at, line)| (at + 1, line)));
    let expected = [
        "A heading",
        "One sentence, e.g. this one.",
        "Another `in. Code` here!",
        "An item goes on.",
        "\"Is it?\"",
        "Yes.",
        "a",
        "b c",
        "---",
        "---",
    ];
    assert_eq!(texts(&sentences), expected);
    let lines: Vec<usize> = sentences
        .iter()
        .map(|sentence| sentence.words[0].1)
        .collect();
    assert_eq!(lines, [1, 3, 4, 8, 10, 10, 15, 15, 16, 16]);
    assert!(sentences[0].is_heading && !sentences[1].is_heading);
    assert_eq!(sentences[2].lower(), ["another", "", "here"]);
}

#[test]
fn sources_have_comments_and_messages() {
    let source = "//! The file.\n\n/// An item\n/// of two lines. And more.\nfn f() {\n    \
                  // One. Two.\n    let a = 1; // Three.\n    let no = \"No text.\";\n    \
                  tracing::warn!(error = %e, \"a {} \\\n        message\", f(\"text\"));\n}\n\
                  #[error(\"an error\")]\nstruct E;\n\
                  #[cfg(test)]\nmod tests {\n    // No comment.\n}\n";
    let expected = [
        "The file.",
        "An item of two lines.",
        "And more.",
        "One.",
        "Two.",
        "Three.",
        "a {} message",
        "text",
        "an error",
    ];
    let found = of_source(source, true);
    assert_eq!(texts(&found), expected);
    assert_eq!(found[6].words[2], ("message".to_owned(), 10));
    assert_eq!(of_source(source, false).len(), expected.len() - 1);
}
