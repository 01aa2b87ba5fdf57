//! The steps of macros.

use std::sync::Arc;

use super::super::functions::{FUNCTIONS, Overload};
use super::super::tree::{Expression, Node};
use super::folds::is_constant;
use super::plan::{Planned, Planner, either};
use super::steps::{Bind, Fold, FoldKind, Path, Root, Step};

impl Planner<'_> {
    /// Returns the steps of `cel.bind`.
    pub(super) fn bound(&mut self, name: &Node, value: &Node, result: &Node) -> Planned {
        let value = self.step(value)?;
        let scopes = self.scopes.len();
        let slot = self.bind(name);
        let result = self.step(result);
        self.scopes.truncate(scopes);
        Ok(bind(slot, value, result?))
    }

    /// Returns the steps of a macro over a value.
    pub(super) fn macros(
        &mut self,
        name: &str,
        target: &Node,
        arguments: &[Node],
        sorting: &[&'static Overload],
    ) -> Planned {
        let scopes = self.scopes.len();
        let step = match (name, arguments) {
            ("optMap" | "optFlatMap", [bound, body]) => self.optional(name, target, bound, body),
            ("sortBy", [bound, body]) => self.sorted(target, bound, body, sorting),
            _ => self.folded(name, target, arguments),
        };
        self.scopes.truncate(scopes);
        step
    }

    fn folded(&mut self, name: &str, target: &Node, arguments: &[Node]) -> Planned {
        let range = self.step(target)?;
        let has_two = matches!(name, "transformList" | "transformMap" | "transformMapEntry")
            || matches!(name, "all" | "exists" | "existsOne" | "exists_one")
                && arguments.len() == 3;
        let (names, parts) = arguments
            .split_at_checked(1 + usize::from(has_two))
            .unwrap_or_default();
        let (Some(first), Some((body, filter))) = (names.first(), parts.split_last()) else {
            return Err(format!("no such overload: {name}"));
        };
        let first_slot = self.bind(first);
        let second = names.get(1).map(|second| self.bind(second));
        let body_step = self.step(body)?;
        let (filter, body) = match name {
            // The result has the item itself.
            "filter" => {
                let item = Step::path(Path::of(Root::Local(first_slot)));
                (Some(body_step), item)
            }
            _ => {
                let filter = filter.first().map(|filter| self.step(filter)).transpose()?;
                (filter, body_step)
            }
        };
        let kind = match name {
            "all" => FoldKind::All,
            "exists" => FoldKind::Exists,
            "exists_one" | "existsOne" => FoldKind::ExistsOne,
            "transformMap" => FoldKind::Map,
            "transformMapEntry" => FoldKind::Entries,
            _ => FoldKind::List {
                is_constant: is_constant(&body),
            },
        };
        Ok(Step::Fold(Box::new(Fold {
            kind,
            range,
            first: first_slot,
            second,
            filter,
            body,
        })))
    }

    /// Returns the steps of `optMap` and `optFlatMap`, which look at the target twice.
    fn optional(&mut self, name: &str, target: &Node, bound: &Node, body: &Node) -> Planned {
        let target = Arc::new(self.step(target)?);
        let mut ask = |name: &'static str| {
            let target = Step::Shared(Arc::clone(&target));
            self.function(name, &overloads(name), vec![target])
        };
        let (condition, value) = (ask("hasValue")?, ask("value")?);
        let slot = self.bind(bound);
        let body = self.step(body)?;
        let result = bind(slot, value, body);
        let yes = match name {
            "optMap" => self.function("optional.of", &overloads("optional.of"), vec![result])?,
            _ => result,
        };
        let no = self.function("optional.none", &overloads("optional.none"), Vec::new())?;
        Ok(either(condition, yes, no))
    }

    /// Returns the steps of `sortBy`: the list is sorted by a list of keys.
    fn sorted(
        &mut self,
        target: &Node,
        bound: &Node,
        body: &Node,
        overloads: &[&'static Overload],
    ) -> Planned {
        let value = self.step(target)?;
        let input = Node::new(target.at, Expression::Name("@__sortBy_input__".to_owned()));
        let slot = self.bind(&input);
        let list = || Step::path(Path::of(Root::Local(slot)));
        let first = self.bind(bound);
        let body = self.step(body)?;
        let keys = Step::Fold(Box::new(Fold {
            kind: FoldKind::List {
                is_constant: is_constant(&body),
            },
            range: list(),
            first,
            second: None,
            filter: None,
            body,
        }));
        let name = "@sortByAssociatedKeys";
        let result = self.function(name, overloads, vec![list(), keys])?;
        Ok(bind(slot, value, result))
    }
}

fn bind(slot: usize, value: Step, result: Step) -> Step {
    Step::Bind(Box::new(Bind {
        slot,
        value,
        result,
    }))
}

/// Returns the overloads of a function.
fn overloads(name: &str) -> Vec<&'static Overload> {
    FUNCTIONS.get(name).into_iter().flatten().collect()
}
