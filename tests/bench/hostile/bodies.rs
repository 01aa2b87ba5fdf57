//! Requests with bodies that are expensive to read or to check. Any user with the right to write
//! the kind can send them.

use serde_json::{Value, json};

use crate::harness::Call;

/// A request that is repeated, and the objects that it needs.
pub struct Request {
    pub name: &'static str,
    /// The objects that are created before it.
    pub before: Vec<Call>,
    /// The request. It stores nothing, or the same as before.
    pub call: Call,
    /// The client aborts the request after this many milliseconds.
    pub given_up: Option<u64>,
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";

/// The length of lists of empty items. It results in nearly the longest body.
const EMPTY: usize = 960_000;

fn many(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

fn reversed(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).rev().map(item).collect()
}

fn object(api_version: &str, kind: &str, name: &str, members: Value) -> Value {
    let mut object = members;
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = name.into();
    object
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = object("v1", "Pod", name, json!({ "spec": spec }));
    if pod["spec"].get("containers").is_none() {
        pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    pod
}

/// Returns a Deployment with this pod template.
fn deployment(spec: Value) -> Value {
    let labels = json!({"a": "b"});
    let mut template = pod("", spec);
    template["metadata"] = json!({ "labels": labels });
    let template = json!({"metadata": template["metadata"], "spec": template["spec"]});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    object("apps/v1", "Deployment", "hostile", json!({ "spec": spec }))
}

fn crd(schema: Value) -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}});
    let spec = json!({"group": "hostile.example.com", "scope": "Namespaced",
        "names": {"plural": "floods", "kind": "Flood"}, "versions": [version]});
    let name = "floods.hostile.example.com";
    let (version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    object(version, kind, name, json!({ "spec": spec }))
}

fn policy(validations: Value) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["pods"]});
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": validations});
    let version = "admissionregistration.k8s.io/v1";
    object(
        version,
        "ValidatingAdmissionPolicy",
        "hostile",
        json!({ "spec": spec }),
    )
}

fn stateful_set(templates: Value) -> Value {
    let labels = json!({"a": "b"});
    let template = json!({"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "serviceName": "s",
        "template": template, "volumeClaimTemplates": templates});
    object("apps/v1", "StatefulSet", "hostile", json!({ "spec": spec }))
}

fn dry(path: &str) -> String {
    format!("{path}?dryRun=All")
}

/// Returns a create without effect.
fn created(name: &'static str, path: &str, body: &Value) -> Request {
    Request {
        name,
        before: Vec::new(),
        call: Call::post(&dry(path), body),
        given_up: None,
    }
}

/// Returns an object that is created, and a body that replaces or patches it without effect.
fn replaced(
    name: &'static str,
    (collection, subresource): (&str, &str),
    stored: &Value,
    body: &Value,
) -> Request {
    let at = stored["metadata"]["name"].as_str().unwrap();
    let one = format!("{collection}/{at}{subresource}");
    Request {
        name,
        before: vec![Call::post(collection, stored)],
        call: Call::put(&dry(&one), body),
        given_up: None,
    }
}

/// Returns an update of the status of an object whose status is stored first.
fn status(name: &'static str, collection: &str, stored: &Value, turned: &Value) -> Request {
    let at = stored["metadata"]["name"].as_str().unwrap();
    let one = format!("{collection}/{at}/status");
    Request {
        before: vec![Call::post(collection, stored), Call::put(&one, stored)],
        ..replaced(name, (collection, "/status"), stored, turned)
    }
}

/// Returns all requests, by the numbers of the findings.
pub fn all() -> Vec<Request> {
    let groups = [
        empty_items(),
        schemas(),
        expressions(),
        squares(),
        statuses(),
    ];
    groups.into_iter().flatten().collect()
}

/// B1, B4, B5, B6: each item is an error.
fn empty_items() -> Vec<Request> {
    let empty = |n| many(n, |_| json!({}));
    let apps = "/apis/apps/v1/namespaces/default/deployments";
    let of_pods = |spec: Value| deployment(spec);
    let container = |members: Value| {
        let mut container = members;
        container["name"] = "c".into();
        container["image"] = "i".into();
        of_pods(json!({"containers": [container]}))
    };
    let review = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods",
        "labelSelector": {"requirements": empty(EMPTY)}}}});
    let review = object(
        "authorization.k8s.io/v1",
        "SelfSubjectAccessReview",
        "",
        review,
    );
    let affinity = json!({"podAffinity":
        {"preferredDuringSchedulingIgnoredDuringExecution": empty(EMPTY)}});
    let mut versions = crd(json!({"type": "object"}));
    versions["spec"]["versions"] = empty(EMPTY);
    let hooks = json!({ "webhooks": empty(EMPTY) });
    let (hooks_version, hooks_kind) = (
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
    );
    let class = |n| {
        let members = json!({"provisioner": "p", "allowedTopologies": empty(n)});
        object("storage.k8s.io/v1", "StorageClass", "hostile", members)
    };
    let quota = json!({"spec": {"hard": {"pods": "1"}, "scopes": many(EMPTY, |_| "".into())}});
    let request = json!({"spec": {"request": "YQ==", "signerName": "example.com/s",
        "usages": many(EMPTY, |_| "".into())}});
    let csr = object(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "hostile",
        request,
    );
    vec![
        created(
            "B1 requirements of a review",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &review,
        ),
        created(
            "B4 affinity",
            apps,
            &of_pods(json!({ "affinity": affinity })),
        ),
        created(
            "B4 claim templates",
            STATEFUL_SETS,
            &stateful_set(empty(EMPTY)),
        ),
        created("B4 versions of a definition", CRDS, &versions),
        created(
            "B4 ports of a Service",
            "/api/v1/namespaces/default/services",
            &object(
                "v1",
                "Service",
                "hostile",
                json!({"spec": {"ports": empty(EMPTY)}}),
            ),
        ),
        created(
            "B4 webhooks",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            &object(hooks_version, hooks_kind, "hostile", hooks),
        ),
        created(
            "B4 taints",
            "/api/v1/nodes",
            &object(
                "v1",
                "Node",
                "hostile",
                json!({"spec": {"taints": empty(EMPTY)}}),
            ),
        ),
        created(
            "B4 spread constraints",
            apps,
            &of_pods(json!({"topologySpreadConstraints": empty(EMPTY)})),
        ),
        created(
            "B4 mounts",
            apps,
            &container(json!({"volumeMounts": empty(EMPTY)})),
        ),
        created(
            "B4 containers",
            apps,
            &of_pods(json!({"containers": empty(EMPTY)})),
        ),
        created(
            "B4 rules",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            &object(
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                "hostile",
                json!({"rules": empty(EMPTY)}),
            ),
        ),
        created(
            "B4 usages",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            &csr,
        ),
        created(
            "B5 topologies, 5.5 kB",
            "/apis/storage.k8s.io/v1/storageclasses",
            &class(1_800),
        ),
        created(
            "B5 topologies, 350 kB",
            "/apis/storage.k8s.io/v1/storageclasses",
            &class(116_000),
        ),
        created(
            "B6 scopes",
            "/api/v1/namespaces/default/resourcequotas",
            &object("v1", "ResourceQuota", "hostile", quota),
        ),
    ]
}

/// B7, B8, B9: schemas of custom resources.
fn schemas() -> Vec<Request> {
    let objects = |members: Value| json!({"type": "object", "properties": members});
    let numbered = |n: usize, item: &dyn Fn(usize) -> Value| {
        let members = (0..n).map(|number| (format!("p{number}"), item(number)));
        objects(Value::Object(members.collect()))
    };
    let below_name = |bytes: usize, value: Value| {
        let mut members = json!({});
        members["n".repeat(bytes)] = value;
        objects(members)
    };
    let rule = json!([{"rule": "true"}]);
    let object = |_| objects(json!({"a": {"type": "integer"}}));
    let mut ruled = numbered(5_000, &object);
    ruled["x-kubernetes-validations"] = rule;
    let patterns = numbered(30_000, &|number| {
        json!({"type": "string", "pattern": format!("^a{number}$"),
            "default": format!("a{number}")})
    });
    let letters = json!({"type": "string", "pattern": r"\pL".repeat(500_000), "default": "a"});
    // Each item of the default is of the wrong type.
    let list = json!({"type": "array", "items": {"type": "string"},
        "default": many(250_000, |_| 1.into())});
    let dear = numbered(40, &|_| {
        json!({"type": "array", "maxItems": 1_400, "items": {"type": "integer"},
            "default": many(1_400, Value::from),
            "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a + b >= 0))"}]})
    });
    let ten = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
    let message = format!(
        "{ten}.map(a, {ten}.map(b, {ten}.map(c, string(a + b + c)))).size() > 0 ? 'a' : 'b'"
    );
    let messages = numbered(3_000, &|_| {
        json!({"type": "object", "properties": {"a": {"type": "string", "default": "x"}},
            "default": {},
            "x-kubernetes-validations": [{"rule": "false", "messageExpression": message}]})
    });
    let mut given_up = created("B8 given up", CRDS, &crd(below_name(250_000, list)));
    given_up.given_up = Some(700);
    vec![
        created(
            "B7 rules below a long name",
            CRDS,
            &crd(below_name(200_000, ruled)),
        ),
        created("B7 patterns with defaults", CRDS, &crd(patterns)),
        created(
            "B7 a pattern of classes",
            CRDS,
            &crd(objects(json!({ "a": letters }))),
        ),
        given_up,
        created("B9 rules of defaults", CRDS, &crd(dear)),
        created("B9 message expressions", CRDS, &crd(messages)),
    ]
}

/// B2, B9: expressions.
fn expressions() -> Vec<Request> {
    const NESTED: [(&str, &str); 4] = [
        ("B2 an expression of ]-", "]-"),
        ("B2 an expression of )!", ")!"),
        ("B2 an expression of -]", "-]"),
        ("B2 an expression of &&!", "&&!"),
    ];
    let nested = NESTED.map(|(name, text)| {
        let expression = format!("{}1", text.repeat(3_400 / text.len()));
        created(
            name,
            POLICIES,
            &policy(json!([{ "expression": expression }])),
        )
    });
    // Each list has two types: that of the inner list, and another one.
    let doubled = (0..20).fold("1".to_owned(), |inner, _| format!("[{inner}, '']"));
    let doubled = many(2_000, |_| json!({"expression": format!("{doubled} == []")}));
    let types = created("B9 lists of two types", POLICIES, &policy(doubled));
    nested.into_iter().chain([types]).collect()
}

/// B10, B20, B22: lists whose items were once compared with each other.
fn squares() -> Vec<Request> {
    let toleration = |n: usize| json!({"key": format!("k{n}"), "operator": "Exists"});
    let gate = |n: usize| json!({"name": format!("example.com/g{n}")});
    let volume = |n: usize| json!({"name": format!("v{n}"), "emptyDir": {}});
    let container = |n: usize| {
        json!({"name": format!("e{n}"), "image": "i", "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always"})
    };
    let claim = |n: usize| {
        json!({"metadata": {"name": format!("c{n}")}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1"}}}})
    };
    let of = |name: &str, list: Value| pod(name, json!({ "tolerations": list }));
    let class = json!({"handler": "h", "scheduling": {"tolerations": many(10_000, toleration)}});
    let class = object("node.k8s.io/v1", "RuntimeClass", "hostile", class);
    let beside = |n: usize| json!({"key": format!("o{n}"), "operator": "Exists"});
    let beside = json!({"runtimeClassName": "hostile", "tolerations": many(10_000, beside)});
    let mut with_class = created("B10 a runtime class", PODS, &pod("classed", beside));
    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    with_class.before.push(Call::post(classes, &class));
    let gates = |list: Value| pod("gates", json!({ "schedulingGates": list }));
    let volumes = |list: Value| pod("volumes", json!({ "volumes": list }));
    let mut debugged = pod("debugged", json!({}));
    let debugged_before = debugged.clone();
    debugged["spec"]["ephemeralContainers"] = many(16_000, container);
    let address = |n: usize| json!({"ip": format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255)});
    let endpoints = |list: Value| {
        let members = json!({"subsets": [{"addresses": list, "ports": [{"port": 80}]}]});
        object("v1", "Endpoints", "hostile", members)
    };
    let driver = |n: usize| {
        json!({"name": format!("d{n}.example.com"), "nodeID": "n",
            "topologyKeys": null})
    };
    let drivers = |list: Value| {
        let members = json!({"spec": {"drivers": list}});
        object("storage.k8s.io/v1", "CSINode", "hostile", members)
    };
    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    vec![
        replaced(
            "B10 tolerations turned round",
            (PODS, ""),
            &of("tolerant", many(20_000, toleration)),
            &of("tolerant", reversed(20_000, toleration)),
        ),
        with_class,
        replaced(
            "B10 scheduling gates turned round",
            (PODS, ""),
            &gates(many(40_000, gate)),
            &gates(reversed(40_000, gate)),
        ),
        replaced(
            "B10 addresses turned round",
            ("/api/v1/namespaces/default/endpoints", ""),
            &endpoints(many(60_000, address)),
            &endpoints(reversed(60_000, address)),
        ),
        created(
            "B20 claim templates",
            STATEFUL_SETS,
            &stateful_set(many(16_000, claim)),
        ),
        replaced(
            "B22 ephemeral containers",
            (PODS, "/ephemeralcontainers"),
            &debugged_before,
            &debugged,
        ),
        replaced(
            "B22 volumes turned round",
            (PODS, ""),
            &volumes(many(8_000, volume)),
            &volumes(reversed(8_000, volume)),
        ),
        replaced(
            "B22 drivers turned round",
            (nodes, ""),
            &drivers(many(8_000, driver)),
            &drivers(reversed(8_000, driver)),
        ),
    ]
}

/// B10, B19, B22: statuses.
fn statuses() -> Vec<Request> {
    let condition = |n: usize| json!({"type": format!("example.com/c{n}"), "status": "True"});
    let container = |n: usize| {
        json!({"name": format!("c{n}"), "image": "i", "imageID": "", "restartCount": 0,
            "ready": false, "state": {"terminated": {"exitCode": 0}}})
    };
    let claim = |n: usize| json!({"name": format!("r{n}"), "resourceClaimName": format!("c{n}")});
    let of = |name: &str, field: &str, list: Value| {
        let mut pod = pod(name, json!({}));
        pod["status"][field] = list;
        pod
    };
    let turned = |name: &'static str, at: &str, field: &str, n, item: &dyn Fn(usize) -> Value| {
        let stored = of(at, field, many(n, item));
        status(name, PODS, &stored, &of(at, field, reversed(n, item)))
    };
    vec![
        turned(
            "B19 conditions turned round",
            "conditions",
            "conditions",
            // With the entries of its managers the object nearly has the maximum size of a value.
            32_000,
            &condition,
        ),
        turned(
            "B22 container statuses",
            "statuses",
            "containerStatuses",
            16_000,
            &container,
        ),
        turned(
            "B22 claim statuses",
            "claims",
            "resourceClaimStatuses",
            16_000,
            &claim,
        ),
    ]
}
