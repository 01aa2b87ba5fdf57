//! Macros: calls whose arguments are names and expressions over them. Their name and number of
//! arguments distinguish them from functions.

use super::Fault;
use super::tree::{Expression, Node};

/// A macro, by the names that it binds.
pub(super) struct Macro {
    /// The number of leading arguments that are names.
    pub names: usize,
}

/// Returns the macro with this name and number of arguments.
pub(super) fn find(name: &str, has_target: bool, arguments: usize) -> Option<Macro> {
    if !has_target {
        return None;
    }
    let names = match (name, arguments) {
        ("all" | "exists" | "exists_one" | "existsOne" | "filter" | "sortBy", 2) => 1,
        ("map", 2 | 3) | ("optMap" | "optFlatMap", 2) => 1,
        ("all" | "exists" | "exists_one" | "existsOne", 3) => 2,
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => 2,
        _ => return None,
    };
    Some(Macro { names })
}

/// Returns whether this is the macro `has`.
pub(super) fn is_has(name: &str, has_target: bool, arguments: usize) -> bool {
    name == "has" && !has_target && arguments == 1
}

/// Returns the error in the arguments of a macro, if any.
pub(super) fn fault(name: &str, target: Option<&Node>, arguments: &[Node]) -> Option<Fault> {
    if is_has(name, target.is_some(), arguments.len()) {
        let argument = arguments.first()?;
        let is_member = matches!(argument.what, Expression::Select { .. });
        return (!is_member).then(|| Fault {
            at: argument.at,
            what: "invalid argument to has() macro".to_owned(),
        });
    }
    let found = find(name, target.is_some(), arguments.len())?;
    let is_sort = name == "sortBy";
    if let Some(target) = target.filter(|target| is_sort && !may_be_list(target)) {
        return Some(Fault {
            at: target.at,
            what: "sortBy can only be applied to a list, identifier, comprehension, call or \
                   select expression"
                .to_owned(),
        });
    }
    names_fault(name, arguments.get(..found.names)?)
}

/// Returns the error in the names that a macro binds, if any.
fn names_fault(name: &str, arguments: &[Node]) -> Option<Fault> {
    let mut before = None;
    for argument in arguments {
        let named = match &argument.what {
            Expression::Name(name) if !name.starts_with('.') => Some(name.as_str()),
            _ => None,
        };
        let what = match (name, named) {
            ("sortBy", None) => "argument is not an identifier".to_owned(),
            ("optMap" | "optFlatMap", None) => {
                format!("{name}() variable name must be a simple identifier")
            }
            (_, None) => "argument must be a simple name".to_owned(),
            (_, Some(of)) if before == named => format!("duplicate variable name: {of}"),
            ("optMap" | "optFlatMap" | "sortBy", Some(_)) => continue,
            (_, Some("__result__" | "@result")) => {
                "iteration variable overwrites accumulator variable".to_owned()
            }
            _ => {
                before = named;
                continue;
            }
        };
        return Some(Fault {
            at: argument.at,
            what,
        });
    }
    None
}

/// Returns whether this is not a literal of another type.
fn may_be_list(target: &Node) -> bool {
    !matches!(
        target.what,
        Expression::Literal(_) | Expression::Map(_) | Expression::Message { .. }
    )
}
