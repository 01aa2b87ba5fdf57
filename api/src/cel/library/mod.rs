//! The functions of expressions: those of CEL, and Kubernetes' extensions (CRD-177).

pub(super) mod authorizer;
pub(super) mod conversions;
pub(super) mod dispatch;
pub(super) mod format_text;
pub(super) mod formats;
pub(super) mod lists;
pub(super) mod networks;
pub(super) mod operators;
pub(super) mod patterns;
pub(super) mod quantities;
pub(super) mod semver;
pub(super) mod strings;
pub(super) mod times;
pub(super) mod urls;
