//! The evaluation of paths.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::Step;

/// A value of the object, or of the path.
type Found<'v> = Cow<'v, Value>;

/// Nothing was found because of an error.
struct Failed;

pub(super) fn first<'v>(
    steps: &[Step],
    members: &'v Map<String, Value>,
    max_steps: usize,
) -> Option<Found<'v>> {
    let mut evaluation = Evaluation { left: max_steps };
    // The first step sees the members, which are not a value of their own.
    let (found, rest) = match steps.split_first()? {
        (Step::Field(name), rest) => (
            members.get(name).map(Cow::Borrowed).into_iter().collect(),
            rest,
        ),
        (Step::Wildcard, rest) => (members.values().map(Cow::Borrowed).collect(), rest),
        _ => (vec![Cow::Owned(Value::Object(members.clone()))], steps),
    };
    let found = evaluation.all(rest, found).ok()?;
    found.into_iter().next()
}

struct Evaluation {
    left: usize,
}

impl Evaluation {
    fn take(&mut self, steps: usize) -> Result<(), Failed> {
        self.left = self.left.checked_sub(steps).ok_or(Failed)?;
        Ok(())
    }

    fn all<'v>(
        &mut self,
        steps: &[Step],
        mut found: Vec<Found<'v>>,
    ) -> Result<Vec<Found<'v>>, Failed> {
        for step in steps {
            self.take(1 + found.len())?;
            found = self.step(step, found)?;
        }
        Ok(found)
    }

    fn step<'v>(&mut self, step: &Step, input: Vec<Found<'v>>) -> Result<Vec<Found<'v>>, Failed> {
        let mut found = Vec::new();
        match step {
            Step::Field(name) => {
                let members = input.into_iter().filter_map(|value| member(value, name));
                found.extend(members);
            }
            Step::Wildcard => {
                for value in input {
                    self.children(value, &mut found)?;
                }
            }
            Step::Recursive => {
                for value in input {
                    self.descend(value, &mut found)?;
                }
            }
            Step::Slice { .. } => {
                for value in input {
                    if !value.is_null() && !self.slice(step, value, &mut found)? {
                        return Ok(found);
                    }
                }
            }
            Step::Union(lists) => {
                for steps in lists {
                    self.take(input.len())?;
                    found.extend(self.all(steps, input.clone())?);
                }
            }
            Step::Filter {
                left,
                operator,
                right,
            } => {
                for value in input {
                    let mut items = Vec::new();
                    if !value.is_array() {
                        return Err(Failed);
                    }
                    self.children(value, &mut items)?;
                    for item in items {
                        if self.passes(left, operator, right, &item)? {
                            found.push(item);
                        }
                    }
                }
            }
            Step::Literal(value @ Value::String(_)) => found.push(Cow::Owned(value.clone())),
            Step::Literal(value) => found.extend(input.iter().map(|_| Cow::Owned(value.clone()))),
            Step::Word => return Err(Failed),
        }
        Ok(found)
    }

    /// Adds the members or items of a value.
    fn children<'v>(&mut self, value: Found<'v>, found: &mut Vec<Found<'v>>) -> Result<(), Failed> {
        match value {
            Cow::Borrowed(Value::Array(items)) => {
                self.take(items.len())?;
                found.extend(items.iter().map(Cow::Borrowed));
            }
            Cow::Borrowed(Value::Object(members)) => {
                self.take(members.len())?;
                found.extend(members.values().map(Cow::Borrowed));
            }
            Cow::Owned(Value::Array(items)) => found.extend(items.into_iter().map(Cow::Owned)),
            Cow::Owned(Value::Object(members)) => {
                found.extend(members.into_iter().map(|(_, value)| Cow::Owned(value)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a value with all values below it that have members or items.
    fn descend<'v>(&mut self, value: Found<'v>, found: &mut Vec<Found<'v>>) -> Result<(), Failed> {
        let mut waiting = vec![value];
        while let Some(value) = waiting.pop() {
            let mut below = Vec::new();
            self.children(value.clone(), &mut below)?;
            if !below.is_empty() {
                found.push(value);
                waiting.extend(below.into_iter().rev());
            }
        }
        Ok(())
    }

    /// Adds a part of a list. Returns whether evaluation goes on with other lists.
    fn slice<'v>(
        &mut self,
        step: &Step,
        value: Found<'v>,
        found: &mut Vec<Found<'v>>,
    ) -> Result<bool, Failed> {
        let Step::Slice {
            begin,
            end,
            is_single,
            step,
        } = step
        else {
            return Err(Failed);
        };
        let Some(items) = value.as_array() else {
            return Err(Failed);
        };
        let length = i64::try_from(items.len()).map_err(|_| Failed)?;
        let from_end = |place: i64| {
            if place < 0 {
                place.saturating_add(length)
            } else {
                place
            }
        };
        let begin = from_end(begin.unwrap_or(0));
        let end = match end.unwrap_or(length) {
            0 if *is_single => length,
            end => from_end(end),
        };
        if begin == end {
            return Ok(false);
        }
        let is_inside = (0..length).contains(&begin) && (0..=length).contains(&end);
        let step = usize::try_from(step.unwrap_or(1))
            .ok()
            .filter(|step| *step > 0);
        let (Some(step), true, true) = (step, is_inside, begin < end) else {
            return Err(Failed);
        };
        let place = |place: i64| usize::try_from(place).map_err(|_| Failed);
        let (begin, end) = (place(begin)?, place(end)?);
        let mut all = Vec::new();
        self.children(value, &mut all)?;
        found.extend(all.into_iter().take(end).skip(begin).step_by(step));
        Ok(true)
    }

    fn passes(
        &mut self,
        left: &[Step],
        operator: &str,
        right: &[Step],
        item: &Found<'_>,
    ) -> Result<bool, Failed> {
        let lefts = self.all(left, vec![Cow::Borrowed(&**item)]);
        if operator == "exists" {
            return Ok(lefts.is_ok_and(|lefts| !lefts.is_empty()));
        }
        let lefts = lefts?;
        let left = match lefts.as_slice() {
            [] => return Ok(false),
            [left] => left,
            _ => return Err(Failed),
        };
        let rights = self.all(right, vec![Cow::Borrowed(&**item)])?;
        let right = match rights.as_slice() {
            [] => return Ok(false),
            [right] => right,
            _ => return Err(Failed),
        };
        compare(left, operator, right)
    }
}

fn member<'v>(value: Found<'v>, name: &str) -> Option<Found<'v>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(Value::Object(mut members)) => members.remove(name).map(Cow::Owned),
        Cow::Owned(_) => None,
    }
}

/// Compares two scalars of the same kind, where integers and floats are different kinds.
fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, Failed> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
            _ => None,
        },
        (Value::Bool(left), Value::Bool(right)) if matches!(operator, "==" | "!=") => {
            Some(left.cmp(right))
        }
        _ => None,
    };
    let order = order.ok_or(Failed)?;
    match operator {
        "<" => Ok(order == Ordering::Less),
        ">" => Ok(order == Ordering::Greater),
        "==" => Ok(order == Ordering::Equal),
        "!=" => Ok(order != Ordering::Equal),
        "<=" => Ok(order != Ordering::Greater),
        ">=" => Ok(order != Ordering::Less),
        _ => Err(Failed),
    }
}
