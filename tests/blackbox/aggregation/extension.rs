//! An extension: the server of a group, as an APIService names it. It says and does what a test
//! tells it, and remembers what it was asked.
//!
//! It serves, for each of its groups and versions, `flunders` (kept in memory: get, list, watch,
//! create, update, merge patch, delete, delete all), `echoes/NAME…` (the answer shows the request),
//! `answers/N` (status N), `streams/N` (N chunks, one after each [`Extension::release`]), and
//! `/apis`, `/openapi/v2`, `/openapi/v3`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::harness::webhook::acceptor_with;
use crate::harness::{Call, Client};

type Body = BoxBody<Bytes, std::io::Error>;

/// The path of APIServices.
pub const APISERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The answers and the conduct of an extension.
#[derive(Clone)]
pub struct Told {
    /// The versions by group.
    pub groups: BTreeMap<String, Vec<String>>,
    /// The kinds by plural.
    pub resources: BTreeMap<String, String>,
    /// The verbs of its kinds.
    pub verbs: Vec<&'static str>,
    /// Whether objects stay when they are deleted.
    pub keeps_objects: bool,
    /// Whether `/apis` has the aggregated form.
    pub aggregates: bool,
    /// Whether there is `/openapi/v2`.
    pub has_v2: bool,
    /// Whether there is `/openapi/v3`.
    pub has_v3: bool,
    /// The description of its schemas, by which their content differs.
    pub description: String,
    /// The number of further definitions in OpenAPI v2, to make it long.
    pub padding: usize,
    /// Every request has this answer.
    pub answer: Option<(u16, String)>,
    /// The wait before each answer.
    pub delay: Duration,
    /// Closes each connection without an answer.
    pub drops: bool,
    /// The most requests at a time on a new connection of HTTP/2.
    pub streams_max: u32,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The client's certificate in DER, in base64.
    pub certificate: Option<String>,
    pub is_http2: bool,
}

impl Asked {
    /// All values of a header, with commas between.
    pub fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter();
        let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
        values.join(",")
    }
}

/// A running extension. It ends with the runtime of its test.
pub struct Extension {
    memory: Arc<Memory>,
    pub port: u16,
    /// Its authority in PEM, in base64, as `spec.caBundle` has it.
    pub ca_bundle: String,
    /// Another authority, which has signed nothing here.
    pub other_ca: String,
}

struct Memory {
    state: Mutex<State>,
    revision: watch::Sender<u64>,
    released: Semaphore,
}

struct State {
    told: Told,
    asked: Vec<Asked>,
    /// By group, plural, namespace and name.
    objects: BTreeMap<[String; 4], Value>,
    events: Vec<([String; 4], Value)>,
}

/// An authority: its certificate in PEM, and what signs with its key.
pub fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let subject = &mut parameters.distinguished_name;
    subject.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = parameters.self_signed(&key).unwrap().pem();
    (pem, Issuer::new(parameters, key))
}

impl Extension {
    /// Starts an extension on 127.0.0.1 which serves v1 of a group. Its certificate names the
    /// services of the namespace `default`.
    pub async fn start(group: &str) -> Extension {
        let (pem, issuer) = authority("extension");
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["*.default.svc".to_owned()]).unwrap();
        let leaf = parameters.signed_by(&key, &issuer).unwrap();
        let tls = acceptor_with(leaf.der(), &key, &[b"h2", b"http/1.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = Told {
            groups: BTreeMap::from([(group.to_owned(), vec!["v1".to_owned()])]),
            resources: BTreeMap::from([("flunders".to_owned(), "Flunder".to_owned())]),
            verbs: VERBS.to_vec(),
            keeps_objects: false,
            aggregates: true,
            has_v2: true,
            has_v3: true,
            description: "An object of the extension.".to_owned(),
            padding: 0,
            answer: None,
            delay: Duration::ZERO,
            drops: false,
            streams_max: 200,
        };
        let state = State {
            told,
            asked: Vec::new(),
            objects: BTreeMap::new(),
            events: Vec::new(),
        };
        let memory = Arc::new(Memory {
            state: Mutex::new(state),
            revision: watch::Sender::new(100),
            released: Semaphore::new(0),
        });
        tokio::spawn(serve(listener, tls, Arc::clone(&memory)));
        Extension {
            memory,
            port,
            ca_bundle: BASE64_STANDARD.encode(pem),
            other_ca: BASE64_STANDARD.encode(authority("other").0),
        }
    }

    /// Changes what it says and does.
    pub fn tell(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.memory.state.lock().unwrap().told);
    }

    /// Lets each running stream send one more chunk.
    pub fn release(&self) {
        self.memory.released.add_permits(1);
    }

    /// The requests so far whose paths begin so.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        let state = self.memory.state.lock().unwrap();
        let asked = state.asked.iter().filter(|one| one.path.starts_with(path));
        asked.cloned().collect()
    }

    /// Forgets the requests so far.
    pub fn forget(&self) {
        self.memory.state.lock().unwrap().asked.clear();
    }

    /// The body of an APIService that names this extension.
    pub fn api_service(&self, group: &str, version: &str) -> Value {
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {
                "group": group, "version": version, "groupPriorityMinimum": 1500,
                "versionPriority": 15, "caBundle": self.ca_bundle,
                "service": {"namespace": "default", "name": "extension", "port": self.port},
            },
        })
    }

    /// Creates the Service `default/extension`, which leads to it.
    pub async fn add_service(&self, client: &Client) {
        let service = json!({
            "metadata": {"name": "extension"},
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        });
        let path = "/api/v1/namespaces/default/services";
        client.call(Call::post(path, &service)).await.expect(201);
    }

    /// Creates the Service and an APIService for v1 of a group.
    pub async fn install(&self, client: &Client, group: &str) {
        self.add_service(client).await;
        let body = self.api_service(group, "v1");
        client
            .call(Call::post(APISERVICES, &body))
            .await
            .expect(201);
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, memory: Arc<Memory>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (tls, memory) = (tls.clone(), Arc::clone(&memory));
        tokio::spawn(async move {
            // Clients that do not trust the server hang up.
            let Ok(stream) = tls.accept(socket).await else {
                return;
            };
            let (_, session) = stream.get_ref();
            let certificates = session.peer_certificates();
            let certificate = certificates.and_then(<[_]>::first);
            let certificate = certificate.map(|one| BASE64_STANDARD.encode(one));
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let service = service_fn(|request| {
                answered(request, Arc::clone(&memory), certificate.clone(), is_http2)
            });
            let stream = TokioIo::new(stream);
            let streams_max = memory.state.lock().unwrap().told.streams_max;
            // The daemon may close the connection at any time, and so may a test.
            let _ = match is_http2 {
                true => {
                    let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    server.max_concurrent_streams(streams_max);
                    server.serve_connection(stream, service).await
                }
                false => {
                    let server = hyper::server::conn::http1::Builder::new();
                    server
                        .serve_connection(stream, service)
                        .with_upgrades()
                        .await
                }
            };
        });
    }
}

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

fn answer(code: u16, kind: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(full(body));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    let headers = answer.headers_mut();
    headers.insert("content-type", kind.parse().unwrap());
    answer
}

fn document(code: u16, body: &Value) -> Response<Body> {
    answer(code, "application/json", body.to_string())
}

fn refusal(code: u16, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": code,
    });
    document(code, &status)
}

async fn answered(
    request: Request<Incoming>,
    memory: Arc<Memory>,
    certificate: Option<String>,
    is_http2: bool,
) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?;
    let asked = Asked {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body: body.to_bytes(),
        certificate,
        is_http2,
    };
    let told = {
        let mut state = memory.state.lock().unwrap();
        state.asked.push(asked.clone());
        state.told.clone()
    };
    tokio::time::sleep(told.delay).await;
    if told.drops {
        return Err(std::io::Error::other("the test hangs up"));
    }
    if let Some((code, body)) = told.answer {
        return Ok(answer(code, "text/plain", body));
    }
    let parts: Vec<&str> = asked.path.split('/').skip(1).collect();
    Ok(match parts[..] {
        ["apis"] => groups(&told, &asked),
        ["apis", group, version] if told.serves(group, version) => {
            document(200, &told.resource_list(group, version))
        }
        ["apis", group, version, ref rest @ ..] if told.serves(group, version) => {
            let rest: Vec<&str> = rest
                .iter()
                .copied()
                .filter(|part| !part.is_empty())
                .collect();
            objects(&memory, &told, &asked, [group, version], &rest)
        }
        ["openapi", "v2"] if told.has_v2 => document(200, &told.openapi_v2()),
        ["openapi", "v3"] if told.has_v3 => document(200, &told.openapi_v3_index()),
        ["openapi", "v3", "apis", group, version] if told.has_v3 => {
            document(200, &told.openapi_v3(group, version))
        }
        _ => answer(404, "text/plain", "404 page not found\n"),
    })
}

impl Told {
    fn serves(&self, group: &str, version: &str) -> bool {
        let versions = self.groups.get(group).into_iter().flatten();
        versions.into_iter().any(|one| one == version)
    }

    fn versions(&self) -> impl Iterator<Item = (&String, &String)> {
        let groups = self.groups.iter();
        groups.flat_map(|(group, versions)| versions.iter().map(move |version| (group, version)))
    }

    fn resource_list(&self, group: &str, version: &str) -> Value {
        let mut resources = Vec::new();
        for (plural, kind) in &self.resources {
            resources.push(json!({"name": plural, "singularName": kind.to_lowercase(),
                "namespaced": true, "kind": kind, "verbs": self.verbs, "shortNames": ["fl"],
                "categories": ["all"]}));
            resources.push(
                json!({"name": format!("{plural}/status"), "singularName": "",
                "namespaced": true, "kind": kind, "verbs": ["get", "patch", "update"]}),
            );
        }
        json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": format!("{group}/{version}"), "resources": resources})
    }

    fn aggregated(&self) -> Value {
        let of = |group: &str, version: &str| {
            let resources = self.resources.iter().map(|(plural, kind)| {
                let kind = json!({"group": group, "version": version, "kind": kind});
                let status = json!({"subresource": "status", "responseKind": kind,
                    "verbs": ["get", "patch", "update"]});
                json!({"resource": plural, "responseKind": kind, "scope": "Namespaced",
                    "singularResource": "", "verbs": self.verbs, "shortNames": ["fl"],
                    "categories": ["all"], "subresources": [status]})
            });
            let resources: Vec<Value> = resources.collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        };
        let items = self.groups.iter().map(|(group, versions)| {
            let versions: Vec<Value> = versions.iter().map(|version| of(group, version)).collect();
            json!({"metadata": {"name": group}, "versions": versions})
        });
        let items: Vec<Value> = items.collect();
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {}, "items": items})
    }

    /// The definitions of a version, with references below `place`.
    fn definitions(&self, group: &str, version: &str, place: &str) -> Value {
        let mut parts: Vec<&str> = group.split('.').rev().collect();
        parts.push(version);
        let model = parts.join(".");
        let mut all = serde_json::Map::new();
        for kind in self.resources.values() {
            let spec = format!("#/{place}/{model}.{kind}Spec");
            let named = json!([{"group": group, "version": version, "kind": kind}]);
            all.insert(
                format!("{model}.{kind}"),
                json!({"type": "object", "description": self.description,
                    "properties": {"spec": {"$ref": spec}},
                    "x-kubernetes-group-version-kind": named}),
            );
            let size = json!({"type": "integer", "format": "int32"});
            all.insert(
                format!("{model}.{kind}Spec"),
                json!({"type": "object", "properties": {"size": size}}),
            );
        }
        let shared = json!({"type": "object", "description": self.description});
        all.insert("io.example.shared.Thing".to_owned(), shared);
        all.into()
    }

    fn paths(&self, group: &str, version: &str, place: &str) -> Value {
        let mut parts: Vec<&str> = group.split('.').rev().collect();
        parts.push(version);
        let model = parts.join(".");
        let of = |(plural, kind): (&String, &String)| {
            let schema = json!({"$ref": format!("#/{place}/{model}.{kind}")});
            let good = match place {
                "definitions" => json!({"description": "OK", "schema": schema}),
                _ => json!({"description": "OK",
                    "content": {"application/json": {"schema": schema}}}),
            };
            let named = json!({"group": group, "version": version, "kind": kind});
            let path = format!("/apis/{group}/{version}/namespaces/{{namespace}}/{plural}");
            let mut get = json!({"operationId": format!("list{plural}"),
                "responses": {"200": good}, "x-kubernetes-action": "list",
                "x-kubernetes-group-version-kind": named});
            if place == "definitions" {
                get["produces"] = json!(["application/json"]);
            }
            (path, json!({"get": get}))
        };
        Value::Object(self.resources.iter().map(of).collect())
    }

    fn openapi_v2(&self) -> Value {
        let unrelated = json!({"get": {"responses": {"200": {"description": "OK",
            "schema": {"$ref": "#/definitions/io.example.Unrelated"}}}}});
        let (mut paths, mut definitions) = (
            json!({"/version": unrelated}),
            json!({"io.example.Unrelated": {"type": "object"}}),
        );
        for (group, version) in self.versions() {
            let place = "definitions";
            for (all, more) in [
                (&mut paths, self.paths(group, version, place)),
                (&mut definitions, self.definitions(group, version, place)),
            ] {
                let Value::Object(more) = more else { continue };
                all.as_object_mut().unwrap().extend(more);
            }
        }
        for number in 0..self.padding {
            let text = json!({"type": "object", "description": "x".repeat(1000)});
            definitions[format!("io.example.Padding{number}")] = text;
        }
        json!({"swagger": "2.0", "info": {"title": "extension", "version": "v0"},
            "paths": paths, "definitions": definitions})
    }

    fn openapi_v3_index(&self) -> Value {
        let paths = self.versions().map(|(group, version)| {
            let key = format!("apis/{group}/{version}");
            let hash = self.description.len();
            let url = json!({"serverRelativeURL": format!("/openapi/v3/{key}?hash={hash}")});
            (key, url)
        });
        json!({"paths": Value::Object(paths.collect())})
    }

    fn openapi_v3(&self, group: &str, version: &str) -> Value {
        let place = "components/schemas";
        json!({"openapi": "3.0.0", "info": {"title": "extension", "version": "v0"},
            "paths": self.paths(group, version, place),
            "components": {"schemas": self.definitions(group, version, place)}})
    }
}

/// Answers `/apis`, aggregated or plain.
fn groups(told: &Told, asked: &Asked) -> Response<Body> {
    if told.aggregates && asked.header("accept").contains("apidiscovery.k8s.io") {
        let text = told.aggregated();
        let tag = format!("\"{}\"", text.to_string().len());
        let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let mut answer = match asked.header("if-none-match") == tag {
            true => answer(304, kind, ""),
            false => answer(200, kind, text.to_string()),
        };
        answer.headers_mut().insert("etag", tag.parse().unwrap());
        return answer;
    }
    let groups = told.groups.iter().map(|(group, versions)| {
        let versions = versions.iter().map(
            |version| json!({"groupVersion": format!("{group}/{version}"), "version": version}),
        );
        let versions: Vec<Value> = versions.collect();
        json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
    });
    let groups: Vec<Value> = groups.collect();
    document(
        200,
        &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
    )
}

/// Answers a request below a group version.
fn objects(
    memory: &Arc<Memory>,
    told: &Told,
    asked: &Asked,
    [group, version]: [&str; 2],
    rest: &[&str],
) -> Response<Body> {
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    match rest {
        ["echoes", ..] => {
            let headers = asked.headers.keys();
            let headers =
                headers.map(|name| (name.to_string(), asked.header(name.as_str()).into()));
            let headers = Value::Object(headers.collect());
            let body = String::from_utf8_lossy(&asked.body);
            document(
                200,
                &json!({"kind": "Echo", "method": asked.method.as_str(), "path": asked.path,
                    "query": asked.query, "headers": headers, "body": body}),
            )
        }
        ["answers", code] => refusal(code.parse().unwrap(), "as told"),
        ["streams", count] => stream_of(memory, count.parse().unwrap()),
        [plural, rest @ ..] if told.resources.contains_key(*plural) => {
            let kind = &told.resources[*plural];
            let types = json!({"apiVersion": format!("{group}/{version}"), "kind": kind});
            let at = [group, plural, namespace, rest.first().unwrap_or(&"")];
            stored(memory, told, asked, &types, at.map(str::to_owned))
        }
        _ => refusal(404, "the server could not find the requested resource"),
    }
}

/// Sends chunks, one after each release.
fn stream_of(memory: &Arc<Memory>, count: usize) -> Response<Body> {
    let memory = Arc::clone(memory);
    let chunks = stream::unfold((memory, 0), move |(memory, sent)| async move {
        if sent == count {
            return None;
        }
        memory.released.acquire().await.unwrap().forget();
        let chunk = Bytes::from(format!("chunk {sent}\n"));
        Some((Ok(Frame::data(chunk)), (memory, sent + 1)))
    });
    let mut answer = Response::new(StreamBody::new(chunks).boxed());
    let headers = answer.headers_mut();
    headers.insert("content-type", "text/plain".parse().unwrap());
    answer
}

/// Answers a request about objects in memory.
fn stored(
    memory: &Arc<Memory>,
    told: &Told,
    asked: &Asked,
    types: &Value,
    at: [String; 4],
) -> Response<Body> {
    let typed = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = types["apiVersion"].clone();
        object["kind"] = types["kind"].clone();
        object
    };
    let is_one = !at[3].is_empty();
    if asked.method == Method::GET && asked.query.contains("watch=") {
        return watching(memory, types, at);
    }
    let mut state = memory.state.lock().unwrap();
    let fits = |key: &[String; 4]| key[..2] == at[..2] && (at[2].is_empty() || key[2] == at[2]);
    let body = || serde_json::from_slice::<Value>(&asked.body).unwrap_or_default();
    match (&asked.method, is_one) {
        (&Method::GET, false) => {
            let items = state.objects.iter().filter(|(key, _)| fits(key));
            let items: Vec<Value> = items.map(|(_, object)| typed(object)).collect();
            let revision = memory.revision.borrow().to_string();
            let kind = format!("{}List", types["kind"].as_str().unwrap());
            document(
                200,
                &json!({"kind": kind, "apiVersion": types["apiVersion"],
                    "metadata": {"resourceVersion": revision}, "items": items}),
            )
        }
        (&Method::DELETE, false) if told.verbs.contains(&"deletecollection") => {
            let keeps = told.keeps_objects;
            state.objects.retain(|key, _| keeps || !fits(key));
            document(200, &json!({"kind": "Status", "status": "Success"}))
        }
        (&Method::POST, false) => {
            let mut object = body();
            let name = object["metadata"]["name"]
                .as_str()
                .unwrap_or("none")
                .to_owned();
            let key = [at[0].clone(), at[1].clone(), at[2].clone(), name.clone()];
            if state.objects.contains_key(&key) {
                return refusal(409, "already exists");
            }
            object["metadata"]["namespace"] = at[2].clone().into();
            object["metadata"]["uid"] = name.into();
            document(201, &typed(&state.store(memory, key, "ADDED", object)))
        }
        _ if !state.objects.contains_key(&at) => refusal(404, "not found"),
        (&Method::GET, true) => document(200, &typed(&state.objects[&at])),
        (&Method::DELETE, true) => {
            let object = state.objects[&at].clone();
            if told.keeps_objects {
                return document(200, &typed(&object));
            }
            let gone = state.store(memory, at.clone(), "DELETED", object);
            state.objects.remove(&at);
            document(200, &typed(&gone))
        }
        (&Method::PUT | &Method::PATCH, true) => {
            let (given, mut object) = (body(), state.objects[&at].clone());
            object["spec"] = given["spec"].clone();
            document(200, &typed(&state.store(memory, at, "MODIFIED", object)))
        }
        _ => refusal(405, "not allowed"),
    }
}

impl State {
    fn store(&mut self, memory: &Memory, key: [String; 4], kind: &str, object: Value) -> Value {
        let revision = *memory.revision.borrow() + 1;
        let mut object = object;
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        let event = json!({"type": kind, "object": object});
        self.events.push((key.clone(), event));
        self.objects.insert(key, object.clone());
        memory.revision.send_replace(revision);
        object
    }
}

/// Sends the events from now on.
fn watching(memory: &Arc<Memory>, types: &Value, at: [String; 4]) -> Response<Body> {
    let next = memory.state.lock().unwrap().events.len();
    let news = memory.revision.subscribe();
    let types = types.clone();
    let state = (Arc::clone(memory), news, next, types, at);
    let events = stream::unfold(
        state,
        |(memory, mut news, mut next, types, at)| async move {
            loop {
                let found = {
                    let state = memory.state.lock().unwrap();
                    let mut rest = state.events.iter().enumerate().skip(next);
                    let fits = |key: &[String; 4]| {
                        key[..2] == at[..2] && (at[2].is_empty() || key[2] == at[2])
                    };
                    rest.find(|(_, (key, _))| fits(key))
                        .map(|(index, (_, event))| (index, event.clone()))
                };
                if let Some((index, mut event)) = found {
                    next = index + 1;
                    event["object"]["apiVersion"] = types["apiVersion"].clone();
                    event["object"]["kind"] = types["kind"].clone();
                    let line = Bytes::from(format!("{event}\n"));
                    return Some((Ok(Frame::data(line)), (memory, news, next, types, at)));
                }
                news.changed().await.unwrap();
            }
        },
    );
    let mut answer = Response::new(StreamBody::new(events).boxed());
    let headers = answer.headers_mut();
    headers.insert("content-type", "application/json".parse().unwrap());
    answer
}
