//! Expressions in CEL, read and checked as far as clients are told what is wrong with them: syntax,
//! names that nothing declares, and types that don't fit (CRD-48 to CRD-50). Nothing is evaluated.
//!
//! This folder owns the words of the language and the functions that Kubernetes adds. What names
//! mean where, an [`Environment`] says. An expression has a bounded length and depth, so any text
//! is read in bounded time.

mod check;
mod functions;
mod lexer;
mod macros;
mod parser;
mod tree;
mod types;

use std::collections::HashMap;
use std::fmt::Write as _;

pub use types::{ObjectType, Type};

/// The most characters of an expression.
const MAX_CHARACTERS: usize = 100_000;

/// The most faults that are told of an expression.
const MAX_FAULTS: usize = 100;

/// The words of the language, and those that it keeps for later. No name is one of them.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Whether a word can't be a name in expressions.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The names that are known where an expression stands, with their types.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    names: HashMap<String, Type>,
    /// Whether objects and patches can be written.
    has_objects: bool,
    /// Whether values can be named: `cel.bind`.
    has_bind: bool,
}

impl Environment {
    /// Declares a name.
    #[must_use]
    pub fn with(mut self, name: &str, of: Type) -> Environment {
        self.names.insert(name.to_owned(), of);
        self
    }

    /// Lets objects and patches be written: `Object{…}`, `JSONPatch{…}`.
    #[must_use]
    pub fn with_objects(mut self) -> Environment {
        self.has_objects = true;
        self
    }

    /// Lets values be named: `cel.bind`.
    #[must_use]
    pub fn with_bind(mut self) -> Environment {
        self.has_bind = true;
        self
    }
}

/// An expression that can be evaluated.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The type of its value.
    pub result: Type,
    /// The names of the environment that it asks for.
    pub names: Vec<String>,
}

/// A fault and where it is: the number of its character.
#[derive(Clone, Debug, PartialEq)]
struct Fault {
    at: usize,
    what: String,
}

/// Reads and checks an expression.
///
/// # Errors
/// What is wrong with it, in the form in which the reference implementation tells it: each fault
/// with its line, its column and a mark below the line.
pub fn compile(text: &str, environment: &Environment) -> Result<Compiled, String> {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() > MAX_CHARACTERS {
        let size = characters.len();
        return Err(whole(&format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CHARACTERS}"
        )));
    }
    let tree = match parser::parse(&characters) {
        Ok(tree) => tree,
        Err(parser::Refused::TooDeep(why)) => return Err(whole(&why)),
        Err(parser::Refused::Faults(faults)) => return Err(told(&characters, faults)),
    };
    let mut checker = check::Checker::new(environment);
    let result = checker.type_of(&tree).known();
    let faults = checker.told();
    if !faults.is_empty() {
        return Err(told(&characters, faults));
    }
    let mut names = checker.used;
    names.sort();
    names.dedup();
    Ok(Compiled { result, names })
}

/// A fault of the expression as a whole.
fn whole(what: &str) -> String {
    format!("ERROR: <input>:-1:0: {what}")
}

fn told(characters: &[char], mut faults: Vec<Fault>) -> String {
    faults.sort_by_key(|fault| fault.at);
    faults.truncate(MAX_FAULTS);
    let mut text = String::new();
    for fault in faults {
        if !text.is_empty() {
            text.push('\n');
        }
        tell(characters, &fault, &mut text);
    }
    text
}

fn tell(characters: &[char], fault: &Fault, text: &mut String) {
    let before = characters.get(..fault.at).unwrap_or(characters);
    let start = before
        .iter()
        .rposition(|c| *c == '\n')
        .map_or(0, |at| at + 1);
    let number = before.iter().filter(|c| **c == '\n').count() + 1;
    let column = before.len() - start;
    let line: Vec<char> = characters
        .iter()
        .skip(start)
        .take_while(|c| **c != '\n')
        .copied()
        .collect();
    let what = &fault.what;
    if line.is_empty() && column == 0 {
        let _ = write!(text, "ERROR: <input>:{number}:0: {what}");
        return;
    }
    let _ = write!(text, "ERROR: <input>:{number}:{}: {what}\n | ", column + 1);
    text.extend(line.iter().map(|c| if *c == '\t' { ' ' } else { *c }));
    text.push_str("\n | ");
    // Wide characters have wide marks below them.
    let marks = line.iter().take(column);
    text.extend(marks.map(|c| if c.is_ascii() { '.' } else { '．' }));
    let is_wide = line.get(column).is_some_and(|c| !c.is_ascii());
    text.push(if is_wide { '＾' } else { '^' });
}

#[cfg(test)]
mod tests;
