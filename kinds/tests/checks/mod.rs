//! Invariants for any input of a client, as functions of bytes that panic on a violation.
//!
//! The checks cover the decoding of bodies, patches and parameters, custom resources, and
//! expressions. Tests
//! call them with inputs made from a seed, and the targets in `fuzz` with those of a fuzzer.
#![allow(dead_code)]

pub mod apply;
pub mod bodies;
pub mod expressions;
pub mod patches;
pub mod policies;
pub mod requests;
pub mod structural;
pub mod typed;

use std::sync::{Arc, LazyLock};

use api::resource::ResourceDefinition;
use kinds::built_in;
use kinds::definitions::{authentication, autoscaling, not_stored, policy};

static ROWS: LazyLock<Vec<Arc<ResourceDefinition>>> = LazyLock::new(|| {
    let unstored = [
        policy::evictions(),
        authentication::tokenrequests(),
        autoscaling::scales(),
    ];
    let unstored = unstored.into_iter().chain(not_stored()).map(Arc::new);
    built_in().into_iter().chain(unstored).collect()
});

/// Returns the rows of all kinds of bodies, including those of objects that are not stored.
pub fn rows() -> &'static [Arc<ResourceDefinition>] {
    &ROWS
}

/// Returns the row that a byte selects.
pub fn row(byte: u8) -> &'static ResourceDefinition {
    &ROWS[usize::from(byte) % ROWS.len()]
}

/// Returns the byte that selects the row of this kind, if any.
pub fn byte_of(api_version: &str, kind: &str) -> Option<u8> {
    let is_this =
        |row: &Arc<ResourceDefinition>| row.api_version() == api_version && row.kind == kind;
    u8::try_from(ROWS.iter().position(is_this)?).ok()
}

/// Splits an input at the first zero byte.
fn halves(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = data.iter().position(|byte| *byte == 0)?;
    Some((&data[..at], &data[at + 1..]))
}
