//! RuntimeClass (API-269): pods get the overhead and the scheduling of their class.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::FutureExt;
use serde_json::{Map, Value};

use super::client::ResourceClient;
use super::pod_resources::quantities;
use super::{Admitted, Attributes, MutatingPlugin, Plugin, ValidatingPlugin};
use crate::api::names::path_segment;
use crate::api::object::{Object, put};
use crate::api::quantity::Quantity;
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;

const OVERHEAD: [&str; 2] = ["spec", "overhead"];
const NODE_SELECTOR: [&str; 2] = ["spec", "nodeSelector"];
const TOLERATIONS: [&str; 2] = ["spec", "tolerations"];
const DIFFERENT_OVERHEAD: &str =
    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// The plugin.
pub(super) struct RuntimeClass {
    classes: Arc<dyn ResourceClient>,
}

impl RuntimeClass {
    /// Creates the plugin with this source of RuntimeClasses.
    pub(super) fn new(classes: Arc<dyn ResourceClient>) -> RuntimeClass {
        RuntimeClass { classes }
    }

    /// The class of a pod, if it names one.
    async fn class_of(
        &self,
        attributes: &Attributes<'_>,
        pod: &Object,
    ) -> Result<Option<Object>, Box<Status>> {
        let name = pod
            .at(&["spec", "runtimeClassName"])
            .and_then(Value::as_str);
        let Some(name) = name else {
            return Ok(None);
        };
        if let Some(wrong) = wrong_name(name) {
            return Err(Box::new(Status::unknown(wrong)));
        }
        match self.classes.get(None, name).await? {
            Some(class) => Ok(Some(class)),
            None => {
                let name = go_quote(name);
                let why = format!("pod rejected: RuntimeClass {name} not found");
                Err(attributes.forbidden(Some(pod), &why))
            }
        }
    }
}

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "pods")
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for RuntimeClass {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            let Some(pod) = object else {
                return Ok(());
            };
            let Some(class) = self.class_of(attributes, pod).await? else {
                return Ok(());
            };
            let given = set_overhead(pod, &class).and_then(|()| set_scheduling(pod, &class));
            given.map_err(|why| attributes.forbidden(Some(pod), &why))
        }
        .boxed()
    }
}

impl ValidatingPlugin for RuntimeClass {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            let Some(pod) = object else {
                return Ok(());
            };
            let class = self.class_of(attributes, pod).await?;
            // The pod has it in thousandths, like all quantities of pods.
            let defined = class.as_ref().and_then(overhead_of).map(|mut defined| {
                let amounts = defined.values_mut();
                amounts.for_each(|amount| *amount = amount.clone().rounded_to_milli());
                defined
            });
            match wrong_overhead(pod, defined) {
                Some(why) => Err(attributes.forbidden(Some(pod), why)),
                None => Ok(()),
            }
        }
        .boxed()
    }
}

/// The fault in the overhead of a pod whose class defines this one. Without one not even an empty
/// overhead may be set.
fn wrong_overhead(
    pod: &Object,
    defined: Option<BTreeMap<String, Quantity>>,
) -> Option<&'static str> {
    let own = pod.at(&OVERHEAD).filter(|own| !own.is_null());
    match defined {
        Some(defined) => (defined != quantities(own)).then_some(DIFFERENT_OVERHEAD),
        None => own.is_some().then_some(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    }
}

/// The fault in the name of a class, which is a path segment of the lookup.
fn wrong_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("resource name may not be empty".to_owned());
    }
    let wrong = path_segment(name);
    let shown = go_quote(name);
    (!wrong.is_empty()).then(|| format!("invalid resource name {shown}: [{}]", wrong.join(" ")))
}

/// The overhead of the pods of a class, if it has one.
fn overhead_of(class: &Object) -> Option<BTreeMap<String, Quantity>> {
    class.0.get("overhead").filter(|value| !value.is_null())?;
    Some(quantities(class.at(&["overhead", "podFixed"])))
}

fn set_overhead(pod: &mut Object, class: &Object) -> Result<(), String> {
    let Some(defined) = overhead_of(class) else {
        return Ok(());
    };
    let own = quantities(pod.at(&OVERHEAD));
    if !own.is_empty() && own != defined {
        return Err(DIFFERENT_OVERHEAD.to_owned());
    }
    if let Some(fixed) = class.at(&["overhead", "podFixed"]) {
        put(pod, &OVERHEAD, fixed.clone());
    }
    Ok(())
}

fn set_scheduling(pod: &mut Object, class: &Object) -> Result<(), String> {
    let selector = class.at(&["scheduling", "nodeSelector"]);
    if let Some(selector) = selector.and_then(Value::as_object) {
        let own = pod.at(&NODE_SELECTOR).and_then(Value::as_object);
        let mut merged: Map<String, Value> = own.cloned().unwrap_or_default();
        for (key, value) in selector {
            match merged.get(key) {
                Some(own) if own != value => {
                    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    return Err(format!(
                        "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; \
                         pod.spec.nodeSelector[{key}] = {}",
                        text(value),
                        text(own)
                    ));
                }
                _ => merged.insert(key.clone(), value.clone()),
            };
        }
        put(pod, &NODE_SELECTOR, Value::Object(merged));
    }
    let further = class.items(&["scheduling", "tolerations"]);
    if !further.is_empty() {
        let own = pod.items(&TOLERATIONS).iter();
        let all: Vec<&Value> = own.chain(further).collect();
        let merged = Value::Array(merged_tolerations(&all));
        put(pod, &TOLERATIONS, merged);
    }
    Ok(())
}

/// The tolerations without those that another one covers. Of equal ones the first is kept.
fn merged_tolerations(all: &[&Value]) -> Vec<Value> {
    let mut later = Covering::default();
    let mut is_wanted: Vec<bool> = Vec::with_capacity(all.len());
    for toleration in all.iter().rev() {
        is_wanted.push(!later.has_another_for(toleration));
        later.add(toleration);
    }
    let mut merged = Vec::new();
    let (mut seen, mut earlier) = (HashSet::new(), Covering::default());
    for (toleration, is_wanted) in all.iter().zip(is_wanted.into_iter().rev()) {
        let is_first = !seen.contains(toleration) && !earlier.has_another_for(toleration);
        if is_wanted && is_first {
            merged.push((*toleration).clone());
            seen.insert(*toleration);
            earlier.add(toleration);
        }
    }
    merged
}

/// The taints that tolerations tolerate: those with a key and an effect, and with one value unless
/// the toleration covers all. An empty effect means any. An empty key means any if the toleration
/// covers all values.
type Tolerated<'v> = (&'v str, &'v str, Option<&'v str>);

/// How long a pod may stay with a toleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stay {
    Seconds(i64),
    Always,
}

/// Tolerations, and how long pods may stay with them.
#[derive(Default)]
struct Covering<'v> {
    /// The longest toleration of each kind of taint, and the longest of those that differ from that
    /// one.
    longest: HashMap<Tolerated<'v>, [Option<(Stay, &'v Value)>; 2]>,
}

impl<'v> Covering<'v> {
    fn add(&mut self, toleration: &'v Value) {
        let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
        let value = match text(toleration, "operator") {
            "Exists" => None,
            "Equal" | "" => Some(text(toleration, "value")),
            _ => return,
        };
        let own = (
            match effect {
                "NoExecute" => stay(toleration),
                _ => Stay::Always,
            },
            toleration,
        );
        let [first, second] = self.longest.entry((key, effect, value)).or_default();
        match first {
            Some((_, known)) if *known == toleration => {}
            Some((known, _)) if *known >= own.0 => {
                if second.is_none_or(|(known, _)| known < own.0) {
                    *second = Some(own);
                }
            }
            _ => *second = first.replace(own),
        }
    }

    /// Whether a toleration that differs from this one tolerates all of its taints for as long.
    fn has_another_for(&self, toleration: &Value) -> bool {
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        let is_equal = text(toleration, "operator") == "Equal";
        let wider = [(key, None), ("", None), (key, Some(value))];
        let wider = wider.iter().take(if is_equal { 3 } else { 2 });
        let effects = ["", text(toleration, "effect")];
        let mut sorts = wider.flat_map(|(key, value)| effects.map(|effect| (*key, effect, *value)));
        let wanted = stay(toleration);
        sorts.any(|sort| {
            let longest = self.longest.get(&sort).into_iter().flatten().flatten();
            // linear: a sort has the two longest ones.
            let mut others = longest.filter(|(_, other)| *other != toleration);
            others.any(|(stay, _)| *stay >= wanted)
        })
    }
}

fn text<'v>(toleration: &'v Value, member: &str) -> &'v str {
    let text = toleration.get(member).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn stay(toleration: &Value) -> Stay {
    let seconds = toleration.get("tolerationSeconds");
    seconds
        .and_then(Value::as_i64)
        .map_or(Stay::Always, Stay::Seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    /// The tolerations that [`merged_tolerations`] leaves, by comparing each with all others.
    fn merged_by_comparing(all: &[&Value]) -> Vec<Value> {
        let mut merged: Vec<Value> = Vec::new();
        for (index, toleration) in all.iter().enumerate() {
            let is_covered = merged.iter().any(|before| covers(before, toleration));
            let mut later = all.iter().skip(index + 1);
            if !is_covered && !later.any(|after| after != toleration && covers(after, toleration)) {
                merged.push((*toleration).clone());
            }
        }
        merged
    }

    /// Whether one toleration tolerates all that another one does.
    fn covers(wide: &Value, narrow: &Value) -> bool {
        if wide == narrow {
            return true;
        }
        let (key, operator, effect) = (
            text(wide, "key"),
            text(wide, "operator"),
            text(wide, "effect"),
        );
        let is_for_all = key.is_empty() && operator == "Exists";
        if (text(narrow, "key") != key && !is_for_all)
            || (!effect.is_empty() && text(narrow, "effect") != effect)
        {
            return false;
        }
        let seconds = |toleration: &Value| {
            let seconds = toleration.get("tolerationSeconds");
            seconds.and_then(Value::as_i64)
        };
        if effect == "NoExecute"
            && let Some(most) = seconds(wide)
            && seconds(narrow).is_none_or(|own| own > most)
        {
            return false;
        }
        match operator {
            "Exists" => true,
            "Equal" | "" => {
                text(narrow, "operator") == "Equal" && text(narrow, "value") == text(wide, "value")
            }
            _ => false,
        }
    }

    fn toleration() -> impl Strategy<Value = Value> {
        let member = |name: &'static str, values: &'static [&str]| {
            let value = prop::option::of(prop::sample::select(values));
            value.prop_map(move |value| value.map(|value| (name.to_owned(), value.into())))
        };
        let seconds = prop::option::of(-1..3_i64);
        let seconds =
            seconds.prop_map(|seconds| Some(("tolerationSeconds".to_owned(), seconds?.into())));
        let members = (
            member("key", &["", "a", "b"]),
            member("operator", &["", "Equal", "Exists", "Lt"]),
            member("value", &["", "v", "w"]),
            member("effect", &["", "NoExecute", "NoSchedule"]),
            seconds,
        );
        members.prop_map(|(key, operator, value, effect, seconds)| {
            let members = [key, operator, value, effect, seconds];
            Value::Object(members.into_iter().flatten().collect())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// API-269.
        #[test]
        fn tolerations_that_others_cover_are_left_out(
            all in prop::collection::vec(toleration(), 0..12),
        ) {
            let all: Vec<&Value> = all.iter().collect();
            prop_assert_eq!(merged_tolerations(&all), merged_by_comparing(&all));
        }
    }

    fn class() -> Object {
        object(
            json!({"overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {
            "nodeSelector": {"a": "1"},
            "tolerations": [{"key": "k", "operator": "Exists"}]}}),
        )
    }

    /// API-269.
    #[test]
    fn a_pod_gets_overhead_selector_and_tolerations_of_its_class() {
        let mut pod = object(json!({"spec": {"nodeSelector": {"b": "2"}, "tolerations": [
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
            {"key": "other", "operator": "Exists"}]}}));
        set_overhead(&mut pod, &class()).unwrap();
        set_scheduling(&mut pod, &class()).unwrap();
        let spec = json!({
            "overhead": {"cpu": "250m"},
            "nodeSelector": {"a": "1", "b": "2"},
            "tolerations": [
                {"key": "other", "operator": "Exists"}, {"key": "k", "operator": "Exists"}],
        });
        assert_eq!(pod.0["spec"], spec);
    }

    /// API-269.
    #[test]
    fn an_overhead_needs_a_class_that_defines_it() {
        let pod = |overhead: Value| object(json!({"spec": {"overhead": overhead}}));
        let without = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined \
                       Overhead";
        assert_eq!(wrong_overhead(&pod(json!(null)), None), None);
        assert_eq!(wrong_overhead(&pod(json!({})), None), Some(without));
        assert_eq!(
            wrong_overhead(&pod(json!({"cpu": "1"})), None),
            Some(without)
        );
        let defined = || Some(quantities(Some(&json!({"cpu": "1"}))));
        assert_eq!(wrong_overhead(&pod(json!({"cpu": "1"})), defined()), None);
        let different = Some(DIFFERENT_OVERHEAD);
        assert_eq!(wrong_overhead(&pod(json!({})), defined()), different);
    }

    /// API-269, as kube-apiserver 1.36 answers.
    #[test]
    fn names_of_classes_that_are_no_part_of_a_path_are_errors() {
        let told = |name: &str| wrong_name(name).unwrap_or_default();
        assert_eq!(told("a b"), "");
        assert_eq!(told(""), "resource name may not be empty");
        let dots = r#"invalid resource name "..": [may not be '..']"#;
        assert_eq!(told(".."), dots);
        let both = r#"invalid resource name "a%b/..": [may not contain '/' may not contain '%']"#;
        assert_eq!(told("a%b/.."), both);
    }

    /// API-269.
    #[test]
    fn what_contradicts_the_class_is_refused() {
        let mut pod =
            object(json!({"spec": {"overhead": {"cpu": "1"}, "nodeSelector": {"a": "2"}}}));
        assert_eq!(
            set_overhead(&mut pod, &class()),
            Err(DIFFERENT_OVERHEAD.to_owned())
        );
        assert_eq!(
            set_scheduling(&mut pod, &class()).unwrap_err(),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = 1; pod.spec.nodeSelector[a] = 2"
        );
        let mut same = object(json!({"spec": {"overhead": {"cpu": "0.25"}}}));
        assert_eq!(set_overhead(&mut same, &class()), Ok(()));
    }
}
