//! The estimates of single functions, by the sizes of their arguments.

use super::super::eval::call_cost::{AUTHORIZATION, REQUIREMENT};
use super::super::functions::Overload;
use super::super::shape::Shape;
use super::super::types::Type;
use super::expression::{LIST, Part};
use super::paths::ITEMS;
use super::{CHARACTER, PATTERN_CHARACTER, Range};

const ONE: Range = Range::of(1);

/// The longest name of a format, and the regular expression by which its validation costs.
const FORMAT_NAME: u64 = 64;
const FORMAT_PATTERN: f64 = 128.0;

/// The size of an address in a network.
const ADDRESS: Range = Range { min: 4, max: 16 };

/// A call of one overload.
pub(super) struct Called<'c> {
    pub name: &'c str,
    pub overload: &'static Overload,
    pub target: Option<&'c Part>,
    pub arguments: &'c [Part],
    pub root: &'c Shape,
}

/// The cost of a call without its arguments, and the size of its result if the call decides it.
type Estimate = (Range, Option<Range>);

impl Called<'_> {
    /// Returns the estimate of the call.
    pub(super) fn estimate(&self) -> Estimate {
        self.of_lists()
            .or_else(|| self.of_extensions())
            .or_else(|| self.of_networks())
            .or_else(|| self.of_equality())
            .or_else(|| self.of_texts())
            .unwrap_or((ONE, None))
    }

    /// Returns the size of an argument.
    fn size(&self, at: usize) -> Range {
        self.arguments
            .get(at)
            .map_or(Range::UNKNOWN, Part::size_or_unknown)
    }

    fn target_size(&self) -> Range {
        self.target.map_or(Range::UNKNOWN, Part::size_or_unknown)
    }

    fn argument_is(&self, at: usize, of: &Type) -> bool {
        self.overload.arguments.get(at) == Some(of)
    }

    /// Returns the estimate of a function of cel-go's libraries of lists and sets.
    fn of_lists(&self) -> Option<Estimate> {
        let listed = |factor: f64, size: Range| {
            let cost = size.scaled(factor).plus(ONE).plus(LIST);
            Some((cost, Some(size)))
        };
        let is_method = self.target.is_some();
        let number = |at: usize, default: u64| self.number(at).unwrap_or(default);
        let compared = |of: &Part, item: &Type| {
            let size = of.size_or_unknown();
            let factor = match item {
                Type::String | Type::Bytes => 2.0 + CHARACTER,
                _ => 2.0,
            };
            listed(factor, size.times(size))
        };
        let item = |at: usize| match self.overload.arguments.get(at) {
            Some(Type::List(item)) => (**item).clone(),
            _ => Type::Dyn,
        };
        match self.name {
            "slice" if is_method => {
                let start = number(0, 0);
                let end = number(1, self.target_size().max);
                listed(1.0, Range::of(end.wrapping_sub(start)))
            }
            "lists.range" => listed(1.0, Range::of(number(0, u64::MAX))),
            "reverse" if is_method => listed(1.0, self.target_size()),
            #[expect(clippy::cast_precision_loss, reason = "as cel-go computes it")]
            "flatten" if is_method => {
                let depth = if self.arguments.is_empty() {
                    1
                } else {
                    number(0, u64::MAX)
                };
                listed(depth as f64, self.target_size())
            }
            "distinct" => {
                let size = self.target_size();
                listed(2.0, size.times(size))
            }
            "sort" => compared(self.target?, &item(0)),
            "@sortByAssociatedKeys" => compared(self.arguments.first()?, &item(1)),
            "sets.contains" | "sets.intersects" | "sets.equivalent" => {
                let factor = if self.name == "sets.equivalent" {
                    2.0
                } else {
                    1.0
                };
                let pairs = self.size(0).times(self.size(1));
                Some((pairs.scaled(factor).plus(ONE), None))
            }
            _ => None,
        }
    }

    /// Returns an argument that is a number in the text.
    fn number(&self, at: usize) -> Option<u64> {
        self.arguments
            .get(at)?
            .literal
            .map(|number| u64::try_from(number).unwrap_or(0))
    }

    /// Returns the estimate of a function of Kubernetes.
    fn of_extensions(&self) -> Option<Estimate> {
        let fixed = |cost: u64| Some((Range::of(cost), None));
        match (self.name, self.target) {
            ("check", _) => fixed(AUTHORIZATION),
            (
                "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace"
                | "name" | "allowed" | "reason" | "error" | "errored" | "format.named" | "sign"
                | "asInteger" | "isInteger" | "asApproximateFloat" | "isGreaterThan" | "isLessThan"
                | "compareTo" | "add" | "sub" | "major" | "minor" | "patch" | "getScheme"
                | "getHostname" | "getHost" | "getPort" | "getEscapedPath" | "getQuery",
                _,
            ) => fixed(1),
            ("fieldSelector" | "labelSelector", _) => {
                let length = self.size(0);
                let requirements = length.scaled(0.5).scaled(REQUIREMENT);
                Some((LIST.plus(length.scaled(CHARACTER)).plus(requirements), None))
            }
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target)) => {
                let size = target.size_or_unknown();
                let cost = match self.item(target) {
                    None => size.scaled(CHARACTER),
                    Some((Type::String | Type::Bytes, item)) => {
                        size.times(ONE.plus(item.scaled(CHARACTER)))
                    }
                    Some(_) => size,
                };
                Some((cost, None))
            }
            ("url" | "jsonpatch.escapeKey", _) if self.arguments.len() == 1 => {
                let size = self.size(0);
                Some((size.scaled(CHARACTER), Some(size)))
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(_)) => {
                let size = self.target_size();
                Some((size.scaled(CHARACTER), Some(size)))
            }
            ("replace", Some(_)) if self.arguments.len() >= 2 => Some(self.replace()),
            ("split", Some(_)) => {
                let size = self.target_size();
                let most = match self.arguments.get(1).and_then(|of| of.literal) {
                    Some(most) => u64::from_ne_bytes(most.to_ne_bytes()),
                    None => size.max,
                };
                let result = Range { min: 0, max: most };
                Some((size.scaled(2.0 * CHARACTER), Some(result)))
            }
            ("join", Some(target)) => Some(self.join(target)),
            ("find" | "findAll", Some(_)) if !self.arguments.is_empty() => {
                let size = self.target_size();
                let text = size.plus(ONE).scaled(CHARACTER);
                let pattern = self.size(0).scaled(PATTERN_CHARACTER);
                let result = Range {
                    min: 0,
                    max: size.max,
                };
                Some((text.times(pattern), Some(result)))
            }
            ("quantity" | "isQuantity" | "semver" | "isSemver", _) => {
                Some((self.size(0).scaled(CHARACTER), None))
            }
            ("validate", _) if !self.arguments.is_empty() => {
                let text = self.size(0).scaled(CHARACTER);
                Some((text.scaled(FORMAT_PATTERN * PATTERN_CHARACTER), None))
            }
            _ => None,
        }
    }

    /// Returns the type and size of the items of a list, or `None` for a text.
    fn item(&self, list: &Part) -> Option<(Type, Range)> {
        let of = match &list.of {
            Type::List(item) | Type::Optional(item) | Type::Type(item) => (**item).clone(),
            Type::Map(of) => of.0.clone(),
            _ => return None,
        };
        let path = list.path.copied_with(ITEMS);
        let size = match list.path.is_empty() {
            true => None,
            false => path.size(self.root),
        };
        Some((of, size.unwrap_or(Range::UNKNOWN)))
    }

    fn replace(&self) -> Estimate {
        let (size, old, new) = (self.target_size(), self.size(0), self.size(1));
        let (mut count, mut kept) = (Range::of(0), Range::of(0));
        if old.min == 0 {
            // The new text surrounds each character.
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if new.max <= old.min {
            kept.max = size.max;
        } else {
            count.max = divided(size.max, old.min);
        }
        if old.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if old.max <= new.min {
            kept.min = size.min;
        } else {
            count.min = divided(size.min, old.max);
        }
        let result = count.times(new).plus(kept);
        (size.scaled(2.0 * CHARACTER), Some(result))
    }

    fn join(&self, list: &Part) -> Estimate {
        let count = list.size_or_unknown();
        let mut result = match self.item(list) {
            Some((_, item)) => count.times(item),
            None => Range::of(0),
        };
        if !self.arguments.is_empty() {
            let separators = Range {
                min: count.min.saturating_sub(1),
                max: count.max.saturating_sub(1),
            };
            result = result.plus(self.size(0).times(separators));
        }
        (result.scaled(CHARACTER), Some(result))
    }

    fn of_networks(&self) -> Option<Estimate> {
        let text = || self.size(0).scaled(CHARACTER);
        let cost = match self.name {
            "cidr" | "isIP" | "isCIDR" => text(),
            "ip" if self.overload.is_method => ONE,
            "ip" => text(),
            "ip.isCanonical" => self.size(0).scaled(2.0 * CHARACTER),
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast" => ONE,
            "containsIP" | "containsCIDR" => {
                let mut cost = ADDRESS.plus(ADDRESS).scaled(CHARACTER);
                if self.name == "containsCIDR" {
                    cost = cost.plus(ADDRESS.scaled(CHARACTER)).plus(ONE);
                }
                match self.argument_is(1, &Type::String) {
                    true => cost.plus(text()),
                    false => cost,
                }
            }
            _ => return None,
        };
        Some((cost, None))
    }

    fn of_equality(&self) -> Option<Estimate> {
        let [one, other] = self.arguments else {
            return None;
        };
        if self.name == "_==_"
            && let (Type::Opaque(name), true) = (&one.of, one.of == other.of)
        {
            let cost = match *name {
                "kubernetes.NamedFormat" => Range {
                    min: 1,
                    max: FORMAT_NAME,
                }
                .scaled(CHARACTER),
                "kubernetes.URL" => {
                    let most = other.size.map_or(1, |size| size.max);
                    Range { min: 1, max: most }.scaled(CHARACTER)
                }
                _ => ONE,
            };
            return Some((cost, None));
        }
        let compares = match self.name {
            "_==_" | "_!=_" => true,
            "_<_" | "_<=_" | "_>_" | "_>=_" => {
                self.argument_is(0, &Type::String) || self.argument_is(0, &Type::Bytes)
            }
            _ => false,
        };
        if !compares {
            return None;
        }
        let max = self.size(0).max.min(self.size(1).max);
        let min = u64::from(max > 0);
        Some((Range { min, max }.scaled(CHARACTER), None))
    }

    /// Returns the estimate of a function of the language itself.
    fn of_texts(&self) -> Option<Estimate> {
        let is_method = self.target.is_some();
        match (self.name, self.arguments.len()) {
            ("format", _) if is_method => Some((self.target_size().scaled(CHARACTER), None)),
            ("bytes", 1) if self.argument_is(0, &Type::String) => {
                let size = self.size(0);
                let result = Range {
                    min: size.min,
                    max: size.max.wrapping_mul(4),
                };
                Some((size.scaled(CHARACTER), Some(result)))
            }
            ("string", 1) if self.argument_is(0, &Type::Bytes) => {
                let size = self.size(0);
                let result = Range {
                    min: size.min / 4,
                    max: size.max,
                };
                Some((size.scaled(CHARACTER), Some(result)))
            }
            ("strings.quote", 1) => {
                let size = self.size(0);
                let result = Range {
                    min: size.min + 2,
                    max: size.max.wrapping_mul(2).wrapping_add(2),
                };
                Some((size.scaled(CHARACTER), Some(result)))
            }
            ("startsWith" | "endsWith", 1) => Some((self.size(0).scaled(CHARACTER), None)),
            ("@in", 2) if matches!(self.overload.arguments.get(1), Some(Type::List(_))) => {
                Some((self.size(1).scaled(1.0), None))
            }
            ("matches", 1) if is_method => {
                let text = self.target_size().plus(ONE).scaled(CHARACTER);
                Some((text.times(self.size(0).scaled(PATTERN_CHARACTER)), None))
            }
            ("contains", 1) if is_method => {
                let text = self.target_size().scaled(CHARACTER);
                Some((text.times(self.size(0).scaled(CHARACTER)), None))
            }
            ("_+_", 2) => {
                let size = self.size(0).plus(self.size(1));
                match self.overload.result {
                    Type::List(_) => Some((ONE, Some(size))),
                    Type::String | Type::Bytes => Some((size.scaled(CHARACTER), Some(size))),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Kubernetes computes it")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn divided(size: u64, by: u64) -> u64 {
    (size as f64 / by as f64).ceil() as u64
}
