//! The resources of `apiregistration.k8s.io/v1`.

use super::row::Row;
use super::{cluster, with_bare_status};
use crate::columns::apiregistration as columns;
use crate::{defaults, strategies, validation};
use api::resource::{Effect, NameRule, ResourceDefinition};

/// Returns the definition of APIServices. Their keys contain their group (KV-3). Names are
/// `<version>.<group>`, which their validation checks (API-201).
pub fn apiservices() -> ResourceDefinition {
    let row = with_bare_status(cluster(
        "apiregistration.v1.APIService",
        "apiregistration.k8s.io",
        "apiservices",
    ));
    Row {
        prepare: Some(strategies::apiregistration::prepare_create),
        effect: Effect::FullAtOnce,
        categories: &["api-extensions"],
        key_prefix: Some("apiregistration.k8s.io/apiservices"),
        name_rule: NameRule::PathSegment,
        unconditional_update: false,
        strict_finalizers: false,
        columns: columns::apiservices(),
        defaults: Some(defaults::apiregistration::apiservice),
        complete: Some(defaults::complete::apiregistration::apiservice),
        validate: Some(validation::apiregistration::validate_apiservice),
        validate_update: Some(validation::apiregistration::validate_apiservice_update),
        validate_status: Some(validation::apiregistration::validate_apiservice_status_update),
        ..row
    }
    .definition()
}
