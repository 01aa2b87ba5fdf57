//! The parts of Kubernetes' strategies that are code: how an object is prepared for a create or an
//! update, and marked for deletion.
//!
//! Pure functions, in modules named after the API group or the kind. Rows name them.

pub mod apiextensions;
pub(super) mod apiregistration;
pub(super) mod batch;
pub(super) mod certificates;
mod conditions;
pub(super) mod core;
pub mod definition_conditions;
pub(super) mod disabled_fields;
pub(super) mod discovery;
pub(super) mod pods;
pub(super) mod resource;
pub mod services;
pub(super) mod storage;
pub(super) mod workloads;

pub use self::core::{CONTENT_FINALIZER, SYSTEM_NAMESPACES};
pub use conditions::put_condition;
pub use pods::{PodCondition, bind, eviction, has_ended, set_condition};
