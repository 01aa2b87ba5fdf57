//! The configuration file: its valid contents, and the text of each error.

use super::*;

/// 32 bytes and 16 bytes in base64.
const LONG: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const SHORT: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

fn file(resources: &str) -> String {
    format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n\
         resources:\n{resources}"
    )
}

fn entry(names: &str, providers: &str) -> String {
    format!("- resources: {names}\n  providers: {providers}\n")
}

/// The faults of a file with one element.
fn faults(names: &str, providers: &str) -> Vec<String> {
    match Configuration::parse(&file(&entry(names, providers))) {
        Ok(configuration) => panic!("{configuration:?}"),
        Err(faults) => faults,
    }
}

fn names_are_refused(names: &str, expected: &[&str]) {
    let told = faults(names, "[identity: {}]");
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (fault, expected) in told.iter().zip(expected) {
        assert!(fault.starts_with("resources[0].resources"), "{fault}");
        assert!(fault.contains(expected), "{fault}");
    }
}

#[test]
fn a_full_configuration_is_read_en_13() {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: [secrets, configmaps, deployments.apps]
    providers:
      - aesgcm:
          keys: [{{name: key2, secret: {LONG}}}, {{name: key1, secret: {SHORT}}}]
      - aescbc: {{keys: [{{name: c, secret: {SHORT}}}]}}
      - secretbox:
          keys:
            - name: s
              secret: {LONG}
      - identity: {{}}
  - resources: ['*.batch', '*.']
    providers: [{{identity: {{}}}}]
"
    );
    let configuration = Configuration::parse(&text).unwrap();
    let names = |index: usize| -> Vec<String> {
        let resources = &configuration.entries[index].resources;
        resources.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names(0), ["secrets", "configmaps", "deployments.apps"]);
    assert_eq!(names(1), ["*.batch", "*."]);
    let providers: Vec<(Option<Algorithm>, Vec<&str>)> = configuration.entries[0]
        .providers
        .iter()
        .map(|provider| match provider {
            ProviderConfig::Identity => (None, vec![]),
            ProviderConfig::Cipher(algorithm, keys) => {
                let names = keys.iter().map(|key| key.name.as_str());
                (Some(*algorithm), names.collect())
            }
        })
        .collect();
    assert_eq!(
        providers,
        [
            (Some(Algorithm::AesGcm), vec!["key2", "key1"]),
            (Some(Algorithm::AesCbc), vec!["c"]),
            (Some(Algorithm::Secretbox), vec!["s"]),
            (None, vec![]),
        ]
    );
}

#[test]
fn json_and_the_legacy_kind_are_read_en_13() {
    let resources = r#""resources":[{"resources":["secrets"],"providers":[{"identity":{}}]}]"#;
    for (kind, version) in KINDS {
        let text = format!(r#"{{"kind":"{kind}","apiVersion":"{version}",{resources}}}"#);
        assert!(Configuration::parse(&text).is_ok(), "{text}");
    }
    for (kind, version) in [
        ("EncryptionConfiguration", "v1"),
        ("EncryptionConfig", "apiserver.config.k8s.io/v1"),
        ("Secret", "v1"),
        ("EncryptionConfiguration", "apiserver.config.k8s.io/v2"),
    ] {
        let text = format!(r#"{{"kind":"{kind}","apiVersion":"{version}",{resources}}}"#);
        let faults = Configuration::parse(&text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(
            faults[0].contains(kind) && faults[0].contains(version),
            "{faults:?}"
        );
    }
}

#[test]
fn decoding_is_strict_and_tells_the_place_en_13() {
    for (text, expected) in [
        (
            file(&entry("[secrets]", "[identity: {}]")) + "unknown: 1\n",
            "unknown: Forbidden",
        ),
        (
            file("- resources: [secrets]\n  provider: []\n  providers: [identity: {}]\n"),
            "resources[0].provider: Forbidden: unknown field; known are resources, providers",
        ),
        (
            file(&entry("[secrets]", "[identity: {}, aesgmc: {}]")),
            "resources[0].providers[0].aesgmc: Forbidden: unknown field",
        ),
        (
            file(&entry("[secrets]", "[identity: {depth: 1}]")),
            "resources[0].providers[0].identity.depth: Forbidden: unknown field",
        ),
        (
            file(&entry(
                "[secrets]",
                "[aescbc: {keys: [{name: a, secret: x, salt: y}]}]",
            )),
            "resources[0].providers[0].aescbc.keys[0].salt: Forbidden: unknown field",
        ),
        (
            file("  secrets\n"),
            "resources: Forbidden: a list is expected, and this is text",
        ),
        (
            file(&entry("[1]", "[identity: {}]")),
            "resources[0].resources[0]: Forbidden: text",
        ),
        (
            "[]".to_owned(),
            "the file: Forbidden: a mapping is expected",
        ),
        ("kind: [".to_owned(), "it is not valid YAML at line"),
        (
            "kind: a\nkind: b\n".to_owned(),
            "it is not valid YAML at line",
        ),
    ] {
        let text = text.replace("[identity: {}, aesgmc", "[{identity: {}, aesgmc");
        let text = text.replace("aesgmc: {}]", "aesgmc: {}}]");
        let faults = Configuration::parse(&text).unwrap_err().join("\n");
        assert!(faults.contains(expected), "{text}: {faults}");
    }
}

#[test]
fn names_of_resources_that_make_no_sense_are_refused_en_15() {
    names_are_refused("[Secrets]", &["no capital letters"]);
    names_are_refused("['*']", &["*. for all resources of the core group"]);
    names_are_refused("['pods.*']", &["say *.*"]);
    names_are_refused("[events.events.k8s.io]", &["say events"]);
    names_are_refused("['*.events.k8s.io']", &["say events"]);
    names_are_refused("[ingresses.extensions]", &["extensions has been removed"]);
    names_are_refused("['*.extensions']", &["extensions has been removed"]);
    for name in [
        "apiserveripinfo",
        "serviceipallocations",
        "servicenodeportallocations",
    ] {
        names_are_refused(&format!("[{name}]"), &["resources that no client can name"]);
    }
    names_are_refused("['', .apps]", &["names no resource", "names no resource"]);
}

#[test]
fn names_that_stand_twice_or_overlap_in_a_list_are_refused_en_15() {
    names_are_refused("[secrets, pods, secrets]", &["already in the list"]);
    names_are_refused("[secrets, '*.']", &["overlaps with secrets"]);
    names_are_refused("['*.', secrets]", &["overlaps with *."]);
    names_are_refused("['*.*', '*.apps']", &["overlaps with *.*"]);
    names_are_refused(
        "[deployments.apps, '*.apps']",
        &["overlaps with deployments.apps"],
    );
    for fine in [
        "[secrets, '*.apps', events]",
        "[apiserveripinfo.example.com]",
    ] {
        let fine = file(&entry(fine, "[identity: {}]"));
        assert!(Configuration::parse(&fine).is_ok(), "{fine}");
    }
}

#[test]
fn empty_lists_are_refused_en_15() {
    for (text, expected) in [
        (
            "kind: EncryptionConfig\napiVersion: v1\nresources: []\n".to_owned(),
            "resources: Required",
        ),
        (
            "kind: EncryptionConfig\napiVersion: v1\n".to_owned(),
            "resources: Required",
        ),
        (
            file(&entry("[]", "[identity: {}]")),
            "resources[0].resources: Required",
        ),
        (
            file(&entry("[secrets]", "[]")),
            "resources[0].providers: Required",
        ),
        (
            file(&entry("[secrets]", "[secretbox: {keys: []}]")),
            "resources[0].providers[0].secretbox.keys: Required",
        ),
        (
            file(&entry("[secrets]", "[{}]")),
            "resources[0].providers[0]: Required",
        ),
        (
            file(&entry("[secrets]", "[identity: ]")),
            "resources[0].providers[0]: Required",
        ),
    ] {
        let faults = Configuration::parse(&text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].starts_with(expected), "{faults:?}");
    }
}

#[test]
fn an_element_with_two_providers_is_refused_and_so_is_kms_en_15() {
    let both = format!("[{{identity: {{}}, aescbc: {{keys: [{{name: a, secret: {SHORT}}}]}}}}]");
    let told = faults("[secrets]", &both);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("resources[0].providers[0]: Forbidden: an element names one"));
    let kms = "[kms: {apiVersion: v2, name: a, endpoint: 'unix:///a'}]";
    let told = faults("[secrets]", kms);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("resources[0].providers[0].kms: Forbidden: kms is not built yet"));
}

#[test]
fn keys_without_name_or_secret_or_of_a_wrong_length_are_refused_en_15() {
    let path = "resources[0].providers[1].aesgcm.keys[0]";
    for (key, expected) in [
        (
            format!("{{secret: {LONG}}}"),
            format!("{path}.name: Required"),
        ),
        ("{name: a}".to_owned(), format!("{path}.secret: Required")),
        (
            "{name: a, secret: ''}".to_owned(),
            format!("{path}.secret: Required"),
        ),
        (
            "{name: a, secret: 'a b'}".to_owned(),
            format!("{path}.secret: Invalid value"),
        ),
        (
            "{name: a, secret: aGVsbG8}".to_owned(),
            format!("{path}.secret: Invalid value"),
        ),
        (
            "{name: a, secret: aGVsbG8=}".to_owned(),
            format!(
                "{path}.secret: Invalid value: \"REDACTED\": it has 5 bytes, and a key of \
                 aesgcm has 16 or 24 or 32"
            ),
        ),
        (
            "{name: a, secret: 1234567}".to_owned(),
            format!("{path}.secret: Forbidden: text"),
        ),
    ] {
        let told = faults(
            "[secrets]",
            &format!("[identity: {{}}, aesgcm: {{keys: [{key}]}}]")
                .replace("identity: {}, aesgcm", "{identity: {}}, {aesgcm")
                .replace("]}]", "]}}]"),
        );
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&expected), "{key}: {told:?}");
    }
    let short = format!("[secretbox: {{keys: [{{name: a, secret: {SHORT}}}]}}]");
    let told = faults("[secrets]", &short);
    assert!(
        told[0].contains("it has 16 bytes, and a key of secretbox has 32"),
        "{told:?}"
    );
}

#[test]
fn no_message_shows_a_secret_en_16() {
    const HIDDEN: &str = "c2VjcmV0c2VjcmV0c2VjcmV0";
    for key in [
        format!("{{name: a, secret: {HIDDEN}}}"),
        format!("{{name: a, secret: {HIDDEN}!}}"),
        format!("{{name: a, secret: [{HIDDEN}]}}"),
        format!("{{name: a, secret: {{{HIDDEN}: 1}}}}"),
        format!("{{name: a, {HIDDEN}: b}}"),
        format!("{{name: a, secret: \"{HIDDEN}}}"),
        format!("{{name: a, secret: {HIDDEN}, secret: {HIDDEN}}}"),
        format!("{{name: a, secret: *{HIDDEN}}}"),
        format!("{{name: a, secret: !{HIDDEN} 1}}"),
        HIDDEN.to_owned(),
    ] {
        let provider = format!("[secretbox: {{keys: [{key}]}}]");
        let told = faults("[secrets]", &provider).join("\n");
        assert!(!told.contains(HIDDEN), "{key}: {told}");
    }
    let shown = format!("{:?}", Secret(Zeroizing::new(HIDDEN.as_bytes().to_vec())));
    assert_eq!(shown, REDACTED);
}

/// The pieces of secrets that messages must not show.
fn pieces(secrets: &[&str]) -> Vec<String> {
    let windows = secrets
        .iter()
        .flat_map(|secret| secret.as_bytes().windows(16));
    windows
        .map(|window| String::from_utf8(window.to_vec()).unwrap())
        .collect()
}

proptest::proptest! {
    /// No error shows a secret, however the file is damaged and wherever its secrets move.
    #[test]
    fn no_message_shows_a_secret_whatever_is_wrong_with_the_file_en_16(
        changes in proptest::collection::vec((0usize..600, 0usize..40, "[-a \n:{}\\[\\],\"'#&*!|>%@0A]{0,3}"), 1..6)
    ) {
        const SECRETS: [&str; 2] =
            ["q3Z8Xh0lT1dHk9sYv7B2mNcR5eWpJ4uFgOaLxD6iVbU=", "Zk7Qw2Rt9Yu4Io1PaSdFgA=="];
        let mut text = format!(
            "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n\
             - resources:\n  - secrets\n  - configmaps\n  providers:\n  - secretbox:\n      keys:\n\
             \x20     - name: key1\n        secret: {}\n  - aesgcm:\n      keys:\n\
             \x20     - {{name: key2, secret: {}}}\n  - identity: {{}}\n",
            SECRETS[0], SECRETS[1]
        );
        proptest::prop_assert!(Configuration::parse(&text).is_ok());
        for (at, length, instead) in changes {
            let at = at % text.len();
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &instead);
            if text.is_empty() {
                text.push(' ');
            }
        }
        if let Err(faults) = Configuration::parse(&text) {
            let told = faults.join("\n");
            for piece in pieces(&SECRETS) {
                proptest::prop_assert!(!told.contains(&piece), "{}\n{}", told, text);
            }
        }
    }
}

#[test]
fn base64_may_be_broken_into_lines() {
    let (first, second) = LONG.split_at(20);
    let key = format!("{{name: a, secret: \"{first}\\n{second}\\r\\n\"}}");
    let text = file(&entry(
        "[secrets]",
        &format!("[secretbox: {{keys: [{key}]}}]"),
    ));
    assert!(Configuration::parse(&text).is_ok(), "{text}");
}
