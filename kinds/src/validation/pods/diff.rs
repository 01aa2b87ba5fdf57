//! The difference of two documents, as kube-apiserver shows it: lines with three around them.
//!
//! Its lines are matched as by Python's `difflib`: the longest run of equal lines comes first, then
//! those on both sides of it. In long documents, lines that are very frequent start no run.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

/// How many lines are shown around a difference.
const CONTEXT: usize = 3;
/// Documents of this many lines have frequent lines.
const LONG: usize = 200;
/// At most so many lines, or pairs of lines, are compared, and so many more for each line of the
/// documents. Those that need more have little in common.
const PAIRS: usize = 200_000;
const PAIRS_FOR_LINE: usize = 16;

/// Lines of both documents that are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    old: usize,
    new: usize,
    length: usize,
}

/// Lines of both documents that belong together.
#[derive(Clone, Debug)]
struct Part {
    is_equal: bool,
    old: Range<usize>,
    new: Range<usize>,
}

/// The difference of two compact JSON texts, line by line.
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

/// A compact JSON text with a member or an item in each line.
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

/// Where the lines of the new document are, without those that are too frequent.
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

/// The longest run in these ranges; the first of several.
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
    // The lengths of runs that end at a line of the new document.
    let mut lengths: HashMap<usize, usize> = HashMap::new();
    for (at, line) in old.iter().enumerate().take(in_old.end).skip(in_old.start) {
        let mut next = HashMap::new();
        if *pairs == 0 {
            break;
        }
        *pairs -= 1;
        for place in places.get(line).into_iter().flatten().copied() {
            *pairs = pairs.saturating_sub(1);
            // linear: a range of lines.
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
    // Frequent lines beside a run belong to it.
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

/// All runs in order, and an empty one at the end.
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

/// The documents as parts that are equal or different.
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

/// The parts that are shown together. Long equal ones are cut.
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

/// Lines are counted from one. A single line has no length, and an empty range is that before it.
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

    /// What Python's `difflib` says of the same documents.
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
