//! kubectl of ordinary users, in each tested version: certificates that they request, and requests
//! as somebody else, by flags and by a kubeconfig.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use serde_json::{Value, json};

use crate::harness::{Call, Kubectl};
use crate::kubectl_access::{Shop, refused, says, with_each_kubectl};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const REQUEST: &str = "certificatesigningrequests.certificates.k8s.io";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Bob may approve requests once he may also `approve` for their signer.
const APPROVER: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: approver}
rules:
- {apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [get]}
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests/approval]
  verbs: [update]
";
const APPROVES: &str = "\
- {apiGroups: [certificates.k8s.io], resources: [signers], resourceNames: [NAME], verbs: [approve]}
";

/// Ada may act as carol, as a member of crew, and as an account. A version of kubectl before 1.32
/// knows no uids.
const ACTOR: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: actor}
rules:
- {apiGroups: [''], resources: [users], resourceNames: [carol], verbs: [impersonate]}
- {apiGroups: [''], resources: [groups], resourceNames: [crew], verbs: [impersonate]}
- apiGroups: [authentication.k8s.io]
  resources: [uids]
  resourceNames: [u-1]
  verbs: [impersonate]
- apiGroups: [authentication.k8s.io]
  resources: [userextras/scopes]
  resourceNames: [view]
  verbs: [impersonate]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: actor, namespace: shop}
rules:
- {apiGroups: [''], resources: [serviceaccounts], resourceNames: [clerk], verbs: [impersonate]}
";

/// The certificate authority of an operator.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = parameters.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(parameters, key);
    Authority { issuer, pem }
}

/// A certificate of a client, before it is signed.
fn certificate(user: &str, group: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, user);
    name.push(DnType::OrganizationName, group);
    parameters.distinguished_name = name;
    parameters
}

fn manifest(name: &str, request: &str) -> String {
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": { "name": name },
        "spec": {
            "request": STANDARD.encode(request),
            "signerName": SIGNER,
            "usages": ["client auth", "digital signature"],
        },
    });
    object.to_string()
}

async fn apply(kubectl: &Kubectl, manifest: &str) {
    kubectl.ok_with(&["apply", "-f", "-"], manifest).await;
}

async fn bind(admin: &Kubectl, role: &str, user: &str) {
    let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
    let name = "as-the-test-wants";
    let _ = admin
        .run_with(
            &["delete", "clusterrolebinding", name, "--ignore-not-found"],
            "",
        )
        .await;
    let bind = ["create", "clusterrolebinding", name, &role, &user];
    admin.ok(&bind).await;
}

/// The rows of a table without their times.
fn states(table: &str) -> Vec<(String, String)> {
    let rows = table.lines().map(|row| {
        let mut words = row.split_whitespace();
        let (name, state) = (words.next(), words.last());
        (name.unwrap().to_owned(), state.unwrap().to_owned())
    });
    rows.collect()
}

/// AC-72, AC-73, API-277: a user requests a certificate, another one approves it, a signer signs
/// it, and it works.
async fn requests_certificates(version: &'static str) {
    let authority = authority();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.crt");
    std::fs::write(&path, &authority.pem).unwrap();
    let flag = format!("--client-ca-file={}", path.display());
    let Some(shop) = Shop::open_with(version, &[&flag]).await else {
        return;
    };
    let (admin, ada, bob) = (&shop.admin, &shop.ada, shop.user("bob", "t-bob"));
    let key = KeyPair::generate().unwrap();
    let request = |group: &str| {
        let parameters = certificate("carol", group);
        parameters.serialize_request(&key).unwrap().pem().unwrap()
    };
    for name in ["carol", "another"] {
        let made = ada
            .ok_with(&["create", "-f", "-"], &manifest(name, &request("crew")))
            .await;
        assert_eq!(
            made,
            format!("certificatesigningrequest.certificates.k8s.io/{name} created\n")
        );
    }
    let masters = manifest("masters", &request("system:masters"));
    let said = ada.fails_with(&["create", "-f", "-"], &masters).await;
    let expected = format!("use of {SIGNER} signer with system:masters group is not allowed\n");
    assert!(said.ends_with(&expected), "{said}");
    let who = "get csr carol -o jsonpath={.spec.username}:{.spec.groups[*]}";
    says(ada, who, "ada:crew dev system:authenticated").await;
    let forbidden = |user: &str, verb: &str, resource: &str| {
        format!(
            "{REQUEST} \"carol\" is forbidden: User \"{user}\" cannot {verb} resource \
             \"{resource}\" in API group \"certificates.k8s.io\" at the cluster scope"
        )
    };
    let approval = "certificatesigningrequests/approval";
    for action in ["approve", "deny"] {
        let command = format!("certificate {action} carol");
        refused(ada, &command, &forbidden("ada", "update", approval)).await;
    }
    let delete = forbidden("ada", "delete", "certificatesigningrequests");
    refused(ada, "delete csr carol", &delete).await;

    let get = forbidden("bob", "get", "certificatesigningrequests");
    refused(&bob, "certificate approve carol", &get).await;
    apply(admin, APPROVER).await;
    bind(admin, "approver", "bob").await;
    let permitted = |what: &str| {
        format!(
            "{REQUEST} \"carol\" is forbidden: user not permitted to {what} requests with \
             signerName \"{SIGNER}\""
        )
    };
    refused(&bob, "certificate approve carol", &permitted("approve")).await;
    apply(
        admin,
        &format!("{APPROVER}{}", APPROVES.replace("NAME", SIGNER)),
    )
    .await;
    let resource = "certificatesigningrequest.certificates.k8s.io";
    let said = format!("{resource}/carol approved\n");
    says(&bob, "certificate approve carol", &said).await;
    let said = format!("{resource}/another denied\n");
    says(&bob, "certificate deny another", &said).await;
    let said = bob.fails(&["certificate", "deny", "carol"]).await;
    assert_eq!(
        said,
        "error: certificate signing request \"carol\" is already Approved\n"
    );
    let listed = states(&ada.ok(&["get", "csr", "--no-headers"]).await);
    let expected = [("another", "Denied"), ("carol", "Approved")];
    assert_eq!(
        listed,
        expected.map(|(name, state)| (name.to_owned(), state.to_owned()))
    );

    sign(&shop, &authority, &key, &permitted("sign")).await;
    let signed = ada
        .ok(&[
            "get",
            "csr",
            "carol",
            "-o",
            "jsonpath={.status.certificate}",
        ])
        .await;
    let key = STANDARD.encode(key.serialize_pem());
    let of_carol = json!({ "client-certificate-data": signed, "client-key-data": key });
    let carol = shop.user_with("carol", &of_carol);
    // Her group may list them.
    let listed = states(&carol.ok(&["get", "csr", "--no-headers"]).await);
    let approved = ("carol".to_owned(), "Approved,Issued".to_owned());
    assert!(listed.contains(&approved), "{listed:?}");
    let no = "configmaps is forbidden: User \"carol\" cannot list resource \"configmaps\" in API \
              group \"\" in the namespace \"shop\"";
    refused(&carol, "get configmaps -n shop", no).await;
    if version != "1.20" {
        let who = carol.ok(&["auth", "whoami"]).await;
        assert!(
            who.contains("carol") && who.contains("[crew system:authenticated]"),
            "{who}"
        );
    }
}

/// Sue signs the certificate of carol once she may. Signers are programs, which use the API.
async fn sign(shop: &Shop, authority: &Authority, key: &KeyPair, refusal: &str) {
    let mut parameters = certificate("carol", "crew");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let signed = parameters.signed_by(key, &authority.issuer).unwrap().pem();
    let sue = shop.daemon.target().with_token("t-sue").client();
    let status = [
        "--verb=update",
        "--resource=certificatesigningrequests/status",
    ];
    let create = ["create", "clusterrole", "signer"];
    shop.admin.ok(&[&create[..], &status].concat()).await;
    bind(&shop.admin, "signer", "sue").await;
    let admin = shop.daemon.client();
    let path = format!("{REQUESTS}/carol");
    let mut request = admin.call(Call::get(&path)).await.expect(200);
    request["status"]["certificate"] = json!(STANDARD.encode(signed));
    let put = Call::put(&format!("{path}/status"), &request);
    let refused = sue.call(put.clone()).await.refusal(403, "Forbidden");
    assert_eq!(refused["message"], refusal);
    let rule = json!({
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": ["kubernetes.io/*"],
        "verbs": ["sign"],
    });
    let add = json!([{ "op": "add", "path": "/rules/-", "value": rule }]).to_string();
    let patch = ["patch", "clusterrole", "signer", "--type=json", "-p", &add];
    shop.admin.ok(&patch).await;
    sue.call(put).await.expect(200);
}

/// AC-76 to AC-79, API-284, API-285, D-28: an ordinary user acts as those that its roles name, by
/// flags and by a kubeconfig.
async fn acts_as_others(version: &'static str) {
    let Some(shop) = Shop::open(version).await else {
        return;
    };
    let (admin, ada) = (&shop.admin, &shop.ada);
    let cannot = |user: &str, verb: &str, resource: &str, group: &str, place: &str| {
        let prefix = if group.is_empty() {
            String::new()
        } else {
            format!(".{group}")
        };
        format!(
            "{resource}{prefix} is forbidden: User \"{user}\" cannot {verb} resource \
             \"{resource}\" in API group \"{group}\" {place}"
        )
    };
    let in_shop = |user: &str, verb: &str, resource: &str| {
        cannot(user, verb, resource, "", "in the namespace \"shop\"")
    };
    let requests = "certificatesigningrequests";
    let in_cluster = |user: &str, verb: &str| {
        cannot(
            user,
            verb,
            requests,
            "certificates.k8s.io",
            "at the cluster scope",
        )
    };
    let (as_user, as_account) = (
        "impersonate-on:user-info:list",
        "impersonate-on:serviceaccount:list",
    );
    let account = "system:serviceaccount:shop:clerk";
    let configmaps = "get configmaps -n shop";
    // These also find the kinds, which those who may not act as others do not find.
    for command in [
        "create serviceaccount clerk -n shop",
        "create configmap prices --from-literal=apple=3 -n shop",
        "create role reader --verb=get,list --resource=configmaps -n shop",
        "create rolebinding readers --role=reader --serviceaccount=shop:clerk -n shop",
    ] {
        ada.ok(&command.split(' ').collect::<Vec<_>>()).await;
    }
    for (who, verb) in [
        ("carol", as_user),
        ("carol --as-group system:masters", as_user),
        (account, as_account),
    ] {
        let command = format!("{configmaps} --as {who}");
        refused(ada, &command, &in_shop("ada", verb, "configmaps")).await;
    }
    apply(admin, ACTOR).await;
    bind(admin, "actor", "ada").await;
    let bind = [
        "create",
        "rolebinding",
        "actor",
        "--role=actor",
        "--user=ada",
        "-n",
        "shop",
    ];
    admin.ok(&bind).await;

    let no = in_shop("carol", "list", "configmaps");
    refused(ada, &format!("{configmaps} --as carol"), &no).await;
    refused(ada, "get csr --as carol", &in_cluster("carol", "list")).await;
    // With the rights of a group that ada may name, and with no other group.
    says(ada, "get csr --as carol --as-group crew", "").await;
    for groups in [
        "--as-group crew --as-group others",
        "--as-group system:masters",
    ] {
        let command = format!("get csr --as carol {groups}");
        refused(ada, &command, &in_cluster("ada", as_user)).await;
    }
    let read = format!("get configmaps prices -n shop -o name --as {account}");
    says(ada, &read, "configmap/prices\n").await;
    let no = in_shop(account, "list", "secrets");
    refused(ada, &format!("get secrets -n shop --as {account}"), &no).await;
    let other = "system:serviceaccount:default:default";
    let no = in_shop("ada", as_account, "configmaps");
    refused(ada, &format!("{configmaps} --as {other}"), &no).await;
    let said = ada.fails(&["get", "csr", "--as-group", "crew"]).await;
    assert!(said.contains("without impersonating a user"), "{said}");

    by_a_kubeconfig(&shop, &in_cluster("ada", as_user)).await;
    shows_who_acts(&shop).await;
}

/// A kubeconfig names whom its user acts as.
async fn by_a_kubeconfig(shop: &Shop, refusal: &str) {
    let members_of = |members: &Value| {
        let mut all = json!({ "token": "t-ada", "as": "carol" });
        let all_of = all.as_object_mut().unwrap();
        all_of.extend(members.as_object().unwrap().clone());
        all
    };
    // One kubectl for all, which keeps the kinds that it has found.
    let write = |members: &Value| shop.daemon.kubeconfig_of("as-carol", &members_of(members));
    let groups = json!({ "as-groups": ["crew"] });
    let as_carol = shop.user_with("as-carol", &members_of(&groups));
    says(&as_carol, "get csr", "").await;
    write(&json!({ "as-groups": ["crew"], "as-user-extra": { "scopes": ["view"] } }));
    says(&as_carol, "get csr", "").await;
    for members in [
        json!({ "as-groups": ["system:masters"] }),
        json!({ "as-groups": ["crew"], "as-user-extra": { "scopes": ["edit"] } }),
        json!({ "as-groups": ["crew"], "as-user-extra": { "teams": ["view"] } }),
    ] {
        write(&members);
        refused(&as_carol, "get csr", refusal).await;
    }
    // A flag counts more than the kubeconfig.
    write(&json!({}));
    let account = "system:serviceaccount:shop:clerk";
    let read = format!("get configmaps prices -n shop -o name --as {account}");
    says(&as_carol, &read, "configmap/prices\n").await;
}

/// Versions from 1.32 on show who a request is from, and know uids.
async fn shows_who_acts(shop: &Shop) {
    let version = shop.admin.version;
    if version == "1.20" {
        return;
    }
    let who = async |kubectl: &Kubectl, flags: &str| -> Value {
        let command = format!("auth whoami -o json{flags}");
        let said = kubectl.ok(&command.split(' ').collect::<Vec<_>>()).await;
        let mut review: Value = serde_json::from_str(&said).unwrap();
        review["status"]["userInfo"].take()
    };
    let crew = json!(["crew", "system:authenticated"]);
    let carol = json!({ "username": "carol", "uid": "u-1", "groups": crew });
    let flags = " --as carol --as-group crew --as-uid u-1";
    assert_eq!(who(&shop.ada, flags).await, carol);
    // kubectl has words of its own for this refusal.
    let said = "the selfsubjectreviews API is not enabled in the cluster or you do not have \
                permission to call it";
    refused(&shop.ada, "auth whoami --as carol --as-uid u-2", said).await;
    if version == "1.36" {
        let flags = " --as carol --as-user-extra scopes=view";
        let expected = json!({
            "username": "carol",
            "groups": ["system:authenticated"],
            "extra": { "scopes": ["view"] },
        });
        assert_eq!(who(&shop.ada, flags).await, expected);
        let command = "auth whoami --as carol --as-user-extra scopes=edit";
        refused(&shop.ada, command, said).await;
    }
    let kubeconfig = json!({
        "token": "t-ada",
        "as": "carol",
        "as-uid": "u-1",
        "as-groups": ["crew"],
        "as-user-extra": { "scopes": ["view"] },
    });
    let mut expected = carol;
    expected["extra"] = json!({ "scopes": ["view"] });
    let all = shop.user_with("all-of-carol", &kubeconfig);
    assert_eq!(who(&all, "").await, expected);
}

with_each_kubectl! {
    requests_certificates:
        requests_certificates_1_20, requests_certificates_1_32, requests_certificates_1_36;
    acts_as_others: acts_as_others_1_20, acts_as_others_1_32, acts_as_others_1_36;
}
