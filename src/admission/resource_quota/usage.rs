//! The numbers of a quota. Pure.

use serde_json::{Map, Value};

use crate::admission::pod_resources::{Quantities, add, quantities};
use crate::api::object::{Object, put};
use crate::api::quantity::Quantity;

const USED: [&str; 2] = ["status", "used"];

/// The limits, as the controller of quotas has accepted them.
pub(super) fn hard(quota: &Object) -> Quantities {
    quantities(quota.at(&["status", "hard"]))
}

fn used(quota: &Object) -> Quantities {
    quantities(quota.at(&USED))
}

/// The counted resources whose usage is not known yet.
pub(super) fn unknown(quota: &Object, counted: &[String]) -> Option<String> {
    let used = used(quota);
    let unknown = counted.iter().any(|name| !used.contains_key(name));
    unknown.then(|| counted.join(","))
}

/// The usage of a quota with more, which may exceed its limits.
pub(super) fn with(quota: &Object, more: &Quantities) -> Quantities {
    let mut after = used(quota);
    add(&mut after, more);
    after
}

/// The usage of a quota with more. Fails if it exceeds a limit.
pub(super) fn charged(quota: &Object, more: &Quantities) -> Result<Quantities, String> {
    let (hard, before, after) = (hard(quota), used(quota), with(quota, more));
    let is_exceeded = |name: &&String| {
        let most = hard.get(*name);
        most.is_some_and(|most| after.get(*name).is_some_and(|used| used > most))
    };
    let exceeded: Vec<&String> = more.keys().filter(is_exceeded).collect();
    if exceeded.is_empty() {
        return Ok(after);
    }
    let shown = |amounts: &Quantities| {
        let shown = exceeded.iter().filter_map(|name| {
            let amount = amounts.get(*name)?;
            Some(format!("{name}={amount}"))
        });
        shown.collect::<Vec<String>>().join(",")
    };
    Err(format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name(),
        shown(more),
        shown(&before),
        shown(&hard)
    ))
}

/// The usage of a quota without these charged amounts.
pub(super) fn given_back(quota: &Object, charged: &Quantities) -> Quantities {
    difference_of(used(quota), charged)
}

/// The amounts by which one usage exceeds another one.
pub(super) fn difference(usage: &Quantities, before: &Quantities) -> Quantities {
    difference_of(usage.clone(), before)
}

fn difference_of(mut usage: Quantities, less: &Quantities) -> Quantities {
    for (name, quantity) in less {
        let own = usage.get(name).cloned();
        let own = own.unwrap_or_else(|| Quantity::whole(0));
        usage.insert(name.clone(), own.minus(quantity));
    }
    usage
}

/// The amounts that a quota limits.
pub(super) fn masked(usage: &Quantities, hard: &Quantities) -> Quantities {
    let mut usage = usage.clone();
    usage.retain(|name, _| hard.contains_key(name));
    usage
}

/// The names of negative amounts.
pub(super) fn negative(usage: &Quantities) -> Option<String> {
    let negative = usage.iter().filter(|(_, quantity)| quantity.sign() < 0);
    let names: Vec<&str> = negative.map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Whether anything is used. Only that needs a quota.
pub(super) fn has_positive(usage: &Quantities) -> bool {
    usage.values().any(|quantity| quantity.sign() > 0)
}

/// Writes the usage into a quota.
pub(super) fn set_used(quota: &mut Object, used: &Quantities) {
    let used = used.iter();
    let members: Map<String, Value> = used
        .map(|(name, quantity)| (name.clone(), quantity.to_string().into()))
        .collect();
    put(quota, &USED, Value::Object(members));
}
