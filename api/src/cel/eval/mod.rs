//! The evaluation of expressions, with the costs that cel-go counts (CRD-176).
//!
//! A checked expression becomes a tree of steps, in which names are positions and constants are
//! values. The steps and their costs follow the plan that cel-go makes of an expression: a value
//! with its members and indexes is one step, constants are computed beforehand, and a macro is a
//! loop.

pub(super) mod call_cost;
pub(super) mod folds;
mod macros;
pub(super) mod plan;
pub(super) mod run;
pub(super) mod steps;

#[cfg(test)]
mod generated_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
pub(super) mod tests;

pub use run::Evaluated;
pub use steps::Program;
