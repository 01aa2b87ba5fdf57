//! The evaluation of a program.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::library::dispatch;
use super::super::library::operators::{equal, scalar};
use super::super::library::{lists, patterns};
use super::super::values::value::{
    BuiltMap, Failure, JsonList, JsonMap, List, Map, MapOf, Message, Outcome, Value, error,
    no_overload,
};
use super::super::values::work_limit::Work;
use super::call_cost::{LIST, MAP, MESSAGE, equality, inequality};
use super::steps::{Bind, Call, Function, Key, Part, Path, Program, Root, Step, VARIABLE};
use crate::deep;

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct Evaluated<'v> {
    /// The value, or why the evaluation failed.
    pub outcome: Outcome<Value<'v>>,
    /// The cost of the evaluation.
    pub cost: u64,
}

/// The value of a name that a macro binds.
#[derive(Clone, Debug)]
pub(super) enum Local<'p, 'v> {
    Unset,
    Known(Outcome<Value<'v>>),
    /// A value that is computed at its first use.
    Pending(&'p Step),
}

/// An evaluation.
pub(super) struct Run<'p, 'v> {
    names: &'p [String],
    lookup: Lookup<'p, 'v>,
    variables: SmallVec<[Option<Outcome<Value<'v>>>; 2]>,
    pub(super) locals: SmallVec<[Local<'p, 'v>; 4]>,
    cost: u64,
    limit: u64,
    pub(super) work: &'p Work,
    /// Whether everything is evaluated, also the parts that decide nothing any more. Only tests
    /// do that.
    pub(super) is_exhaustive: bool,
}

type Arguments<'v> = SmallVec<[Value<'v>; 3]>;

/// Returns the value of a name, if it has one.
type Lookup<'p, 'v> = &'p dyn Fn(&str) -> Option<Outcome<Value<'v>>>;

impl Program {
    /// Evaluates the program with the values of its names, until it costs more than the limit. An
    /// error in the place of a value counts when the program looks at it. A variable of a policy is
    /// asked for as `variables.name`, when the program looks at it for the first time.
    pub fn evaluate<'v>(
        &self,
        variable: impl Fn(&str) -> Option<Outcome<Value<'v>>>,
        limit: u64,
        work: &Work,
    ) -> Evaluated<'v> {
        let is_early = |name: &&String| !name.starts_with(VARIABLE);
        let names = self.names.iter();
        let variables = names.map(|name| is_early(&name).then(|| variable(name)).flatten());
        let variables = variables.collect();
        let mut run = Run {
            names: &self.names,
            lookup: &variable,
            variables,
            locals: SmallVec::from_elem(Local::Unset, self.slots),
            cost: 0,
            limit,
            work,
            is_exhaustive: self.is_exhaustive,
        };
        let room = (self.depth + 8).saturating_mul(deep::LEVEL_BYTES);
        let outcome = stacker::maybe_grow(room, room + deep::LEVEL_BYTES, || run.value(&self.root));
        Evaluated {
            outcome,
            cost: run.cost,
        }
    }

    /// Returns the names of the environment that the program uses.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl<'p, 'v> Run<'p, 'v> {
    /// Adds to the cost.
    #[inline]
    pub(super) fn charge(&mut self, cost: u64) -> Outcome<()> {
        self.cost = self.cost.saturating_add(cost);
        match self.cost > self.limit {
            true => Err(Failure::OverBudget),
            false => Ok(()),
        }
    }

    /// Returns the value of a step.
    pub(super) fn value(&mut self, step: &'p Step) -> Outcome<Value<'v>> {
        match step {
            Step::Constant(value) => Ok(value.clone()),
            Step::Path(path) => self.observed(path),
            Step::And(terms) => self.logical(terms, false),
            Step::Or(terms) => self.logical(terms, true),
            Step::Equal { sides, is_negated } => self.equality(sides, *is_negated),
            Step::Call(call) => self.call(call),
            Step::IsOneOf(search) => {
                let value = self.value(&search.0)?;
                Ok(Value::Bool(search.1.contains(&scalar(&value))))
            }
            Step::OrElse { sides, is_value } => self.or_else(sides, *is_value),
            Step::List(items) => self.list(items),
            Step::Map(entries) => self.map(entries),
            Step::Message(of) => self.message(&of.0, &of.1),
            Step::Fold(fold) => self.fold(fold),
            Step::Bind(bind) => self.bind(bind),
            Step::Shared(step) => self.value(step),
        }
    }

    /// Returns the value of a path that is a part of its own, and charges for that.
    fn observed(&mut self, path: &'p Path) -> Outcome<Value<'v>> {
        let outcome = self.resolve(path);
        if outcome.as_ref().is_err_and(Failure::is_final) {
            return outcome;
        }
        match (&path.root, path.is_test) {
            // Two values by a condition cost what they are made of, and a test of presence costs
            // one less than the value.
            (Root::Either(_), true) => self.cost = self.cost.saturating_sub(1),
            (Root::Either(_), false) | (_, true) => {}
            (_, false) => self.charge(1)?,
        }
        outcome
    }

    /// Returns the value of a path.
    fn resolve(&mut self, path: &'p Path) -> Outcome<Value<'v>> {
        let mut value = match &path.root {
            Root::Variable(at) => match self.variables.get(*at) {
                Some(Some(value)) => value.clone()?,
                _ => self.late(*at)?,
            },
            Root::Local(at) => self.local(*at)?,
            Root::Step(step) => self.value(step)?,
            Root::Either(parts) => {
                let (condition, yes, no) = &**parts;
                match self.value(condition)? {
                    Value::Bool(true) => self.resolve(yes)?,
                    Value::Bool(false) => self.resolve(no)?,
                    _ => return no_overload(),
                }
            }
        };
        if path.parts.is_empty() {
            return Ok(value);
        }
        let mut is_optional = false;
        if let Value::Optional(of) = value {
            let Some(of) = of else {
                return Ok(if path.is_test {
                    Value::Bool(false)
                } else {
                    Value::Optional(None)
                });
            };
            value = raw((*of).clone());
            is_optional = true;
        }
        let last = path.parts.len() - 1;
        for (at, part) in path.parts.iter().enumerate() {
            is_optional |= part.is_optional;
            let is_test = path.is_test && at == last;
            let found = self.part(&value, part, is_optional || is_test);
            let is_charged = !is_optional || !matches!(found, Ok(None) | Err(_));
            if is_charged {
                self.charge(1)?;
            }
            match found? {
                Some(found) => value = found,
                None if path.is_test => return Ok(Value::Bool(false)),
                None => return Ok(Value::Optional(None)),
            }
        }
        Ok(match (path.is_test, is_optional) {
            (true, _) => Value::Bool(true),
            (false, true) => Value::some(value),
            (false, false) => value,
        })
    }

    /// Returns the value of a variable of a policy, which was not used before. An error costs as
    /// much as a value.
    fn late(&mut self, at: usize) -> Outcome<Value<'v>> {
        let name = self.names.get(at).map(String::as_str).unwrap_or_default();
        let found = match name.starts_with(VARIABLE) {
            true => (self.lookup)(name),
            false => None,
        };
        let Some(found) = found else {
            return error(format!("no such attribute(s): {name}"));
        };
        match found {
            Ok(value) => {
                if let Some(place) = self.variables.get_mut(at) {
                    *place = Some(Ok(value.clone()));
                }
                Ok(value)
            }
            Err(failure) => {
                self.charge(u64::from(!failure.is_final()))?;
                Err(failure)
            }
        }
    }

    fn local(&mut self, at: usize) -> Outcome<Value<'v>> {
        match self.locals.get(at) {
            Some(Local::Known(value)) => value.clone(),
            Some(Local::Pending(step)) => {
                let step = *step;
                let value = self.value(step);
                self.set_local(at, Local::Known(value.clone()));
                value
            }
            _ => error("no such attribute(s)"),
        }
    }

    pub(super) fn set_local(&mut self, at: usize, value: Local<'p, 'v>) {
        if let Some(place) = self.locals.get_mut(at) {
            *place = value;
        }
    }

    /// Returns a member or item of a value. It may be absent only if `may` is set.
    fn part(&mut self, of: &Value<'v>, part: &'p Part, may: bool) -> Outcome<Option<Value<'v>>> {
        match &part.key {
            Key::Name(name) => {
                if let Value::Map(Map::Json(map)) = of {
                    return match map.member(name)? {
                        None if !may => error(format!("no such key: {name}")),
                        found => Ok(found),
                    };
                }
                item(
                    of,
                    &Value::String(super::super::values::value::Text::Shared(Arc::clone(name))),
                    may,
                )
            }
            Key::Itself => Ok(Some(of.clone())),
            Key::Constant(key) => item(of, key, may),
            Key::Path(path) => {
                let key = self.resolve(path)?;
                item(of, &key, may)
            }
            Key::Step(step) => {
                let key = self.value(step)?;
                item(of, &key, may)
            }
        }
    }

    /// Returns the value of `&&` or `||`. `decisive` ends the evaluation; it wins over errors.
    fn logical(&mut self, terms: &'p [Step], decisive: bool) -> Outcome<Value<'v>> {
        let (mut fault, mut is_decided) = (None, false);
        for term in terms {
            match self.value(term) {
                Ok(Value::Bool(of)) if of == decisive => {
                    if !self.is_exhaustive {
                        return Ok(Value::Bool(decisive));
                    }
                    is_decided = true;
                }
                Ok(Value::Bool(_)) => {}
                Ok(_) => fault = fault.or(Some("no such overload".into())),
                Err(Failure::Error(what)) => fault = fault.or(Some(what)),
                Err(stop) => return Err(stop),
            }
        }
        match fault.filter(|_| !is_decided) {
            Some(what) => Err(Failure::Error(what)),
            None => Ok(Value::Bool(is_decided == decisive)),
        }
    }

    /// Returns the outcome of a step, unless the evaluation must stop.
    pub(super) fn outcome(&mut self, step: &'p Step) -> Outcome<Outcome<Value<'v>>> {
        match self.value(step) {
            Err(stop) if stop.is_final() => Err(stop),
            other => Ok(other),
        }
    }

    fn equality(&mut self, sides: &'p [Step; 2], is_negated: bool) -> Outcome<Value<'v>> {
        let [one, other] = sides;
        let (one, other) = (self.outcome(one)?, self.outcome(other)?);
        self.charge(match is_negated {
            false => equality(&one, &other),
            true => inequality(&one, &other),
        })?;
        let (one, other) = (one?, other?);
        match equal(&one, &other, self.work) {
            Ok(of) => Ok(Value::Bool(of != is_negated)),
            // Values that can't be compared are not equal.
            Err(Failure::Error(_)) if is_negated => Ok(Value::Bool(true)),
            Err(fault) => Err(fault),
        }
    }

    fn call(&mut self, call: &'p Call) -> Outcome<Value<'v>> {
        let mut values: Arguments<'v> = SmallVec::new();
        let mut fault = None;
        for (at, step) in call.arguments.iter().enumerate() {
            match self.outcome(step)? {
                Ok(value) => values.push(value),
                Err(what) if call.stops_early && at + 1 < call.arguments.len() => {
                    // Without its last argument the call costs nothing.
                    return Err(what);
                }
                Err(what) => {
                    fault = fault.or(Some((at, what)));
                    values.push(Value::Null);
                }
            }
        }
        if let Some((_, what)) = fault {
            let cost = self.price_with_faults(call, &values)?;
            self.charge(cost)?;
            return Err(what);
        }
        if !call.price.is_of_result() {
            let cost = self.price(call, &values, None)?;
            self.charge(cost)?;
        } else if let (true, [Value::Int(end)]) = (call.name == "lists.range", values.as_slice()) {
            // The list is not built if it would cost too much.
            let length = u64::try_from(*end).unwrap_or(0);
            if self.cost.saturating_add(length) > self.limit {
                return Err(Failure::OverBudget);
            }
        }
        let result = match &call.implementation {
            Function::Plain(implementation) => {
                dispatch::call(*implementation, call.name, &values, self.work)
            }
            Function::Sum(zero) => lists::total(zero.as_ref(), &values, self.work),
            Function::Pattern(None) => patterns::call(call.name, None, &values, self.work),
            Function::Pattern(Some(pattern)) => match pattern.get() {
                Ok(known) => patterns::call(call.name, Some(known), &values, self.work),
                Err(why) => error(why.clone()),
            },
        };
        if call.price.is_of_result() {
            let cost = self.price(call, &values, Some(&result))?;
            self.charge(cost)?;
        }
        result
    }

    fn price(
        &self,
        call: &Call,
        values: &[Value<'v>],
        result: Option<&Outcome<Value<'v>>>,
    ) -> Outcome<u64> {
        if let super::call_cost::Price::Fixed(cost) = call.price {
            return Ok(cost);
        }
        let values: SmallVec<[Outcome<Value<'v>>; 3]> = values.iter().cloned().map(Ok).collect();
        call.price.of(&values, result, self.work)
    }

    /// Returns the cost of a call with errors among its arguments, which count as one.
    fn price_with_faults(&self, call: &Call, values: &[Value<'v>]) -> Outcome<u64> {
        let values: SmallVec<[Outcome<Value<'v>>; 3]> = values.iter().cloned().map(Ok).collect();
        call.price.of(&values, Some(&no_overload()), self.work)
    }

    fn or_else(&mut self, sides: &'p [Step; 2], is_value: bool) -> Outcome<Value<'v>> {
        let [one, other] = sides;
        match self.value(one)? {
            Value::Optional(None) => self.value(other),
            Value::Optional(Some(value)) if is_value => Ok((*value).clone()),
            value => Ok(value),
        }
    }

    fn list(&mut self, items: &'p [(bool, Step)]) -> Outcome<Value<'v>> {
        let made = self.items(items);
        if !made.as_ref().is_err_and(Failure::is_final) {
            self.charge(LIST)?;
        }
        made.map(Value::list)
    }

    fn items(&mut self, items: &'p [(bool, Step)]) -> Outcome<Vec<Value<'v>>> {
        let mut values = Vec::with_capacity(items.len());
        for (is_optional, step) in items {
            match (is_optional, self.value(step)?) {
                (true, Value::Optional(None)) => {}
                (true, Value::Optional(Some(value))) => values.push((*value).clone()),
                (true, other) => {
                    return error(format!(
                        "cannot initialize optional list element from non-optional value {other}"
                    ));
                }
                (false, value) => values.push(value),
            }
        }
        Ok(values)
    }

    fn map(&mut self, entries: &'p [(bool, Step, Step)]) -> Outcome<Value<'v>> {
        let made = self.entries(entries);
        if !made.as_ref().is_err_and(Failure::is_final) {
            self.charge(MAP)?;
        }
        made.map(|made| Value::Map(Map::Built(Arc::new(made))))
    }

    fn entries(&mut self, entries: &'p [(bool, Step, Step)]) -> Outcome<BuiltMap<'v>> {
        let mut map = BuiltMap::default();
        for (is_optional, key, value) in entries {
            let (key, value) = (self.value(key)?, self.value(value)?);
            let value = match (is_optional, value) {
                (true, Value::Optional(None)) => {
                    map.remove(&key);
                    continue;
                }
                (true, Value::Optional(Some(value))) => (*value).clone(),
                (true, other) => {
                    return error(format!(
                        "cannot initialize optional entry '{key}' from non-optional value {other}"
                    ));
                }
                (false, value) => value,
            };
            if !map.insert(key, value) {
                return error("unsupported key type");
            }
        }
        Ok(map)
    }

    fn message(
        &mut self,
        name: &Arc<str>,
        fields: &'p [(Arc<str>, bool, Step)],
    ) -> Outcome<Value<'v>> {
        let made = self.fields(fields);
        if !made.as_ref().is_err_and(Failure::is_final) {
            self.charge(MESSAGE)?;
        }
        Message::build(name, made?)
    }

    fn fields(
        &mut self,
        fields: &'p [(Arc<str>, bool, Step)],
    ) -> Outcome<Vec<(Arc<str>, Value<'v>)>> {
        let mut values = Vec::with_capacity(fields.len());
        for (name, is_optional, step) in fields {
            let value = match (is_optional, self.value(step)?) {
                (true, Value::Optional(None)) => continue,
                (true, Value::Optional(Some(value))) => (*value).clone(),
                (true, other) => {
                    return error(format!(
                        "cannot initialize optional entry '{name}' from non-optional value {other}"
                    ));
                }
                (false, value) => value,
            };
            values.push((Arc::clone(name), value));
        }
        Ok(values)
    }

    fn bind(&mut self, bind: &'p Bind) -> Outcome<Value<'v>> {
        self.set_local(bind.slot, Local::Pending(&bind.value));
        self.value(&bind.result)
    }
}

/// Returns a value without its schema, as cel-go sees the value in an optional one.
fn raw(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Map(Map::Json(map)) => Value::Map(Map::Json(JsonMap {
            of: MapOf::Any,
            ..map
        })),
        Value::List(List::Json(list)) => Value::List(List::Json(JsonList { of: None, ..list })),
        other => other,
    }
}

/// Returns an item of a list or the value of a map key. It may be absent only if `may` is set.
fn item<'v>(of: &Value<'v>, key: &Value<'_>, may: bool) -> Outcome<Option<Value<'v>>> {
    if !matches!(
        key,
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_)
    ) {
        return error(format!("invalid qualifier type: {}", key.type_name()));
    }
    let found = match of {
        Value::Map(map) => map.find(key)?,
        Value::List(list) => {
            let at = position(key)?;
            let at = usize::try_from(at).ok();
            match at.and_then(|at| list.get(at)) {
                Some(_)
                    if !matches!(key, Value::Int(_)) && at.is_some_and(|at| list.is_own(at)) =>
                {
                    return error(format!("unsupported index: {key}"));
                }
                Some(item) => Some(item?),
                None if may => None,
                None => return error(format!("index out of bounds: {key}")),
            }
        }
        _ => None,
    };
    match found {
        None if !may => error(format!("no such key: {key}")),
        found => Ok(found),
    }
}

/// Returns a key as the position in a list.
fn position(key: &Value<'_>) -> Outcome<i64> {
    let whole = match key {
        Value::Int(at) => Some(*at),
        Value::Uint(at) => i64::try_from(*at).ok(),
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        Value::Double(at) => (at.fract() == 0.0 && at.abs() < 9e18).then_some(*at as i64),
        other => {
            return error(format!(
                "unsupported index type '{}' in list",
                other.type_name()
            ));
        }
    };
    match whole {
        Some(at) => Ok(at),
        None => error(format!("unsupported index value {key} in list")),
    }
}
