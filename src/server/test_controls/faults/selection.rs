//! Pure. The requests that a rule is about.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};

use crate::api::resource::{ResourceDefinition, Verb};
use crate::kinds::definitions::{built_in, not_stored};
use crate::server::test_controls::members::Members;

/// The most items of a list of a selection.
const ITEMS_MAX: usize = 64;

/// A request as rules see it.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Subject<'s> {
    pub(in crate::server) verb: Verb,
    pub(in crate::server) resource: &'s ResourceDefinition,
    pub(in crate::server) subresource: Option<&'s str>,
    pub(in crate::server) namespace: Option<&'s str>,
    pub(in crate::server) user: &'s str,
    pub(in crate::server) user_agent: &'s str,
}

/// The request of an open watch.
#[derive(Debug)]
pub(in crate::server) struct WatchSubject {
    resource: Arc<ResourceDefinition>,
    namespace: Option<String>,
    user: String,
    user_agent: String,
}

impl WatchSubject {
    /// Keeps the request of a watch of this resource.
    pub(in crate::server) fn of(
        subject: &Subject<'_>,
        resource: &Arc<ResourceDefinition>,
    ) -> WatchSubject {
        WatchSubject {
            resource: Arc::clone(resource),
            namespace: subject.namespace.map(str::to_owned),
            user: subject.user.to_owned(),
            user_agent: subject.user_agent.to_owned(),
        }
    }

    pub(super) fn as_subject(&self) -> Subject<'_> {
        Subject {
            verb: Verb::Watch,
            resource: &self.resource,
            // Subresources can't be watched.
            subresource: None,
            namespace: self.namespace.as_deref(),
            user: &self.user,
            user_agent: &self.user_agent,
        }
    }
}

/// The requests that a rule is about. An empty list is about all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    verbs: Vec<String>,
    resources: Vec<String>,
    namespaces: Vec<String>,
    users: Vec<String>,
    /// The beginnings of User-Agent.
    user_agents: Vec<String>,
}

impl Selection {
    /// Reads the selection at a place.
    pub(super) fn read(place: &str, value: &Value) -> Result<Selection, String> {
        let known = ["verbs", "resources", "namespaces", "users", "userAgents"];
        let members = Members::of(place, value, &known)?;
        let any = |_: &str| -> Option<String> { None };
        Ok(Selection {
            verbs: members.texts("verbs", ITEMS_MAX, fault_of_verb)?,
            resources: members.texts("resources", ITEMS_MAX, fault_of_resource)?,
            namespaces: members.texts("namespaces", ITEMS_MAX, any)?,
            users: members.texts("users", ITEMS_MAX, any)?,
            user_agents: members.texts("userAgents", ITEMS_MAX, any)?,
        })
    }

    /// Whether it is about requests of such a verb.
    pub(super) fn has_verb(&self, is_such: impl Fn(Verb) -> bool) -> bool {
        let is_named = |verb: &Verb| self.verbs.iter().any(|name| name == verb.as_str());
        let mut all = Verb::ALL.into_iter().chain([Verb::Connect]);
        all.any(|verb| is_such(verb) && (self.verbs.is_empty() || is_named(&verb)))
    }

    /// Whether it is about a request.
    pub(super) fn covers(&self, subject: &Subject<'_>) -> bool {
        let is_among = |texts: &[String], text: &str| {
            // linear: at most ITEMS_MAX
            texts.is_empty() || texts.iter().any(|one| one == text)
        };
        let resources = &self.resources;
        is_among(&self.verbs, subject.verb.as_str())
            && (resources.is_empty() || resources.iter().any(|text| is_named(text, subject)))
            && is_among(&self.namespaces, subject.namespace.unwrap_or_default())
            && is_among(&self.users, subject.user)
            && (self.user_agents.is_empty()
                || self
                    .user_agents
                    .iter()
                    .any(|text| subject.user_agent.starts_with(text)))
    }

    /// Returns the selection as a document has it.
    pub(super) fn shown(&self) -> Value {
        let lists = [
            ("verbs", &self.verbs),
            ("resources", &self.resources),
            ("namespaces", &self.namespaces),
            ("users", &self.users),
            ("userAgents", &self.user_agents),
        ];
        let lists = lists.into_iter().filter(|(_, texts)| !texts.is_empty());
        let shown: Map<String, Value> = lists
            .map(|(name, texts)| (name.to_owned(), texts.clone().into()))
            .collect();
        shown.into()
    }
}

/// Whether a text such as `deployments.apps/scale` names the resource of a request.
fn is_named(text: &str, subject: &Subject<'_>) -> bool {
    let (resource, subresource) = split(text);
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let is_part = match subresource {
        Some("*") => subject.subresource.is_some(),
        subresource => subject.subresource == subresource,
    };
    is_part && subject.resource.plural == plural && subject.resource.group == group
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (text, None),
    }
}

fn fault_of_verb(text: &str) -> Option<String> {
    let is_verb =
        text == Verb::Connect.as_str() || Verb::ALL.iter().any(|verb| verb.as_str() == text);
    let fault = "is no verb; verbs are get, list, watch, create, update, patch, delete, \
                 deletecollection and connect";
    (!is_verb).then(|| fault.to_owned())
}

fn fault_of_resource(text: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = |text: &str| !text.is_empty() && text.chars().all(is_allowed);
    let (resource, subresource) = split(text);
    let is_resource = resource.split('.').all(is_name);
    let is_part = subresource.is_none_or(|name| name == "*" || is_name(name));
    let fault = "is no resource; write the plural, the group after a dot and the subresource \
                 after a slash, such as pods, deployments.apps, pods/status or pods/*";
    match is_resource && is_part {
        true => fault_of_group(resource),
        false => Some(fault.to_owned()),
    }
}

/// The groups of the built-in resources, by the plural.
static GROUPS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let mut groups: HashMap<String, Vec<String>> = HashMap::new();
    let others = not_stored().into_iter().map(Arc::new);
    for one in built_in().into_iter().chain(others) {
        let of_plural = groups.entry(one.plural.to_string()).or_default();
        of_plural.push(one.group.to_string());
    }
    groups
});

/// The fault of a resource without a group that the core group does not have. Custom resources and
/// those of other servers always have a group, so no request would ever match.
fn fault_of_group(resource: &str) -> Option<String> {
    if resource.contains('.') {
        return None;
    }
    let groups = GROUPS.get(resource).map(Vec::as_slice).unwrap_or_default();
    // linear: a resource is in one group or two
    match groups.first() {
        _ if groups.iter().any(String::is_empty) => None,
        Some(group) => Some(format!(
            "has the group {group}; write {resource}.{group}, and a subresource after that"
        )),
        None => Some("is no resource of the core group; write its group after a dot".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn covers(selection: &Value, of: (&str, &str), change: impl Fn(&mut Subject<'_>)) -> bool {
        let rows = built_in();
        let mut rows = rows.iter();
        let resource = rows
            .find(|row| (row.plural.as_str(), row.group.as_str()) == of)
            .unwrap();
        let mut subject = Subject {
            verb: Verb::Update,
            resource,
            subresource: None,
            namespace: Some("default"),
            user: "ann",
            user_agent: "kubectl/v1.36.0",
        };
        change(&mut subject);
        Selection::read("match", selection)
            .unwrap()
            .covers(&subject)
    }

    #[test]
    fn a_request_is_selected_by_all_that_is_given() {
        let deployments = ("deployments", "apps");
        let same = |_: &mut Subject<'_>| {};
        for (selection, expected) in [
            (json!({}), true),
            (json!({"verbs": []}), true),
            (json!({"verbs": ["get", "update"]}), true),
            (json!({"verbs": ["get"]}), false),
            (json!({"resources": ["pods", "deployments.apps"]}), true),
            (json!({"resources": ["deployments.apps/scale"]}), false),
            (json!({"resources": ["deployments.apps/*"]}), false),
            (json!({"namespaces": ["default"]}), true),
            (json!({"namespaces": ["other"]}), false),
            (json!({"users": ["ann"]}), true),
            (json!({"users": ["bob"]}), false),
            (json!({"userAgents": ["kubectl/"]}), true),
            (json!({"userAgents": ["manager/"]}), false),
            (json!({"verbs": ["update"], "users": ["bob"]}), false),
        ] {
            assert_eq!(
                covers(&selection, deployments, same),
                expected,
                "{selection}"
            );
        }
        let scale = |subject: &mut Subject<'_>| subject.subresource = Some("scale");
        for (resources, expected) in [
            ("deployments.apps", false),
            ("deployments.apps/scale", true),
            ("deployments.apps/status", false),
            ("deployments.apps/*", true),
        ] {
            let selection = json!({"resources": [resources]});
            assert_eq!(
                covers(&selection, deployments, scale),
                expected,
                "{resources}"
            );
        }
        let everywhere = |subject: &mut Subject<'_>| subject.namespace = None;
        let selection = json!({"namespaces": ["default"]});
        assert!(!covers(&selection, ("nodes", ""), everywhere));
    }
}
