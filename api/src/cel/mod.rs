//! CEL expressions: their syntax and types, with the errors that clients see (CRD-48 to CRD-50),
//! their evaluation with its costs, estimates of these costs, and the rules of custom resources.
//!
//! Contains the language and the functions that Kubernetes adds; an [`Environment`] declares the
//! names. [`compile`] checks an expression; [`check()`] keeps what its evaluation needs. The length
//! and depth of an expression are bounded, and it takes its steps from the [`Budget`] of its
//! object, so the time and memory for any text are linear in its length. An evaluation is bounded
//! by the costs that cel-go counts, and by [`Work`] for what these costs leave out.

mod check;
pub mod estimate;
pub mod eval;
mod format_clauses;
mod functions;
mod kinds;
mod lexer;
mod library;
mod macros;
mod notes;
mod parser;
mod reserved_words;
pub mod rules;
mod shape;
mod tree;
mod types;
pub mod values;

use std::collections::HashMap;
use std::fmt::{self, Write as _};

use crate::structural::Budget;
use crate::text::quoting::beginning;

use notes::Notes;
use tree::Node;

pub use eval::{Evaluated, Program};
pub use kinds::{type_of_kind, type_of_schema};
pub use reserved_words::is_reserved;
pub use shape::{Shape, escaped};
use types::VARIABLES;
pub use types::{ObjectName, ObjectType, Type};
pub use values::{Failure, Outcome, Value, Work};

/// The limit on the characters of an expression, cel-go's default.
const MAX_CHARACTERS: usize = 100_000;

/// The most errors of an expression that are reported.
const MAX_FAULTS: usize = 100;

/// The characters that are read in one step.
const CHARACTERS_IN_STEP: usize = 8;

/// The names that an expression can use, with their types.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    names: HashMap<String, Type>,
    /// The members of [`VARIABLES`].
    variables: HashMap<String, Type>,
    /// Whether objects and patches can be built.
    has_objects: bool,
    /// Whether `cel.bind` is available.
    has_bind: bool,
}

impl Environment {
    /// Declares a name.
    #[must_use]
    pub fn with(mut self, name: &str, of: Type) -> Environment {
        self.names.insert(name.to_owned(), of);
        self
    }

    /// Declares `variables`, whose members are declared one by one.
    #[must_use]
    pub fn with_variables(self) -> Environment {
        self.with("variables", Type::object(ObjectName::new(VARIABLES), []))
    }

    /// Declares a member of `variables`.
    pub fn declare(&mut self, name: &str, of: Type) {
        self.variables.insert(name.to_owned(), of);
    }

    /// Enables building of objects and patches: `Object{…}`, `JSONPatch{…}`.
    #[must_use]
    pub fn with_objects(mut self) -> Environment {
        self.has_objects = true;
        self
    }

    /// Enables `cel.bind`.
    #[must_use]
    pub fn with_bind(mut self) -> Environment {
        self.has_bind = true;
        self
    }
}

/// An expression without errors.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The type of its value.
    pub result: Type,
    /// The names of the environment that it uses.
    pub names: Vec<String>,
}

/// The reason why an expression was not compiled.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// The errors, formatted like those of cel-go: each with its line, its column and a mark below
    /// the line. The text is cut to the length of a shown value.
    Wrong(String),
    /// The budget was spent before everything was checked.
    Spent,
}

/// An error and the index of its character.
#[derive(Clone, Debug, PartialEq)]
struct Fault {
    at: usize,
    what: String,
}

/// The errors to show: the first ones in the text, and in one position those that were found first.
#[derive(Debug, Default)]
struct Faults {
    kept: Vec<Fault>,
    /// Errors from this position on are not shown any more.
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

/// A checked expression, with what its evaluation and its estimate need.
#[derive(Debug)]
pub struct Checked {
    /// The tree, in its own place because its parts are known by their addresses.
    tree: Box<Node>,
    notes: Notes,
    /// The type of its value.
    pub result: Type,
    /// The names of the environment that it uses.
    pub names: Vec<String>,
}

impl Checked {
    /// Returns the program of the expression.
    ///
    /// # Errors
    /// A constant part has an error, such as `int('a')`.
    pub fn program(&self) -> Result<Program, String> {
        eval::plan::plan(&self.tree, &self.notes)
    }

    /// As [`Checked::program`], without short cuts, for a comparison.
    ///
    /// # Errors
    /// Those of [`Checked::program`].
    pub fn program_in_full(&self) -> Result<Program, String> {
        eval::plan::plan_in_full(&self.tree, &self.notes)
    }
}

/// Parses and checks an expression. The steps are taken from the budget.
///
/// # Errors
/// The errors in the expression, or that the budget is spent.
pub fn compile(
    text: &str,
    environment: &Environment,
    budget: &Budget,
) -> Result<Compiled, Refused> {
    let (_, _, compiled) = checked(text, environment, budget, None)?;
    Ok(compiled)
}

/// As [`compile`], for an expression that is evaluated or whose cost is estimated.
///
/// # Errors
/// The errors in the expression, or that the budget is spent.
pub fn check(text: &str, environment: &Environment, budget: &Budget) -> Result<Checked, Refused> {
    let notes = Some(Notes::default());
    let (tree, notes, compiled) = checked(text, environment, budget, notes)?;
    Ok(Checked {
        tree,
        notes: notes.unwrap_or_default(),
        result: compiled.result,
        names: compiled.names,
    })
}

type CheckedParts = (Box<Node>, Option<Notes>, Compiled);

fn checked(
    text: &str,
    environment: &Environment,
    budget: &Budget,
    notes: Option<Notes>,
) -> Result<CheckedParts, Refused> {
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
        Ok(tree) => Box::new(tree),
        Err(parser::Refused::TooDeep(why)) => return Err(whole(&why)),
        Err(parser::Refused::Faults(faults)) => return Err(wrong(&characters, faults)),
    };
    let mut checker = check::Checker::new(environment, budget);
    checker.notes = notes;
    let result = checker.type_of(&tree).known();
    if budget.is_spent() {
        return Err(Refused::Spent);
    }
    let faults = checker.take_faults();
    if !faults.is_empty() {
        return Err(wrong(&characters, faults));
    }
    let mut names = checker.used;
    names.sort();
    names.dedup();
    Ok((tree, checker.notes, Compiled { result, names }))
}

/// Returns an error about the expression as a whole.
fn whole(what: &str) -> Refused {
    Refused::Wrong(format!("ERROR: <input>:-1:0: {what}"))
}

fn wrong(characters: &[char], mut faults: Faults) -> Refused {
    faults.sort();
    let faults = faults.kept;
    Refused::Wrong(beginning(ShownFaults { characters, faults }))
}

/// Errors with their lines, sorted by position, as they are shown.
struct ShownFaults<'t> {
    characters: &'t [char],
    faults: Vec<Fault>,
}

impl fmt::Display for ShownFaults<'_> {
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
            write_fault(line, number, at - start, &fault.what, f)?;
        }
        Ok(())
    }
}

/// Writes an error in a line, which ends before the first line break.
fn write_fault(
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
