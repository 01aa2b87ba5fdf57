//! Rules, choices and reloads as storage uses them.

use std::path::PathBuf;
use std::time::Duration;

use super::*;

/// Keys of 32 bytes in base64.
const KEY_1: &str = "MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=";
const KEY_2: &str = "MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjI=";

/// A file of rules in a folder of its own.
struct File {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl File {
    fn new(resources: &str) -> File {
        let folder = tempfile::tempdir().unwrap();
        let file = File {
            path: folder.path().join("encryption.yaml"),
            _folder: folder,
        };
        file.write(resources);
        file
    }

    fn write(&self, resources: &str) {
        let text = format!("kind: EncryptionConfig\napiVersion: v1\nresources:\n{resources}");
        std::fs::write(&self.path, text).unwrap();
    }

    fn load(&self) -> Encryption {
        Encryption::load(&self.path).unwrap()
    }
}

/// An element for some resources, with providers such as `aesgcm:new=2,old=1` and `identity`.
fn entry(names: &str, providers: &[&str]) -> String {
    let mut text = format!("- resources: [{names}]\n  providers:\n");
    for provider in providers {
        let Some((algorithm, keys)) = provider.split_once(':') else {
            text += &format!("  - {provider}: {{}}\n");
            continue;
        };
        text += &format!("  - {algorithm}:\n      keys:\n");
        for key in keys.split(',') {
            let (name, secret) = key.split_once('=').unwrap();
            let secret = if secret == "1" { KEY_1 } else { KEY_2 };
            text += &format!("      - {{name: '{name}', secret: '{secret}'}}\n");
        }
    }
    text
}

fn key() -> Key {
    Key::new("/registry/secrets/default/a")
}

fn written(encryption: &Encryption) -> Bytes {
    let secrets = encryption.transformer_for("", "secrets");
    secrets
        .transform_to_storage(&key(), b"plain".to_vec())
        .unwrap()
}

/// Whether what is read is stale.
fn stale(encryption: &Encryption, stored: &Bytes) -> Result<bool, String> {
    let secrets = encryption.transformer_for("", "secrets");
    let (plain, is_stale) = secrets
        .transform_from_storage(&key(), stored)
        .map_err(|error| error.to_string())?;
    assert_eq!(plain, "plain");
    Ok(is_stale)
}

fn by(providers: &[&str]) -> Encryption {
    File::new(&entry("secrets", providers)).load()
}

#[test]
fn values_begin_with_provider_and_key_en_2_en_5() {
    for (provider, prefix) in [
        ("aesgcm:k=1", "k8s:enc:aesgcm:v1:k:"),
        ("aescbc:k=1", "k8s:enc:aescbc:v1:k:"),
        ("secretbox:k=1,other=2", "k8s:enc:secretbox:v1:k:"),
    ] {
        let stored = written(&by(&[provider, "identity"]));
        assert!(stored.starts_with(prefix.as_bytes()), "{provider}");
        assert!(
            !stored.windows(5).any(|window| window == b"plain"),
            "{provider}"
        );
    }
    assert_eq!(written(&by(&["identity", "aesgcm:k=1"])), "plain");
    assert_eq!(written(&Encryption::none()), "plain");
}

#[test]
fn what_another_than_the_first_provider_and_key_wrote_is_stale_en_6() {
    let old = written(&by(&["aesgcm:old=1"]));
    for (providers, is_stale) in [
        (&["aesgcm:old=1"][..], false),
        (&["aesgcm:old=1,new=2", "identity"], false),
        (&["aesgcm:new=2,old=1"], true),
        (&["secretbox:new=2", "aesgcm:old=1"], true),
        (&["aesgcm:new=2", "aesgcm:old=1"], true),
        (&["identity", "aesgcm:old=1"], true),
    ] {
        assert_eq!(stale(&by(providers), &old), Ok(is_stale), "{providers:?}");
    }
    let plain = Bytes::from_static(b"plain");
    assert_eq!(stale(&by(&["aesgcm:k=1", "identity"]), &plain), Ok(true));
    assert_eq!(stale(&by(&["identity", "aesgcm:k=1"]), &plain), Ok(false));
}

#[test]
fn keys_of_one_name_are_tried_until_one_fits_en_4() {
    let old = written(&by(&["aesgcm:k=1"]));
    assert_eq!(stale(&by(&["aesgcm:k=2", "aesgcm:k=1"]), &old), Ok(true));
    assert_eq!(stale(&by(&["aesgcm:k=2,k=1"]), &old), Ok(true));
    // The name of a key may hold colons, so that one looks like the beginning of another.
    let colon = written(&by(&["aesgcm:k:b=1"]));
    assert_eq!(stale(&by(&["aesgcm:k=2,k:b=1"]), &colon), Ok(true));
}

#[test]
fn what_can_not_be_read_says_where_it_is_and_which_key_it_wants_en_3_en_4() {
    let old = written(&by(&["aesgcm:old=1"]));
    for (encryption, expected) in [
        (
            by(&["aesgcm:old=2"]),
            "k8s:enc:aesgcm:v1:old: the key is not the one",
        ),
        (
            by(&["aesgcm:new=2", "identity"]),
            "k8s:enc:aesgcm:v1:old: this key is not among those configured",
        ),
        (
            by(&["secretbox:new=2"]),
            "it was written by k8s:enc:aesgcm:v1:old:, which",
        ),
        (
            by(&["identity"]),
            "it was written by k8s:enc:aesgcm:v1:old:, which",
        ),
        (
            by(&["aesgcm:old=2", "aesgcm:new=1"]),
            "k8s:enc:aesgcm:v1:old: the key is not the one it was encrypted with, or the value \
             was changed or moved here from another key; k8s:enc:aesgcm:v1:old: this key is not",
        ),
        (
            Encryption::none(),
            "it is encrypted, and no key for it is configured",
        ),
    ] {
        let told = stale(&encryption, &old).unwrap_err();
        assert!(
            told.starts_with("the value of /registry/secrets/default/a can't be"),
            "{told}"
        );
        assert!(told.contains(expected), "{told}");
    }
    let plain = Bytes::from_static(b"plain");
    let told = stale(&by(&["aesgcm:old=1"]), &plain).unwrap_err();
    assert!(
        told.contains("it is not encrypted, and the encryption configuration has"),
        "{told}"
    );
    for odd in [
        &b"k8s:enc:"[..],
        b"k8s:enc:\xff:v1:a:",
        b"k8s:enc:aesgcm:v1:",
        b"k8s:enc:a\n:v:b:",
    ] {
        let told = stale(&by(&["aesgcm:old=1", "identity"]), &Bytes::from(odd)).unwrap_err();
        assert!(!told.contains('\n'), "{told}");
    }
}

#[test]
fn a_resource_has_its_own_rule_before_its_groups_and_that_for_all_en_14() {
    let text = [
        entry("secrets", &["secretbox:own=1"]),
        entry("'*.'", &["secretbox:core=1"]),
        entry("deployments.apps", &["secretbox:deploy=1"]),
        entry("'*.*'", &["secretbox:all=1"]),
    ];
    let encryption = File::new(&text.concat()).load();
    for (group, plural, prefix) in [
        ("", "secrets", "k8s:enc:secretbox:v1:own:"),
        ("", "pods", "k8s:enc:secretbox:v1:core:"),
        ("apps", "deployments", "k8s:enc:secretbox:v1:deploy:"),
        ("apps", "secrets", "k8s:enc:secretbox:v1:all:"),
        ("batch", "jobs", "k8s:enc:secretbox:v1:all:"),
    ] {
        let transformer = encryption.transformer_for(group, plural);
        let stored = transformer
            .transform_to_storage(&key(), b"plain".to_vec())
            .unwrap();
        assert!(
            stored.starts_with(prefix.as_bytes()),
            "{plural}.{group}: {stored:?}"
        );
    }
    let encryption = File::new(&entry("secrets, '*.apps'", &["secretbox:k=1"])).load();
    for (group, plural) in [("", "pods"), ("batch", "secrets")] {
        let transformer = encryption.transformer_for(group, plural);
        let stored = transformer
            .transform_to_storage(&key(), b"plain".to_vec())
            .unwrap();
        assert_eq!(stored, "plain", "{plural}.{group}");
        // Encrypted values of a resource without a rule are not read (EN-3).
        assert!(
            transformer
                .transform_from_storage(&key(), &written(&encryption))
                .is_err()
        );
    }
}

#[test]
fn a_resource_in_several_elements_has_the_providers_of_all_en_15() {
    let old = written(&by(&["aesgcm:old=1"]));
    let text = entry("secrets", &["secretbox:new=1"]) + &entry("pods, secrets", &["aesgcm:old=1"]);
    assert_eq!(stale(&File::new(&text).load(), &old), Ok(true));
}

#[test]
fn a_masked_resource_is_refused_and_the_phase_is_told_en_15_sf_32() {
    for (first, second) in [
        ("'*.'", "secrets"),
        ("'*.*'", "secrets"),
        ("'*.*'", "'*.apps'"),
        ("'*.apps'", "deployments.apps"),
        ("'*.apps'", "'*.apps'"),
    ] {
        let text = entry(first, &["identity"]) + &entry(second, &["identity"]);
        let file = File::new(&text);
        let refusal = Encryption::load(&file.path)
            .map(|_| ())
            .unwrap_err()
            .to_string();
        let lead = format!(
            "--encryption-provider-config={}: error while building the transformers: \
             resources[1].resources[0]: ",
            file.path.display()
        );
        assert!(refusal.starts_with(&lead), "{refusal}");
        assert!(refusal.contains("is masked by"), "{refusal}");
    }
    let text = entry("secrets", &["identity"]) + &entry("'*.'", &["identity"]);
    File::new(&(text + &entry("'*.*'", &["identity"]))).load();
}

#[test]
fn a_file_that_can_not_be_used_is_told_in_one_line_sf_32() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("encryption.yaml");
    let refusal = || {
        let refusal = Encryption::load(&path).map(|_| ()).unwrap_err().to_string();
        let lead = format!(
            "--encryption-provider-config={}: error while parsing the file: ",
            path.display()
        );
        assert!(!refusal.contains('\n'), "{refusal}");
        refusal.strip_prefix(&lead).unwrap().to_owned()
    };
    assert!(refusal().starts_with("it can't be read: No such file"));
    std::fs::write(&path, " \n").unwrap();
    assert_eq!(refusal(), "it is empty");
    std::fs::write(&path, b"\xff").unwrap();
    assert_eq!(refusal(), "it is not valid UTF-8");
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    assert_eq!(refusal(), "it is longer than 1048576 bytes");
    std::fs::write(
        &path,
        "kind: EncryptionConfig\napiVersion: v1\nresources: [{}, 1]",
    )
    .unwrap();
    assert_eq!(
        refusal(),
        "resources[0].resources: Required value: at least one is needed; \
         resources[0].providers: Required value: at least one is needed; \
         resources[1]: Forbidden: a mapping is expected, and this is a number; text that looks \
         like one needs quotes; \
         resources[1].resources: Required value: at least one is needed; \
         resources[1].providers: Required value: at least one is needed"
    );
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(refusal(), "it is a directory and not a regular file");
}

#[test]
fn a_reload_exchanges_what_was_handed_out_and_nothing_when_the_file_is_wrong_en_17() {
    let file = File::new(&entry("secrets", &["aesgcm:old=1"]));
    let encryption = file.load();
    let old = written(&encryption);
    assert_eq!(encryption.reload(), Ok(Reload::Unchanged));
    assert_eq!(encryption.generation(), 0);

    file.write(&entry("secrets", &["aesgcm:new=2,old=1"]));
    assert_eq!(encryption.reload(), Ok(Reload::Reloaded));
    assert_eq!(encryption.generation(), 1);
    assert_eq!(stale(&encryption, &old), Ok(true));
    let new = written(&encryption);
    assert!(new.starts_with(b"k8s:enc:aesgcm:v1:new:"));
    assert_eq!(encryption.reload(), Ok(Reload::Unchanged));

    for wrong in ["- resources: [secrets]\n", "", "- 1\n"] {
        file.write(wrong);
        assert!(encryption.reload().is_err(), "{wrong}");
        assert_eq!(stale(&encryption, &new), Ok(false));
        assert_eq!(stale(&encryption, &old), Ok(true));
    }
    std::fs::remove_file(&file.path).unwrap();
    assert!(encryption.reload().is_err());
    assert_eq!(encryption.generation(), 1);

    // A resource without a rule gets one, and the other way round.
    file.write(&entry("pods", &["identity"]));
    assert_eq!(encryption.reload(), Ok(Reload::Reloaded));
    assert_eq!(written(&encryption), "plain");
    assert!(stale(&encryption, &new).is_err());
    assert_eq!(Encryption::none().reload(), Ok(Reload::NotConfigured));
}

#[tokio::test]
async fn a_followed_file_is_looked_at_again_and_again_whatever_went_wrong_en_17() {
    let file = File::new(&entry("secrets", &["aesgcm:old=1"]));
    let encryption = file.load();
    let following = tokio::spawn(follow(encryption.clone(), Duration::from_millis(5)));
    let turns_to = async |prefix: &str| {
        while !written(&encryption).starts_with(prefix.as_bytes()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    for (resources, prefix) in [
        (
            entry("secrets", &["aesgcm:new=2,old=1"]),
            "k8s:enc:aesgcm:v1:new:",
        ),
        (
            entry("secrets", &["secretbox:k=1"]),
            "k8s:enc:secretbox:v1:k:",
        ),
    ] {
        file.write("- 1\n");
        tokio::time::sleep(Duration::from_millis(20)).await;
        file.write(&resources);
        let turned = tokio::time::timeout(Duration::from_secs(20), turns_to(prefix)).await;
        assert!(turned.is_ok(), "{prefix}");
    }
    following.abort();
}

#[test]
fn resources_that_nobody_serves_are_named() {
    let encryption = File::new(&entry("secret, pods, '*.apps'", &["identity"])).load();
    encryption.transformer_for("", "secrets");
    encryption.transformer_for("", "pods");
    assert_eq!(encryption.unknown_resources(), ["secret"]);
    assert!(Encryption::none().unknown_resources().is_empty());
}

#[test]
fn the_digest_of_the_file_in_use_is_told_me_51_me_52_me_53() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let digests = ::metrics::with_local_recorder(&recorder, || {
        let file = File::new(&entry("secrets", &["aesgcm:old=1"]));
        let digest = || file::digest(&std::fs::read(&file.path).unwrap());
        let first = digest();
        let encryption = file.load();
        file.write("- 1\n");
        encryption.reload().unwrap_err();
        file.write(&entry("secrets", &["aesgcm:new=2,old=1"]));
        encryption.reload().unwrap();
        [first, digest()]
    });
    let text = recorder.handle().render();
    for (digest, used) in digests.iter().zip(["0", "1"]) {
        let told = text.lines().find(|line| line.contains(digest)).unwrap();
        assert!(told.ends_with(&format!("}} {used}")), "{told}");
        assert!(told.starts_with(reload::CONFIG_INFO), "{told}");
    }
    for status in ["success", "failure"] {
        let line = format!("{}{{status=\"{status}\",", reload::RELOADS);
        let told = text.lines().find(|told| told.starts_with(&line)).unwrap();
        assert!(told.ends_with("} 1"), "{told}");
        let line = format!("{}{{status=\"{status}\",", reload::LAST_RELOAD);
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn what_is_transformed_is_counted_by_prefix_and_outcome_me_40_me_41_me_71() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    ::metrics::with_local_recorder(&recorder, || {
        let encryption = by(&["aesgcm:new=2,old=1", "identity"]);
        let old = written(&by(&["aesgcm:old=1"]));
        let foreign = written(&by(&["secretbox:k=1"]));
        let wrong = written(&by(&["aesgcm:new=1"]));
        written(&encryption);
        stale(&encryption, &old).unwrap();
        stale(&encryption, &Bytes::from_static(b"plain")).unwrap();
        stale(&encryption, &foreign).unwrap_err();
        stale(&encryption, &wrong).unwrap_err();
    });
    let text = recorder.handle().render();
    for (transformation, prefix, status, count) in [
        ("to_storage", "k8s:enc:aesgcm:v1:", "OK", 3),
        ("to_storage", "new:", "OK", 2),
        ("from_storage", "k8s:enc:aesgcm:v1:", "OK", 1),
        ("from_storage", "old:", "OK", 1),
        ("from_storage", "identity", "OK", 1),
        ("from_storage", "unknown", "unknown-non-grpc", 1),
        ("from_storage", "k8s:enc:aesgcm:v1:", "unknown-non-grpc", 1),
        ("from_storage", "new:", "unknown-non-grpc", 1),
    ] {
        let line = format!(
            "apiserver_storage_transformation_operations_total{{resource=\"secrets\",\
             transformation_type=\"{transformation}\",transformer_prefix=\"{prefix}\",\
             status=\"{status}\"}} {count}"
        );
        assert!(text.contains(&line), "{line}\n{text}");
    }
    let seconds = "apiserver_storage_transformation_duration_seconds_count\
                   {transformation_type=\"from_storage\",transformer_prefix=\"old:\"} 1";
    assert!(text.contains(seconds), "{text}");
}
