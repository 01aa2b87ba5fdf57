//! Kubeconfigs of webhooks (AC-24, HK-98).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::server::split;
use super::*;

const KEY: &str = "-----BEGIN PRIVATE KEY-----";

/// A folder with a kubeconfig of these members of its cluster and its user.
fn written(cluster: &str, user: &str) -> (tempfile::TempDir, PathBuf) {
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {{{cluster}}}\n\
         users:\n- name: u\n  user: {{{user}}}\ncontexts:\n- name: x\n  context: {{cluster: c, \
         user: u}}\ncurrent-context: x\n"
    );
    of_text(&text)
}

fn of_text(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hook.kubeconfig");
    std::fs::write(&file, text).unwrap();
    (folder, file)
}

/// A certificate and its key in PEM.
fn certified() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["hook".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

/// The fault that loading reports.
fn fault(cluster: &str, user: &str) -> String {
    let (_folder, file) = written(cluster, user);
    fault_of(&file)
}

fn fault_of(file: &Path) -> String {
    let error = Server::load(file).err().unwrap();
    assert_eq!(error.file, file);
    assert_eq!(
        error.to_string(),
        format!("{}: {}", file.display(), error.problem)
    );
    error.problem
}

#[test]
fn the_type_of_kubeconfigs_is_known_ac_24() {
    assert!(CONFIG.found().is_some());
}

#[test]
fn the_path_is_kept_and_the_query_dropped_ac_24() {
    for (server, uses_tls, origin, path) in [
        ("https://h:1/authorize", false, "https://h:1", "/authorize"),
        ("https://h/a/b/?x=y#z", false, "https://h", "/a/b"),
        ("https://h", false, "https://h", "/"),
        ("http://h//a/./../b", true, "http://h", "/b"),
        ("h:1/a", true, "https://h:1", "/a"),
        ("h:1/a", false, "http://h:1", "/a"),
        ("https://[::1]:1/a", false, "https://[::1]:1", "/a"),
    ] {
        let expected = Some((origin.to_owned(), path.to_owned()));
        assert_eq!(split(server, uses_tls), expected, "{server}");
    }
    assert_eq!(split("https://", true), None);
    assert_eq!(split("https://a b", true), None);
}

#[test]
fn a_complete_kubeconfig_is_read_with_its_files_ac_24() {
    let (certificate, key) = certified();
    let (folder, file) = written(
        "server: 'https://127.0.0.1:9/x?y', certificate-authority: ca.pem, tls-server-name: hook",
        "client-certificate: c.pem, client-key: k.pem, tokenFile: token",
    );
    for (name, content) in [
        ("ca.pem", &certificate),
        ("c.pem", &certificate),
        ("k.pem", &key),
    ] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    std::fs::write(folder.path().join("token"), "secret\n").unwrap();
    let server = Server::load(&file).unwrap();
    assert_eq!(server.path(), "/x");
    assert_eq!(server.target.files(), 4);
    let (target, _) = server.target.looked();
    assert_eq!(format!("{target:?}"), "Target(https://127.0.0.1:9)");
}

#[test]
fn parts_can_be_in_the_kubeconfig_itself_ac_24() {
    let (certificate, key) = certified();
    let [certificate, key] = [certificate, key].map(|pem| STANDARD.encode(pem));
    let cluster = format!("server: 'https://h', certificate-authority-data: {certificate}");
    let user = format!("client-certificate-data: {certificate}, client-key-data: {key}");
    for user in [&*user, "token: t", "username: u, password: p", ""] {
        let (_folder, file) = written(&cluster, user);
        let server = Server::load(&file).unwrap();
        assert_eq!((server.path(), server.target.files()), ("/", 0));
    }
}

#[test]
fn a_context_without_a_user_has_no_credentials_ac_24() {
    let text = "clusters:\n- name: c\n  cluster: {server: 'http://h/p'}\ncontexts:\n- name: x\n  \
                context: {cluster: c}\ncurrent-context: x\n";
    let (_folder, file) = of_text(text);
    assert_eq!(Server::load(&file).unwrap().path(), "/p");
}

#[test]
fn faults_name_the_member_and_show_no_secret_ac_24() {
    let server = "server: 'https://h'";
    for (cluster, user, expected) in [
        ("", "", "no server found for cluster \"c\""),
        (
            "server: 'ftp://h'",
            "",
            "the URL must have the scheme http or https",
        ),
        (
            "server: 'https://u@h'",
            "",
            "the URL must have the scheme http or https and a host, and no user",
        ),
        (
            "server: 'https://'",
            "",
            "server \"https://\" of cluster \"c\" is not a URL",
        ),
        (
            "server: 1",
            "",
            "json: cannot unmarshal number into Go struct field Cluster.clusters.cluster.server of type string",
        ),
        (
            "server: 'https://h', proxy-url: 'http://p'",
            "",
            "proxy-url of cluster \"c\" is not supported",
        ),
        (
            server,
            "exec: {command: c}",
            "exec of user \"u\" is not supported",
        ),
        (
            server,
            "auth-provider: {name: gcp}",
            "auth-provider of user \"u\" is not supported",
        ),
        (server, "as: root", "as of user \"u\" is not supported"),
        (
            server,
            "as-groups: [g]",
            "as-groups of user \"u\" is not supported",
        ),
        (
            server,
            "token: t, username: me",
            "more than one authentication method found for u; found [token basicAuth], only one is allowed",
        ),
        (server, "token: 'a\u{1}'", "it is neither YAML nor JSON"),
        (server, r#"token: "schl\x01""#, "cluster \"c\", user \"u\""),
        (
            server,
            "client-certificate: c",
            "client-key-data or client-key must be specified for u to use the clientCert authentication method",
        ),
        (
            server,
            "client-key: c",
            "client-certificate-data or client-certificate must be specified for u",
        ),
        (
            server,
            "client-key: c, client-key-data: QQ==, client-certificate: x",
            "client-key-data and client-key are both specified for u",
        ),
        (server, "tokenFile: none", "tokenFile "),
        (
            "server: 'https://h', certificate-authority: none",
            "",
            "certificate-authority ",
        ),
        (
            "server: 'https://h', certificate-authority-data: QQ==",
            "",
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        (
            "server: 'https://h', certificate-authority-data: QQ==, insecure-skip-tls-verify: true",
            "",
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            "server: 'https://h', certificate-authority: a, certificate-authority-data: QQ==",
            "",
            "certificate-authority-data and certificate-authority are both specified for c",
        ),
    ] {
        let found = fault(cluster, user);
        let is_expected = found.starts_with(expected) || found.contains(&format!(": {expected}"));
        assert!(is_expected, "{cluster} {user}: {found}");
        assert!(!found.contains("schl") && !found.contains(KEY), "{found}");
    }
    let secret = STANDARD.encode(KEY);
    let user = format!("client-certificate-data: QQ==, client-key-data: {secret}");
    let found = fault("server: 'https://h'", &user);
    assert!(!found.contains(&secret) && !found.contains(KEY), "{found}");
}

#[test]
fn names_without_an_entry_are_told_apart_ac_24() {
    let head = "clusters:\n- name: c\n  cluster: {server: 'http://h'}\n";
    for (rest, expected) in [
        ("", "current-context is not set"),
        (
            "current-context: x\n",
            "context was not found for specified context: x",
        ),
        (
            "contexts:\n- name: x\n  context: {cluster: d}\ncurrent-context: x\n",
            "cluster \"d\" was not found for context \"x\"",
        ),
        (
            "contexts:\n- name: x\n  context: {cluster: c, user: v}\ncurrent-context: x\n",
            "user \"v\" was not found for context \"x\"",
        ),
        ("kind: Pod\n", "it is not of kind Config and apiVersion v1"),
    ] {
        let (_folder, file) = of_text(&format!("{head}{rest}"));
        assert_eq!(fault_of(&file), expected, "{rest}");
    }
    let (folder, file) = of_text("[]");
    assert_eq!(fault_of(&file), "it is not an object");
    let missing = folder.path().join("none");
    assert!(fault_of(&missing).starts_with("No such file"));
}

#[test]
fn a_kubeconfig_that_others_can_write_is_refused_ac_24() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, file) = written("server: 'http://h'", "");
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&file, open).unwrap();
    let found = fault_of(&file);
    assert!(
        found.contains("others than its owner can write it"),
        "{found}"
    );
}

#[test]
fn a_changed_token_is_used_and_a_missing_one_is_not_missed_ac_24() {
    let (folder, file) = written("server: 'http://h'", "tokenFile: token");
    let token = folder.path().join("token");
    std::fs::write(&token, "one").unwrap();
    let server = Server::load(&file).unwrap();
    let (before, _) = server.target.looked();
    let (same, _) = server.target.looked();
    assert!(Arc::ptr_eq(&before, &same), "unchanged");
    std::fs::write(&token, "other").unwrap();
    let (after, _) = server.target.looked();
    assert!(!Arc::ptr_eq(&before, &after), "another token");
    std::fs::remove_file(&token).unwrap();
    let (last, is_due) = server.target.looked();
    assert!(Arc::ptr_eq(&after, &last), "the last one");
    assert!(!is_due, "files are looked at once a minute");
}
