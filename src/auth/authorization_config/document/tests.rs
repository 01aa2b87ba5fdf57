//! Configurations and their faults (AC-33 to AC-36).

use super::*;

/// A configuration with these authorizers in YAML.
fn file(authorizers: &str) -> String {
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: {KIND}\nauthorizers:\n{authorizers}")
}

fn fault(text: &str) -> String {
    parse(text.as_bytes(), &[]).unwrap_err()
}

/// A webhook whose members are replaced or added by these, and the fault that it has. A member that
/// is null is left out.
fn webhook_fault(changes: &Value) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut webhook = json!({
        "timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": file.path()},
    });
    for (name, value) in changes.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": KIND,
        "authorizers": [{"type": "Webhook", "name": "w", "webhook": webhook}],
    });
    match parse(configuration.to_string().as_bytes(), &[]) {
        Ok(_) => String::new(),
        Err(fault) => fault,
    }
}

#[test]
fn the_type_of_configurations_is_known_ac_33() {
    assert!(CONFIGURATION.found().is_some());
}

#[test]
fn all_three_versions_are_read_in_order_with_defaults_ac_33_ac_35() {
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let path = kubeconfig.path().display();
    for version in VERSIONS {
        let text = format!(
            "apiVersion: {GROUP}{version}\nkind: {KIND}\nauthorizers:\n\
             - {{type: Webhook, name: first.hook, webhook: {{timeout: 3s, \
             subjectAccessReviewVersion: v1beta1, failurePolicy: Deny, \
             connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {path}}}}}}}\n\
             - {{type: Node, name: node}}\n- {{type: RBAC, name: rbac}}\n\
             - {{type: Webhook, name: last, webhook: {{timeout: 30s, authorizedTTL: 1m, \
             unauthorizedTTL: 2m, cacheUnauthorizedRequests: false, \
             subjectAccessReviewVersion: v1, failurePolicy: NoOpinion, \
             matchConditionSubjectAccessReviewVersion: v1, \
             matchConditions: [{{expression: \"request.user != 'a'\"}}], \
             connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {path}}}}}}}\n"
        );
        let entries = parse(text.as_bytes(), &[AuthorizerType::Rbac]).unwrap();
        let kinds = entries.iter().map(|entry| entry.kind.name());
        assert!(
            kinds.eq(["Webhook", "Node", "RBAC", "Webhook"]),
            "{version}"
        );
        let first = entries[0].webhook.as_ref().unwrap();
        assert_eq!(first.timeout, Duration::from_secs(3));
        assert_eq!(first.kubeconfig, kubeconfig.path());
        let settings = &first.settings;
        assert_eq!(settings.name, "first.hook");
        assert_eq!(settings.version, ReviewVersion::V1Beta1);
        assert_eq!(settings.failure_policy, FailurePolicy::Deny);
        assert_eq!(settings.authorized_ttl, Duration::from_secs(300));
        assert_eq!(settings.unauthorized_ttl, Duration::from_secs(30));
        let last = &entries[3].webhook.as_ref().unwrap().settings;
        assert_eq!(last.failure_policy, FailurePolicy::NoOpinion);
        assert_eq!(last.authorized_ttl, Duration::from_secs(60));
        assert_eq!(last.unauthorized_ttl, Duration::ZERO);
    }
}

#[test]
fn decoding_is_strict_ac_33() {
    let prefix = "failed to load AuthorizationConfiguration from file: ";
    for (text, expected) in [
        ("a: [", "couldn't get version/kind; json parse error: "),
        ("kind: X", "Object 'apiVersion' is missing"),
        ("apiVersion: v1", "Object 'Kind' is missing"),
        (
            "apiVersion: v1\nkind: X",
            "no kind \"X\" is registered for version \"v1\"",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration",
            "expected AuthorizationConfiguration, got *apiserver.AuthenticationConfiguration",
        ),
        (
            &*file("- {type: Node, nam: node}"),
            "strict decoding error: unknown field \"authorizers[0].nam\"",
        ),
        (
            &*file("- type: Node\n  type: Node\n"),
            "strict decoding error: yaml: unmarshal errors:\n  line 5: key \"type\" already set in \
             map",
        ),
        (
            &*file("- {type: 1}"),
            "json: cannot unmarshal number into Go struct field \
             AuthorizerConfiguration.authorizers.type of type string",
        ),
        (
            &*file("- {type: Webhook, webhook: {timeout: soon}}"),
            "time: invalid duration \"soon\"",
        ),
    ] {
        let found = fault(text);
        assert!(found.starts_with(&format!("{prefix}{expected}")), "{found}");
    }
}

#[test]
fn at_least_one_authorizer_is_needed_ac_33() {
    let expected = "authorizers: Required value: at least one authorization mode must be defined";
    assert_eq!(fault(""), expected);
    assert_eq!(fault(&file(" []")), expected);
}

#[test]
fn types_and_names_are_checked_ac_34() {
    let known = "supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \"Node\", \"RBAC\", \
                 \"Webhook\"";
    for (authorizers, expected) in [
        (
            "- {name: x}",
            "authorizers[0].type: Required value".to_owned(),
        ),
        (
            "- {type: Rbac, name: x}",
            format!("authorizers[0].type: Unsupported value: \"Rbac\": {known}"),
        ),
        (
            "- {type: Node, name: node}\n- {type: Node, name: other}",
            "authorizers[1].type: Duplicate value: \"Node\"".to_owned(),
        ),
        (
            "- {type: Node}",
            "authorizers[0].name: Required value".to_owned(),
        ),
        (
            "- {type: Node, name: node}\n- {type: RBAC, name: node}",
            "authorizers[1].name: Duplicate value: \"node\"".to_owned(),
        ),
        (
            "- {type: RBAC, name: x}",
            "expected name rbac for authorizer RBAC instead of x".to_owned(),
        ),
        (
            "- {type: RBAC, name: x}\n- {type: Node, name: z}",
            "[expected name rbac for authorizer RBAC instead of x, expected name node for \
             authorizer Node instead of z]"
                .to_owned(),
        ),
        (
            "- {type: Webhook, name: w}",
            "authorizers[0].webhook: Required value: required when type=Webhook".to_owned(),
        ),
        (
            "- {type: Node, name: node, webhook: {timeout: 3s}}",
            "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when \
             type=Webhook"
                .to_owned(),
        ),
    ] {
        assert_eq!(fault(&file(authorizers)), expected, "{authorizers}");
    }
    let said = fault(&file("- {type: Node, name: A_B}"));
    let start = "authorizers[0].name: Invalid value: \"A_B\": authorizer name is invalid: a lower";
    assert!(said.starts_with(start), "{said}");
}

#[test]
fn a_reload_takes_no_type_away_ac_33() {
    let text = file("- {type: Node, name: node}");
    let required = [
        AuthorizerType::Node,
        AuthorizerType::Rbac,
        AuthorizerType::Abac,
    ];
    assert_eq!(
        parse(text.as_bytes(), &required).unwrap_err(),
        "missing required types: [RBAC ABAC]"
    );
}

#[test]
fn webhooks_are_checked_ac_35() {
    assert_eq!(webhook_fault(&json!({})), "");
    let path = |file: &str| json!({"type": "KubeConfigFile", "kubeConfigFile": file});
    let at = "authorizers[0]";
    for (changes, expected) in [
        (json!({"timeout": null}), "timeout: Required value".to_owned()),
        (json!({"timeout": "0s"}), "timeout: Required value".to_owned()),
        (
            json!({"timeout": "31s"}),
            "timeout: Invalid value: \"31s\": must be > 0s and <= 30s".to_owned(),
        ),
        (
            json!({"timeout": "-1s"}),
            "timeout: Invalid value: \"-1s\": must be > 0s and <= 30s".to_owned(),
        ),
        (
            json!({"authorizedTTL": "-1m"}),
            "authorizedTTL: Invalid value: \"-1m0s\": must be > 0s".to_owned(),
        ),
        (
            json!({"unauthorizedTTL": "-1s"}),
            "unauthorizedTTL: Invalid value: \"-1s\": must be > 0s".to_owned(),
        ),
        (
            json!({"subjectAccessReviewVersion": null}),
            "subjectAccessReviewVersion: Required value".to_owned(),
        ),
        (
            json!({"subjectAccessReviewVersion": "v2"}),
            "subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \
             \"v1beta1\""
                .to_owned(),
        ),
        (
            json!({"matchConditionSubjectAccessReviewVersion": "v1beta1"}),
            "matchConditionSubjectAccessReviewVersion: Unsupported value: \"v1beta1\": supported \
             values: \"v1\""
                .to_owned(),
        ),
        (
            json!({"matchConditions": [{"expression": "true"}]}),
            "matchConditionSubjectAccessReviewVersion: Required value: required if match \
             conditions are specified"
                .to_owned(),
        ),
        (
            json!({
                "matchConditions": [{"expression": "request.user"}],
                "matchConditionSubjectAccessReviewVersion": "v1",
            }),
            "matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool \
             but got string"
                .to_owned(),
        ),
        (json!({"failurePolicy": null}), "failurePolicy: Required value".to_owned()),
        (
            json!({"failurePolicy": "Allow"}),
            "failurePolicy: Unsupported value: \"Allow\": supported values: \"NoOpinion\", \"Deny\""
                .to_owned(),
        ),
        (
            json!({"connectionInfo": {}}),
            "connectionInfo.type: Required value".to_owned(),
        ),
        (
            json!({"connectionInfo": {"type": "X"}}),
            "connectionInfo.type: Unsupported value: \"X\": supported values: \
             \"InClusterConfig\", \"KubeConfigFile\""
                .to_owned(),
        ),
        (
            json!({"connectionInfo": {"type": "KubeConfigFile"}}),
            "connectionInfo.kubeConfigFile: Required value".to_owned(),
        ),
        (
            json!({"connectionInfo": path("a/b")}),
            "connectionInfo.kubeConfigFile: Invalid value: \"a/b\": must be an absolute path"
                .to_owned(),
        ),
        (
            json!({"connectionInfo": path("/")}),
            "connectionInfo.kubeConfigFile: Invalid value: \"/\": must be a regular file".to_owned(),
        ),
    ] {
        assert_eq!(webhook_fault(&changes), format!("{at}.{expected}"), "{changes}");
    }
    let said = webhook_fault(&json!({"connectionInfo": path("/no/such/file")}));
    let start = "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \
                 \"/no/such/file\": error loading file: ";
    assert!(said.starts_with(start), "{said}");
    let said = webhook_fault(&json!({"connectionInfo": {"type": "InClusterConfig"}}));
    assert!(
        said.starts_with("authorizers[0].connectionInfo.type: Invalid value: "),
        "{said}"
    );
    let said = webhook_fault(&json!({"timeout": null, "failurePolicy": null}));
    assert_eq!(
        said,
        "[authorizers[0].timeout: Required value, authorizers[0].failurePolicy: Required value]"
    );
}
