//! Tests of the whole service over a store in memory.
//!
//! This folder owns the expected responses of filters, routes and handlers together. The tests send
//! parsed requests and compare the responses. They must not know sockets or HTTP versions.

mod other_storages;

use std::future::ready;
use std::time::Duration;

use actors::dispatcher::Caller;
use actors::dispatcher::DispatcherConfig;
use actors::engine::{
    Change, Expect, HistoryRequest, Key, LeaseId, Mutation, Origin, Prefix, Prepared, Revision,
};
use actors::watchdog::Watchdog;
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use http::HeaderMap;
use serde_json::{Value, json};

use super::*;
use crate::auth::{
    Attributes, Authenticators, Authorization, Authorizer, Authorizers, Member, Revocations,
    StaticTokens, Token,
};
use crate::config::{AccessLogMode, Config};
use crate::kubelet::Kubelets;
use crate::server::api_server::{ApiServerConfig, HttpRules, Process, Timeouts};
use crate::server::features::Features;
use crate::server::filters::in_flight::InFlightLimits;
use crate::server::filters::response_headers::ResponseHeaders;
use crate::server::health::Health;
use crate::server::large_requests::LargeRequests;
use crate::server::testing::{Stored, run, stored, stored_without_cache_of};
use crate::storage::rewrite::Rewriter;
use crate::transport::WatchBody;

/// A service over a store in memory, with filled caches.
async fn service() -> Service {
    limited(InFlightLimits::default()).await
}

async fn limited(limits: InFlightLimits) -> Service {
    over(stored(true).await, limits)
}

/// Lets everybody read health and version, as a binding of Kubernetes does.
struct PublicPaths;

impl Authorizer for PublicPaths {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Authorization> {
        let paths = ["/livez", "/readyz", "/healthz", "/version"];
        let is_public = attributes.reads_a_path() && paths.contains(&attributes.path);
        ready(Authorization::allow_if(is_public)).boxed()
    }
}

/// The admin's group may do everything, and others read public paths.
fn public() -> Arc<dyn Authorizer> {
    Arc::new(Authorizers::new(vec![Member {
        kind: "Public",
        name: "public".to_owned(),
        authorizer: Arc::new(PublicPaths),
    }]))
}

fn over(stored: Stored, limits: InFlightLimits) -> Service {
    let health = Health::default();
    health.complete_start();
    let revocations = Revocations::default();
    let admin = Token::new("secret").expect("a token");
    let tokens = StaticTokens::new(admin, Vec::new(), revocations.clone());
    let server = ApiServer::new(ApiServerConfig {
        authorizer: public(),
        registry: stored.registry,
        authenticator: Arc::new(Authenticators::new(vec![Arc::new(tokens)], revocations)),
        health: Arc::new(health),
        actor_system: stored.actor_system,
        rewriter: Rewriter::default(),
        own_store: None,
        rotate_token: Arc::new(|| Ok(0)),
        issuer: None,
        audit: None,
        test: None,
        unknown_paths: None,
        aggregation: None,
        features: Features::of(|_| true),
        http: HttpRules {
            timeouts: Timeouts {
                request: Duration::from_secs(60),
                watch_seconds: 1800,
            },
            response_headers: ResponseHeaders::default(),
        },
        process: Process {
            started: crate::clock::now(),
            flags: Arc::new([("a".to_owned(), "b".to_owned())]),
        },
        access_log: AccessLogMode::Off,
        metrics: None,
        metrics_lines: None,
        address: "127.0.0.1:6443".to_owned(),
        kubelets: Kubelets::load(&Config::default(), Arc::default()).expect("no files"),
        large_requests: LargeRequests::start(&Watchdog::default()).expect("threads"),
        limits,
    });
    let dispatcher = LocalDispatcher::start(DispatcherConfig::default(), 0);
    Service::new(Arc::new(server), dispatcher)
}

struct Got {
    code: u16,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

async fn send(service: &Service, request: http::request::Builder, body: &str) -> Got {
    let body = match body {
        "" => RequestBody::Empty,
        body => RequestBody::Bytes(Bytes::from(body.to_owned())),
    };
    let answer = service.call(request.body(body).expect("a request")).await;
    let (parts, body) = answer.into_parts();
    let bytes = match body {
        ResponseBody::Full(bytes) => bytes.to_vec(),
        ResponseBody::Chunks(chunks) => chunks.collect().await.concat(),
        _ => Vec::new(),
    };
    Got {
        code: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }
}

fn request(method: &str, target: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(target)
        .header("Authorization", "Bearer secret")
        .header("Accept", "application/json")
}

async fn call(service: &Service, method: &str, target: &str, body: &str) -> Got {
    send(service, request(method, target), body).await
}

const CMS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn an_object_lives_from_post_to_delete() {
    run(async {
        let service = service().await;
        let body = r#"{"metadata":{"name":"default"}}"#;
        assert_eq!(
            call(&service, "POST", "/api/v1/namespaces", body)
                .await
                .code,
            201
        );
        let body = r#"{"metadata":{"name":"a"},"data":{"k":"1"}}"#;
        let created = call(&service, "POST", CMS, body).await;
        assert_eq!(created.code, 201, "{}", created.text);
        assert_eq!(created.json()["kind"], "ConfigMap");
        let got = call(&service, "GET", &format!("{CMS}/a"), "").await;
        assert_eq!((got.code, got.json()), (200, created.json()));
        let list = call(&service, "GET", CMS, "").await;
        assert_eq!(
            list.json()["items"][0]["metadata"],
            created.json()["metadata"]
        );
        let body = r#"{"metadata":{"name":"a"},"data":{"k":"2"}}"#;
        let updated = call(&service, "PUT", &format!("{CMS}/a"), body).await;
        assert_eq!(
            (updated.code, &updated.json()["data"]["k"]),
            (200, &json!("2"))
        );
        let merge = request("PATCH", &format!("{CMS}/a"))
            .header("Content-Type", "application/merge-patch+json");
        let patched = send(&service, merge, r#"{"data":{"k":"3"}}"#).await;
        assert_eq!(
            (patched.code, &patched.json()["data"]["k"]),
            (200, &json!("3"))
        );
        let deleted = call(&service, "DELETE", &format!("{CMS}/a"), "").await;
        assert_eq!(
            (deleted.code, &deleted.json()["status"]),
            (200, &json!("Success"))
        );
        assert_eq!(
            call(&service, "GET", &format!("{CMS}/a"), "").await.code,
            404
        );
    });
}

#[test]
fn every_answer_has_an_audit_id_and_is_not_cached_api_143() {
    run(async {
        let service = service().await;
        let named = request("GET", "/nonsense").header("Audit-ID", "my-own-id");
        let got = send(&service, named, "").await;
        assert_eq!(got.header("audit-id"), "my-own-id");
        assert_eq!(got.header("cache-control"), "no-cache, private");
        let got = call(&service, "GET", "/version", "").await;
        assert_eq!(got.header("audit-id").len(), 36);
    });
}

#[test]
fn authentication_comes_before_authorization_and_routing_api_1_2() {
    run(async {
        let service = service().await;
        let wrong = Request::get("/nonsense").header("Authorization", "Bearer wrong");
        let got = send(&service, wrong, "").await;
        assert_eq!(
            (got.code, &got.json()["reason"]),
            (401, &json!("Unauthorized"))
        );
        let got = send(&service, Request::get("/nonsense"), "").await;
        assert_eq!(
            (got.code, &got.json()["reason"]),
            (403, &json!("Forbidden"))
        );
        assert_eq!(got.header("x-content-type-options"), "nosniff");
        for path in ["/livez", "/readyz", "/healthz", "/version"] {
            assert_eq!(
                send(&service, Request::get(path), "").await.code,
                200,
                "{path}"
            );
        }
    });
}

#[test]
fn probes_are_answered_whatever_else_is_under_way_api_18() {
    run(async {
        let none = InFlightLimits {
            read_only: 0,
            mutating: 0,
            watches: 0,
        };
        let service = limited(none).await;
        for path in ["/livez", "/readyz", "/healthz", "/version"] {
            let got = send(&service, Request::get(path), "").await;
            assert_eq!(got.code, 200, "{path}");
        }
        assert_eq!(call(&service, "GET", CMS, "").await.code, 200);
        let got = send(&service, Request::get(CMS), "").await;
        assert_eq!((got.code, got.header("retry-after")), (429, "1"));
    });
}

#[test]
fn a_bad_timeout_is_refused_before_anybody_is_known_api_15() {
    run(async {
        let service = service().await;
        let got = send(&service, Request::get("/api/v1/pods?timeout=nonsense"), "").await;
        assert_eq!(
            (got.code, &got.json()["reason"]),
            (400, &json!("BadRequest"))
        );
    });
}

#[test]
fn misses_are_told_apart_api_12() {
    run(async {
        let service = service().await;
        for (method, path, code, is_status) in [
            ("GET", "/nonsense", 404, false),
            ("GET", "/apis/none.example.com/v1/things", 404, false),
            ("GET", "/api/v2/pods", 404, true),
            ("GET", "/api/v1/nonsense", 404, true),
            ("PUT", CMS, 405, true),
            ("POST", "/version", 405, true),
            ("GET", "/api/v1/watch", 500, false),
            ("GET", "/api/v1/nodes/%zz", 400, false),
        ] {
            let got = call(&service, method, path, "").await;
            assert_eq!(got.code, code, "{method} {path}");
            assert_eq!(
                got.header("content-type") == "application/json",
                is_status,
                "{path}"
            );
        }
    });
}

#[test]
fn head_works_for_probes_and_not_for_resources_api_128() {
    run(async {
        let service = service().await;
        for (path, code) in [("/livez", 200), ("/", 200), ("/metrics", 200), (CMS, 405)] {
            let got = call(&service, "HEAD", path, "").await;
            assert_eq!((got.code, got.text.as_str()), (code, ""), "{path}");
        }
    });
}

#[test]
fn duplicates_are_warned_of_refused_or_ignored_api_90() {
    run(async {
        let service = service().await;
        call(
            &service,
            "POST",
            "/api/v1/namespaces",
            r#"{"metadata":{"name":"default"}}"#,
        )
        .await;
        let body = r#"{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
        let target = |validation: &str| format!("{CMS}?dryRun=All&fieldValidation={validation}");
        let strict = call(&service, "POST", &target("Strict"), body).await;
        assert_eq!(strict.code, 400);
        assert_eq!(
            strict.json()["message"],
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: \
         duplicate field \"data.k\"",
        );
        let warned = call(&service, "POST", &target("Warn"), body).await;
        assert_eq!(warned.code, 201, "{}", warned.text);
        assert_eq!(
            warned.header("warning"),
            r#"299 - "duplicate field \"data.k\"""#
        );
        let ignored = call(&service, "POST", &target("Ignore"), body).await;
        assert_eq!((ignored.code, ignored.header("warning")), (201, ""));
        call(&service, "POST", CMS, r#"{"metadata":{"name":"a"}}"#).await;
        let patch = |validation: &str| {
            request("PATCH", &format!("{CMS}/a?fieldValidation={validation}"))
                .header("Content-Type", "application/merge-patch+json")
        };
        let body = r#"{"data":{"k":"1","k":"2"}}"#;
        let strict = send(&service, patch("Strict"), body).await;
        assert_eq!(
            (strict.code, &strict.json()["reason"]),
            (422, &json!("Invalid"))
        );
        let warned = send(&service, patch("Warn"), body).await;
        assert_eq!(warned.code, 200, "{}", warned.text);
        assert_eq!(
            warned.header("warning"),
            r#"299 - "duplicate field \"data.k\"""#
        );
    });
}

#[test]
fn bodies_over_the_limit_and_of_unknown_types_are_refused_api_21_and_56() {
    run(async {
        let service = service().await;
        let big = "{}".to_owned() + &" ".repeat(crate::server::request_scope::BODY_BYTES_MAX);
        let got = call(&service, "POST", CMS, &big).await;
        assert_eq!(
            (got.code, &got.json()["reason"]),
            (413, &json!("RequestEntityTooLarge"))
        );
        let text = request("POST", CMS).header("Content-Type", "text/plain");
        assert_eq!(send(&service, text, "{}").await.code, 415);
        let patch =
            request("PATCH", &format!("{CMS}/a")).header("Content-Type", "application/json");
        assert_eq!(send(&service, patch, "{}").await.code, 415);
    });
}

#[test]
fn what_is_not_acceptable_comes_before_what_is_wrong_with_the_body_api_55() {
    run(async {
        let service = service().await;
        let image = Request::post(CMS)
            .header("Authorization", "Bearer secret")
            .header("Content-Type", "text/plain")
            .header("Accept", "image/png");
        let got = send(&service, image, "").await;
        assert_eq!(
            (got.code, got.header("content-type")),
            (406, "application/json")
        );
    });
}

#[test]
fn a_collection_is_deleted_item_by_item_api_118() {
    run(async {
        let service = service().await;
        call(
            &service,
            "POST",
            "/api/v1/namespaces",
            r#"{"metadata":{"name":"default"}}"#,
        )
        .await;
        for name in ["a", "b", "c"] {
            let label = if name == "b" { "keep" } else { "go" };
            let body = format!(r#"{{"metadata":{{"name":"{name}","labels":{{"l":"{label}"}}}}}}"#);
            assert_eq!(call(&service, "POST", CMS, &body).await.code, 201);
        }
        let got = call(&service, "DELETE", &format!("{CMS}?labelSelector=l=go"), "").await;
        assert_eq!(got.code, 200, "{}", got.text);
        assert_eq!(got.json()["kind"], "ConfigMapList");
        assert_eq!(got.json()["items"].as_array().map(Vec::len), Some(2));
        let left = call(&service, "GET", CMS, "").await.json();
        assert_eq!(left["items"][0]["metadata"]["name"], "b");
        assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
    });
}

#[test]
fn once_the_shutdown_has_begun_only_probes_are_answered_1_2() {
    run(async {
        let service = service().await;
        service.thread.server.health.begin_shutdown();
        let got = call(&service, "GET", CMS, "").await;
        assert_eq!((got.code, got.header("retry-after")), (429, "5"));
        assert_eq!(got.header("connection"), "close");
        assert_eq!(call(&service, "GET", "/livez", "").await.code, 200);
        assert_eq!(call(&service, "GET", "/readyz", "").await.code, 500);
    });
}

/// As kube-apiserver does without --shutdown-send-retry-after.
#[test]
fn open_connections_can_be_served_during_the_shutdown_1_2() {
    run(async {
        let service = service().await;
        service.thread.server.health.set_serves_to_the_end(true);
        service.thread.server.health.begin_shutdown();
        assert_eq!(call(&service, "GET", CMS, "").await.code, 200);
        assert_eq!(call(&service, "GET", "/readyz", "").await.code, 500);
    });
}

#[test]
fn a_handler_that_panics_is_answered_500_1_2() {
    let answered = std::panic::catch_unwind(|| panic!("on purpose"));
    let (answer, has_panicked) = survived(answered, "id");
    assert!(has_panicked);
    assert_eq!(answer.status().as_u16(), 500);
    assert_eq!(
        answer.headers().get("content-type").unwrap(),
        "text/plain; charset=utf-8"
    );
}

#[test]
fn what_takes_longer_than_its_timeout_is_answered_504_api_17() {
    run(async {
        let service = service().await;
        let target = "/api/v1/configmaps?resourceVersion=999999&timeout=50ms";
        let got = call(&service, "GET", target, "").await;
        assert_eq!((got.code, &got.json()["reason"]), (504, &json!("Timeout")));
        assert_eq!(
            got.json()["message"],
            "Timeout: request did not complete within the allotted timeout",
        );
    });
}

#[test]
fn tables_and_metadata_come_by_the_accept_header_api_66() {
    run(async {
        let service = service().await;
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let asked = |accept: &str| {
            Request::get("/api/v1/namespaces")
                .header("Authorization", "Bearer secret")
                .header("Accept", accept)
        };
        let got = send(&service, asked(table), "").await;
        assert_eq!((got.code, &got.json()["kind"]), (200, &json!("Table")));
        assert_eq!(got.header("content-type"), "application/json");
        let metadata = table.replace("Table", "PartialObjectMetadata");
        let metadata = metadata.split(',').next().unwrap_or_default();
        assert_eq!(send(&service, asked(metadata), "").await.code, 406);
    });
}

#[test]
fn a_watch_begins_with_the_state_and_refuses_in_the_stream_wa_5_wa_6_pf_16() {
    run(async {
        let service = service().await;
        let body = r#"{"metadata":{"name":"default"}}"#;
        call(&service, "POST", "/api/v1/namespaces", body).await;
        let first = |target: String| {
            let service = service.clone();
            async move {
                let request = request("GET", &target).body(RequestBody::Empty);
                let answer = service.call(request.expect("a request")).await;
                assert_eq!(answer.status().as_u16(), 200);
                let ResponseBody::Watch(mut stream) = answer.into_body() else {
                    panic!("no watch");
                };
                let frame =
                    std::future::poll_fn(|context| stream.poll_next(&Caller::task(context))).await;
                let frame = frame.expect("a frame");
                serde_json::from_slice::<Value>(&frame.bytes).expect("a document")
            }
        };
        let event = first("/api/v1/namespaces?watch=true".to_owned()).await;
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], "default");
        let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let target = format!("/api/v1/namespaces?watch=true&{initial}&resourceVersion=999999");
        let event = first(target).await;
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&json!("ERROR"), &json!(504))
        );
    });
}

#[test]
fn watches_are_refused_by_the_rules_of_their_path_wa_3() {
    run(async {
        let service = service().await;
        let watch = "/api/v1/namespaces?watch=true";
        let old = "/api/v1/watch/namespaces?";
        let forbidden = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden";
        let continued = format!("{forbidden} when continue is provided");
        let listed = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
        // The answers of kube-apiserver. A watch with a resourceVersion gets no defaults, so a
        // continue token conflicts with none.
        for (target, message) in [
            (format!("{watch}&continue=x"), continued.as_str()),
            (format!("{watch}&continue=x&resourceVersion=1"), ""),
            (format!("{watch}&continue="), ""),
            (format!("{old}continue=x"), ""),
            (format!("{old}sendInitialEvents=true"), listed),
            (
                format!("{old}resourceVersionMatch=Exact&resourceVersion=1"),
                "",
            ),
        ] {
            let got = call(&service, "GET", &target, "").await;
            if message.is_empty() {
                assert_eq!(got.code, 200, "{target}: {}", got.text);
                continue;
            }
            assert_eq!(got.code, 422, "{target}");
            let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {message}");
            assert_eq!(got.json()["message"], message, "{target}");
        }
    });
}

#[test]
fn a_watch_for_less_than_no_time_ends_at_once_wa_2() {
    run(async {
        let service = service().await;
        for (seconds, ends) in [(-1, true), (0, false)] {
            let target = format!("/api/v1/nodes?watch=true&timeoutSeconds={seconds}");
            let request = request("GET", &target).body(RequestBody::Empty);
            let answer = service.call(request.expect("a request")).await;
            assert_eq!(answer.status().as_u16(), 200);
            let ResponseBody::Watch(mut stream) = answer.into_body() else {
                panic!("no watch");
            };
            let next = std::future::poll_fn(|context| stream.poll_next(&Caller::task(context)));
            let patience = std::time::Duration::from_millis(if ends { 5000 } else { 50 });
            let next = tokio::time::timeout(patience, next).await;
            assert_eq!(next == Ok(None), ends, "{seconds}: {next:?}");
        }
    });
}

#[test]
fn a_cache_that_can_not_be_filled_refuses_for_its_resource_alone_pf_13_wc_42() {
    run(async {
        let stored = stored_without_cache_of("secrets").await;
        let service = over(stored, InFlightLimits::default());
        let namespace = r#"{"metadata":{"name":"default"}}"#;
        call(&service, "POST", "/api/v1/namespaces", namespace).await;
        const SECRETS: &str = "/api/v1/namespaces/default/secrets";
        let secret = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let good = call(&service, "POST", SECRETS, &secret("good")).await;
        assert_eq!(good.code, 201, "{}", good.text);
        let refused = call(&service, "GET", SECRETS, "").await;
        let watch = format!("{SECRETS}?watch=true");
        let everywhere = "/api/v1/secrets?watch=true&resourceVersion=1".to_owned();
        let named = format!("{SECRETS}?fieldSelector=metadata.name=good&limit=1");
        let mut refusals = vec![refused];
        for target in [watch, everywhere, named] {
            refusals.push(call(&service, "GET", &target, "").await);
        }
        for got in refusals {
            assert_eq!(got.code, 429, "{}", got.text);
            let status = got.json();
            assert_eq!(status["reason"], "TooManyRequests");
            let seconds = status["details"]["retryAfterSeconds"].to_string();
            assert_eq!(got.header("retry-after"), seconds);
            assert!(matches!(seconds.parse(), Ok(1..=30)), "{seconds}");
        }
        // Writes, bounded lists and reads of single objects of the resource continue, and so do all
        // other requests.
        let path = format!("{SECRETS}/good");
        let bounded = format!("{SECRETS}?limit=5");
        for target in [path.as_str(), bounded.as_str(), CMS, "/api/v1/pods"] {
            let got = call(&service, "GET", target, "").await;
            assert_eq!(got.code, 200, "{target}: {}", got.text);
        }
        assert_eq!(
            call(&service, "POST", SECRETS, &secret("more")).await.code,
            201
        );
        assert_eq!(call(&service, "DELETE", &path, "").await.code, 200);
        assert_eq!(call(&service, "POST", CMS, &secret("a")).await.code, 201);
    });
}

/// PF-20, LI-16, RG-15, WA-6, KV-21, as an operator and a client see them.
#[test]
fn a_value_that_can_not_be_read_fails_lists_of_it_and_is_deleted_by_name_pf_20_rg_15() {
    run(async {
        for cached in [true, false] {
            let stored = stored(cached).await;
            let engine = Arc::clone(&stored.engine);
            let service = over(stored, InFlightLimits::default());
            let namespace = r#"{"metadata":{"name":"default"}}"#;
            call(&service, "POST", "/api/v1/namespaces", namespace).await;
            const SECRETS: &str = "/api/v1/namespaces/default/secrets";
            let secret = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            let good = call(&service, "POST", SECRETS, &secret("good")).await;
            assert_eq!(good.code, 201, "{}", good.text);
            let key = "/registry/secrets/default/bad";
            let garbage = Mutation {
                key: Key::new(key),
                expect: Expect::Absent,
                change: Change::Put {
                    value: "no secret".into(),
                    lease: LeaseId::default(),
                },
                origin: Origin::default(),
                prepared: Prepared::default(),
            };
            engine.commit(garbage).await.expect("a commit");
            let path = format!("{SECRETS}/bad");
            let conditional = r#"{"preconditions":{"uid":"x"}}"#;
            let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
            for (method, target, body) in [
                ("GET", SECRETS, ""),
                ("GET", "/api/v1/secrets", ""),
                ("GET", &path, ""),
                ("PUT", &path, &secret("bad")),
                ("PATCH", &path, label),
                ("DELETE", &path, conditional),
                ("DELETE", SECRETS, ""),
            ] {
                let form = match method {
                    "PATCH" => "application/merge-patch+json",
                    _ => "application/json",
                };
                let request = request(method, target).header("Content-Type", form);
                let got = send(&service, request, body).await;
                assert_eq!(got.code, 500, "{method} {target}: {}", got.text);
                assert_eq!(got.json()["reason"], "InternalError");
                let message = got.json()["message"].to_string();
                assert!(message.contains(key), "{method} {target}: {message}");
                assert!(!message.contains("no secret"), "{message}");
            }
            let taken = call(&service, "POST", SECRETS, &secret("bad")).await;
            assert_eq!(
                (taken.code, &taken.json()["reason"]),
                (409, &"AlreadyExists".into())
            );
            let good = call(&service, "GET", &format!("{SECRETS}/good"), "").await;
            assert_eq!(good.code, 200, "{}", good.text);

            let target = format!("{SECRETS}?watch=true");
            let request = request("GET", &target).body(RequestBody::Empty);
            let answer = service.call(request.expect("a request")).await;
            assert_eq!(answer.status().as_u16(), 200);
            let frame = first_frame(answer).await;
            assert!(
                frame.contains("\"ERROR\"") && frame.contains(key),
                "{frame}"
            );

            let dry = call(&service, "DELETE", &format!("{path}?dryRun=All"), "").await;
            assert_eq!(dry.code, 200, "{}", dry.text);
            let gone = call(&service, "DELETE", &path, "").await;
            assert_eq!(gone.code, 200, "{}", gone.text);
            assert_eq!(gone.json()["status"], "Success");
            assert_eq!(gone.json()["details"]["name"], "bad");
            assert_eq!(call(&service, "DELETE", &path, "").await.code, 404);
            let list = call(&service, "GET", SECRETS, "").await;
            assert_eq!(list.code, 200, "{}", list.text);
            assert_eq!(list.json()["items"].as_array().map(Vec::len), Some(1));
        }
    });
}

#[test]
fn what_is_written_as_somebody_else_is_noted_down_as_theirs_api_284() {
    run(async {
        let stored = stored(true).await;
        let engine = Arc::clone(&stored.engine);
        let service = over(stored, InFlightLimits::default());
        let namespace = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let path = "/api/v1/namespaces";
        let as_ada = || request("POST", path).header("Impersonate-User", "ada");
        let refused = send(&service, as_ada(), &namespace("a")).await;
        assert_eq!(refused.code, 403, "{}", refused.text);
        let as_master = as_ada().header("Impersonate-Group", "system:masters");
        for (request, name) in [(request("POST", path), "b"), (as_master, "c")] {
            let made = send(&service, request, &namespace(name)).await;
            assert_eq!(made.code, 201, "{}", made.text);
        }
        let history = HistoryRequest {
            prefix: Prefix::new("/registry/namespaces/"),
            after: Revision(0),
            until: Revision(u64::MAX),
            bytes_max: 1 << 20,
        };
        let events = engine.history(history).await.expect("history").events;
        let users = events.iter().map(|event| event.origin.user.as_str());
        assert_eq!(users.collect::<Vec<_>>(), ["admin", "ada"]);
    });
}

async fn first_frame(answer: http::Response<ResponseBody>) -> String {
    let ResponseBody::Watch(mut stream) = answer.into_body() else {
        panic!("no watch");
    };
    let next = std::future::poll_fn(|context| stream.poll_next(&Caller::task(context)));
    let next = tokio::time::timeout(std::time::Duration::from_secs(20), next).await;
    let frame = next.expect("in time").expect("a frame");
    String::from_utf8_lossy(&frame.bytes).into_owned()
}
