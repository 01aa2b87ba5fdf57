//! Answers, and the reasons for which they differ.

use std::fmt;

use serde_json::Value as Json;

/// The most characters of an answer that are printed.
const LONGEST: usize = 160;

/// What an evaluator says of an expression.
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

/// Reasons of errors where cel-go has a value, by a part of the error.
const OF_ERRORS: &[(&str, &str)] = &[
    (
        "optional.none()",
        "named formats have another type and other texts",
    ),
    (
        "No such key: if",
        "a reserved name is found in its escaped form only",
    ),
    (
        "Undeclared reference",
        "a function, macro or name is missing",
    ),
    ("found no matching overload", "an overload is missing"),
    ("No such overload", "an overload is missing"),
    ("Unsupported binary operator", "an overload is missing"),
    ("Unexpected type", "an overload is missing"),
    ("Missing argument or target", "an overload is missing"),
    ("Values can't be compared", "an overload is missing"),
    ("cannot convert", "an overload is missing"),
    ("cannot sum values", "an overload is missing"),
    ("cannot compare", "an overload is missing"),
    ("expected timestamp or duration", "an overload is missing"),
    (
        "invalid int literal",
        "the smallest number can't be written in hexadecimal",
    ),
    (
        "invalid string literal",
        "a literal with three quotes or escapes is not read",
    ),
    (
        "invalid bytes literal",
        "a literal with three quotes or escapes is not read",
    ),
    (
        "repeated key",
        "a key that occurs twice, or that is not a number, is an error",
    ),
    (
        "as a key",
        "a key that occurs twice, or that is not a number, is an error",
    ),
    (
        "function 'timestamp'",
        "a text that Go reads as a time, duration or number is not read",
    ),
    (
        "function 'duration'",
        "a text that Go reads as a time, duration or number is not read",
    ),
    (
        "function 'timezone'",
        "a text that Go reads as a time, duration or number is not read",
    ),
    (
        "function 'double'",
        "a text that Go reads as a time, duration or number is not read",
    ),
    (
        "range argument",
        "lists.range of a negative number is an error",
    ),
];

/// Reasons of other values, by a part of the expression. The first one counts.
const OF_VALUES: &[(&str, &str)] = &[
    ("!!", "two negations in a row are one"),
    ("--", "two negations in a row are one"),
    ("self.set", "lists of the types set and map are plain lists"),
    (
        "self.keyed +",
        "lists of the types set and map are plain lists",
    ),
    (
        "self.keyed2 +",
        "lists of the types set and map are plain lists",
    ),
    (
        "self.keyed ==",
        "lists of the types set and map are plain lists",
    ),
    (
        "self.keyed2 ==",
        "lists of the types set and map are plain lists",
    ),
    (".getHours(", "hours and days are those of another zone"),
    (".getSeconds(", "hours and days are those of another zone"),
    (".getMinutes(", "hours and days are those of another zone"),
    (".getDate(", "hours and days are those of another zone"),
    (".getDayOf", "hours and days are those of another zone"),
    (".getMonth(", "hours and days are those of another zone"),
    (".getFullYear(", "hours and days are those of another zone"),
    (
        ".getMilliseconds(",
        "hours and days are those of another zone",
    ),
    (
        ".format([",
        "numbers, bytes and times are formatted otherwise",
    ),
    ("format.", "named formats have another type and other texts"),
    ("string(", "numbers and times are printed otherwise"),
    ("split(", "splitting by an empty text gives empty texts"),
    ("?", "a selection from an optional value is not optional"),
    (
        "optional",
        "a selection from an optional value is not optional",
    ),
    ("rl(", "URLs are read otherwise"),
    ("URL(", "URLs are read otherwise"),
    ("CIDR(", "addresses are read otherwise"),
    ("cidr(", "addresses are read otherwise"),
    ("ip(", "addresses are read otherwise"),
    ("uantity(", "quantities are read or rounded otherwise"),
    ("emver(", "versions with build metadata are not equal"),
    (
        "matches(",
        "classes of characters in patterns include Unicode",
    ),
    ("find(", "classes of characters in patterns include Unicode"),
    ("replace(", "bounds of texts are other ones"),
    ("ndexOf(", "bounds of texts are other ones"),
    (".size()", "sizes are in bytes"),
    ("size(", "sizes are in bytes"),
    ("r'", "raw literals are read otherwise"),
    ("R'", "raw literals are read otherwise"),
];

/// Reasons of values where cel-go fails, by a part of its error.
const OF_FAILURES: &[(&str, &str)] = &[
    ("byte formatted", "bytes in base64 are read that Go refuses"),
    ("overflow", "an overflow is no error"),
    ("time zone", "a time zone that Go refuses is no error"),
    ("location name", "a time zone that Go refuses is no error"),
    ("strconv.Atoi", "a time zone that Go refuses is no error"),
    ("address parse", "an address is read that Go refuses"),
    ("URL parse", "a URL is read that Go refuses"),
    ("index", "an index that is no place of a list is no error"),
    ("cost limit", "costs have no limit"),
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

fn of(reasons: &[(&str, &'static str)], text: &str) -> Option<&'static str> {
    // linear: there are few reasons.
    let found = reasons.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, reason)| *reason)
}
