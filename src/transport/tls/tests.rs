//! Tests of the certificates over several starts.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::config::{FilePath, Names};

fn config(folder: &Path) -> Config {
    Config {
        data_dir: FilePath::from(folder),
        ..Config::default()
    }
}

fn file(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join("pki").join(name)).unwrap()
}

#[test]
fn certificates_are_made_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let first = Tls::load_or_create(&config).unwrap();
    let leaf = file(folder.path(), "apiserver.crt");
    let second = Tls::load_or_create(&config).unwrap();
    assert_eq!(first.trust_pem(), second.trust_pem());
    assert_eq!(first.trust_pem(), file(folder.path(), "ca.crt"));
    assert_eq!(leaf, file(folder.path(), "apiserver.crt"));
}

#[test]
fn every_file_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    Tls::load_or_create(&config(folder.path())).unwrap();
    let pki = folder.path().join("pki");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&pki), 0o700);
    let mut names: Vec<_> = std::fs::read_dir(&pki)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .inspect(|path| assert_eq!(mode(path), 0o600, "{path:?}"))
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["apiserver.crt", "apiserver.key", "ca.crt", "ca.key"]
    );
}

#[test]
fn a_new_name_makes_a_new_certificate_of_the_same_authority() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let before = Tls::load_or_create(&config).unwrap();
    let leaf = file(folder.path(), "apiserver.crt");
    config.tls_san = Names(vec!["api.example".to_owned()]);
    let after = Tls::load_or_create(&config).unwrap();
    assert_eq!(before.trust_pem(), after.trust_pem());
    assert_ne!(leaf, file(folder.path(), "apiserver.crt"));
}

#[test]
fn a_crash_between_two_files_is_mended() {
    for lost in ["apiserver.crt", "apiserver.key"] {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let before = Tls::load_or_create(&config).unwrap();
        std::fs::remove_file(folder.path().join("pki").join(lost)).unwrap();
        let after = Tls::load_or_create(&config).unwrap();
        assert_eq!(before.trust_pem(), after.trust_pem(), "{lost}");
    }
}

#[test]
fn an_authority_without_its_key_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    Tls::load_or_create(&config).unwrap();
    std::fs::remove_file(folder.path().join("pki/ca.key")).unwrap();
    let refusal = Tls::load_or_create(&config).err().unwrap().to_string();
    assert!(
        refusal.contains("ca.key: the authority's key is missing"),
        "{refusal}"
    );
}

#[test]
fn damaged_files_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    Tls::load_or_create(&config).unwrap();
    std::fs::write(folder.path().join("pki/ca.crt"), "nonsense").unwrap();
    let refusal = Tls::load_or_create(&config).err().unwrap().to_string();
    assert!(refusal.contains("ca.crt: "), "{refusal}");
}

fn presented(tls: &Tls) -> String {
    tls.loaded.lock().presented.chain_pem.clone()
}

#[test]
fn a_reload_takes_what_can_be_used_and_renews_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let tls = Tls::load_or_create(&config(folder.path())).unwrap();
    let (before, config_before) = (presented(&tls), tls.server_config().load_full());
    assert_eq!(tls.reload().unwrap(), TlsReload::default());
    assert!(Arc::ptr_eq(
        &config_before,
        &tls.server_config().load_full()
    ));
    std::fs::remove_file(folder.path().join("pki/apiserver.crt")).unwrap();
    let reload = tls.reload().unwrap();
    assert!(reload.certificate && !reload.client_authorities);
    assert_ne!(before, presented(&tls));
    assert!(!Arc::ptr_eq(
        &config_before,
        &tls.server_config().load_full()
    ));
}

#[test]
fn files_that_do_not_fit_together_change_nothing() {
    let [one, other, served] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    for folder in [&one, &other] {
        Tls::load_or_create(&config(folder.path())).unwrap();
    }
    let (certificate, key) = (served.path().join("tls.crt"), served.path().join("tls.key"));
    let copy = |from: &Path, name: &str, to: &Path| {
        std::fs::copy(from.join("pki").join(name), to).unwrap();
    };
    copy(one.path(), "apiserver.crt", &certificate);
    copy(one.path(), "apiserver.key", &key);
    let tls = Tls::load_or_create(&Config {
        tls_cert_file: FilePath::from(certificate.clone()),
        tls_private_key_file: FilePath::from(key.clone()),
        ..config(served.path())
    });
    let tls = tls.unwrap();
    assert_eq!(tls.followed(), [certificate.clone(), key.clone()]);
    copy(other.path(), "apiserver.crt", &certificate);
    let refusal = tls.reload().unwrap_err().to_string();
    assert!(refusal.contains("--tls-cert-file="), "{refusal}");
    assert_eq!(presented(&tls), file(one.path(), "apiserver.crt"));
    copy(other.path(), "apiserver.key", &key);
    assert!(tls.reload().unwrap().certificate);
    assert_eq!(tls.trust_pem(), file(other.path(), "apiserver.crt"));
}

#[test]
fn a_file_of_client_authorities_that_can_not_be_used_is_refused_by_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clients.crt");
    let config = Config {
        client_ca_file: FilePath::from(path.clone()),
        ..config(folder.path())
    };
    let refusal = || Tls::load_or_create(&config).err().unwrap().to_string();
    assert!(refusal().contains("--client-ca-file="), "{}", refusal());
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, told) in [
        ("", "holds no certificate"),
        (nonsense, "certificate 1 can't be used"),
    ] {
        std::fs::write(&path, text).unwrap();
        assert!(refusal().contains(told), "{}", refusal());
    }
    let other = tempfile::tempdir().unwrap();
    Tls::load_or_create(&self::config(other.path())).unwrap();
    std::fs::copy(other.path().join("pki/ca.crt"), &path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    assert!(
        refusal().contains("others than its owner can write it"),
        "{}",
        refusal()
    );
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let tls = Tls::load_or_create(&config).unwrap();
    assert_eq!(
        tls.client_authorities().len(),
        2,
        "the daemon's own and that of the file"
    );
    std::fs::write(&path, "").unwrap();
    assert!(tls.reload().is_err());
    assert_eq!(tls.client_authorities().len(), 2);
}

#[test]
fn an_operators_own_certificate_is_served_instead() {
    let folder = tempfile::tempdir().unwrap();
    Tls::load_or_create(&config(folder.path())).unwrap();
    let pki = folder.path().join("pki");
    let elsewhere = tempfile::tempdir().unwrap();
    let tls = Tls::load_or_create(&Config {
        tls_cert_file: FilePath::from(pki.join("apiserver.crt")),
        tls_private_key_file: FilePath::from(pki.join("apiserver.key")),
        ..config(elsewhere.path())
    })
    .unwrap();
    assert_eq!(tls.trust_pem(), file(folder.path(), "apiserver.crt"));
    // The daemon's own authority signs client certificates.
    assert!(elsewhere.path().join("pki/ca.crt").exists());
}
