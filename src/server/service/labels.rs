//! The labels of a routed request in metrics.

use crate::api::options::Query;
use crate::server::health::Root;
use crate::server::metrics::RequestLabels;
use crate::server::routes::Route;

/// Adds the labels of the server's own paths and of resources. Other paths get none, so clients
/// cannot create new label values.
pub(super) fn labelled(labels: RequestLabels, route: &Route, query: &Query) -> RequestLabels {
    match route {
        Route::Resource(target) => {
            let dry_run = query.first("dryRun") == Some("All");
            let storage = &target.storage;
            labels.about(storage.resource(), storage.subresource(), dry_run)
        }
        Route::Index => labels.at("/"),
        Route::Version => labels.at("/version"),
        Route::Health(Root::Healthz, _) => labels.at("/healthz"),
        Route::Health(Root::Livez, _) => labels.at("/livez"),
        Route::Health(Root::Readyz, _) => labels.at("/readyz"),
        Route::Metrics => labels.at("/metrics"),
        Route::Slis => labels.at("/metrics/slis"),
        Route::Statusz => labels.at("/statusz"),
        Route::Flagz => labels.at("/flagz"),
        Route::LegacyVersions => labels.at("/api"),
        Route::Groups | Route::Group(_) | Route::Resources { .. } => labels.at("/apis"),
        Route::OpenApiV2 => labels.at("/openapi/v2"),
        Route::OpenApiV3Index | Route::OpenApiV3(_) => labels.at("/openapi/v3"),
        Route::Compact => labels.at("/taffrail/v1/compact"),
        Route::StorageRewrite => labels.at("/taffrail/v1/storage/rewrite"),
        Route::Inspect => labels.at("/taffrail/v1/inspect"),
        Route::History(_) => labels.at("/taffrail/v1/history"),
        Route::Revision => labels.at("/taffrail/v1/revision"),
        Route::Backup => labels.at("/taffrail/v1/backup"),
        Route::RotateToken => labels.at("/taffrail/v1/token/rotate"),
        Route::Test(_) => labels.at("/taffrail/v1/test"),
        Route::IssuerConfiguration => labels.at("/.well-known/openid-configuration"),
        Route::IssuerKeys => labels.at("/openid/v1/jwks"),
    }
}
