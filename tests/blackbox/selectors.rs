//! Field selectors with field labels that a kind does not support, for every kind (API-86).

use serde_json::Value;

use crate::every_kind::BODIES;
use crate::harness::{Call, Daemon};

/// The kinds that can be selected by more than names, in whose words others are refused.
const SELECTABLE: [&str; 10] = [
    "pods",
    "nodes",
    "namespaces",
    "secrets",
    "services",
    "events",
    "replicationcontrollers",
    "certificatesigningrequests",
    "jobs",
    "resourceslices",
];

fn refusal(plural: &str) -> String {
    match plural {
        "jobs" => "field label \"spec.bogus\" not supported for Job".to_owned(),
        "resourceslices" => "field label not supported for resource.k8s.io/v1, \
                             Kind=ResourceSlice: spec.bogus"
            .to_owned(),
        plural if SELECTABLE.contains(&plural) => {
            "field label not supported: spec.bogus".to_owned()
        }
        _ => "\"spec.bogus\" is not a known field selector: only \"metadata.name\", \
              \"metadata.namespace\""
            .to_owned(),
    }
}

#[tokio::test]
async fn labels_that_a_kind_has_not_are_refused_in_its_words_api_86() {
    let daemon = Daemon::start().await;
    let client = daemon.client();
    let bodies: Value = serde_json::from_str(BODIES).unwrap();
    let paths = bodies.as_object().unwrap().keys();
    let mut count = 0;
    for path in paths {
        let plural = path.rsplit('/').next().unwrap();
        for (method, query) in [("GET", ""), ("GET", "watch=true&"), ("DELETE", "")] {
            // There is no way to delete all namespaces, or what only answers.
            let call = Call::new(
                method,
                &format!("{path}?{query}fieldSelector=spec.bogus%3Da"),
            );
            let answer = client.call(call).await;
            if answer.status.as_u16() == 405 {
                continue;
            }
            let refused = answer.refusal(400, "BadRequest");
            let message = refused["message"].as_str().unwrap();
            assert!(message.ends_with(&refusal(plural)), "{path}: {message}");
            count += 1;
        }
    }
    assert!(count > 150, "{count}");
}
