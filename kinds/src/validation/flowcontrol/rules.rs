//! Validation of the rules of FlowSchemas.

use api::field::Field;
use api::names;

use api::error_list::ErrorList;

const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

/// Validates a rule: its subjects and the requests that it matches.
pub fn validate_rule(rule: &Field<'_>, errors: &mut ErrorList) {
    let subjects = rule.member("subjects");
    if subjects.is_empty() {
        errors.push(subjects.required("subjects must contain at least one value"));
    }
    for subject in subjects.items() {
        validate_subject(&subject, errors);
    }
    let resource_rules = rule.member("resourceRules");
    let other_rules = rule.member("nonResourceRules");
    if resource_rules.is_empty() && other_rules.is_empty() {
        errors.push(
            rule.required("at least one of resourceRules and nonResourceRules has to be non-empty"),
        );
    }
    for resource_rule in resource_rules.items() {
        validate_resource_rule(&resource_rule, errors);
    }
    for other_rule in other_rules.items() {
        validate_non_resource_rule(&other_rule, errors);
    }
}

/// Kinds of subjects, their members, and the other kinds in the order in which they are reported.
const SUBJECTS: [(&str, &str, [&str; 2]); 3] = [
    ("ServiceAccount", "serviceAccount", ["User", "Group"]),
    ("User", "user", ["ServiceAccount", "Group"]),
    ("Group", "group", ["ServiceAccount", "User"]),
];

fn validate_subject(subject: &Field<'_>, errors: &mut ErrorList) {
    let kind = subject.member("kind");
    let Some((name, member, others)) = SUBJECTS.iter().find(|(name, ..)| *name == kind.text())
    else {
        errors.push(kind.not_supported(&["Group", "ServiceAccount", "User"]));
        return;
    };
    let of_kind = subject.member(member);
    if !of_kind.is_set() {
        let detail = format!("{member} is required when subject kind is '{name}'");
        errors.push(of_kind.required(detail));
    } else if *name == "ServiceAccount" {
        validate_service_account(&of_kind, errors);
    } else if of_kind.member("name").text().is_empty() {
        errors.push(of_kind.member("name").required(""));
    }
    for (name, member, _) in others
        .iter()
        .filter_map(|other| SUBJECTS.iter().find(|(name, ..)| name == other))
    {
        let other = subject.member(member);
        if other.is_set() {
            let detail = format!("{member} is forbidden when subject kind is not '{name}'");
            errors.push(other.forbidden(detail));
        }
    }
}

fn validate_service_account(account: &Field<'_>, errors: &mut ErrorList) {
    let name = account.member("name");
    match name.text() {
        "" => errors.push(name.required("")),
        "*" => {}
        text => {
            let wrong = names::dns_subdomain(text).into_iter();
            errors.extend(wrong.map(|message| name.invalid(message)));
        }
    }
    let namespace = account.member("namespace");
    match namespace.text() {
        "" => errors.push(namespace.required("must specify namespace for service account")),
        text => {
            let wrong = names::dns_label(text).into_iter();
            errors.extend(wrong.map(|message| namespace.invalid(message)));
        }
    }
}

/// Reports whether a list contains this text.
fn has(list: &Field<'_>, text: &str) -> bool {
    list.list().iter().any(|item| item.as_str() == Some(text))
}

/// Validates that a list is not empty, and that `*` is its only item if present. Returns whether it
/// is valid.
fn validate_list(list: &Field<'_>, missing: &str, others: &str, errors: &mut ErrorList) -> bool {
    if list.is_empty() {
        errors.push(list.required(missing));
    } else if list.len() > 1 && has(list, "*") {
        errors.push(list.invalid(format!(
            "if '*' is present, must not specify other {others}"
        )));
    } else {
        return true;
    }
    false
}

fn validate_verbs(rule: &Field<'_>, errors: &mut ErrorList) {
    let verbs = rule.member("verbs");
    let missing = "verbs must contain at least one value";
    let is_verb = |text: &str| text == "*" || VERBS.contains(&text);
    if validate_list(&verbs, missing, "verbs", errors)
        && !verbs
            .list()
            .iter()
            .filter_map(|verb| verb.as_str())
            .all(is_verb)
    {
        errors.push(verbs.not_supported(&VERBS));
    }
}

fn validate_resource_rule(rule: &Field<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, errors);
    let missing = "resource rules must supply at least one api group";
    validate_list(&rule.member("apiGroups"), missing, "api groups", errors);
    let missing = "resource rules must supply at least one resource";
    validate_list(&rule.member("resources"), missing, "resources", errors);
    let namespaces = rule.member("namespaces");
    if namespaces.is_empty() && rule.member("clusterScope").is_true() {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if !validate_list(&namespaces, missing, "namespaces", errors) {
        return;
    }
    for namespace in namespaces.items().filter(|item| item.text() != "*") {
        let wrong = names::dns_label(namespace.text()).into_iter();
        errors.extend(wrong.map(|message| {
            namespace.invalid(format!(
                "each member of this list must be '*' or a DNS-1123 label; {message}"
            ))
        }));
    }
}

fn validate_non_resource_rule(rule: &Field<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, errors);
    let urls = rule.member("nonResourceURLs");
    let missing = "nonResourceURLs must contain at least one value";
    if !validate_list(&urls, missing, "non-resource URLs", errors) {
        return;
    }
    for url in urls.items() {
        if let Some(detail) = url_error(url.text()) {
            errors.push(url.invalid(detail));
        }
    }
}

/// Returns the reason why a URL path of a rule is invalid, if it is.
fn url_error(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("must not be empty");
    }
    if path == "/" || path == "*" {
        return None;
    }
    if !path.starts_with('/') {
        return Some("must start with slash");
    }
    if path.contains(' ') {
        return Some("must not contain white-space");
    }
    if path.contains("//") {
        return Some("must not contain double slash");
    }
    let before_star = path.strip_suffix("/*").unwrap_or(path);
    if before_star.contains('*') {
        return Some("wildcard can only do suffix matching");
    }
    None
}
