//! Priority (API-267): pods get the value of their PriorityClass.

use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::Value;

use super::client::ResourceClient;
use super::{Admitted, Attributes, MutatingPlugin, Operation, Plugin, ValidatingPlugin};
use crate::api::object::{Object, put};
use crate::api::status::Status;

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
const CLASS_NAME: [&str; 2] = ["spec", "priorityClassName"];
const PRIORITY: [&str; 2] = ["spec", "priority"];
const PREEMPTION: [&str; 2] = ["spec", "preemptionPolicy"];

/// The plugin.
pub(super) struct Priority {
    classes: Arc<dyn ResourceClient>,
}

impl Priority {
    /// Creates the plugin with this source of PriorityClasses.
    pub(super) fn new(classes: Arc<dyn ResourceClient>) -> Priority {
        Priority { classes }
    }

    async fn admit_new_pod(
        &self,
        attributes: &Attributes<'_>,
        pod: &mut Object,
    ) -> Result<(), Box<Status>> {
        let asked = pod.text(&CLASS_NAME).to_owned();
        let class = match asked.as_str() {
            "" => Class::default_of(&self.classes.list(None).await?),
            name => match self.classes.get(None, name).await? {
                Some(class) => Class::of(&class),
                None => {
                    let why = format!("no PriorityClass with name {name} was found");
                    return Err(attributes.forbidden(Some(pod), &why));
                }
            },
        };
        if let Err(why) = class.give_to(pod) {
            return Err(attributes.forbidden(Some(pod), &why));
        }
        Ok(())
    }

    async fn check_class(
        &self,
        attributes: &Attributes<'_>,
        class: &Object,
    ) -> Result<(), Box<Status>> {
        if !is_default(class) {
            return Ok(());
        }
        let classes = self.classes.list(None).await?;
        let is_new = matches!(attributes.operation, Operation::Create(_));
        match default_class(&classes).map(Object::name) {
            Some(other) if is_new || other != class.name() => {
                let why = format!(
                    "PriorityClass {other} is already marked as default. Only one default can exist"
                );
                Err(attributes.forbidden(Some(class), &why))
            }
            _ => Ok(()),
        }
    }
}

/// The values that a PriorityClass sets in its pods.
#[derive(Debug, PartialEq, Eq)]
struct Class {
    name: String,
    value: i64,
    preemption: Option<String>,
}

impl Class {
    fn of(class: &Object) -> Class {
        let preemption = class.text(&["preemptionPolicy"]);
        Class {
            name: class.name().to_owned(),
            value: value(class),
            preemption: Some(preemption.to_owned()).filter(|policy| !policy.is_empty()),
        }
    }

    /// The class of pods that do not name one.
    fn default_of(classes: &[Object]) -> Class {
        default_class(classes).map_or_else(
            || Class {
                name: String::new(),
                value: 0,
                preemption: Some("PreemptLowerPriority".to_owned()),
            },
            Class::of,
        )
    }

    /// Sets the fields of a pod.
    fn give_to(self, pod: &mut Object) -> Result<(), String> {
        let given = pod.at(&PRIORITY).and_then(Value::as_i64);
        if let Some(given) = given.filter(|given| *given != self.value) {
            return Err(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; \
                 priority admission controller computed {} from the given PriorityClass name",
                self.value
            ));
        }
        let policy = pod.at(&PREEMPTION).and_then(Value::as_str);
        if let (Some(own), Some(policy)) = (&self.preemption, policy)
            && policy != own
        {
            return Err(format!(
                "the string value of PreemptionPolicy ({policy}) must not be provided in pod \
                 spec; priority admission controller computed {own} from the given PriorityClass \
                 name"
            ));
        }
        if !self.name.is_empty() {
            put(pod, &CLASS_NAME, self.name.into());
        }
        put(pod, &PRIORITY, self.value.into());
        if let Some(own) = self.preemption {
            put(pod, &PREEMPTION, own.into());
        }
        Ok(())
    }
}

fn value(class: &Object) -> i64 {
    let value = class.0.get("value").and_then(Value::as_i64);
    value.unwrap_or_default()
}

fn is_default(class: &Object) -> bool {
    class.0.get("globalDefault").and_then(Value::as_bool) == Some(true)
}

/// The default class. If several are marked, it is the one with the lowest value.
fn default_class(classes: &[Object]) -> Option<&Object> {
    let marked = classes.iter().filter(|class| is_default(class));
    marked.min_by_key(|class| value(class))
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let writes =
            |group, plural| attributes.creates(group, plural) || attributes.updates(group, plural);
        writes("", "pods") || writes(GROUP, CLASSES)
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for Priority {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            let Some(pod) = object.filter(|_| attributes.definition.is("", "pods")) else {
                return Ok(());
            };
            let Some(stored) = attributes.old_object else {
                return self.admit_new_pod(attributes, pod).await;
            };
            // A client that sends a pod without the defaulted fields does not want to change them.
            for path in [&PRIORITY, &PREEMPTION] {
                let is_given = pod.at(path).is_some_and(|given| !given.is_null());
                if let Some(kept) = stored.at(path).filter(|_| !is_given) {
                    put(pod, path, kept.clone());
                }
            }
            Ok(())
        }
        .boxed()
    }
}

impl ValidatingPlugin for Priority {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            match object.filter(|_| attributes.definition.is(GROUP, CLASSES)) {
                Some(class) => self.check_class(attributes, class).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    fn class(name: &str, value: i64, is_default: bool) -> Object {
        object(
            json!({"metadata": {"name": name}, "value": value, "globalDefault": is_default,
            "preemptionPolicy": "Never"}),
        )
    }

    /// API-267.
    #[test]
    fn pods_get_the_default_class_or_zero() {
        let classes = [
            class("a", 9, true),
            class("b", 5, true),
            class("c", 1, false),
        ];
        let mut pod = object(json!({"spec": {}}));
        Class::default_of(&classes).give_to(&mut pod).unwrap();
        let spec = json!({"priorityClassName": "b", "priority": 5, "preemptionPolicy": "Never"});
        assert_eq!(pod.0["spec"], spec);
        let mut pod = object(json!({"spec": {}}));
        Class::default_of(&classes[2..]).give_to(&mut pod).unwrap();
        let spec = json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"});
        assert_eq!(pod.0["spec"], spec);
    }

    /// API-267.
    #[test]
    fn what_a_pod_says_itself_must_agree() {
        let own = |spec: Value| {
            let mut pod = object(json!({"spec": spec}));
            Class::of(&class("a", 9, false)).give_to(&mut pod)
        };
        assert_eq!(
            own(json!({"priority": 9, "preemptionPolicy": "Never"})),
            Ok(())
        );
        let number = own(json!({"priority": 7})).unwrap_err();
        assert!(
            number.starts_with("the integer value of priority (7)"),
            "{number}"
        );
        let policy = own(json!({"preemptionPolicy": "PreemptLowerPriority"})).unwrap_err();
        assert!(policy.contains("computed Never from"), "{policy}");
        let empty = own(json!({"preemptionPolicy": ""})).unwrap_err();
        assert!(empty.contains("PreemptionPolicy () must not"), "{empty}");
        assert_eq!(own(json!({"preemptionPolicy": null})), Ok(()));
    }
}
