//! The limits on estimates, and the errors of what exceeds them (CRD-51).

/// The limit on the estimate of one expression.
pub const EXPRESSION_LIMIT: u64 = 10_000_000;

/// The limit on the sum of all estimates of a schema.
pub const SCHEMA_LIMIT: u64 = 100_000_000;

/// The number of expressions that are named if the sum is too great.
const MOST_NAMED: usize = 4;

/// Returns the error for an estimate beyond its limit.
#[expect(clippy::cast_precision_loss, reason = "as Kubernetes computes it")]
pub fn excess(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// The sum of the estimates of a schema, and the greatest of them.
#[derive(Debug)]
pub struct Total<P> {
    cost: u64,
    greatest: Vec<(P, u64)>,
}

impl<P> Default for Total<P> {
    fn default() -> Total<P> {
        Total {
            cost: 0,
            greatest: Vec::new(),
        }
    }
}

impl<P> Total<P> {
    /// Adds the estimate of an expression at a place.
    pub fn add(&mut self, cost: u64, place: impl FnOnce() -> P) {
        self.cost = self.cost.saturating_add(cost);
        if cost < SCHEMA_LIMIT / 100 {
            return;
        }
        let at = self.greatest.partition_point(|(_, known)| *known >= cost);
        if at < MOST_NAMED {
            self.greatest.insert(at, (place(), cost));
            self.greatest.truncate(MOST_NAMED);
        }
    }

    /// Returns the sum.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the places of the greatest estimates, if the sum exceeds its limit.
    pub fn exceeding(&self) -> Option<impl Iterator<Item = &P>> {
        let is_exceeded = self.cost > SCHEMA_LIMIT;
        is_exceeded.then(|| self.greatest.iter().map(|(place, _)| place))
    }
}

/// How often values of a schema can occur, by the schemas around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cardinality(Option<u64>);

impl Default for Cardinality {
    fn default() -> Cardinality {
        Cardinality(Some(1))
    }
}

impl Cardinality {
    /// Returns how often the values below a schema can occur.
    #[must_use]
    pub fn below(self, schema: &serde_json::Value) -> Cardinality {
        let text = schema.get("type").and_then(serde_json::Value::as_str);
        let limit = |name: &str| {
            let most = schema.get(name).and_then(serde_json::Value::as_i64);
            most.map(|most| u64::try_from(most).unwrap_or(0))
        };
        let factor = match text {
            Some("object") if schema.get("additionalProperties").is_some() => {
                limit("maxProperties")
            }
            Some("array") => limit("maxItems"),
            _ => Some(1),
        };
        Cardinality(match (self.0, factor) {
            (Some(count), Some(factor)) => Some(multiplied(count, factor)),
            _ => None,
        })
    }

    /// Returns the estimate of an expression with all of its runs over an object.
    pub fn cost(self, estimate: u64, shape: &super::Shape) -> u64 {
        multiplied(estimate, self.0.unwrap_or_else(|| shape.cardinality()))
    }
}

/// Returns a product, or Go's greatest integer if it is too great.
fn multiplied(one: u64, other: u64) -> u64 {
    one.saturating_mul(other)
}
