//! The handlers of resource requests and of the server's own paths, one file per verb.
//!
//! This folder owns the steps of each verb. It takes a routed request with an unread body, and
//! returns a response or a Status. It must not know connections, filters or how the registry stores
//! objects.
//!
//! A handler asks the [`RestStorage`](crate::registry::RestStorage) of the path for the capability
//! that it needs, and knows nothing else about the registry. The order of steps within a verb is
//! that of http.md 3.2 to 3.7, because it decides which of two errors a client sees.

mod applied;
mod backup;
mod carry_out;
mod compact;
mod connect;
mod create;
mod delete;
mod delete_collection;
mod document;
mod faulted;
mod get;
mod history;
mod inspect;
mod list;
mod openapi;
mod patch;
mod rewrite;
mod rotate_token;
mod service_paths;
mod test_server;
mod update;
mod watch;
mod zpages;

use http::StatusCode;

use super::audit::DEPRECATED;
use super::metrics::mark_deprecated;
use super::negotiation::Offer;
use super::request_scope::RequestScope;
use super::respond::Answer;
use super::routes::Target;
use crate::api::resource::Verb;
use crate::api::status::Status;
use crate::registry::store::WatchRefusal;
use crate::transport::RequestBody;

pub use backup::backup;
pub use compact::compact;
pub use history::{history, revision};
pub use inspect::inspect;
pub use openapi::{openapi_v2, openapi_v3, openapi_v3_index};
pub use rewrite::rewrite;
pub use rotate_token::rotate_token;
pub use service_paths::{index, metrics, slis, version};
pub use test_server::test_server;
pub use zpages::{flagz, statusz};

type Answered = Result<Answer, Box<Status>>;

/// Carries out the verb of the target.
///
/// # Errors
/// The Status for the client.
pub async fn resource(scope: &RequestScope<'_>, target: Target, body: RequestBody) -> Answered {
    if let Some(warning) = target.storage.resource().deprecation_warning() {
        scope.context.warnings.add(warning);
        mark_deprecated(target.storage.resource());
        scope.context.annotate(DEPRECATED, || "true".to_owned());
    }
    if let Some(test) = &scope.server.test
        && target.verb != Verb::Watch
    {
        let met = Box::pin(faulted::meet(&test.faults, scope, &target)).await;
        met.map_err(WatchRefusal::into_status)?;
    }
    match target.verb {
        Verb::Connect => Box::pin(connect::connect(scope, &target, body)).await,
        Verb::Get => get::get(scope, &target).await,
        // The largest futures are boxed. Each request moves the memory of the largest one that is
        // not, whatever it asks for.
        Verb::List => Box::pin(list::list(scope, &target)).await,
        Verb::Watch => watch::watch(scope, &target, &body).await,
        Verb::Create => create::create(scope, &target, body).await,
        Verb::Update => update::update(scope, &target, body).await,
        Verb::Patch => patch::patch(scope, &target, body).await,
        Verb::Delete => delete::delete(scope, &target, body).await,
        Verb::DeleteCollection => {
            Box::pin(delete_collection::delete_collection(scope, &target, body)).await
        }
    }
}

impl Offer {
    /// Returns the forms that are offered for the objects of a target.
    fn of(target: &Target) -> Offer {
        match target.storage.has_tables() {
            true => Offer::Objects,
            false => Offer::WithoutTables,
        }
    }
}

/// Unwraps a capability of the storage. Routing has already checked that it exists.
fn capability<T: ?Sized>(found: Option<&T>) -> Result<&T, Box<Status>> {
    found.ok_or_else(|| Box::new(Status::method_not_allowed_route()))
}

/// Returns the status code of a write.
fn written(created: bool) -> StatusCode {
    if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}
