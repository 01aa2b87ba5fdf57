//! The resources of `apiextensions.k8s.io/v1`.

use super::row::{Marking, Row};
use super::{cluster, fill_in_whole, generation, status, with_status};
use crate::columns::apiextensions as columns;
use crate::strategies::apiextensions as strategy;
use crate::{defaults, validation, warnings};
use api::resource::{NameRule, ResourceDefinition, UpdateCheck};

/// Returns the definition of CustomResourceDefinitions. Their keys contain their group (KV-3).
pub fn customresourcedefinitions() -> ResourceDefinition {
    let row = with_status(cluster(
        "apiextensions.v1.CustomResourceDefinition",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
    ));
    let mut status = status(&["spec"]);
    status.prepare = Some(fill_in_whole);
    Row {
        prepare: Some(strategy::prepare_create),
        subresources: vec![status],
        prepare_update: Some(strategy::prepare_update),
        marking: Some(Marking {
            mark: strategy::mark_definition,
            is_held: strategy::is_definition_held,
        }),
        name_rule: NameRule::OfKind,
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        key_prefix: Some("apiextensions.k8s.io/customresourcedefinitions"),
        generation: generation(&["spec"]),
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::customresourcedefinitions(),
        defaults: Some(defaults::apiextensions::customresourcedefinition),
        complete: Some(defaults::complete::apiextensions::customresourcedefinition),
        validate: Some(validation::apiextensions::validate_customresourcedefinition),
        validate_update: Some(validation::apiextensions::validate_customresourcedefinition_update),
        warnings: Some(warnings::apiextensions::of_customresourcedefinition),
        ..row
    }
    .definition()
}
