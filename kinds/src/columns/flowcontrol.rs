//! The columns of `flowcontrol.apiserver.k8s.io/v1` (API-218).

use api::object::Object;
use api::resource::{Column, OfField};
use serde_json::Value;

use super::{NONE, computed, condition, integer, list, member, text, text_or};

/// Returns the columns of FlowSchemas.
pub fn flowschemas() -> Vec<Column> {
    let precedence = computed(|schema, _| integer(schema, &["spec", "matchingPrecedence"]));
    let method = computed(|schema, _| {
        text_or(schema.text(&["spec", "distinguisherMethod", "type"]), NONE).into()
    });
    let dangling = computed(|schema, _| {
        let conditions = list(schema, &["status", "conditions"]);
        let dangling = condition(conditions, "Dangling");
        dangling
            .map_or("?", |dangling| member(dangling, "status"))
            .into()
    });
    let level = text("spec.priorityLevelConfiguration.name");
    vec![
        Column::name(),
        Column::text(
            "PriorityLevel",
            OfField("flowcontrol.v1.PriorityLevelConfigurationReference.name"),
            level,
        ),
        Column::text(
            "MatchingPrecedence",
            OfField("flowcontrol.v1.FlowSchemaSpec.matchingPrecedence"),
            precedence,
        ),
        Column::text(
            "DistinguisherMethod",
            OfField("flowcontrol.v1.FlowSchemaSpec.distinguisherMethod"),
            method,
        ),
        Column::age(),
        Column::text(
            "MissingPL",
            "Whether the priority level is missing.",
            dangling,
        ),
    ]
}

/// Returns the columns of PriorityLevelConfigurations.
pub fn prioritylevelconfigurations() -> Vec<Column> {
    let shares = computed(|level, _| match level.at(&["spec", "limited"]) {
        Some(_) => integer(level, &["spec", "limited", "nominalConcurrencyShares"]),
        None => NONE.into(),
    });
    let queues = computed(|level, _| queuing(level, "queues"));
    let hand = computed(|level, _| queuing(level, "handSize"));
    let length = computed(|level, _| queuing(level, "queueLengthLimit"));
    vec![
        Column::name(),
        Column::text(
            "Type",
            OfField("flowcontrol.v1.PriorityLevelConfigurationSpec.type"),
            text("spec.type"),
        ),
        Column::text(
            "NominalConcurrencyShares",
            OfField("flowcontrol.v1.LimitedPriorityLevelConfiguration.nominalConcurrencyShares"),
            shares,
        ),
        Column::text(
            "Queues",
            OfField("flowcontrol.v1.QueuingConfiguration.queues"),
            queues,
        ),
        Column::text(
            "HandSize",
            OfField("flowcontrol.v1.QueuingConfiguration.handSize"),
            hand,
        ),
        Column::text(
            "QueueLengthLimit",
            OfField("flowcontrol.v1.QueuingConfiguration.queueLengthLimit"),
            length,
        ),
        Column::age(),
    ]
}

fn queuing(level: &Object, name: &str) -> Value {
    let path = ["spec", "limited", "limitResponse", "queuing"];
    match level.at(&path) {
        Some(queuing) => super::number(queuing, name).into(),
        None => NONE.into(),
    }
}
