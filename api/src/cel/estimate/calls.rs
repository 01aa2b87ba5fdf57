//! The estimates of calls.

use super::super::functions::Overload;
use super::super::tree::Node;
use super::super::types::Type;
use super::Range;
use super::expression::{Entry, Part, Walk};
use super::functions::Called;
use super::paths::{ITEMS, Path, VALUES};

const ONE: Range = Range::of(1);

/// The range with which a union begins.
const NOTHING: Range = Range {
    min: u64::MAX,
    max: 0,
};

impl Walk<'_> {
    /// Returns what is known about an item of a list or map.
    pub(super) fn indexed(&mut self, node: &Node, arguments: &[Part]) -> Part {
        let costs = arguments
            .iter()
            .fold(ONE, |sum, argument| sum.plus(argument.cost));
        let Some(of) = arguments.first() else {
            return self.made(node, costs, Path::default(), None, None);
        };
        let is_optional = matches!(
            node.what,
            super::super::tree::Expression::Index {
                is_optional: true,
                ..
            }
        );
        let step = match &of.of {
            _ if is_optional => None,
            Type::List(_) => Some(ITEMS),
            Type::Map(_) | Type::Dyn | Type::Any => Some(VALUES),
            _ => None,
        };
        let Some(step) = step else {
            return self.made(node, costs, Path::default(), None, None);
        };
        let size = of.entry.map(|entry| entry.value);
        self.made(node, costs, of.path.with(step), size, None)
    }

    /// Returns what is known about a call of a function. Each overload that matches may be meant.
    pub(super) fn function(
        &mut self,
        node: &Node,
        name: &str,
        overloads: &[&'static Overload],
        target: Option<&Part>,
        arguments: &[Part],
    ) -> Part {
        if let ("dyn", None, [argument]) = (name, target, arguments) {
            let cost = ONE.plus(argument.cost);
            return self.made(node, cost, Path::default(), argument.size, argument.entry);
        }
        let costs = arguments
            .iter()
            .fold(Range::of(0), |sum, part| sum.plus(part.cost));
        let (mut cost, mut size) = (NOTHING, None::<Range>);
        let mut entry = None;
        for overload in overloads {
            let called = Called {
                name,
                overload,
                target,
                arguments,
                root: self.root,
            };
            let (call, result) = called.estimate();
            cost = cost.or(call.plus(costs));
            size = match (size, result) {
                (Some(size), Some(result)) => Some(size.or(result)),
                (size, result) => size.or(result),
            };
            if let ("_+_", [one, other]) = (name, arguments) {
                let adds = matches!(overload.result, Type::String | Type::Bytes | Type::List(_));
                if adds {
                    entry = Entry::or(one.entry, other.entry).or(entry);
                }
            }
        }
        let before = target.map_or(Range::of(0), |target| target.cost);
        self.made(node, before.plus(cost), Path::default(), size, entry)
    }
}
