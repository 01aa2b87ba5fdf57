//! The values of expressions, and the types of those that only functions use.

pub(super) mod amounts;
pub mod authorizer;
pub(super) mod formats;
mod json;
pub mod messages;
pub(super) mod patterns;
pub(super) mod semver;
pub(super) mod times;
pub(super) mod value;
pub(super) mod work_limit;

pub use value::{Failure, Message, Outcome, Value};
use value::{JsonList, JsonMap, List, ListOf, Map, MapOf, Opaque, Text, error};
pub use work_limit::Work;
