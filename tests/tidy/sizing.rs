//! The tests of what `cargo bench -- sizing` computes, which a bench doesn't run.

#[allow(dead_code)]
#[path = "../bench/sizing/constants.rs"]
mod constants;
#[allow(dead_code)]
#[path = "../bench/sizing/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../bench/sizing/page.rs"]
mod page;
#[allow(dead_code)]
#[path = "../bench/sizing/solve.rs"]
mod solve;
