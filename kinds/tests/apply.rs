//! Objects of every built-in kind, applied and updated by several managers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod seeds;

use kinds::built_in;
use proptest::prelude::*;

use checks::apply;

#[test]
fn random_objects_are_applied_and_updated() {
    let rows = built_in();
    let inputs = (0..rows.len(), prop::collection::vec(any::<u8>(), 0..900));
    seeds::run(3_000, &inputs, |(row, bytes)| {
        apply::check(&rows[row], &bytes);
        Ok(())
    });
}

#[test]
fn fields_v1_of_any_form_are_read_or_refused() {
    let text = r#"[{}":,.fkvi01\\ a-c]{0,60}"#;
    seeds::run(2_000, &text, |text| {
        apply::fields_v1(text.as_bytes());
        Ok(())
    });
}
