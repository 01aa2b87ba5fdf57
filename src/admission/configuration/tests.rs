//! Files of plugins' configuration (HK-98, HK-99).

use std::os::unix::fs::PermissionsExt;

use super::document;
use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
const OF_PODS: &str = "apiVersion: pod-security.admission.config.k8s.io/v1, kind: \
                       PodSecurityConfiguration";
const OF_WEBHOOKS: &str = "apiVersion: apiserver.config.k8s.io/v1, kind: \
                           WebhookAdmissionConfiguration";
const UNREADABLE: &str = "No such file or directory (os error 2)";

fn is_built(name: &str) -> Option<bool> {
    match name {
        "Foo" => None,
        "ImagePolicyWebhook" | "EventRateLimit" => Some(false),
        _ => Some(true),
    }
}

/// A folder with a file of this text.
fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admission.yaml");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

/// The fault of a text, without the folder in it.
fn fault(text: &str) -> String {
    let (folder, file) = written(text);
    let error = load(&file, &is_built).err().unwrap();
    let whole = format!("{}: {}", file.display(), error.problem);
    assert_eq!(error.to_string(), whole);
    let folder = format!("{}/", folder.path().display());
    error.problem.replace(&folder, "")
}

fn of(text: &str) -> Loaded {
    let (_folder, file) = written(text);
    load(&file, &is_built).unwrap()
}

#[test]
fn the_types_of_documents_are_known_hk_98() {
    for kind in [
        &document::ADMISSION,
        &document::WEBHOOKS,
        &document::VALIDATING_POLICIES,
        &document::MUTATING_POLICIES,
        &document::POD_SECURITY,
        &document::RESOURCE_QUOTA,
    ] {
        assert!(kind.is_found());
    }
}

#[test]
fn a_file_without_plugins_sets_nothing_in_both_versions_and_forms_hk_98() {
    for text in [
        HEAD.to_owned(),
        format!("{HEAD}plugins: []\n"),
        HEAD.replace("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"),
        "{\"kind\": \"AdmissionConfiguration\", \"apiVersion\": \"apiserver.config.k8s.io/v1\"}"
            .to_owned(),
        format!("{HEAD}plugins: [{{name: PodSecurity}}, {{name: LimitRanger, path: ''}}]\n"),
    ] {
        let loaded = of(&text);
        assert!(loaded.warnings.is_empty() && loaded.settings.limited.is_empty());
    }
}

#[test]
fn each_plugin_reads_its_own_versions_hk_98() {
    let quota = "{limitedResources: [{resource: pods, matchContains: [cpu]}], ";
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let group = "pod-security.admission.config.k8s.io";
        of(&format!(
            "{HEAD}plugins: [{{name: PodSecurity, configuration: {{apiVersion: {group}/{version}, \
             kind: PodSecurityConfiguration}}}}]"
        ));
    }
    for of_quota in [
        "apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration}",
        "apiVersion: resourcequota.admission.k8s.io/v1beta1, kind: Configuration}",
        "apiVersion: resourcequota.admission.k8s.io/v1alpha1, kind: Configuration}",
    ] {
        let loaded = of(&format!(
            "{HEAD}plugins: [{{name: ResourceQuota, configuration: {quota}{of_quota}}}]"
        ));
        assert_eq!(loaded.settings.limited.len(), 1);
    }
}

#[test]
fn paths_are_seen_from_the_file_hk_98() {
    let text = format!(
        "{HEAD}plugins:\n- name: PodSecurity\n  path: sub/pods.yaml\n- name: \
         ValidatingAdmissionWebhook\n  path: hooks.json\n- name: LimitRanger\n  path: hooks.json\n"
    );
    let (folder, file) = written(&text);
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("sub/pods.yaml"), OF_PODS.replace(", ", "\n")).unwrap();
    std::fs::write(at("users"), "users: [{name: '*', user: {token: t}}]").unwrap();
    let hooks = serde_json::json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": at("users"),
    });
    std::fs::write(at("hooks.json"), hooks.to_string()).unwrap();
    let loaded = load(&file, &is_built).unwrap();
    assert!(loaded.settings.users_for_validating.is_some());
    assert!(loaded.settings.users_for_mutating.is_none());
    let warning = "the plugin LimitRanger has no configuration, so what is said about it has no \
                   effect";
    assert_eq!(loaded.warnings.len(), 1);
    assert!(
        loaded.warnings[0].ends_with(warning),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn faults_of_the_file_itself_are_named_with_their_place_hk_98() {
    let expected = "; it must be of kind AdmissionConfiguration and apiVersion \
                    apiserver.config.k8s.io/v1";
    for (text, problem) in [
        ("", format!("Object 'Kind' is missing{expected}")),
        ("a: b", format!("Object 'Kind' is missing{expected}")),
        (
            "kind: AdmissionConfiguration",
            format!("Object 'apiVersion' is missing{expected}"),
        ),
        (
            "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v1beta1",
            format!(
                "no kind \"AdmissionConfiguration\" is registered for version \
                 \"apiserver.config.k8s.io/v1beta1\"{expected}"
            ),
        ),
        ("[]", "it is not an object".to_owned()),
        ("kind: 5", "kind is not a string".to_owned()),
    ] {
        assert_eq!(fault(text), problem, "{text}");
    }
    // Files that were half written.
    for text in [
        "{\"kind\": \"Adm",
        "kind: [",
        "kind: \"A",
        "plugins:\n- name: {",
    ] {
        let found = fault(text);
        assert!(
            found.starts_with("it is neither YAML nor JSON: "),
            "{found}"
        );
    }
    // Files that would be deep, or large when their aliases are followed.
    for text in [
        "[".repeat(200_000),
        "{\"a\":".repeat(200_000),
        "a: ".repeat(50_000),
        "- ".repeat(200_000),
        format!(
            "a: &a [{}]\nb: &b [{}]\nc: [{}]",
            "x,".repeat(999),
            "*a,".repeat(999),
            "*b,".repeat(999)
        ),
    ] {
        assert!(!fault(&text).is_empty());
    }
    let (folder, file) = written("");
    let missing = load(&folder.path().join("none"), &is_built).err().unwrap();
    assert_eq!(missing.problem, UNREADABLE);
    std::fs::write(&file, vec![b' '; 5 << 20]).unwrap();
    let huge = load(&file, &is_built).err().unwrap();
    assert_eq!(huge.problem, "it is longer than 4194304 bytes");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    std::fs::write(&file, HEAD).unwrap();
    let open = load(&file, &is_built).err().unwrap();
    assert!(
        open.problem
            .starts_with("others than its owner can write it"),
        "{open}"
    );
}

#[test]
fn faults_of_plugins_are_named_with_their_place_hk_98_hk_99() {
    for (plugin, problem) in [
        ("{}", "plugins[0].name: Required value"),
        (
            "{name: Foo}",
            "plugins[0]: there is no admission plugin \"Foo\"",
        ),
        (
            "{name: ImagePolicyWebhook, path: x}",
            "plugins[0]: the admission plugin ImagePolicyWebhook is not built here, so it would \
             refuse and change nothing; leave it out",
        ),
        (
            "{name: LimitRanger}, {name: LimitRanger}",
            "plugins[1].name: Duplicate value: \"LimitRanger\"",
        ),
        (
            "{name: PodSecurity, path: x, configuration: {}}",
            "plugins[0] (PodSecurity): path and configuration are both specified",
        ),
        (
            "{name: LimitRanger, path: none.yaml}",
            &format!("plugins[0] (LimitRanger): none.yaml: {UNREADABLE}"),
        ),
        (
            "{name: PodSecurity, other: 1}",
            "strict decoding error: unknown field \"plugins[0].other\"",
        ),
        (
            "{name: PodSecurity, configuration: {a: b}}",
            "plugins[0] (PodSecurity): configuration: Object 'Kind' is missing; it must be of kind \
             PodSecurityConfiguration and apiVersion pod-security.admission.config.k8s.io/v1",
        ),
        (
            "{name: PodSecurity, configuration: x}",
            "plugins[0] (PodSecurity): configuration: it is not an object",
        ),
        (
            &format!("{{name: PodSecurity, configuration: {{{OF_PODS}, extra: 1}}}}"),
            "plugins[0] (PodSecurity): configuration: strict decoding error: unknown field \
             \"extra\"",
        ),
        (
            &format!(
                "{{name: PodSecurity, configuration: {{{OF_PODS}, defaults: {{enforce: x, warn: \
                 z}}}}}}"
            ),
            "plugins[0] (PodSecurity): configuration: [defaults.enforce: Invalid value: \"x\": \
             must be one of privileged, baseline, restricted, defaults.warn: Invalid value: \"z\": \
             must be one of privileged, baseline, restricted]",
        ),
        (
            "{name: ResourceQuota, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: \
             ResourceQuotaConfiguration, limitedResources: [{}]}}",
            "plugins[0] (ResourceQuota): configuration: limitedResources[0].resource: Required \
             value",
        ),
        (
            &format!(
                "{{name: MutatingAdmissionWebhook, configuration: {{{OF_WEBHOOKS}, \
                 kubeConfigFile: a}}}}"
            ),
            "plugins[0] (MutatingAdmissionWebhook): configuration: kubeConfigFile: Invalid value: \
             \"a\": must be an absolute file path",
        ),
        (
            &format!(
                "{{name: ValidatingAdmissionWebhook, configuration: {{{OF_WEBHOOKS}, \
                 kubeConfigFile: /nowhere/k}}}}"
            ),
            &format!(
                "plugins[0] (ValidatingAdmissionWebhook): configuration: kubeConfigFile: \
                 /nowhere/k: {UNREADABLE}"
            ),
        ),
        (
            "{name: ValidatingAdmissionWebhook, configuration: {kind: WebhookAdmission, \
             apiVersion: apiserver.config.k8s.io/v1alpha1}}",
            "plugins[0] (ValidatingAdmissionWebhook): configuration: no kind \"WebhookAdmission\" \
             is registered for version \"apiserver.config.k8s.io/v1alpha1\"; it must be of kind \
             WebhookAdmissionConfiguration and apiVersion apiserver.config.k8s.io/v1",
        ),
        (
            "{name: ValidatingAdmissionPolicy, configuration: {kind: \
             ValidatingAdmissionPolicyConfiguration, apiVersion: apiserver.config.k8s.io/v1, \
             staticManifestsDir: /x}}",
            "plugins[0] (ValidatingAdmissionPolicy): configuration: staticManifestsDir: Forbidden: \
             staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to \
             be enabled, which is not built here",
        ),
    ] {
        let found = fault(&format!("{HEAD}plugins: [{plugin}]"));
        assert_eq!(found, problem, "{plugin}");
    }
    let found = fault(&format!("{HEAD}plugins: 5"));
    assert!(
        found.starts_with("json: cannot unmarshal number into Go struct field"),
        "{found}"
    );
    let found = fault(&format!("{HEAD}plugins: []\nplugins: []"));
    assert!(found.contains("plugins"), "{found}");
}
