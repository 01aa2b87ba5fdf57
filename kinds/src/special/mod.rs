//! The special cases of single kinds.
//!
//! This folder owns the pure functions that definitions refer to for rules that data can't express,
//! in a file per case. Objects enter, changed objects, field errors or decisions leave. This folder
//! must not know requests or storage.

pub(super) mod apiservices;
pub(super) mod certificates;
mod conditions;
pub(super) mod customresourcedefinitions;
pub(super) mod endpointslices;
pub mod evictions;
pub(super) mod features;
pub(super) mod limitranges;
pub(super) mod namespaces;
pub(super) mod pods;
pub(super) mod resourceclaims;
pub(super) mod resourceslices;
pub(super) mod serviceaccounts;
pub mod services;
pub(super) mod volumes;

pub use conditions::put_condition;
pub use namespaces::{CONTENT_FINALIZER, SYSTEM_NAMESPACES};
pub use pods::{PodCondition, bind, has_ended, set_condition};
