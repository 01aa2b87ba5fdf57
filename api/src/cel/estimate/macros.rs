//! The estimates of macros, which are loops.

use super::super::functions::Overload;
use super::super::tree::Node;
use super::super::types::Type;
use super::Range;
use super::expression::{Entry, LIST, Local, MAP, Part, Walk, is_scalar};
use super::paths::{INDICES, ITEMS, KEYS, Path, VALUES};

const ONE: Range = Range::of(1);

impl Walk<'_> {
    /// Returns the cost of a name that is bound to a value, and the result.
    pub(super) fn bound(&mut self, name: &Node, value: Part, result: &Node) -> (Range, Part) {
        // The loop of the macro runs over an empty list.
        let cost = LIST.plus(value.cost);
        let local = Local {
            path: value.path,
            size: value.size,
            entry: value.entry,
        };
        self.bind(name, local);
        let result = self.part(result);
        self.release(name);
        (cost.plus(result.cost), result)
    }

    pub(super) fn macros(
        &mut self,
        node: &Node,
        name: &str,
        target: &Node,
        arguments: &[Node],
        sorting: &[&'static Overload],
    ) -> Part {
        match (name, arguments) {
            ("optMap" | "optFlatMap", [bound, body]) => {
                self.optional(node, name == "optMap", target, bound, body)
            }
            ("sortBy", [bound, body]) => self.sorted(node, target, bound, body, sorting),
            _ => self.folded(node, name, target, arguments),
        }
    }

    fn folded(&mut self, node: &Node, name: &str, target: &Node, arguments: &[Node]) -> Part {
        let range = self.part(target);
        let has_two = matches!(name, "transformList" | "transformMap" | "transformMapEntry")
            || matches!(name, "all" | "exists" | "existsOne" | "exists_one")
                && arguments.len() == 3;
        let (names, parts) = arguments
            .split_at_checked(1 + usize::from(has_two))
            .unwrap_or_default();
        self.bind_items(names, &range);
        let (cost, size, entry) = self.looped(name, parts, &range);
        for name in names {
            self.release(name);
        }
        self.made(node, cost, Path::default(), size, entry)
    }

    /// Binds the names of a loop to the items of its range.
    fn bind_items(&mut self, names: &[Node], range: &Part) {
        let is_list = match range.entry {
            Some(entry) => entry.is_list,
            None => matches!(range.of, Type::List(_)),
        };
        let local = |step: &str, size: Option<Range>| Local {
            path: range.path.with(step),
            size,
            entry: None,
        };
        let key = range.entry.map(|entry| entry.key);
        let value = range.entry.map(|entry| entry.value);
        match names {
            [first, second] => {
                self.bind(first, local(if is_list { INDICES } else { KEYS }, key));
                self.bind(second, local(if is_list { ITEMS } else { VALUES }, value));
            }
            [first, ..] if is_list => self.bind(first, local(ITEMS, value)),
            [first, ..] => self.bind(first, local(KEYS, key)),
            [] => {}
        }
    }

    /// Returns the cost of a loop, the size of its result and that of the result's items.
    fn looped(
        &mut self,
        name: &str,
        parts: &[Node],
        range: &Part,
    ) -> (Range, Option<Range>, Option<Entry>) {
        let Some((body, filter)) = parts.split_last() else {
            return (range.cost, None, None);
        };
        let filter = filter.first().map(|filter| self.part(filter).cost);
        let body = self.part(body);
        let count = range.size_or_unknown();
        // The accumulator is read for the result of each loop.
        let around = range.cost.plus(ONE);
        // The step is left out if the filter decides so; the accumulator is read then.
        let filtered = |step: Range| match filter {
            Some(filter) => filter.plus(step.or(ONE)),
            None => step,
        };
        let list = |value: Range| {
            Some(Entry {
                is_list: true,
                key: ONE,
                value: Range {
                    min: 0,
                    max: value.max,
                },
            })
        };
        let (begin, step, size, entry) = match name {
            "all" | "exists" => {
                let condition = if name == "all" { 2 } else { 3 };
                let step = Range {
                    min: 1,
                    max: body.cost.max.saturating_add(1),
                };
                let step = step.plus(Range::of(condition));
                (Range::of(0), step, Some(ONE), None)
            }
            "exists_one" | "existsOne" => {
                let step = body.cost.plus(Range { min: 1, max: 2 });
                // The count is compared with one.
                (ONE, step, Some(ONE), None)
            }
            "filter" => {
                let step = body.cost.plus(Range { min: 1, max: 13 });
                let item = self.item_size(range);
                (LIST, step, Some(count), list(item))
            }
            "transformMap" => (
                MAP,
                filtered(body.cost.plus(Range::of(3))),
                Some(count),
                None,
            ),
            "transformMapEntry" => {
                let step = filtered(body.cost.plus(Range::of(2)));
                (MAP, step, Some(count), None)
            }
            _ => {
                let step = filtered(body.cost.plus(Range::of(12)));
                let value = body.size_or_unknown();
                (LIST, step, Some(count), list(value))
            }
        };
        (around.plus(begin).plus(count.times(step)), size, entry)
    }

    /// Returns the size of the items of a range, as a macro knows it by their name.
    fn item_size(&self, range: &Part) -> Range {
        let (is_list, of) = match (&range.entry, &range.of) {
            (Some(entry), of) => (entry.is_list, of),
            (None, of) => (matches!(of, Type::List(_)), of),
        };
        let path = range.path.copied_with(if is_list { ITEMS } else { KEYS });
        let item = match of {
            Type::List(item) => (**item).clone(),
            Type::Map(of) => of.0.clone(),
            _ => Type::Dyn,
        };
        let known = range
            .entry
            .map(|entry| if is_list { entry.value } else { entry.key });
        path.size(self.root)
            .or(is_scalar(&item).then_some(ONE))
            .or(known)
            .unwrap_or(Range::UNKNOWN)
    }

    /// Returns the estimate of `optMap` and `optFlatMap`, which look at the target twice.
    fn optional(
        &mut self,
        node: &Node,
        wraps: bool,
        target: &Node,
        bound: &Node,
        body: &Node,
    ) -> Part {
        let target = self.part(target);
        let asked = target.cost.plus(ONE);
        let of = match &target.of {
            Type::Optional(of) => (**of).clone(),
            _ => Type::Dyn,
        };
        let value_size = is_scalar(&of).then_some(ONE);
        let value = Part {
            cost: asked,
            path: Path::default(),
            size: value_size,
            entry: None,
            of,
            literal: None,
        };
        let (cost, _) = self.bound(bound, value, body);
        let cost = if wraps { cost.plus(ONE) } else { cost };
        let cost = asked.plus(cost.or(ONE));
        // The other result is an optional value without a known size.
        let size = match is_scalar(&self.notes.type_at(node)) {
            true => ONE,
            false => Range::UNKNOWN,
        };
        self.made(node, cost, Path::default(), Some(size), None)
    }

    /// Returns the estimate of `sortBy`, which sorts a list by a list of keys.
    fn sorted(
        &mut self,
        node: &Node,
        target: &Node,
        bound: &Node,
        body: &Node,
        overloads: &[&'static Overload],
    ) -> Part {
        let value = self.part(target);
        let around = LIST.plus(value.cost);
        let input = Part {
            cost: ONE,
            ..value.clone()
        };
        self.bind_items(std::slice::from_ref(bound), &input);
        let key_type = self.notes.type_at(body);
        let (keys_cost, keys_size, keys_entry) =
            self.looped("map", std::slice::from_ref(body), &input);
        self.release(bound);
        let keys = Part {
            cost: keys_cost,
            path: Path::default(),
            size: keys_size,
            entry: keys_entry,
            of: Type::list(key_type.clone()),
            literal: None,
        };
        let name = "@sortByAssociatedKeys";
        let call = self.function(
            node,
            name,
            overloads,
            Some(&input),
            std::slice::from_ref(&keys),
        );
        self.made(
            node,
            around.plus(call.cost),
            Path::default(),
            call.size,
            call.entry,
        )
    }
}
