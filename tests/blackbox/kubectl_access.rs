//! kubectl as a user with few rights, in each tested version: it asks what the user may do, and
//! creates roles, bindings, accounts and tokens. It prints the same with kube-apiserver.

use serde_json::{Value, json};

use crate::harness::{AS_INSTALLED, Call, Daemon, Kubectl};

/// The rights of ada: in the namespace `shop` by her name, and in the cluster by her group.
pub const RIGHTS: &str = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: manager, namespace: shop}
rules:
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, create, update, patch, delete]
- {apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, create, update]}
- {apiGroups: [''], resources: [pods/log], verbs: [get]}
- {apiGroups: [''], resources: [secrets], resourceNames: [key], verbs: [get]}
- {apiGroups: [''], resources: [serviceaccounts], verbs: [get, create]}
- {apiGroups: [''], resources: [serviceaccounts/token], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: manager, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: manager}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ada}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: access-manager}
rules:
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles, clusterrolebindings]
  verbs: [get, create, update]
- apiGroups: [certificates.k8s.io]
  resources: [certificatesigningrequests]
  verbs: [create, get, list]
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: access-manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: access-manager}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: crew}]
";

/// The paths that every authenticated user may read, as `auth can-i --list` shows them.
const PATHS: [&str; 16] = [
    "[/api/*] [] [get]",
    "[/api] [] [get]",
    "[/apis/*] [] [get]",
    "[/apis] [] [get]",
    "[/healthz] [] [get]",
    "[/healthz] [] [get]",
    "[/livez] [] [get]",
    "[/livez] [] [get]",
    "[/openapi/*] [] [get]",
    "[/openapi] [] [get]",
    "[/readyz] [] [get]",
    "[/readyz] [] [get]",
    "[/version/] [] [get]",
    "[/version/] [] [get]",
    "[/version] [] [get]",
    "[/version] [] [get]",
];

const LACKING: &str = "user \"ada\" (groups=[\"crew\" \"dev\" \"system:authenticated\"]) is \
                       attempting to grant RBAC permissions not currently held:";

/// A daemon as it is installed, with the namespace `shop`, the kubectl of its admin and that of
/// ada, who has [`RIGHTS`]. Bob and sue have tokens and no rights.
pub struct Shop {
    pub daemon: Daemon,
    pub admin: Kubectl,
    pub ada: Kubectl,
}

impl Shop {
    /// `None` only if the environment says `none` for this version.
    pub async fn open(version: &'static str) -> Option<Shop> {
        Shop::open_with(version, &[]).await
    }

    /// The same with more flags.
    pub async fn open_with(version: &'static str, flags: &[&str]) -> Option<Shop> {
        let users = "t-ada,ada,u-ada,\"crew,dev\"\nt-bob,bob,u-bob\nt-sue,sue,u-sue\n";
        let flags = [&[AS_INSTALLED], flags].concat();
        let daemon = Daemon::with_users(users, &flags).await;
        let admin = Kubectl::find(version, &daemon)?;
        admin.ok(&["create", "namespace", "shop"]).await;
        admin.ok_with(&["apply", "-f", "-"], RIGHTS).await;
        let ada = user(&daemon, version, "ada", &json!({ "token": "t-ada" }));
        Some(Shop { daemon, admin, ada })
    }

    /// The kubectl of somebody else with a token.
    pub fn user(&self, name: &str, token: &str) -> Kubectl {
        let user_of = json!({ "token": token });
        user(&self.daemon, self.admin.version, name, &user_of)
    }

    /// The kubectl of a kubeconfig whose `user` has these members.
    pub fn user_with(&self, name: &str, members: &Value) -> Kubectl {
        user(&self.daemon, self.admin.version, name, members)
    }
}

fn user(daemon: &Daemon, version: &'static str, name: &str, members: &Value) -> Kubectl {
    let kubeconfig = daemon.kubeconfig_of(name, members);
    let kubectl = Kubectl::find(version, daemon).expect("a kubectl that was there");
    kubectl.with_kubeconfig(kubeconfig)
}

/// The words of a command.
fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

/// Runs a command that succeeds, and compares what it prints.
pub async fn says(kubectl: &Kubectl, command: &str, expected: &str) {
    let printed = kubectl.ok(&words(command)).await;
    assert_eq!(printed, expected, "kubectl {} {command}", kubectl.version);
}

/// Runs a command that the server refuses, and compares the server's message. Versions of kubectl
/// write different words before it.
pub async fn refused(kubectl: &Kubectl, command: &str, message: &str) {
    let printed = kubectl.fails(&words(command)).await;
    let is = printed.strip_suffix('\n').is_some_and(|printed| {
        let first = printed.strip_suffix(message);
        first.is_some_and(|first| first.ends_with(": "))
    });
    let version = kubectl.version;
    assert!(is, "kubectl {version} {command}: {printed}, not {message}");
}

/// Runs `auth can-i`, and compares its answer.
async fn may(kubectl: &Kubectl, what: &str, is_allowed: bool) {
    let command = format!("auth can-i {what}");
    let printed = kubectl.run_with(&words(&command), "").await;
    let answer = if is_allowed { "yes\n" } else { "no\n" };
    assert_eq!(printed.stdout, answer, "{what}: {}", printed.stderr);
    assert_eq!(printed.success, is_allowed, "{what}");
}

/// The lines of a table with one space between columns, sorted.
fn rows(table: &str) -> Vec<String> {
    let lines = table.lines();
    let one_space = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = lines.map(one_space).collect();
    rows.sort();
    rows
}

/// Compares what `auth can-i --list` prints. Everybody has the first rows.
async fn lists(kubectl: &Kubectl, command: &str, further: &[&str]) {
    let everybody = [
        "Resources Non-Resource URLs Resource Names Verbs",
        "selfsubjectaccessreviews.authorization.k8s.io [] [] [create]",
        "selfsubjectreviews.authentication.k8s.io [] [] [create]",
        "selfsubjectrulesreviews.authorization.k8s.io [] [] [create]",
    ];
    let mut expected = [&everybody, &PATHS[..], further].concat();
    expected.sort_unstable();
    let listed = kubectl.ok(&words(command)).await;
    assert_eq!(rows(&listed), expected, "{command}");
}

/// AC-66, AC-70, API-292, API-293: what the user may do.
async fn asks_about_rights(version: &'static str) {
    let Some(shop) = Shop::open(version).await else {
        return;
    };
    let ada = &shop.ada;
    for (what, is_allowed) in [
        ("create configmaps -n shop", true),
        ("create configmaps", false),
        ("list configmaps -A", false),
        ("delete nodes", false),
        ("create clusterroles", true),
        ("get pods --subresource=log -n shop", true),
        ("get pods -n shop", false),
        // It is the pod of this name.
        ("get pods/log -n shop", false),
        ("get secrets/key -n shop", true),
        ("get secrets/lock -n shop", false),
        ("get secrets -n shop", false),
        ("list deployments.v1.apps -n shop", false),
        ("get /metrics", true),
        ("get /logs", false),
        ("* * -n shop", false),
        ("create lamps -n shop", false),
    ] {
        may(ada, what, is_allowed).await;
    }
    let quiet = ada
        .ok(&words("auth can-i -q create configmaps -n shop"))
        .await;
    assert_eq!(quiet, "");
    let of_cluster = [
        "certificatesigningrequests.certificates.k8s.io [] [] [create get list]",
        "clusterrolebindings.rbac.authorization.k8s.io [] [] [get create update]",
        "clusterroles.rbac.authorization.k8s.io [] [] [get create update]",
        "[/metrics] [] [get]",
    ];
    let of_shop = [
        "configmaps [] [] [get list watch create update]",
        "pods/log [] [] [get]",
        "rolebindings.rbac.authorization.k8s.io [] [] [get list create update patch delete]",
        "roles.rbac.authorization.k8s.io [] [] [get list create update patch delete]",
        "secrets [] [key] [get]",
        "serviceaccounts [] [] [get create]",
        "serviceaccounts/token [] [] [create]",
    ];
    lists(ada, "auth can-i --list", &of_cluster).await;
    let in_shop = [&of_cluster[..], &of_shop].concat();
    lists(ada, "auth can-i --list -n shop", &in_shop).await;
    if version == "1.20" {
        return;
    }
    let who = ada.ok(&["auth", "whoami"]).await;
    let expected = [
        "ATTRIBUTE VALUE",
        "Groups [crew dev system:authenticated]",
        "UID u-ada",
        "Username ada",
    ];
    assert_eq!(rows(&who), expected);
    let who = ada.ok(&["auth", "whoami", "-o", "json"]).await;
    let mut who: Value = serde_json::from_str(&who).unwrap();
    let groups = json!(["crew", "dev", "system:authenticated"]);
    let expected = json!({ "username": "ada", "uid": "u-ada", "groups": groups });
    assert_eq!(who["status"]["userInfo"].take(), expected);
}

/// AC-59, AC-60, AC-61, AC-62, AC-64: roles and bindings in a namespace and in the cluster.
async fn creates_roles(version: &'static str) {
    let Some(shop) = Shop::open(version).await else {
        return;
    };
    let ada = &shop.ada;
    let rbac = "rbac.authorization.k8s.io";
    for (command, made) in [
        (
            "serviceaccount clerk -n shop",
            "serviceaccount/clerk".to_owned(),
        ),
        (
            "role reader --verb=get,list --resource=configmaps -n shop",
            format!("role.{rbac}/reader"),
        ),
        (
            "role logs --verb=get --resource=pods/log -n shop",
            format!("role.{rbac}/logs"),
        ),
        (
            "role key --verb=get --resource=secrets --resource-name=key -n shop",
            format!("role.{rbac}/key"),
        ),
        (
            "rolebinding readers --role=reader --serviceaccount=shop:clerk -n shop",
            format!("rolebinding.{rbac}/readers"),
        ),
        (
            "clusterrole metrics --verb=get --non-resource-url=/metrics",
            format!("clusterrole.{rbac}/metrics"),
        ),
        (
            "clusterrolebinding metrics --clusterrole=metrics --serviceaccount=shop:clerk",
            format!("clusterrolebinding.{rbac}/metrics"),
        ),
    ] {
        let said = format!("{made} created\n");
        says(ada, &format!("create {command}"), &said).await;
    }
    let everything = "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n\
                      {NonResourceURLs:[\"*\"], Verbs:[\"*\"]}";
    let lacks = |resource: &str, name: &str, rights: &str| {
        format!("{resource}.{rbac} \"{name}\" is forbidden: {LACKING}\n{rights}")
    };
    for (command, message) in [
        (
            "serviceaccount clerk",
            "serviceaccounts is forbidden: User \"ada\" cannot create resource \
             \"serviceaccounts\" in API group \"\" in the namespace \"default\""
                .to_owned(),
        ),
        (
            "role reader --verb=get --resource=configmaps",
            format!(
                "roles.{rbac} is forbidden: User \"ada\" cannot create resource \"roles\" in API \
                 group \"{rbac}\" in the namespace \"default\""
            ),
        ),
        (
            "role robber --verb=get --resource=secrets -n shop",
            lacks(
                "roles",
                "robber",
                "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}",
            ),
        ),
        (
            "role pods --verb=get,list --resource=pods,deployments.apps -n shop",
            lacks(
                "roles",
                "pods",
                "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
                 {APIGroups:[\"apps\"], Resources:[\"deployments\"], Verbs:[\"get\" \"list\"]}",
            ),
        ),
        (
            "rolebinding admins --clusterrole=cluster-admin --user=ada -n shop",
            lacks("rolebindings", "admins", everything),
        ),
        (
            "rolebinding ghosts --role=ghost --user=ada -n shop",
            format!("rolebindings.{rbac} \"ghost\" not found"),
        ),
        (
            "clusterrole logs --verb=get --non-resource-url=/logs",
            lacks(
                "clusterroles",
                "logs",
                "{NonResourceURLs:[\"/logs\"], Verbs:[\"get\"]}",
            ),
        ),
        (
            "clusterrole nodes --verb=list --resource=nodes",
            lacks(
                "clusterroles",
                "nodes",
                "{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"list\"]}",
            ),
        ),
        (
            "clusterrole sum --aggregation-rule=a=b",
            format!(
                "clusterroles.{rbac} \"sum\" is forbidden: must have cluster-admin privileges to \
                 use the aggregationRule"
            ),
        ),
        (
            "clusterrolebinding all --clusterrole=cluster-admin --group=crew",
            lacks("clusterrolebindings", "all", everything),
        ),
    ] {
        refused(ada, &format!("create {command}"), &message).await;
    }
    let described = ada.ok(&words("describe role reader -n shop")).await;
    let described = rows(&described);
    let rule = "configmaps [] [] [get list]".to_owned();
    assert!(described.contains(&rule), "{described:?}");
    let wide = words("get rolebinding readers -n shop -o wide --no-headers");
    let shown = rows(&ada.ok(&wide).await);
    assert!(shown[0].starts_with("readers Role/reader "), "{shown:?}");
    assert!(shown[0].ends_with(" shop/clerk"), "{shown:?}");
}

/// API-226, AC-30: an account gets a token from a user, and has its own rights by it.
async fn accounts_get_tokens(version: &'static str) {
    let Some(shop) = Shop::open(version).await else {
        return;
    };
    let ada = &shop.ada;
    for command in [
        "create serviceaccount clerk -n shop",
        "create role reader --verb=get,list --resource=configmaps -n shop",
        "create rolebinding readers --role=reader --serviceaccount=shop:clerk -n shop",
        "create configmap prices --from-literal=apple=3 -n shop",
    ] {
        ada.ok(&words(command)).await;
    }
    let token = match version {
        // It has no command for this.
        "1.20" => {
            let path = "/api/v1/namespaces/shop/serviceaccounts/clerk/token";
            let client = shop.daemon.target().with_token("t-ada").client();
            let made = client.call(Call::post(path, &json!({}))).await.expect(201);
            made["status"]["token"].as_str().unwrap().to_owned()
        }
        _ => ada.ok(&words("create token clerk -n shop")).await,
    };
    let clerk = shop.user("clerk", token.trim());
    let account = "system:serviceaccount:shop:clerk";
    says(
        &clerk,
        "get configmaps prices -n shop -o name",
        "configmap/prices\n",
    )
    .await;
    for (command, what) in [
        (
            "get secrets -n shop",
            "secrets is forbidden: User \"ACCOUNT\" cannot list resource \"secrets\" in API group \
             \"\" in the namespace \"shop\"",
        ),
        (
            "delete configmap prices -n shop",
            "configmaps \"prices\" is forbidden: User \"ACCOUNT\" cannot delete resource \
             \"configmaps\" in API group \"\" in the namespace \"shop\"",
        ),
        (
            "create role mine --verb=get --resource=configmaps -n shop",
            "roles.rbac.authorization.k8s.io is forbidden: User \"ACCOUNT\" cannot create resource \
             \"roles\" in API group \"rbac.authorization.k8s.io\" in the namespace \"shop\"",
        ),
    ] {
        refused(&clerk, command, &what.replace("ACCOUNT", account)).await;
    }
    let further = [
        "configmaps [] [] [get list]",
        // Every account may read these.
        "[/.well-known/openid-configuration/] [] [get]",
        "[/.well-known/openid-configuration] [] [get]",
        "[/openid/v1/jwks/] [] [get]",
        "[/openid/v1/jwks] [] [get]",
    ];
    lists(&clerk, "auth can-i --list -n shop", &further).await;
    if version == "1.20" {
        return;
    }
    let who = rows(&clerk.ok(&["auth", "whoami"]).await);
    let groups = "Groups [system:serviceaccounts system:serviceaccounts:shop system:authenticated]";
    assert!(who.contains(&groups.to_owned()), "{who:?}");
    assert!(who.contains(&format!("Username {account}")), "{who:?}");
    let cannot = |who: &str, namespace: &str| {
        format!(
            "serviceaccounts \"clerk\" is forbidden: User \"{who}\" cannot create resource \
             \"serviceaccounts/token\" in API group \"\" in the namespace \"{namespace}\""
        )
    };
    let command = "create token clerk -n shop";
    refused(&clerk, command, &cannot(account, "shop")).await;
    refused(ada, "create token clerk", &cannot("ada", "default")).await;
    let absent = "serviceaccounts \"ghost\" not found";
    refused(ada, "create token ghost -n shop", absent).await;
}

/// A role and a binding for `auth reconcile`.
fn manifest(verbs: &str, account: &str, role: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
         metadata: {{name: made, namespace: shop}}\n\
         rules: [{{apiGroups: [''], resources: [configmaps], verbs: [{verbs}]}}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{name: made, namespace: shop}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {role}}}\n\
         subjects: [{{kind: ServiceAccount, name: {account}, namespace: shop}}]\n"
    )
}

/// The output of `auth reconcile` about a change of the rules or the subjects of the manifest.
fn change(action: &str, what: &str, items: &[&str]) -> String {
    let items: String = items.iter().map(|item| format!("\t\t{item}\n")).collect();
    format!("\treconciliation required {action}\n\t{what}:\n{items}")
}

/// AC-59, AC-64, AC-65.
async fn reconciles_roles(version: &'static str) {
    let Some(shop) = Shop::open(version).await else {
        return;
    };
    let ada = &shop.ada;
    let reconcile = async |options: &str, manifest: &str, changes: &str| {
        let command = format!("auth reconcile -f -{options}");
        let printed = ada.run_with(&words(&command), manifest).await;
        assert!(printed.success, "{manifest}: {printed:?}");
        let suffix = if options.contains("dry-run") {
            " (dry run)"
        } else {
            ""
        };
        let said = ["role", "rolebinding"]
            .map(|kind| format!("{kind}.rbac.authorization.k8s.io/made reconciled{suffix}\n"));
        assert_eq!(printed.stdout, said.concat());
        assert_eq!(printed.stderr, changes, "{options} {manifest}");
    };
    let shown = async |what: &str, path: &str| {
        let path = format!("jsonpath={path}");
        ada.ok(&["get", what, "made", "-n", "shop", "-o", &path])
            .await
    };
    let rule = |verbs: &str| {
        format!(
            "{{Verbs:[{verbs}] APIGroups:[] Resources:[configmaps] ResourceNames:[] \
             NonResourceURLs:[]}}"
        )
    };
    let account =
        |name: &str| format!("{{Kind:ServiceAccount APIGroup: Name:{name} Namespace:shop}}");

    let first = manifest("get, list", "clerk", "Role, name: made");
    let created = [
        change("create", "missing rules added", &[&rule("get list")]),
        change("create", "missing subjects added", &[&account("clerk")]),
    ]
    .concat();
    reconcile(" --dry-run=client", &first, &created).await;
    let absent = "roles.rbac.authorization.k8s.io \"made\" not found";
    refused(ada, "get role made -n shop", absent).await;
    reconcile("", &first, &created).await;
    reconcile("", &first, "").await;

    let second = manifest("get, watch", "other", "Role, name: made");
    let updated = [
        change("update", "missing rules added", &[&rule("watch")]),
        change("update", "missing subjects added", &[&account("other")]),
    ]
    .concat();
    reconcile("", &second, &updated).await;
    let verbs = shown("role", "{.rules[*].verbs[*]}").await;
    assert_eq!(verbs, "get list watch");
    let removed = change("update", "extra rules removed", &[&rule("list")]);
    reconcile(" --remove-extra-permissions", &second, &removed).await;
    let verbs = shown("role", "{.rules[*].verbs[*]}").await;
    assert_eq!(verbs, "get watch");
    let removed = change("update", "extra subjects removed", &[&account("clerk")]);
    reconcile(" --remove-extra-subjects", &second, &removed).await;
    let names = shown("rolebinding", "{.subjects[*].name}").await;
    assert_eq!(names, "other");

    // A binding of another role is deleted and created.
    let uid = shown("rolebinding", "{.metadata.uid}").await;
    let third = manifest("get, watch", "other", "Role, name: manager");
    reconcile("", &third, "\treconciliation required recreate\n").await;
    let names = shown("rolebinding", "{.roleRef.name}").await;
    assert_eq!(names, "manager");
    assert_ne!(shown("rolebinding", "{.metadata.uid}").await, uid);

    let more = manifest("get, delete", "other", "Role, name: manager");
    let said = ada.fails_with(&words("auth reconcile -f -"), &more).await;
    let expected = format!(
        "Error from server (Forbidden): roles.rbac.authorization.k8s.io \"made\" is forbidden: \
         {LACKING}\n{{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}}\n"
    );
    assert_eq!(said, expected);
    let verbs = shown("role", "{.rules[*].verbs[*]}").await;
    assert_eq!(verbs, "get watch");
}

macro_rules! with_each_kubectl {
    ($($scenario:ident: $v1_20:ident, $v1_32:ident, $v1_36:ident;)*) => {
        $(
            with_each_kubectl!(@one $scenario $v1_20 "1.20");
            with_each_kubectl!(@one $scenario $v1_32 "1.32");
            with_each_kubectl!(@one $scenario $v1_36 "1.36");
        )*
    };
    (@one $scenario:ident $test:ident $version:literal) => {
        #[tokio::test]
        async fn $test() {
            $scenario($version).await;
        }
    };
}
pub(crate) use with_each_kubectl;

with_each_kubectl! {
    asks_about_rights: asks_about_rights_1_20, asks_about_rights_1_32, asks_about_rights_1_36;
    creates_roles: creates_roles_1_20, creates_roles_1_32, creates_roles_1_36;
    accounts_get_tokens:
        accounts_get_tokens_1_20, accounts_get_tokens_1_32, accounts_get_tokens_1_36;
    reconciles_roles: reconciles_roles_1_20, reconciles_roles_1_32, reconciles_roles_1_36;
}
