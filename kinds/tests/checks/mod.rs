//! What holds for any input of a client, as functions of bytes that panic where it does not.
//!
//! This folder owns the checks of what decodes bodies, patches and parameters. Tests beside it call
//! them with inputs made from a seed, and the targets in `fuzz` with those of a fuzzer. It must not
//! know how inputs are made.
#![allow(dead_code)]

pub mod apply;
pub mod bodies;
pub mod patches;
pub mod requests;
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

/// The rows of all kinds of bodies, those of objects that are not stored too.
pub fn rows() -> &'static [Arc<ResourceDefinition>] {
    &ROWS
}

/// The row that a byte chooses.
pub fn row(byte: u8) -> &'static ResourceDefinition {
    &ROWS[usize::from(byte) % ROWS.len()]
}

/// The byte that chooses the row of this kind, if there is one.
pub fn byte_of(api_version: &str, kind: &str) -> Option<u8> {
    let is_this =
        |row: &Arc<ResourceDefinition>| row.api_version() == api_version && row.kind == kind;
    u8::try_from(ROWS.iter().position(is_this)?).ok()
}

/// The parts of an input, which zero bytes divide.
fn halves(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = data.iter().position(|byte| *byte == 0)?;
    Some((&data[..at], &data[at + 1..]))
}
