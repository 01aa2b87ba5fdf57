//! Computes costs from two runs that differ in one parameter. Pure.

/// The cost of one thing, and of the part that several things share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    pub each: f64,
    pub shared: f64,
}

/// Splits the cost of a thing into its own part and the shared part, from a run where `many` share
/// one and a run where each has its own. A negative shared part is noise and becomes zero.
pub fn shares(with_many: f64, alone: f64, many: f64) -> Split {
    let shared = ((alone - with_many) * many / (many - 1.0)).max(0.0);
    let each = (with_many - shared / many).max(0.0);
    Split { each, shared }
}

/// Splits the cost of things of two sizes into a cost per byte and a fixed cost.
pub fn sizes(small: (f64, f64), large: (f64, f64)) -> Split {
    let each = ((large.1 - small.1) / (large.0 - small.0)).max(0.0);
    let shared = (small.1 - each * small.0).max(0.0);
    Split { each, shared }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_share_is_told_from_what_each_costs() {
        // 2 for each, 8 for what they share.
        assert_eq!(
            shares(2.0 + 8.0 / 50.0, 2.0 + 8.0, 50.0),
            Split {
                each: 2.0,
                shared: 8.0
            }
        );
    }

    #[test]
    fn noise_makes_nothing_cost_less_than_nothing() {
        let split = shares(2.0, 1.9, 50.0);
        assert_eq!((split.each, split.shared), (2.0, 0.0));
        let split = sizes((1000.0, 1500.0), (4000.0, 7000.0));
        assert_eq!(split.shared, 0.0);
    }

    #[test]
    fn a_byte_is_told_from_an_object() {
        // 300 for an object, 1.25 for a byte.
        let split = sizes((1000.0, 1550.0), (4000.0, 5300.0));
        assert_eq!((split.each, split.shared), (1.25, 300.0));
    }
}
