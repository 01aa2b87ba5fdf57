//! The difference of two documents as kube-apiserver shows it: changed lines with three lines of
//! context.
//!
//! Lines are matched as in Python's `difflib`: the longest run of equal lines first, then the lines
//! on both sides of it. In long documents, very frequent lines do not start a run.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

/// The lines of context around a difference.
const CONTEXT: usize = 3;
/// The number of lines from which frequent lines are ignored.
const LONG: usize = 200;
/// The limit of compared lines and pairs of lines: a constant, and more for each line of the
/// documents. Documents that exceed it have little in common.
const PAIRS: usize = 200_000;
const PAIRS_FOR_LINE: usize = 16;

/// A run of lines that are equal in both documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    old: usize,
    new: usize,
    length: usize,
}

/// Corresponding ranges of lines of both documents.
#[derive(Clone, Debug)]
struct Part {
    is_equal: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// Returns the difference of two compact JSON texts, line by line.
pub fn json_difference(old: &str, new: &str) -> String {
    let (old, new) = (indented(old), indented(new));
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    let mut text = String::new();
    for group in groups(parts(&old, &new)) {
        write_group(&mut text, &group, &old, &new);
    }
    text
}

/// Indents a compact JSON text, with one member or item per line.
fn indented(compact: &str) -> String {
    let mut text = String::with_capacity(compact.len() * 2);
    let mut depth = 0_usize;
    let (mut is_text, mut is_escaped) = (false, false);
    let mut letters = compact.chars().peekable();
    while let Some(letter) = letters.next() {
        if is_text {
            is_text = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            text.push(letter);
            continue;
        }
        match letter {
            '{' | '[' => {
                text.push(letter);
                let end = letters.next_if(|next| matches!(next, '}' | ']'));
                match end {
                    Some(end) => text.push(end),
                    None => {
                        depth += 1;
                        break_line(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut text, depth);
                text.push(letter);
            }
            ',' => {
                text.push(letter);
                break_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => {
                is_text = letter == '"';
                text.push(letter);
            }
        }
    }
    text
}

fn break_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', depth));
}

/// Returns the positions of each line of the new document, without lines that are too frequent.
fn places<'l>(new: &[&'l str]) -> HashMap<&'l str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, line) in new.iter().enumerate() {
        places.entry(line).or_default().push(place);
    }
    if new.len() >= LONG {
        let most = new.len() / 100 + 1;
        places.retain(|_, places| places.len() <= most);
    }
    places
}

/// Returns the longest run in these ranges; the first one of several.
fn longest_run(
    old: &[&str],
    new: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    ranges: (Range<usize>, Range<usize>),
    pairs: &mut usize,
) -> Run {
    let (in_old, in_new) = ranges;
    let mut best = Run {
        old: in_old.start,
        new: in_new.start,
        length: 0,
    };
    // For each line of the new document, the length of the run that ends there.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (at, line) in old.iter().enumerate().take(in_old.end).skip(in_old.start) {
        let mut next = HashMap::new();
        if *pairs == 0 {
            break;
        }
        *pairs -= 1;
        for place in places.get(line).into_iter().flatten().copied() {
            *pairs = pairs.saturating_sub(1);
            // linear: this is a range, not a list.
            if !in_new.contains(&place) {
                continue;
            }
            let before = place.checked_sub(1).and_then(|place| lengths.get(&place));
            let length = before.copied().unwrap_or(0) + 1;
            next.insert(place, length);
            if length > best.length {
                best = Run {
                    old: at + 1 - length,
                    new: place + 1 - length,
                    length,
                };
            }
        }
        lengths = next;
    }
    // Frequent lines next to a run extend it.
    let is_equal = |at: usize, place: usize| old.get(at) == new.get(place);
    while best.old > in_old.start && best.new > in_new.start && is_equal(best.old - 1, best.new - 1)
    {
        best.old -= 1;
        best.new -= 1;
        best.length += 1;
    }
    while best.old + best.length < in_old.end
        && best.new + best.length < in_new.end
        && is_equal(best.old + best.length, best.new + best.length)
    {
        best.length += 1;
    }
    best
}

/// Returns all runs in order, and an empty one at the end.
fn runs(old: &[&str], new: &[&str]) -> Vec<Run> {
    let places = places(new);
    let mut pairs = PAIRS + PAIRS_FOR_LINE * (old.len() + new.len());
    let mut runs = Vec::new();
    let mut left = vec![(0..old.len(), 0..new.len())];
    while let Some((in_old, in_new)) = left.pop() {
        let ranges = (in_old.clone(), in_new.clone());
        let run = longest_run(old, new, &places, ranges, &mut pairs);
        if run.length == 0 {
            continue;
        }
        left.push((in_old.start..run.old, in_new.start..run.new));
        left.push((
            run.old + run.length..in_old.end,
            run.new + run.length..in_new.end,
        ));
        runs.push(run);
    }
    runs.sort_unstable();
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last)
                if last.old + last.length == run.old && last.new + last.length == run.new =>
            {
                last.length += run.length;
            }
            _ => joined.push(run),
        }
    }
    joined.push(Run {
        old: old.len(),
        new: new.len(),
        length: 0,
    });
    joined
}

/// Splits the documents into equal and different parts.
fn parts(old: &[&str], new: &[&str]) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut at, mut place) = (0, 0);
    for run in runs(old, new) {
        if at < run.old || place < run.new {
            parts.push(Part {
                is_equal: false,
                old: at..run.old,
                new: place..run.new,
            });
        }
        (at, place) = (run.old + run.length, run.new + run.length);
        if run.length > 0 {
            parts.push(Part {
                is_equal: true,
                old: run.old..at,
                new: run.new..place,
            });
        }
    }
    parts
}

/// Returns groups of parts that are shown together. Long equal parts are cut.
fn groups(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let count = parts.len();
    let mut groups = Vec::new();
    let mut group: Vec<Part> = Vec::new();
    for (index, mut part) in parts.into_iter().enumerate() {
        let length = part.old.len();
        if part.is_equal && index > 0 && index + 1 < count && length > 2 * CONTEXT {
            let mut end = part.clone();
            end.old.end = end.old.start + CONTEXT;
            end.new.end = end.new.start + CONTEXT;
            group.push(end);
            groups.push(std::mem::take(&mut group));
        } else if part.is_equal && index > 0 && index + 1 == count {
            part.old.end = part.old.end.min(part.old.start + CONTEXT);
            part.new.end = part.new.end.min(part.new.start + CONTEXT);
            group.push(part);
            break;
        }
        let is_cut = part.is_equal && (index == 0 || length > 2 * CONTEXT);
        if is_cut {
            part.old.start = part.old.start.max(part.old.end.saturating_sub(CONTEXT));
            part.new.start = part.new.start.max(part.new.end.saturating_sub(CONTEXT));
        }
        group.push(part);
    }
    if group.iter().any(|part| !part.is_equal) {
        groups.push(group);
    }
    groups
}

fn write_group(text: &mut String, group: &[Part], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return;
    };
    text.push_str("@@ -");
    write_range(text, first.old.start..last.old.end);
    text.push_str(" +");
    write_range(text, first.new.start..last.new.end);
    text.push_str(" @@\n");
    let mut write_lines = |mark: char, lines: Option<&[&str]>| {
        for line in lines.unwrap_or_default() {
            text.push(mark);
            text.push_str(line);
            text.push('\n');
        }
    };
    for part in group {
        if part.is_equal {
            write_lines(' ', old.get(part.old.clone()));
        } else {
            write_lines('-', old.get(part.old.clone()));
            write_lines('+', new.get(part.new.clone()));
        }
    }
}

/// Writes a range of line numbers, which start at 1. One line has no length, and an empty range has
/// the number of the line before it.
fn write_range(text: &mut String, range: Range<usize>) {
    let _ = match range.len() {
        1 => write!(text, "{}", range.start + 1),
        0 => write!(text, "{},0", range.start),
        length => write!(text, "{},{length}", range.start + 1),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Differences from Python's `difflib`.
    #[test]
    fn differences_are_those_of_difflib() {
        let cases = include_str!("../../../recorded/differences.json");
        let cases: Vec<[String; 3]> = serde_json::from_str(cases).expect("cases");
        for [old, new, expected] in &cases {
            assert_eq!(&json_difference(old, new), expected, "{old} {new}");
        }
    }

    #[test]
    fn documents_have_a_member_in_each_line() {
        let text = indented(r#"{"a":[],"b":{"c":"}:,\"{","d":[1,{}]}}"#);
        let expected = r#"{
 "a": [],
 "b": {
  "c": "}:,\"{",
  "d": [
   1,
   {}
  ]
 }
}"#;
        assert_eq!(text, expected);
    }
}
