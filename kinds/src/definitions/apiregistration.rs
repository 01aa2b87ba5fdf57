//! `apiregistration.k8s.io/v1`.

use super::{cluster, names, rules, with_bare_status};
use crate::columns::apiregistration as columns;
use crate::special::apiservices;
use api::resource::{CreateStrategy, Effect, NameRule, ResourceDefinition};

/// APIServices. Their keys have their group (KV-3). Their names are `v1.` and a group, which their
/// own validation checks (API-201).
pub fn apiservices() -> ResourceDefinition {
    let row = with_bare_status(cluster(
        "apiregistration.v1.APIService",
        "apiregistration.k8s.io",
        "apiservices",
    ));
    rules::applied(ResourceDefinition {
        create: CreateStrategy {
            prepare: Some(apiservices::prepare_create),
            ..row.create
        },
        effect: Effect::NotYetWith(&["spec", "service"]),
        categories: names(&["api-extensions"]),
        key_prefix: "apiregistration.k8s.io/apiservices".to_owned(),
        name_rule: NameRule::PathSegment,
        unconditional_update: false,
        strict_finalizers: false,
        columns: columns::apiservices(),
        ..row
    })
}
