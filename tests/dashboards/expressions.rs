//! The metrics that an expression of PromQL names. Pure.

use std::collections::BTreeSet;

/// Words of PromQL that stand where a metric could.
const WORDS: [&str; 28] = [
    "and",
    "atan2",
    "avg",
    "bool",
    "bottomk",
    "by",
    "count",
    "count_values",
    "group",
    "group_left",
    "group_right",
    "ignoring",
    "inf",
    "max",
    "min",
    "nan",
    "offset",
    "on",
    "or",
    "quantile",
    "stddev",
    "stdvar",
    "sum",
    "topk",
    "unless",
    "without",
    "start",
    "end",
];

/// Words that a list of labels may follow.
const BEFORE_LABELS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// An expression and where it stands, for whoever has to mend it.
#[derive(Clone, Debug)]
pub struct Expression {
    pub place: String,
    pub text: String,
}

/// The names of the metrics in an expression.
pub fn metrics(expression: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_alphabetic() || "_:".contains(first) {
            let (word, after) = split(rest, |c| c.is_ascii_alphanumeric() || "_:".contains(c));
            rest = after.trim_start();
            let is_called = rest.starts_with('(');
            if is_called && BEFORE_LABELS.contains(&word) {
                rest = after_bracket(rest, ')');
            } else if !is_called && !WORDS.contains(&word) {
                found.insert(word.to_owned());
            }
            continue;
        }
        rest = match first {
            '{' => after_bracket(rest, '}'),
            '[' => after_bracket(rest, ']'),
            '"' | '\'' | '`' => after_text(rest, first),
            '#' => rest.split_once('\n').map_or("", |(_, lines)| lines),
            // A number or a duration, whose letters are no name.
            '0'..='9' => split(rest, |c| c.is_ascii_alphanumeric() || c == '.').1,
            _ => &rest[first.len_utf8()..],
        };
    }
    found
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// What comes after the bracket that ends what begins here. Texts may hold brackets.
fn after_bracket(text: &str, end: char) -> &str {
    let mut rest = &text[1..];
    while let Some(first) = rest.chars().next() {
        match first {
            '"' | '\'' | '`' => rest = after_text(rest, first),
            _ => {
                rest = &rest[first.len_utf8()..];
                if first == end {
                    break;
                }
            }
        }
    }
    rest
}

/// What comes after a text in quotes.
fn after_text(text: &str, quote: char) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote != '`' => escaped = true,
            _ if c == quote => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

#[test]
fn metrics_are_found_among_functions_labels_and_durations() {
    for (expression, wanted) in [
        ("up", vec!["up"]),
        (
            "sum by (job, le) (rate(a_bucket{job=\"x\", le=~\"1(\\\\.0)?|}\"}[5m] offset 15m)) > 0",
            vec!["a_bucket"],
        ),
        (
            "a:b:rate5m{verb=\"read\"} / on (job) group_left (pod) c > bool 14.4 * 0.01",
            vec!["a:b:rate5m", "c"],
        ),
        (
            "histogram_quantile(0.99, sum without (x) (d)) or # e\n absent(f) unless sum(g) by (h)",
            vec!["d", "f", "g"],
        ),
        (
            "label_replace(topk(10, i) > 0, \"j\", \"k\", \"\", \"\") and time() - l[2h:1m] < 3e9",
            vec!["i", "l"],
        ),
    ] {
        let found = metrics(expression);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, wanted, "in {expression}");
    }
}
