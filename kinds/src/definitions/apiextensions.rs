//! `apiextensions.k8s.io/v1`.

use super::{cluster, fill_in_whole, generation, names, rules, status, with_status};
use crate::columns::apiextensions as columns;
use crate::special::customresourcedefinitions as definitions;
use api::resource::{
    CreateStrategy, Effect, NameRule, ResourceDefinition, UpdateCheck, UpdateStrategy,
};

/// CustomResourceDefinitions. Their keys have their group (KV-3).
pub fn customresourcedefinitions() -> ResourceDefinition {
    let row = with_status(cluster(
        "apiextensions.v1.CustomResourceDefinition",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
    ));
    let mut status = status(&["spec"]);
    status.update.prepare = Some(fill_in_whole);
    rules::applied(ResourceDefinition {
        create: CreateStrategy {
            prepare: Some(definitions::prepare_create),
            ..row.create
        },
        subresources: vec![status],
        update: UpdateStrategy {
            prepare: Some(definitions::prepare_update),
            ..row.update
        },
        effect: Effect::NotYet,
        name_rule: NameRule::OfKind,
        short_names: names(&["crd", "crds"]),
        categories: names(&["api-extensions"]),
        key_prefix: "apiextensions.k8s.io/customresourcedefinitions".to_owned(),
        generation: generation(&["spec"]),
        unconditional_update: false,
        strict_finalizers: false,
        update_checks: &[UpdateCheck::Changes],
        columns: columns::customresourcedefinitions(),
        ..row
    })
}
