use super::*;
use crate::server::testing::{run, stored};

fn routed(catalog: &Catalog, method: &str, target: &str) -> Result<String, Miss> {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let info = RequestInfo::parse(&method, path, query == "watch", "").expect("a path");
    route(&method, &info, catalog).map(|route| match route {
        Route::Resource(target) => {
            let definition = target.storage.resource();
            let name = [
                target.name.as_str(),
                target.storage.subresource().unwrap_or_default(),
            ]
            .join("/");
            let namespace = target.namespace.unwrap_or_default();
            format!(
                "{:?} {} {namespace} {name}",
                target.verb,
                definition.qualified()
            )
        }
        Route::Group(name) => format!("group {name}"),
        Route::Resources { group, version } => format!("resources {group} {version}"),
        Route::OpenApiV3(key) => format!("openapi {key}"),
        Route::Health(root, check) => format!("{root:?} {check}"),
        _ => "a path of its own".to_owned(),
    })
}

#[test]
fn resources_are_found_api_10() {
    run(async {
        let catalog = stored(false).await.registry.current();
        for (method, target, expected) in [
            ("GET", "/api/v1/configmaps", "List configmaps  /"),
            ("GET", "/api/v1/configmaps?watch", "Watch configmaps  /"),
            (
                "GET",
                "/api/v1/namespaces/d/configmaps/",
                "List configmaps d /",
            ),
            (
                "GET",
                "/api/v1/namespaces/d/configmaps/a",
                "Get configmaps d a/",
            ),
            (
                "POST",
                "/api/v1/namespaces/d/configmaps",
                "Create configmaps d /",
            ),
            (
                "PUT",
                "/api/v1/namespaces/d/configmaps/a",
                "Update configmaps d a/",
            ),
            (
                "PATCH",
                "/api/v1/namespaces/d/configmaps/a",
                "Patch configmaps d a/",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/d/configmaps/a",
                "Delete configmaps d a/",
            ),
            (
                "DELETE",
                "/api/v1/namespaces/d/configmaps",
                "DeleteCollection configmaps d /",
            ),
            ("GET", "/api/v1/namespaces/d", "Get namespaces  d/"),
            (
                "PUT",
                "/api/v1/namespaces/d/status",
                "Update namespaces  d/status",
            ),
            ("POST", "/api/v1/nodes", "Create nodes  /"),
            (
                "GET",
                "/api/v1/watch/namespaces/d/configmaps/a",
                "Watch configmaps d a/",
            ),
            (
                "GET",
                "/apis/apps/v1/namespaces/d/deployments/w/status",
                "Get deployments.apps d w/status",
            ),
        ] {
            assert_eq!(
                routed(&catalog, method, target),
                Ok(expected.to_owned()),
                "{method} {target}"
            );
        }
    });
}

#[test]
fn paths_that_are_not_there_api_12() {
    run(async {
        let catalog = stored(false).await.registry.current();
        for (target, miss) in [
            ("/nonsense", Miss::Page),
            ("/apis/none.example.com", Miss::Page),
            ("/apis/none.example.com/v1", Miss::Page),
            ("/apis/none.example.com/v1/things", Miss::Page),
            ("/api/v2", Miss::Resource),
            ("/api/v2/pods", Miss::Resource),
            ("/apis/apps/v9", Miss::Resource),
            ("/apis/apps/v9/deployments", Miss::Resource),
            ("/api/v1/nonsense", Miss::Resource),
            ("/api/v1//pods", Miss::Resource),
            ("/api/v1/namespaces/d/nonsense/x", Miss::Resource),
            ("/api/v1/namespaces/d/configmaps/a/nonsense", Miss::Resource),
            (
                "/apis/coordination.k8s.io/v1/namespaces/d/leases/a/status",
                Miss::Resource,
            ),
            ("/api/v1/namespaces/d/configmaps/a/status/x", Miss::Resource),
            ("/api/v1/namespaces/d/nodes", Miss::Resource),
            ("/api/v1/namespaces/d/namespaces/e", Miss::Resource),
            ("/api/v1/configmaps/a", Miss::Resource),
            ("/api/v1/proxy/nodes/n", Miss::Resource),
            ("/taffrail/v1/nonsense", Miss::Page),
            // A path begins with one slash.
            ("//api/v1/namespaces/d", Miss::Page),
            ("//api/v1", Miss::Page),
            ("//api", Miss::Page),
            ("//healthz", Miss::Page),
        ] {
            assert_eq!(routed(&catalog, "GET", target), Err(miss), "{target}");
        }
    });
}

#[test]
fn methods_that_paths_have_not_api_10_and_12() {
    run(async {
        let catalog = stored(false).await.registry.current();
        for (method, target) in [
            ("PUT", "/api/v1/namespaces/d/configmaps"),
            ("PATCH", "/api/v1/namespaces/d/configmaps"),
            ("POST", "/api/v1/namespaces/d/configmaps/a"),
            ("POST", "/api/v1/configmaps"),
            ("DELETE", "/api/v1/configmaps"),
            ("DELETE", "/api/v1/namespaces"),
            ("HEAD", "/api/v1/namespaces/d/configmaps"),
            ("BREW", "/api/v1/namespaces/d/configmaps"),
            ("POST", "/api/v1/watch/configmaps"),
            ("DELETE", "/api/v1/namespaces/d/status"),
            ("POST", "/api"),
            ("DELETE", "/version"),
            ("HEAD", "/version"),
            ("GET", "/taffrail/v1/compact"),
        ] {
            assert_eq!(
                routed(&catalog, method, target),
                Err(Miss::Method),
                "{method} {target}"
            );
        }
    });
}

#[test]
fn paths_of_the_server_itself() {
    run(async {
        let catalog = stored(false).await.registry.current();
        for (method, target, expected) in [
            ("GET", "/", "a path of its own"),
            ("HEAD", "/index.html", "a path of its own"),
            ("GET", "/version/", "a path of its own"),
            ("GET", "/apis/apps", "group apps"),
            ("GET", "/apis/apps/v1", "resources apps v1"),
            ("GET", "/api/v1/", "resources  v1"),
            ("GET", "/openapi/v3/apis/apps/v1", "openapi apis/apps/v1"),
            // Health and OpenAPI paths answer all methods alike (API-128).
            ("HEAD", "/readyz/ping", "Readyz ping"),
            ("POST", "/healthz", "Healthz "),
            ("OPTIONS", "/livez", "Livez "),
            ("HEAD", "/openapi/v2", "a path of its own"),
            ("PUT", "/openapi/v2", "a path of its own"),
            ("HEAD", "/openapi/v3", "a path of its own"),
            ("DELETE", "/openapi/v3/apis/apps/v1", "openapi apis/apps/v1"),
            ("POST", "/taffrail/v1/compact", "a path of its own"),
        ] {
            assert_eq!(
                routed(&catalog, method, target),
                Ok(expected.to_owned()),
                "{method} {target}"
            );
        }
    });
}
