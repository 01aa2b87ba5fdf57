//! Answers, and the reasons for which they differ.

use std::fmt;

use serde_json::Value as Json;

/// The most characters of an answer that are printed.
const LONGEST: usize = 160;

/// The answer of an evaluator to an expression.
#[derive(PartialEq, Eq)]
pub enum Answer {
    /// The text is refused.
    Refused(String),
    /// The evaluation fails.
    Failed(String),
    /// Its value, in the form of the recorded answers.
    Value(String),
    /// The evaluator panics.
    Panic,
}

impl Answer {
    /// Returns a recorded answer of cel-go.
    pub fn recorded(recorded: &Json) -> Answer {
        let of = |name: &str| recorded[name].as_str().map(str::to_owned);
        match (of("v"), of("x"), of("f").or(of("p"))) {
            (Some(value), ..) => Answer::Value(value),
            (None, Some(error), _) => Answer::Failed(error),
            (None, None, error) => Answer::Refused(error.unwrap_or_default()),
        }
    }

    /// Returns whether two answers have the same value, or none.
    pub fn agrees(&self, other: &Answer) -> bool {
        match (self, other) {
            (Answer::Value(one), Answer::Value(other)) => one == other,
            (Answer::Panic, _) | (Answer::Value(_), _) | (_, Answer::Value(_)) => false,
            (Answer::Refused(_) | Answer::Failed(_), _) => true,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| -> String {
            let line = text.lines().next().unwrap_or_default();
            match line.char_indices().nth(LONGEST) {
                Some((end, _)) => format!("{}...", line.get(..end).unwrap_or_default()),
                None => line.to_owned(),
            }
        };
        match self {
            Answer::Refused(why) => write!(out, "refused: {}", line(why)),
            Answer::Failed(why) => write!(out, "failed: {}", line(why)),
            Answer::Value(value) => out.write_str(&line(value)),
            Answer::Panic => out.write_str("a panic"),
        }
    }
}

/// Reasons, each with the parts of texts that show it. The first one counts.
type Reasons = &'static [(&'static str, &'static [&'static str])];

/// Reasons of errors where cel-go has a value, by a part of the error.
const OF_ERRORS: Reasons = &[
    (
        "named formats have another type and other texts",
        &["optional.none()"],
    ),
    (
        "a reserved name is found in its escaped form only",
        &["No such key: if"],
    ),
    (
        "a function, macro or name is missing",
        &["Undeclared reference"],
    ),
    (
        "an overload is missing",
        &[
            "found no matching overload",
            "No such overload",
            "Unsupported binary operator",
            "Unexpected type",
            "Missing argument or target",
            "Values can't be compared",
            "cannot convert",
            "cannot sum values",
            "cannot compare",
            "expected timestamp or duration",
        ],
    ),
    (
        "the smallest number can't be written in hexadecimal",
        &["invalid int literal"],
    ),
    (
        "a literal with three quotes or escapes is not read",
        &["invalid string literal", "invalid bytes literal"],
    ),
    (
        "a key that occurs twice, or that is not a number, is an error",
        &["repeated key", "as a key"],
    ),
    (
        "a text that Go reads as a time, duration or number is not read",
        &[
            "function 'timestamp'",
            "function 'duration'",
            "function 'timezone'",
            "function 'double'",
        ],
    ),
    (
        "lists.range of a negative number is an error",
        &["range argument"],
    ),
];

/// Reasons of other values, by a part of the expression.
const OF_VALUES: Reasons = &[
    ("two negations in a row are one", &["!!", "--"]),
    (
        "lists of the types set and map are plain lists",
        &[
            "self.set",
            "self.keyed +",
            "self.keyed2 +",
            "self.keyed ==",
            "self.keyed2 ==",
        ],
    ),
    (
        "hours and days are those of another zone",
        &[
            ".getHours(",
            ".getSeconds(",
            ".getMinutes(",
            ".getDate(",
            ".getDayOf",
            ".getMonth(",
            ".getFullYear(",
            ".getMilliseconds(",
        ],
    ),
    (
        "numbers, bytes and times are formatted otherwise",
        &[".format(["],
    ),
    (
        "named formats have another type and other texts",
        &["format."],
    ),
    ("numbers and times are printed otherwise", &["string("]),
    ("splitting by an empty text gives empty texts", &["split("]),
    (
        "a selection from an optional value is not optional",
        &["?", "optional"],
    ),
    ("URLs are read otherwise", &["rl(", "URL("]),
    ("addresses are read otherwise", &["CIDR(", "cidr(", "ip("]),
    ("quantities are read or rounded otherwise", &["uantity("]),
    ("versions with build metadata are not equal", &["emver("]),
    (
        "classes of characters in patterns include Unicode",
        &["matches(", "find("],
    ),
    ("bounds of texts are other ones", &["replace(", "ndexOf("]),
    ("sizes are in bytes", &[".size()", "size("]),
    ("raw literals are read otherwise", &["r'", "R'"]),
];

/// Reasons of values where cel-go fails, by a part of its error.
const OF_FAILURES: Reasons = &[
    (
        "bytes in base64 are read that Go refuses",
        &["byte formatted"],
    ),
    ("an overflow is no error", &["overflow"]),
    (
        "a time zone that Go refuses is no error",
        &["time zone", "location name", "strconv.Atoi"],
    ),
    ("an address is read that Go refuses", &["address parse"]),
    ("a URL is read that Go refuses", &["URL parse"]),
    (
        "an index that is no place of a list is no error",
        &["index"],
    ),
    ("costs have no limit", &["cost limit"]),
];

/// Returns why a crate answers something else than cel-go. `None` if no reason is known.
pub fn reason(text: &str, found: &Answer, recorded: &Answer) -> Option<&'static str> {
    match (found, recorded) {
        (Answer::Panic, _) => Some("the crate panics"),
        (Answer::Value(_), Answer::Refused(_)) => Some("no types are checked"),
        (Answer::Value(_), Answer::Failed(why)) => {
            of(OF_FAILURES, why).or(Some("something is no error that cel-go fails at"))
        }
        (Answer::Value(_), Answer::Value(value)) if value.contains("type ") => {
            Some("the type of a value is a text")
        }
        (Answer::Value(_), Answer::Value(value)) if value.contains(": !") => {
            Some("members without a readable value are no errors")
        }
        (Answer::Value(_), _) => of(OF_VALUES, text),
        (Answer::Refused(why) | Answer::Failed(why), _) => of(OF_ERRORS, why).or_else(|| {
            if text.contains(".or") {
                return Some("alternatives are evaluated that are not needed");
            }
            let is_absent = why.contains("No such key") && text.contains('?');
            is_absent.then_some("an optional selection of an absent member fails")
        }),
    }
}

fn of(reasons: Reasons, text: &str) -> Option<&'static str> {
    // linear: there are few reasons.
    let mut reasons = reasons.iter();
    let found = reasons.find(|(_, parts)| parts.iter().any(|part| text.contains(part)));
    found.map(|(reason, _)| *reason)
}
