//! Bodies of any form for every built-in kind: none causes a panic, and what is read, filled in and
//! brought into its canonical form stays as it is when that is done again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod seeds;

use kinds::built_in;
use proptest::prelude::*;

use checks::typed;

#[test]
fn bodies_of_any_form_are_read_or_refused() {
    let rows = built_in();
    let inputs = (0..rows.len(), prop::collection::vec(any::<u8>(), 0..600));
    seeds::run(3_000, &inputs, |(row, bytes)| {
        typed::check(&rows[row], &bytes);
        Ok(())
    });
}
