//! Custom resources in the hands of a user with kubectl, in each tested version.

use crate::harness::{Daemon, Kubectl};

/// A definition and two objects in one file.
const MANIFEST: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: seals.example.com}
spec:
  group: example.com
  scope: Namespaced
  names:
    {plural: seals, singular: seal, kind: Seal, shortNames: [sl], categories: [all, sea]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}
    additionalPrinterColumns:
    - {name: Colour, type: string, jsonPath: .spec.colour}
    - {name: Port, type: string, priority: 1, jsonPath: .spec.port}
    schema:
      openAPIV3Schema:
        type: object
        description: A seal of the sea.
        required: [spec]
        properties:
          spec:
            type: object
            description: The wanted seal.
            required: [colour]
            properties:
              colour:
                {type: string, description: The colour of its fur., enum: [grey, white, black]}
              count: {type: integer, default: 1, minimum: 1}
              port: {x-kubernetes-int-or-string: true}
              maybe: {type: string, nullable: true}
              friends:
                type: array
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string, description: The name of a friend.}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              pod:
                type: object
                x-kubernetes-embedded-resource: true
                x-kubernetes-preserve-unknown-fields: true
          status:
            type: object
            properties: {count: {type: integer}}
---
apiVersion: example.com/v1
kind: Seal
metadata: {name: bob}
spec: {colour: grey, port: http, maybe: null, free: {any: {thing: 1}},
  pod: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n}}}
---
apiVersion: example.com/v1
kind: Seal
metadata: {name: eve}
spec: {colour: white, port: 80, friends: [{name: bob}]}
";

const APPLY: [&str; 3] = ["apply", "-f", "-"];

fn seal(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: example.com/v1\nkind: Seal\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"
    )
}

/// Each version of kubectl that is there, with a daemon of its own.
async fn with_each(test: impl AsyncFn(&Kubectl)) {
    for version in ["1.20", "1.32", "1.36"] {
        let daemon = Daemon::start().await;
        if let Some(kubectl) = Kubectl::find(version, &daemon) {
            test(&kubectl).await;
        }
    }
}

/// Applies the definition and its objects. kubectl looks all kinds up before it sends anything, so
/// it finds those of the definition only when it runs again.
async fn apply(kubectl: &Kubectl) {
    let refused = kubectl.fails_with(&APPLY, MANIFEST).await;
    assert!(
        refused.contains("no matches for kind \"Seal\""),
        "{refused}"
    );
    let definition = "crd/seals.example.com";
    let established = "--for=condition=Established";
    let printed = kubectl.ok(&["wait", established, definition]).await;
    assert!(printed.contains("condition met"), "{printed}");
    let applied = kubectl.ok_with(&APPLY, MANIFEST).await;
    let lines: Vec<&str> = applied.lines().collect();
    assert_eq!(
        lines,
        [
            "customresourcedefinition.apiextensions.k8s.io/seals.example.com unchanged",
            "seal.example.com/bob created",
            "seal.example.com/eve created",
        ]
    );
}

/// CRD-105, CRD-106: `explain` shows descriptions, types and required fields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_explains_custom_resources_crd_105_crd_106() {
    with_each(async |kubectl: &Kubectl| {
        apply(kubectl).await;
        let shown = kubectl.ok(&["explain", "seals"]).await;
        let has = |shown: &str, line: &str| shown.lines().any(|known| known.trim() == line);
        assert!(has(&shown, "A seal of the sea."), "{shown}");
        assert!(has(&shown, "spec\t<Object> -required-"), "{shown}");
        assert!(has(&shown, "The wanted seal."), "{shown}");
        let metadata = "Standard object's metadata. More info:";
        assert!(has(&shown, metadata), "{shown}");
        let shown = kubectl.ok(&["explain", "seal.spec.friends"]).await;
        assert!(has(&shown, "name\t<string> -required-"), "{shown}");
        assert!(has(&shown, "The name of a friend."), "{shown}");
        let shown = kubectl.ok(&["explain", "sl.spec.pod"]).await;
        // The second format shows no field of an object that keeps unknown fields.
        assert_eq!(
            shown.contains("apiVersion\t<"),
            kubectl.version != "1.20",
            "{shown}"
        );
        let shown = kubectl.ok(&["explain", "seals", "--recursive"]).await;
        for line in ["ownerReferences", "friends\t<[]Object>", "count\t<integer>"] {
            let found = shown.lines().any(|known| known.trim().starts_with(line));
            assert!(found, "{line}: {shown}");
        }
        let refused = kubectl.fails(&["explain", "seal.spec.nothing"]).await;
        assert!(refused.contains("\"nothing\" does not exist"), "{refused}");
    })
    .await;
}

/// CRD-105, CRD-107: validation by the client where it does that itself, and by the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_validates_custom_resources_crd_105_crd_107() {
    with_each(async |kubectl: &Kubectl| {
        apply(kubectl).await;
        let unknown = seal("bad", "colour: grey, wrong: 1");
        let refused = kubectl.fails_with(&APPLY, &unknown).await;
        let expected = match kubectl.version {
            "1.20" => {
                "ValidationError(Seal.spec): unknown field \"wrong\" in com.example.v1.Seal.spec"
            }
            _ => "strict decoding error: unknown field \"spec.wrong\"",
        };
        assert!(refused.contains(expected), "{refused}");
        let refused = kubectl.fails_with(&APPLY, &seal("bad", "count: 2")).await;
        let expected = match kubectl.version {
            "1.20" => "missing required field \"colour\" in com.example.v1.Seal.spec",
            _ => "The Seal \"bad\" is invalid: spec.colour: Required value",
        };
        assert!(refused.contains(expected), "{refused}");
        let refused = kubectl
            .fails_with(&APPLY, &seal("bad", "colour: red"))
            .await;
        let expected = "spec.colour: Unsupported value: \"red\": supported values: \"grey\"";
        assert!(refused.contains(expected), "{refused}");
        let applied = kubectl
            .ok_with(&["apply", "--validate=false", "-f", "-"], &unknown)
            .await;
        assert_eq!(applied, "seal.example.com/bad created\n");
    })
    .await;
}

/// CRD-101, CRD-195: categories and columns; changes by diff, edit, scale and apply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_shows_and_changes_custom_resources_crd_101_crd_195() {
    with_each(async |kubectl: &Kubectl| {
        apply(kubectl).await;
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        let table = async |arguments: &[&str]| {
            let shown = kubectl.ok(arguments).await;
            shown.lines().map(words).collect::<Vec<Vec<String>>>()
        };
        let narrow = [
            vec!["NAME", "COLOUR"],
            vec!["bob", "grey"],
            vec!["eve", "white"],
        ];
        assert_eq!(table(&["get", "sl"]).await, narrow);
        assert_eq!(table(&["get", "sea"]).await, narrow);
        let wide = table(&["get", "seals", "-o", "wide"]).await;
        let expected = [
            vec!["NAME", "COLOUR", "PORT"],
            vec!["bob", "grey", "http"],
            vec!["eve", "white", "80"],
        ];
        assert_eq!(wide, expected);
        let all = kubectl.ok(&["get", "all"]).await;
        assert!(all.contains("service/kubernetes"), "{all}");
        assert!(all.contains("seal.example.com/bob"), "{all}");
        let black = seal("eve", "colour: black, port: 80, friends: [{name: bob}]");
        let diff = kubectl.differs(&["diff", "-f", "-"], &black).await;
        assert!(
            diff.contains("-  colour: white\n+  colour: black\n"),
            "{diff}"
        );
        let configured = kubectl.ok_with(&APPLY, &black).await;
        assert_eq!(configured, "seal.example.com/eve configured\n");
        let scaled = kubectl.ok(&["scale", "seal", "eve", "--replicas=3"]).await;
        assert!(scaled.contains("seal.example.com/eve scaled"), "{scaled}");
        let spec = [
            "get",
            "seal",
            "eve",
            "-o",
            "jsonpath={.spec.colour} {.spec.count}",
        ];
        assert_eq!(kubectl.ok(&spec).await, "black 3");
    })
    .await;
}

/// API-45: an editor changes an object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_edits_custom_resources_api_45() {
    for version in ["1.20", "1.32", "1.36"] {
        let daemon = Daemon::start().await;
        let Some(kubectl) = Kubectl::find(version, &daemon) else {
            continue;
        };
        apply(&kubectl).await;
        let kubectl = kubectl.with_editor("/bin/sed -i s/white/black/");
        let edited = kubectl.ok(&["edit", "seal", "eve"]).await;
        assert_eq!(edited, "seal.example.com/eve edited\n");
        let colour = ["get", "seal", "eve", "-o", "jsonpath={.spec.colour}"];
        assert_eq!(kubectl.ok(&colour).await, "black");
    }
}
