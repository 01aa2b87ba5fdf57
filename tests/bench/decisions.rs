//! Measures how long RBAC takes to decide about a request of a service account, among many others
//! (API-288). The authorizer follows the caches of roles and bindings, as in the daemon.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use actors::engine::{Engine, MemoryEngine, Origin, Retention};
use actors::supervisor::{ActorSystem, ActorSystemConfig};
use futures_util::FutureExt;
use serde_json::{Value, json};
use taffrail::api::object::Object;
use taffrail::api::user_info::UserInfo;
use taffrail::auth::{Attributes, Authorizer, Authorizers, Member};
use taffrail::kinds::definitions::built_in;
use taffrail::registry::rbac::{RBAC_CACHES, RbacAuthorizer};
use taffrail::storage::Storage;
use taffrail::storage::factory::{Engines, StorageFactory, StorageOptions};
use taffrail::storage::transformer::Identity;

use crate::meter;
use crate::report::{figure, part};

/// The service accounts. Each has a binding of the whole cluster and one of its namespace.
const ACCOUNTS: usize = 5_000;
const NAMESPACES: usize = 100;
/// The rules of the role of each binding.
const RULES: usize = 10;
/// The decisions of one mean, and the number of means. The smallest mean counts.
const DECISIONS: usize = 200_000;
const MEANS: usize = 10;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The storages of the resources of RBAC, and the authorizer that follows their caches.
struct Roles {
    storages: Vec<Arc<dyn Storage>>,
    actor_system: ActorSystem,
    rbac: Arc<RbacAuthorizer>,
}

impl Roles {
    async fn start() -> Roles {
        let engine: Arc<dyn Engine> = MemoryEngine::new();
        let factory = StorageFactory::new(StorageOptions::default(), built_in()).unwrap();
        let plans = factory.plans(&Engines::of(engine.clone()), &Identity);
        let mut plans = plans.unwrap();
        plans.retain(|plan| RBAC_CACHES.contains(&&*plan.resource().name));
        let retention = Retention {
            age: Duration::from_secs(3600),
            bytes: 1 << 30,
        };
        let specs = plans.iter().map(|plan| plan.cacher_spec()).collect();
        let config = ActorSystemConfig::of(engine, retention);
        let actor_system = ActorSystem::start(config, specs).unwrap();
        actor_system.all_ready().await;
        let storage = |name: &&str| {
            let mut plans = plans.iter();
            let plan = plans.find(|plan| plan.resource().name == *name);
            plan.unwrap().build(&actor_system).storage
        };
        let storages = RBAC_CACHES.iter().map(storage).collect();
        let caches = RBAC_CACHES.map(|name| actor_system.cacher(name).unwrap());
        Roles {
            storages,
            rbac: Arc::new(RbacAuthorizer::new(caches)),
            actor_system,
        }
    }

    /// Stores an object: of the first resource a ClusterRole, and so on as in [`RBAC_CACHES`].
    async fn create(&self, resource: usize, namespace: &str, name: &str, rest: Value) {
        let (plural, kind) = [
            ("clusterroles", "ClusterRole"),
            ("roles", "Role"),
            ("clusterrolebindings", "ClusterRoleBinding"),
            ("rolebindings", "RoleBinding"),
        ][resource];
        let mut object = Object::of(rest.as_object().unwrap().clone());
        object.set_type(kind, &format!("{GROUP}/v1"));
        object.set_meta("name", name);
        let key = match namespace.is_empty() {
            true => format!("/{plural}/{name}"),
            false => {
                object.set_meta("namespace", namespace);
                format!("/{plural}/{namespace}/{name}")
            }
        };
        let storage = &self.storages[resource];
        let created = storage.create(&key, object.into(), Origin::default());
        created.await.unwrap();
    }

    /// Stores the roles and bindings of all accounts, and those of every user.
    async fn fill(&self) {
        self.create(0, "", "shared", rules("shared.example.com", "nodes"))
            .await;
        for number in 0..NAMESPACES {
            let namespace = namespace(number);
            self.create(1, &namespace, "own", rules("", "configmaps"))
                .await;
        }
        for number in 0..ACCOUNTS {
            let (namespace, name) = (namespace(number), account(number));
            let subject = json!({
                "kind": "ServiceAccount", "name": name, "namespace": namespace,
            });
            let of_cluster = binding("ClusterRole", "shared", &subject);
            self.create(2, "", &name, of_cluster).await;
            let own = binding("Role", "own", &subject);
            self.create(3, &namespace, &name, own).await;
        }
        // As installed, every user may read discovery.
        for number in 0..3 {
            let name = format!("system:of-all-{number}");
            let paths = json!({
                "rules": [{ "nonResourceURLs": ["/api", "/api/*", "/version"], "verbs": ["get"] }],
            });
            self.create(0, "", &name, paths).await;
            let all = json!({ "apiGroup": GROUP, "kind": "Group", "name": "system:authenticated" });
            self.create(2, "", &name, binding("ClusterRole", &name, &all))
                .await;
        }
    }
}

fn namespace(number: usize) -> String {
    format!("team-{:03}", number % NAMESPACES)
}

fn account(number: usize) -> String {
    format!("account-{number:05}")
}

/// Returns rules, of which the last one is about this resource.
fn rules(group: &str, resource: &str) -> Value {
    let verbs = ["get", "list", "watch", "create", "update", "patch"];
    let rule = |number: usize| {
        let (group, resource) = match number + 1 == RULES {
            true => (group.to_owned(), resource.to_owned()),
            false => ("example.com".to_owned(), format!("resources{number}")),
        };
        json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs })
    };
    json!({ "rules": (0..RULES).map(rule).collect::<Vec<Value>>() })
}

fn binding(kind: &str, role: &str, subject: &Value) -> Value {
    json!({
        "roleRef": { "apiGroup": GROUP, "kind": kind, "name": role },
        "subjects": [subject],
    })
}

/// Returns the user of a service account, as its token names it.
fn user(number: usize) -> UserInfo {
    let (namespace, name) = (namespace(number), account(number));
    UserInfo {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ],
        ..UserInfo::default()
    }
}

/// Decides about a read of a ConfigMap, which the last rule of the account allows.
fn decide(authorizer: &dyn Authorizer, user: &UserInfo, namespace: &str) {
    let attributes = Attributes {
        namespace,
        name: "settings",
        ..Attributes::on_resource(user, "get", "", "configmaps")
    };
    let answer = authorizer.authorize(&attributes).now_or_never();
    assert!(answer.is_some_and(|answer| black_box(answer).is_allowed()));
}

/// Returns the CPU time of one of so many calls, in microseconds.
fn each(calls: usize, call: impl FnMut(usize)) -> f64 {
    let begun = meter::thread();
    (0..calls).for_each(call);
    (meter::thread() - begun) * 1e6 / calls as f64
}

async fn decisions() {
    let roles = Roles::start().await;
    roles.fill().await;
    let users: Vec<(UserInfo, String)> = (0..ACCOUNTS)
        .map(|number| (user(number), namespace(number)))
        .collect();
    let authorizer = Authorizers::new(vec![Member {
        kind: "RBAC",
        name: "rbac".to_owned(),
        authorizer: roles.rbac.clone(),
    }]);
    let of = |number: usize| {
        let (user, namespace) = &users[number % ACCOUNTS];
        decide(&authorizer, user, namespace);
    };
    let reading = each(1, of);
    figure("all roles and bindings read, once", reading / 1e3, "ms", "");
    let (mut firsts, mut repeated, mut in_turns) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..MEANS {
        // A change of any role makes all earlier answers void.
        roles
            .create(0, "", &format!("change-{round}"), rules("", "secrets"))
            .await;
        of(0);
        // The first account has asked again after the change.
        firsts.push(each(ACCOUNTS - 1, |number| of(number + 1)));
        in_turns.push(each(DECISIONS, of));
        repeated.push(each(DECISIONS, |_| of(7)));
    }
    let least = |means: &[f64]| means.iter().copied().fold(f64::INFINITY, f64::min);
    figure(
        "first decision of each account",
        least(&firsts),
        "µs",
        "<= 5",
    );
    figure("repeated, one account", least(&repeated), "µs", "<= 1");
    figure(
        "repeated, all accounts in turns",
        least(&in_turns),
        "µs",
        "<= 1",
    );
    roles.actor_system.stop().await;
}

/// Measures decisions of RBAC.
pub fn measure() {
    part(&format!(
        "decisions by {} of {} rules, among {} bindings",
        2,
        2 * RULES,
        2 * ACCOUNTS
    ));
    let measuring = std::thread::spawn(|| actix::System::new().block_on(decisions()));
    measuring.join().unwrap();
}
