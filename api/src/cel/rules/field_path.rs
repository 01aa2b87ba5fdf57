//! The path of a part of an object, and paths that rules name.

use std::fmt;

use serde_json::Value as Json;

use crate::cel::lexer::control;

/// A part of an object, by the steps from the object. It is formatted only for an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'p> {
    Object,
    Member(&'p str),
    Key(&'p str),
    Item(usize),
}

impl<'p> Place<'p> {
    pub(super) const OBJECT: Place<'static> = Place {
        above: None,
        step: Step::Object,
    };

    pub(super) fn member(&'p self, name: &'p str) -> Place<'p> {
        self.below(Step::Member(name))
    }

    pub(super) fn key(&'p self, name: &'p str) -> Place<'p> {
        self.below(Step::Key(name))
    }

    pub(super) fn item(&'p self, at: usize) -> Place<'p> {
        self.below(Step::Item(at))
    }

    fn below(&'p self, step: Step<'p>) -> Place<'p> {
        Place {
            above: Some(self),
            step,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(self.step, Step::Object) {
            return f.write_str("<nil>");
        }
        // Objects are much deeper than the stack would allow for a recursion.
        let mut steps = Vec::new();
        let mut place = Some(self);
        while let Some(of) = place {
            steps.push(of.step);
            place = of.above;
        }
        let mut is_first = true;
        for step in steps.into_iter().rev() {
            match step {
                Step::Object => continue,
                Step::Member(name) if is_first => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Key(name) => write!(f, "[{name}]")?,
                Step::Item(at) => write!(f, "[{at}]")?,
            }
            is_first = false;
        }
        Ok(())
    }
}

/// Returns the `fieldPath` of a rule as it is shown in paths, or `None` if it names no field of the
/// schema.
pub(super) fn named_field(path: &str, schema: &Json) -> Option<String> {
    let (mut out, mut schema, mut rest) = (String::new(), schema, path);
    while !rest.is_empty() {
        let (name, following) = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            let (name, following) = after.split_at_checked(end)?;
            (name.to_owned(), following)
        } else {
            quoted(rest.strip_prefix("['")?)?
        };
        let properties = schema.get("properties").and_then(Json::as_object);
        if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
            schema = properties.get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else {
            schema = schema
                .get("additionalProperties")
                .filter(|of| of.is_object())?;
            out.push('[');
            out.push_str(&name);
            out.push(']');
        }
        rest = following;
    }
    (!out.is_empty()).then_some(out)
}

/// Reads a quoted name up to its closing bracket. Returns it with what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => {
                let rest = text.get(at + 1..)?.strip_prefix(']')?;
                return Some((name, rest));
            }
            '\\' => name.push(match letters.next()?.1 {
                quoted @ ('\'' | '\\') => quoted,
                letter => control(letter)?,
            }),
            other => name.push(other),
        }
    }
    None
}
