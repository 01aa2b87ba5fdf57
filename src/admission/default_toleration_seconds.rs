//! DefaultTolerationSeconds (API-266): pods stay for five minutes on failed nodes.

use futures_util::future::FutureExt;
use serde_json::{Value, json};

use super::{Admitted, Attributes, MutatingPlugin, Plugin};
use crate::api::object::{Object, push};

/// The taints of failed nodes.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const TOLERATIONS: [&str; 2] = ["spec", "tolerations"];

/// How long pods stay on failed nodes, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TolerationSeconds {
    /// On nodes that are not ready.
    pub not_ready: i64,
    /// On nodes that are unreachable.
    pub unreachable: i64,
}

impl Default for TolerationSeconds {
    fn default() -> TolerationSeconds {
        TolerationSeconds {
            not_ready: 300,
            unreachable: 300,
        }
    }
}

/// The plugin.
pub(super) struct DefaultTolerationSeconds(pub(super) TolerationSeconds);

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &'static str {
        "DefaultTolerationSeconds"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "pods") || attributes.updates("", "pods")
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for DefaultTolerationSeconds {
    fn admit<'p>(&'p self, _: &'p Attributes<'_>, pod: Option<&'p mut Object>) -> Admitted<'p> {
        if let Some(pod) = pod {
            tolerate(pod, self.0);
        }
        std::future::ready(Ok(())).boxed()
    }
}

/// Adds a toleration for each failure that the pod does not mention.
fn tolerate(pod: &mut Object, seconds: TolerationSeconds) {
    let text = |toleration: &Value, member: &str| {
        let found = toleration.get(member).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let failures = [
        (NOT_READY, seconds.not_ready),
        (UNREACHABLE, seconds.unreachable),
    ];
    let lacks = |(taint, _): &&(&str, i64)| {
        // linear: two taints are looked for.
        !pod.items(&TOLERATIONS).iter().any(|toleration| {
            let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
            (key.is_empty() || key == *taint) && (effect.is_empty() || effect == "NoExecute")
        })
    };
    let missing: Vec<Value> = failures.iter().filter(lacks).map(toleration).collect();
    for toleration in missing {
        push(pod, &TOLERATIONS, toleration);
    }
}

fn toleration((taint, seconds): &(&str, i64)) -> Value {
    json!({
        "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::object::put;

    const FAILURES: [&str; 2] = [NOT_READY, UNREACHABLE];

    fn keys(tolerations: Value) -> Vec<String> {
        let mut pod = Object::default();
        put(&mut pod, &TOLERATIONS, tolerations);
        tolerate(&mut pod, TolerationSeconds::default());
        let key = |one: &Value| one["key"].as_str().unwrap_or("*").to_owned();
        pod.items(&TOLERATIONS).iter().map(key).collect()
    }

    #[test]
    fn what_a_pod_tolerates_itself_is_not_added_api_266() {
        assert_eq!(keys(Value::Null), FAILURES);
        assert_eq!(
            keys(json!([{"key": FAILURES[1], "operator": "Exists"}])),
            [FAILURES[1], FAILURES[0]]
        );
        assert_eq!(keys(json!([{"operator": "Exists"}])), ["*"]);
        assert_eq!(
            keys(json!([{"operator": "Exists", "effect": "NoSchedule"}])),
            ["*", FAILURES[0], FAILURES[1]]
        );
    }
}
