//! Expressions in CEL, read and checked as far as clients are told what is wrong with them: syntax,
//! names that nothing declares, and types that don't fit (CRD-48 to CRD-50). Nothing is evaluated.
//!
//! This folder owns the words of the language and the functions that Kubernetes adds. What names
//! mean where, an [`Environment`] says. An expression has a bounded length and depth, and takes
//! its steps from the [`Budget`] of its object, so any text is read in time and memory that are
//! linear in its length.

mod check;
mod functions;
mod lexer;
mod macros;
mod parser;
mod tree;
mod types;

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use crate::field_error::beginning;
use crate::structural::Budget;

pub use types::{ObjectName, ObjectType, Type};

/// The most characters of an expression.
const MAX_CHARACTERS: usize = 100_000;

/// The most faults that are told of an expression.
const MAX_FAULTS: usize = 100;

/// The characters that are read in one step.
const CHARACTERS_IN_STEP: usize = 8;

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

/// The name of the type that has the variables of a policy.
const VARIABLES: &str = "kubernetes.variables";

/// Whether a word can't be a name in expressions.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The names that are known where an expression stands, with their types.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    names: HashMap<String, Type>,
    /// The members of [`VARIABLES`].
    variables: HashMap<String, Type>,
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

    /// Declares `variables`, whose members are declared one after the other.
    #[must_use]
    pub fn with_variables(self) -> Environment {
        self.with("variables", Type::object(ObjectName::new(VARIABLES), []))
    }

    /// Declares a member of `variables`.
    pub fn declare(&mut self, name: &str, of: Type) {
        self.variables.insert(name.to_owned(), of);
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

/// Why an expression has no type.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// What is wrong with it, in the form in which the reference implementation tells it: each
    /// fault with its line, its column and a mark below the line. It is as long as a shown value
    /// at most.
    Wrong(String),
    /// The budget was spent before everything was looked at.
    Spent,
}

/// A fault and where it is: the number of its character.
#[derive(Clone, Debug, PartialEq)]
struct Fault {
    at: usize,
    what: String,
}

/// The faults that are shown: the first ones of the text, of those in one place the first ones
/// that were found.
#[derive(Debug, Default)]
struct Faults {
    kept: Vec<Fault>,
    /// Faults here and behind are not shown any more.
    end: Option<usize>,
}

impl Faults {
    fn add(&mut self, at: usize, what: impl FnOnce() -> String) {
        if self.end.is_some_and(|end| at >= end) {
            return;
        }
        let what = what();
        self.kept.push(Fault { at, what });
        if self.kept.len() >= 2 * MAX_FAULTS {
            self.sort();
            self.end = self.kept.last().map(|last| last.at);
        }
    }

    fn sort(&mut self) {
        self.kept.sort_by_key(|fault| fault.at);
        self.kept.truncate(MAX_FAULTS);
    }

    fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// Reads and checks an expression. All that it takes is taken from the budget.
///
/// # Errors
/// What is wrong with it, or that the budget is spent.
pub fn compile(
    text: &str,
    environment: &Environment,
    budget: &Budget,
) -> Result<Compiled, Refused> {
    if !budget.take(1 + text.len() / CHARACTERS_IN_STEP) {
        return Err(Refused::Spent);
    }
    let size = text.chars().count();
    if size > MAX_CHARACTERS {
        return Err(whole(&format!(
            "expression code point size exceeds limit: size: {size}, limit {MAX_CHARACTERS}"
        )));
    }
    let characters: Vec<char> = text.chars().collect();
    let tree = match parser::parse(&characters) {
        Ok(tree) => tree,
        Err(parser::Refused::TooDeep(why)) => return Err(whole(&why)),
        Err(parser::Refused::Faults(faults)) => return Err(wrong(&characters, faults)),
    };
    let mut checker = check::Checker::new(environment, budget);
    let result = checker.type_of(&tree).known();
    if budget.is_spent() {
        return Err(Refused::Spent);
    }
    let faults = checker.told();
    if !faults.is_empty() {
        return Err(wrong(&characters, faults));
    }
    let mut names = checker.used;
    names.sort();
    names.dedup();
    Ok(Compiled { result, names })
}

/// A fault of the expression as a whole.
fn whole(what: &str) -> Refused {
    Refused::Wrong(format!("ERROR: <input>:-1:0: {what}"))
}

fn wrong(characters: &[char], mut faults: Faults) -> Refused {
    faults.sort();
    let faults = faults.kept;
    Refused::Wrong(beginning(Told { characters, faults }))
}

/// Faults with their lines, in the order of their places.
struct Told<'t> {
    characters: &'t [char],
    faults: Vec<Fault>,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut number, mut start) = (1, 0);
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_char('\n')?;
            }
            let at = fault.at.min(self.characters.len());
            let before = self.characters.get(start..at).unwrap_or_default();
            number += before.iter().filter(|c| **c == '\n').count();
            if let Some(last) = before.iter().rposition(|c| *c == '\n') {
                start += last + 1;
            }
            let line = self.characters.get(start..).unwrap_or_default();
            tell(line, number, at - start, &fault.what, f)?;
        }
        Ok(())
    }
}

/// Writes a fault in a line, which is what stands in front of the first line break.
fn tell(
    line: &[char],
    number: usize,
    column: usize,
    what: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut letters = line.iter().take_while(|c| **c != '\n').peekable();
    if letters.peek().is_none() && column == 0 {
        return write!(f, "ERROR: <input>:{number}:0: {what}");
    }
    write!(f, "ERROR: <input>:{number}:{}: {what}\n | ", column + 1)?;
    for letter in letters {
        f.write_char(if *letter == '\t' { ' ' } else { *letter })?;
    }
    f.write_str("\n | ")?;
    // Wide characters have wide marks below them.
    for letter in line.iter().take(column) {
        f.write_char(if letter.is_ascii() { '.' } else { '．' })?;
    }
    let is_wide = line.get(column).is_some_and(|c| !c.is_ascii());
    f.write_char(if is_wide { '＾' } else { '^' })
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
