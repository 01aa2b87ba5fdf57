//! ServiceAccount (API-263): pods run under an account of their namespace, and get its token.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::ResourceClient;
use super::{Admitted, Attributes, MutatingPlugin, Operation, Plugin, ValidatingPlugin};
use crate::api::names::generate_name;
use crate::api::object::{Object, push, put};
use crate::api::status::Status;

const DEFAULT: &str = "default";
/// The annotation of mirror pods, which a kubelet has from elsewhere.
const MIRROR: [&str; 3] = ["metadata", "annotations", "kubernetes.io/config.mirror"];
const ENFORCE: [&str; 3] = [
    "metadata",
    "annotations",
    "kubernetes.io/enforce-mountable-secrets",
];
const ACCOUNT_NAME: [&str; 2] = ["spec", "serviceAccountName"];
/// The older name of the same field, which has the same value.
const OLD_ACCOUNT_NAME: [&str; 2] = ["spec", "serviceAccount"];
const PULL_SECRETS: [&str; 2] = ["spec", "imagePullSecrets"];
const VOLUMES: [&str; 2] = ["spec", "volumes"];
/// The prefix of the names of volumes with the token.
const VOLUME_PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_SECONDS: u32 = 3607;

/// How long a pod waits for the account `default`, which a controller creates when the namespace is
/// new. With several daemons another one may create it.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before the account is looked up again. Each pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The plugin.
pub(super) struct ServiceAccount {
    accounts: Arc<dyn ResourceClient>,
}

impl ServiceAccount {
    /// Creates the plugin with this source of ServiceAccounts.
    pub(super) fn new(accounts: Arc<dyn ResourceClient>) -> ServiceAccount {
        ServiceAccount { accounts }
    }

    async fn account(
        &self,
        attributes: &Attributes<'_>,
        pod: &Object,
    ) -> Result<Object, Box<Status>> {
        let name = pod.text(&ACCOUNT_NAME);
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let looking_up = self.accounts.get(attributes.namespace, name);
            if let Some(account) = looking_up.await? {
                return Ok(account);
            }
            if name != DEFAULT || begun.elapsed() >= PATIENCE {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let namespace = attributes.namespace.unwrap_or_default();
        let quoted = crate::api::text::quoting::go_quote(name);
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {quoted} not found"
        );
        Err(attributes.forbidden(Some(pod), &why))
    }

    async fn check(&self, attributes: &Attributes<'_>, pod: &Object) -> Result<(), Box<Status>> {
        let refused = |why: &str| attributes.forbidden(Some(pod), why);
        if matches!(attributes.operation, Operation::Update(_)) {
            let account = self.account(attributes, pod).await?;
            return match unreferenced_by_ephemeral(&account, pod) {
                // This refusal alone has no reason.
                Some(why) if enforces(&account) => Err(Box::new(Status::unknown(why))),
                _ => Ok(()),
            };
        }
        if pod.at(&MIRROR).is_some() {
            return mirror_fault(pod).map_or(Ok(()), |why| Err(refused(why)));
        }
        if pod.text(&ACCOUNT_NAME).is_empty() {
            let namespace = attributes.namespace.unwrap_or_default();
            let name = pod.name();
            let why = format!("no service account specified for pod {namespace}/{name}");
            return Err(refused(&why));
        }
        let account = self.account(attributes, pod).await?;
        match unreferenced(&account, pod) {
            Some(why) if enforces(&account) => Err(refused(&why)),
            _ => Ok(()),
        }
    }
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "pods") || attributes.updates_part("", "pods", "ephemeralcontainers")
    }

    fn mutating(&self) -> Option<&dyn MutatingPlugin> {
        Some(self)
    }

    fn validating(&self) -> Option<&dyn ValidatingPlugin> {
        Some(self)
    }
}

impl MutatingPlugin for ServiceAccount {
    fn admit<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p mut Object>,
    ) -> Admitted<'p> {
        async move {
            let is_new = matches!(attributes.operation, Operation::Create(_));
            let Some(pod) = object.filter(|_| is_new) else {
                return Ok(());
            };
            // A kubelet deletes mirror pods that have changed.
            if pod.at(&MIRROR).is_none() {
                if pod.text(&ACCOUNT_NAME).is_empty() {
                    put(pod, &ACCOUNT_NAME, DEFAULT.into());
                    put(pod, &OLD_ACCOUNT_NAME, DEFAULT.into());
                }
                let account = self.account(attributes, pod).await?;
                give(&account, pod, || generate_name(VOLUME_PREFIX));
            }
            self.check(attributes, pod).await
        }
        .boxed()
    }
}

impl ValidatingPlugin for ServiceAccount {
    fn validate<'p>(
        &'p self,
        attributes: &'p Attributes<'_>,
        object: Option<&'p Object>,
    ) -> Admitted<'p> {
        async move {
            match object {
                Some(pod) => self.check(attributes, pod).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}

/// Adds the token of its account and the account's pull secrets to a pod. The token is in the
/// volume that the pod has for it, or else in a new one with this name.
fn give(account: &Object, pod: &mut Object, new_name: impl FnOnce() -> String) {
    if automounts(account, pod) {
        let own = volume_for_token(pod).map(str::to_owned);
        let is_new = own.is_none();
        let volume = own.unwrap_or_else(new_name);
        if mount(pod, &volume) && is_new {
            push(pod, &VOLUMES, token_volume(&volume));
        }
    }
    if pod.items(&PULL_SECRETS).is_empty() {
        let secrets = account.items(&["imagePullSecrets"]).iter();
        let secrets: Vec<Value> = secrets
            .map(|secret| json!({"name": secret["name"]}))
            .collect();
        if !secrets.is_empty() {
            put(pod, &PULL_SECRETS, Value::Array(secrets));
        }
    }
}

fn automounts(account: &Object, pod: &Object) -> bool {
    let of_pod = pod.at(&["spec", "automountServiceAccountToken"]);
    let of_account = account.0.get("automountServiceAccountToken");
    let set = of_pod.and_then(Value::as_bool);
    set.or(of_account.and_then(Value::as_bool)).unwrap_or(true)
}

/// The name of the volume that a pod has for the token, recognised by its prefix.
fn volume_for_token(pod: &Object) -> Option<&str> {
    let mut names = pod.items(&VOLUMES).iter();
    names.find_map(|volume| {
        let name = volume["name"].as_str()?;
        name.starts_with(VOLUME_PREFIX).then_some(name)
    })
}

/// Mounts the volume in every container that has nothing at its path. Returns whether any container
/// needed it.
fn mount(pod: &mut Object, volume: &str) -> bool {
    let spec = pod.0.get_mut("spec").and_then(Value::as_object_mut);
    let Some(spec) = spec else {
        return false;
    };
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        let containers = containers.into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let mounts = container.entry("volumeMounts").or_insert(Value::Null);
            if !mounts.is_array() {
                *mounts = Value::Array(Vec::new());
            }
            let Value::Array(given) = mounts else {
                continue;
            };
            // linear: these are those of the one container.
            if given.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                continue;
            }
            given.push(json!({"name": volume, "readOnly": true, "mountPath": MOUNT_PATH}));
            is_needed = true;
        }
    }
    is_needed
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {
            "name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

/// The fault of a mirror pod, which may not use an account.
fn mirror_fault(pod: &Object) -> Option<&'static str> {
    if !pod.text(&ACCOUNT_NAME).is_empty() {
        return Some("a mirror pod may not reference service accounts");
    }
    let volumes = pod.items(&VOLUMES);
    let from_secret = |env: &Value| env.pointer("/valueFrom/secretKeyRef").is_some();
    let all_from_secret = |env: &Value| env.get("secretRef").is_some();
    let mut containers = all_containers(pod);
    let has_secrets = !pod.items(&PULL_SECRETS).is_empty()
        || volumes.iter().any(|volume| volume.get("secret").is_some())
        || containers.any(|(_, container)| {
            list(container, "env").iter().any(from_secret)
                || list(container, "envFrom").iter().any(all_from_secret)
        });
    if has_secrets {
        return Some("a mirror pod may not reference secrets");
    }
    let mut sources = volumes.iter().flat_map(|volume| {
        let sources = volume.pointer("/projected/sources");
        sources.and_then(Value::as_array).into_iter().flatten()
    });
    let has_token = sources.any(|source| source.get("serviceAccountToken").is_some());
    has_token.then_some("a mirror pod may not use service account token volume projections")
}

/// Whether the pods of an account may only use the secrets that it names.
fn enforces(account: &Object) -> bool {
    matches!(
        account.text(&ENFORCE),
        "1" | "t" | "T" | "true" | "TRUE" | "True"
    )
}

/// The names in a list of an account.
fn names<'a>(account: &'a Object, list: &str) -> HashSet<&'a str> {
    let named = account.items(&[list]).iter();
    named.filter_map(|one| one["name"].as_str()).collect()
}

/// The first secret of a pod that its account does not name.
fn unreferenced(account: &Object, pod: &Object) -> Option<String> {
    let name = account.name();
    let named = names(account, "secrets");
    let mut volumes = pod.items(&VOLUMES).iter().filter_map(|volume| {
        let secret = volume.get("secret")?;
        Some(secret["secretName"].as_str().unwrap_or_default())
    });
    if let Some(secret) = volumes.find(|secret| !named.contains(secret)) {
        return Some(format!(
            "volume with secret.secretName=\"{secret}\" is not allowed because service account \
             {name} does not reference that secret"
        ));
    }
    let of_containers = unnamed_variable(account, all_containers(pod));
    let named = names(account, "imagePullSecrets");
    let secrets = pod.items(&PULL_SECRETS).iter().enumerate();
    let mut of_pulls = secrets.filter_map(|(index, secret)| {
        let secret = secret["name"].as_str().unwrap_or_default();
        (!named.contains(secret)).then(|| {
            format!(
                "imagePullSecrets[{index}].name=\"{secret}\" is not allowed because service \
                 account {name} does not reference that imagePullSecret"
            )
        })
    });
    of_containers.or_else(|| of_pulls.next())
}

fn unreferenced_by_ephemeral(account: &Object, pod: &Object) -> Option<String> {
    let added = pod.items(&["spec", "ephemeralContainers"]).iter();
    unnamed_variable(
        account,
        added.map(|container| ("ephemeral container", container)),
    )
}

/// The first variable, or set of them, that comes from a secret which the account does not name.
fn unnamed_variable<'v>(
    account: &Object,
    mut containers: impl Iterator<Item = (&'static str, &'v Value)>,
) -> Option<String> {
    let named = names(account, "secrets");
    let unnamed = |reference: Option<&'v Value>| {
        let secret = reference?["name"].as_str().unwrap_or_default();
        (!named.contains(secret)).then_some(secret)
    };
    let text = |value: &'v Value| value["name"].as_str().unwrap_or_default();
    let (what, container, place, secret) = containers.find_map(|(what, container)| {
        let mut variables = list(container, "env").iter().filter_map(|variable| {
            let secret = unnamed(variable.pointer("/valueFrom/secretKeyRef"))?;
            Some((format!("envVar {}", text(variable)), secret))
        });
        let mut sets = list(container, "envFrom").iter().filter_map(|set| {
            let secret = unnamed(set.get("secretRef"))?;
            Some(("envFrom".to_owned(), secret))
        });
        let (place, secret) = variables.next().or_else(|| sets.next())?;
        Some((what, container, place, secret))
    })?;
    Some(format!(
        "{what} {} with {place} referencing secret.secretName=\"{secret}\" is not allowed because \
         service account {} does not reference that secret",
        text(container),
        account.name()
    ))
}

fn all_containers(pod: &Object) -> impl Iterator<Item = (&'static str, &Value)> {
    let of = |list: &str| pod.items(&["spec", list]).iter();
    let first = of("initContainers").map(|container| ("init container", container));
    first.chain(of("containers").map(|container| ("container", container)))
}

fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    let list = value.get(member).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::of(value.as_object().unwrap().clone())
    }

    /// API-263.
    #[test]
    fn a_pod_gets_the_token_where_nothing_is_mounted_and_the_pull_secrets() {
        let account = object(json!({"imagePullSecrets": [{"name": "r"}]}));
        let mut pod = object(json!({"spec": {"containers": [
            {"name": "a"}, {"name": "b", "volumeMounts": [{"mountPath": MOUNT_PATH}]}]}}));
        give(&account, &mut pod, || "v".to_owned());
        let mounted = json!([{"name": "v", "readOnly": true, "mountPath": MOUNT_PATH}]);
        assert_eq!(pod.0["spec"]["containers"][0]["volumeMounts"], mounted);
        assert_eq!(pod.0["spec"]["volumes"], json!([token_volume("v")]));
        assert_eq!(pod.0["spec"]["imagePullSecrets"], json!([{"name": "r"}]));
        let containers = &pod.0["spec"]["containers"];
        assert_eq!(containers[1]["volumeMounts"].as_array().unwrap().len(), 1);
    }

    /// API-263.
    #[test]
    fn a_pod_or_an_account_may_refuse_the_token() {
        let refuses = json!({"automountServiceAccountToken": false});
        let mut pod = object(json!({"spec": {"containers": [{"name": "a"}]}}));
        give(&object(refuses.clone()), &mut pod, || "v".to_owned());
        assert!(pod.at(&VOLUMES).is_none());
        let wants = json!({"spec": {"automountServiceAccountToken": true}});
        assert!(automounts(&object(refuses), &object(wants)));
    }

    /// API-263.
    #[test]
    fn secrets_that_an_account_does_not_name_are_found() {
        let account = object(json!({"metadata": {"name": "s"}, "secrets": [{"name": "own"}]}));
        let env = |secret: &str| {
            json!({"spec": {"containers": [{"name": "c", "env": [
                {"name": "V", "valueFrom": {"secretKeyRef": {"name": secret}}}]}]}})
        };
        assert_eq!(unreferenced(&account, &object(env("own"))), None);
        assert_eq!(
            unreferenced(&account, &object(env("other"))).as_deref(),
            Some(
                "container c with envVar V referencing secret.secretName=\"other\" is not allowed \
                 because service account s does not reference that secret"
            )
        );
        let mirror = object(env("own"));
        assert_eq!(
            mirror_fault(&mirror),
            Some("a mirror pod may not reference secrets")
        );
    }

    /// API-263.
    #[test]
    fn a_volume_that_is_there_for_the_token_is_mounted() {
        let volumes = json!([{"name": "kube-api-access-a", "emptyDir": {}}]);
        let mut pod = object(json!({"spec": {
            "containers": [{"name": "a"}], "volumes": volumes}}));
        give(&object(json!({})), &mut pod, || "v".to_owned());
        assert_eq!(pod.0["spec"]["volumes"], volumes);
        let mount = &pod.0["spec"]["containers"][0]["volumeMounts"][0];
        assert_eq!(mount["name"], "kube-api-access-a");
    }

    /// API-263.
    #[test]
    fn secrets_whose_all_keys_become_variables_are_found() {
        let account = object(json!({"metadata": {"name": "s"}, "secrets": [{"name": "own"}]}));
        let pod = |list: &str, secret: &str| {
            object(json!({"spec": {(list): [{"name": "c", "envFrom": [
                {"configMapRef": {"name": "other"}}, {"secretRef": {"name": secret}}]}]}}))
        };
        let text = |what: &str| {
            format!(
                "{what} c with envFrom referencing secret.secretName=\"other\" is not allowed \
                 because service account s does not reference that secret"
            )
        };
        for (list, what) in [
            ("containers", "container"),
            ("initContainers", "init container"),
        ] {
            assert_eq!(unreferenced(&account, &pod(list, "own")), None);
            assert_eq!(
                unreferenced(&account, &pod(list, "other")),
                Some(text(what))
            );
        }
        let list = "ephemeralContainers";
        assert_eq!(unreferenced_by_ephemeral(&account, &pod(list, "own")), None);
        assert_eq!(
            unreferenced_by_ephemeral(&account, &pod(list, "other")),
            Some(text("ephemeral container"))
        );
    }
}
