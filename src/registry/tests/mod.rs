//! What tests of several parts share.

pub(crate) mod fixture;
pub(crate) mod hooked;
