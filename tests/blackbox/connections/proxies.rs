//! Proxies of pods, services and nodes (CN-70 to CN-77), in a network of their own, because the
//! addresses of loopback are refused.

use std::io::Read as _;

use flate2::read::{DeflateDecoder, GzDecoder};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use super::kubelet::Kubelet;
use super::until;
use super::web_server::{PAGE, WebServer, pod_at};
use crate::harness::own_network::{in_own_network, ip};
use crate::harness::{Call, Client, Daemon, Protocol};

pub const ADDRESS: &str = "198.51.100.7";
pub const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";

/// Gives the network an address other than that of loopback.
pub fn addressed() {
    ip(&["addr", "add", "198.51.100.7/32", "dev", "lo"]);
}

pub async fn make(client: &Client, calls: impl IntoIterator<Item = Call>) {
    for call in calls {
        let answer = client.call(call).await;
        assert!(answer.status.is_success(), "{}", answer.text());
    }
}

/// A daemon, and a web server in the pod `p`.
pub async fn with_pod() -> (Daemon, WebServer) {
    with_pod_and(&[]).await
}

/// The same, with more flags of the daemon.
pub async fn with_pod_and(flags: &[&str]) -> (Daemon, WebServer) {
    addressed();
    let daemon = Daemon::with(flags).await;
    let web = WebServer::start(ADDRESS.parse().unwrap()).await;
    make(&daemon.client(), pod_at("p", ADDRESS, web.port)).await;
    (daemon, web)
}

/// The service `s` with the ports `web` (80) and `tls` (443), and its endpoints.
pub fn service(web: &WebServer, addresses: &Value, not_ready: &Value) -> [Call; 2] {
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [
        {"name": "web", "port": 80}, {"name": "tls", "port": 443}]}});
    let endpoints = json!({"metadata": {"name": "s"}, "subsets": [
        {"addresses": addresses, "notReadyAddresses": not_ready, "ports": [
            {"name": "web", "port": web.port}, {"name": "tls", "port": web.tls_port}]}]});
    [
        Call::post(SERVICES, &service),
        Call::post(ENDPOINTS, &endpoints),
    ]
}

pub fn of_pod(pod: &str, namespace: &str) -> Value {
    json!({"ip": ADDRESS, "targetRef": {"kind": "Pod", "name": pod, "namespace": namespace}})
}

#[test]
fn a_server_gets_the_request_without_credentials_cn_70_to_cn_73() {
    let name = "connections::proxies::a_server_gets_the_request_without_credentials_cn_70_to_cn_73";
    in_own_network(name, async {
        let (daemon, web) = with_pod().await;
        let client = daemon.client();
        make(
            &client,
            service(&web, &json!([of_pod("p", "default")]), &json!([])),
        )
        .await;
        let tls = web.tls_port;
        for (path, is_served_over) in [
            (format!("{PODS}/p/proxy"), "pod"),
            (format!("{PODS}/:p:{}/proxy", web.port), "pod"),
            (format!("{PODS}/https:p:{tls}/proxy"), "pod over TLS"),
            (format!("{SERVICES}/s:web/proxy"), "service"),
            (format!("{SERVICES}/http:s:80/proxy"), "service"),
            (format!("{SERVICES}/https:s:443/proxy"), "service over TLS"),
        ] {
            for protocol in [Protocol::Http1, Protocol::Http2] {
                let client = daemon.target().client_over(protocol);
                let mut call = Call::new("POST", &format!("{path}/echo/a/%41b/?b=2&a=1%20x"));
                for (name, value) in [
                    ("x-own", "passed"),
                    ("cookie", "a=b"),
                    ("cookie", "c=d"),
                    ("impersonate-user", "jane"),
                    ("impersonate-group", "system:masters"),
                    ("x-forwarded-for", "192.0.2.1"),
                    ("user-agent", "tester/1"),
                    ("te", "trailers"),
                ] {
                    call = call.header(name, value);
                }
                let echo = client
                    .call(call.body("text/plain", "not JSON"))
                    .await
                    .expect(200);
                let mut headers = echo["headers"].clone();
                let host = headers["host"].take();
                let expected = json!({
                    "content-length": "8", "content-type": "text/plain", "cookie": "a=b; c=d",
                    "host": null, "te": "trailers", "user-agent": "tester/1", "x-own": "passed",
                    "x-forwarded-for": "192.0.2.1, 127.0.0.1",
                    "x-forwarded-uri": format!("{path}/echo/a/Ab/"),
                });
                assert_eq!(headers, expected, "{is_served_over}, {protocol:?}");
                assert!(!host.as_str().unwrap().contains(ADDRESS), "{host}");
                assert_eq!(echo["target"], "/echo/a/Ab/?b=2&a=1%20x", "{path}");
                assert_eq!([&echo["method"], &echo["body"]], ["POST", "not JSON"]);
            }
        }
        // No port has an empty name.
        let call = Call::get(&format!("{SERVICES}/s:/proxy/"));
        let refused = client.call(call).await.refusal(503, "ServiceUnavailable");
        let why = "no endpoints available for service \"s:\"";
        assert_eq!(refused["message"], why);
        // A host cannot become a part of the path.
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let client = daemon.target().client_over(protocol);
            let path = format!("{PODS}/https:p:{tls}/proxy/echo");
            let call = Call::get(&path).header("host", "x/other?");
            assert_eq!(client.call(call).await.status, 400, "{protocol:?}");
        }
        // The path cannot leave the server, and may have any bytes.
        for (path, target) in [
            ("p/proxy/echo/../../../echo/x//y", "/echo/x/y"),
            ("p/proxy/echo/%ff%FEa/%e4", "/echo/%FF%FEa/%E4"),
            ("p/proxy/echo/?path=/z", "/echo/?path=/z"),
        ] {
            let echo = client
                .call(Call::get(&format!("{PODS}/{path}")))
                .await
                .expect(200);
            assert_eq!(echo["target"], target, "{path}");
        }
        for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"] {
            let call = Call::new(method, &format!("{PODS}/p/proxy/echo"));
            assert_eq!(client.call(call).await.expect(200)["method"], method);
        }
        let unknown = Call::new("PURGE", &format!("{PODS}/p/proxy/echo"));
        assert_eq!(client.call(unknown).await.status, 405);
        // Without a slash there is nothing that relative links could start from.
        for (path, to) in [
            ("proxy", "proxy/"),
            ("proxy?a=b", "proxy/?a=b"),
            ("proxy?path=/echo", "proxy/?path=/echo"),
        ] {
            let redirect = client.call(Call::get(&format!("{PODS}/p/{path}"))).await;
            assert_eq!(redirect.status, 301);
            let to = format!("{PODS}/p/{to}");
            assert_eq!(redirect.header("location"), Some(&*to));
        }
        let posted = client
            .call(Call::new("POST", &format!("{PODS}/p/proxy")))
            .await;
        assert_eq!(
            (posted.status.as_u16(), posted.text().as_str()),
            (200, "web\n")
        );
    });
}

/// The page with links that lead through the proxy.
pub fn rewritten(host: &str, below: &str) -> String {
    let page = PAGE.replace("SELF", host);
    let page = page.replace("HREF=/unquoted", "HREF=\"/unquoted\"");
    let page = page.replace("=\"/", &format!("=\"{below}/"));
    // A link to the host of the request leads through the proxy, too.
    let page = page.replace(&format!("{host}/own"), &format!("{host}{below}/own"));
    page.replace(&format!("{below}//other"), "//other")
}

#[test]
fn answers_lead_through_the_proxy_cn_74() {
    let name = "connections::proxies::answers_lead_through_the_proxy_cn_74";
    in_own_network(name, async {
        let (daemon, web) = with_pod().await;
        let client = daemon.client();
        let below = format!("{PODS}/p/proxy");
        for (to, expected) in [
            ("/other/", format!("{below}/other/")),
            ("other", "other".to_owned()),
            (
                &*format!("http://{ADDRESS}:{}/own", web.port),
                format!("{below}/own"),
            ),
            (
                "http://other.example/x",
                "http://other.example/x".to_owned(),
            ),
        ] {
            let path = format!("{below}/redirect?to={to}");
            let redirect = client.call(Call::get(&path)).await;
            assert_eq!(redirect.status, 302);
            assert_eq!(redirect.header("location"), Some(&*expected), "{to}");
        }
        let path = format!("{below}/redirect?to=http://[x");
        let refused = client
            .call(Call::get(&path))
            .await
            .refusal(500, "InternalError");
        let why = "Internal error occurred: error trying to parse Location header: parse \
                   \"http://[x\": missing ']' in host";
        assert_eq!(refused["message"], why);

        let echo = client
            .call(Call::get(&format!("{below}/echo")))
            .await
            .expect(200);
        let host = echo["headers"]["host"].as_str().unwrap();
        let page = |host: &str| PAGE.replace("SELF", host);
        let rewritten = |host: &str| rewritten(host, &below);
        let at = |query: &str| Call::get(&format!("{below}/page{query}"));
        for query in ["", "?type=text/html;charset=utf-8"] {
            let answer = client.call(at(query)).await;
            assert_eq!(answer.text(), rewritten(host), "{query}");
        }
        for query in ["?type=text/plain", "?type=TEXT/HTML", "?coding=br"] {
            let answer = client.call(at(query)).await;
            assert_eq!(answer.text(), page(host), "{query}");
        }
        let mut text = String::new();
        let answer = client.call(at("?coding=gzip")).await;
        GzDecoder::new(&*answer.body)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, rewritten(host));
        text.clear();
        let answer = client.call(at("?coding=deflate")).await;
        DeflateDecoder::new(&*answer.body)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, rewritten(host));
        let head = client
            .call(Call::new("HEAD", &format!("{below}/page")))
            .await;
        assert_eq!((head.status.as_u16(), head.text().as_str()), (200, ""));

        for code in [200, 404, 500] {
            let answer = client
                .call(Call::get(&format!("{below}/status/{code}")))
                .await;
            assert_eq!(
                (answer.status.as_u16(), answer.text()),
                (code, format!("said {code}\n"))
            );
            assert_eq!(answer.header("access-control-allow-origin"), None);
            for (name, value) in [
                ("set-cookie", "a=b"),
                ("x-own", "z"),
                ("access-control-expose-headers", "y"),
            ] {
                assert_eq!(answer.header(name), Some(value), "{code}");
            }
        }
        let answer = client.call(Call::get(&format!("{below}/chunks"))).await;
        assert_eq!(answer.text(), "one\ntwo\n");
        let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
        let head = format!(
            "GET {below}/chunks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\
             TE: trailers\r\nConnection: TE, close\r\n\r\n",
            daemon.token()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut whole = Vec::new();
        let _ = stream.read_to_end(&mut whole).await;
        let whole = String::from_utf8(whole).unwrap();
        assert!(whole.ends_with("\r\n0\r\nx-last: 1\r\n\r\n"), "{whole}");
    });
}

#[test]
fn servers_that_cannot_be_asked_are_refused_cn_70_to_cn_72_cn_75_cn_77() {
    let name = "connections::proxies::\
                servers_that_cannot_be_asked_are_refused_cn_70_to_cn_72_cn_75_cn_77";
    in_own_network(name, async {
        let (daemon, web) = with_pod().await;
        let client = daemon.client();
        for (pod, address) in [
            ("loopback", "127.0.0.1"),
            ("loopback-six", "::1"),
            ("link", "169.254.169.254"),
            ("link-six", "fe80::1"),
            ("group", "224.0.0.1"),
            ("any", "0.0.0.0"),
        ] {
            make(&client, pod_at(pod, address, web.port)).await;
            let call = Call::get(&format!("{PODS}/{pod}/proxy/"));
            let refused = client.call(call).await.refusal(400, "BadRequest");
            assert_eq!(refused["message"], "address not allowed", "{pod}");
        }
        let not_ready = json!([of_pod("p", "default")]);
        // Of these addresses none is that of a pod of the namespace.
        let foreign = json!([{"ip": ADDRESS}, of_pod("p", "other"), of_pod("link", "default")]);
        make(&client, service(&web, &foreign, &not_ready)).await;
        let closed = "p:1/proxy/";
        let reach = "error trying to reach service: dial tcp";
        for (path, code, reason, message) in [
            (
                format!("{PODS}/{closed}"),
                503,
                "ServiceUnavailable",
                format!("{reach} {ADDRESS}:1: connect: connection refused"),
            ),
            (
                format!("{PODS}/p:web/proxy/"),
                503,
                "ServiceUnavailable",
                format!("{reach}: lookup tcp/web: unknown port"),
            ),
            (
                format!("{PODS}/nobody/proxy/"),
                404,
                "NotFound",
                "pods \"nobody\" not found".to_owned(),
            ),
            (
                format!("{PODS}/p/proxy/?dryRun=All"),
                400,
                "BadRequest",
                "dryRun is not supported".to_owned(),
            ),
            (
                format!("{SERVICES}/a:b:c:d/proxy/"),
                400,
                "BadRequest",
                "invalid service request \"a:b:c:d\"".to_owned(),
            ),
            (
                format!("{SERVICES}/s:81/proxy/"),
                503,
                "ServiceUnavailable",
                "no service port 81 found for service \"s\"".to_owned(),
            ),
            (
                format!("{SERVICES}/s:80/proxy/"),
                503,
                "ServiceUnavailable",
                "no endpoints available for service \"s:80\"".to_owned(),
            ),
            (
                format!("{SERVICES}/s/proxy/"),
                503,
                "ServiceUnavailable",
                "no endpoints available for service \"s\"".to_owned(),
            ),
            (
                format!("{SERVICES}/nobody:web/proxy/"),
                404,
                "NotFound",
                "services \"nobody\" not found".to_owned(),
            ),
        ] {
            let refused = client.call(Call::get(&path)).await.refusal(code, reason);
            assert_eq!(refused["message"], *message, "{path}");
        }
        // One of several addresses is that of a pod.
        let path = format!("{ENDPOINTS}/s");
        let mut endpoints = client.call(Call::get(&path)).await.expect(200);
        let all = json!([{"ip": ADDRESS}, of_pod("p", "default"), of_pod("nobody", "default")]);
        endpoints["subsets"][0]["addresses"] = all;
        make(&client, [Call::put(&path, &endpoints)]).await;
        for _ in 0..8 {
            let answer = client
                .call(Call::get(&format!("{SERVICES}/s:80/proxy/")))
                .await;
            assert_eq!(
                (answer.status.as_u16(), answer.text().as_str()),
                (200, "web\n")
            );
        }
    });
}

/// Makes a node with an address.
pub fn node_at(name: &str, of: &str, address: &str, port: u16) -> [Call; 2] {
    let node = json!({"metadata": {"name": name}});
    let status = json!({"status": {"addresses": [{"type": of, "address": address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
    let path = format!("/api/v1/nodes/{name}/status");
    [
        Call::post("/api/v1/nodes", &node),
        Call::merge_patch(&path, &status),
    ]
}

#[test]
fn nodes_are_asked_as_their_kubelets_or_at_other_ports_cn_76_cn_77() {
    let name =
        "connections::proxies::nodes_are_asked_as_their_kubelets_or_at_other_ports_cn_76_cn_77";
    in_own_network(name, async {
        addressed();
        let address = ADDRESS.parse().unwrap();
        let kubelet = Kubelet::start_at(address).await;
        let web = WebServer::start(address).await;
        let flags = kubelet.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let users = "t-jane,jane,u-1\n";
        let daemon = Daemon::with_users(users, &flags).await;
        let client = daemon.client();
        let port = kubelet.address.port();
        make(&client, node_at("n", "InternalIP", ADDRESS, port)).await;
        // The stand-in asks for the certificate of the daemon.
        for path in [
            "n/proxy/stats/x?a=1",
            &format!("http:n:{port}/proxy/stats/x?a=1"),
        ] {
            let answer = client
                .call(Call::get(&format!("/api/v1/nodes/{path}")))
                .await;
            assert_eq!(answer.text(), "/stats/x?a=1\n", "{path}");
        }
        // A body that breaks off must not look complete.
        let cut = client.attempt(Call::get("/api/v1/nodes/n/proxy/cut")).await;
        assert!(cut.is_err());
        for path in [
            format!("n:{}/proxy/echo", web.port),
            format!("https:n:{}/proxy/echo", web.tls_port),
        ] {
            let path = format!("/api/v1/nodes/{path}");
            assert_eq!(
                client.call(Call::get(&path)).await.expect(200)["target"],
                "/echo"
            );
        }
        // Logs and commands reach a node on loopback, proxies do not.
        make(&client, node_at("l", "InternalIP", "127.0.0.1", port)).await;
        make(&client, node_at("h", "Hostname", "localhost", port)).await;
        for path in [
            "l/proxy/x",
            "h/proxy/x",
            &format!("https:h:{}/proxy/x", web.tls_port),
        ] {
            let call = Call::get(&format!("/api/v1/nodes/{path}"));
            let refused = client.call(call).await.refusal(400, "BadRequest");
            assert_eq!(refused["message"], "address not allowed", "{path}");
        }
        for (path, code, reason) in [
            ("nobody/proxy/x", 404, "NotFound"),
            ("a:b:c:d/proxy/x", 400, "BadRequest"),
        ] {
            let call = Call::get(&format!("/api/v1/nodes/{path}"));
            client.call(call).await.refusal(code, reason);
        }
        // Rights are those of the name as it is written, and of one verb for each method.
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": "proxy"}, "rules": [{"apiGroups": [""],
            "resources": ["nodes/proxy"], "resourceNames": ["n"], "verbs": ["get"]}]});
        let binding = json!({"metadata": {"name": "proxy"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "proxy"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User",
                "name": "jane"}]});
        make(
            &client,
            [
                Call::post(&format!("{rbac}/clusterroles"), &role),
                Call::post(&format!("{rbac}/clusterrolebindings"), &binding),
            ],
        )
        .await;
        let jane = daemon.target().with_token("t-jane").client();
        let may = |method: &str, path: &str| Call::new(method, &format!("/api/v1/nodes/{path}"));
        assert_eq!(jane.call(may("GET", "n/proxy/x")).await.status, 200);
        for (method, path) in [
            ("POST", "n/proxy/x"),
            ("GET", &*format!("n:{port}/proxy/x")),
            ("GET", "l/proxy/x"),
            ("GET", "n"),
        ] {
            let refused = jane.call(may(method, path)).await;
            assert_eq!(refused.status, 403, "{method} {path}");
        }
    });
}

/// Asks for an upgrade. Returns the connection, and the head of the answer.
pub async fn ask(daemon: &Daemon, token: &str, path: &str) -> (TlsStream<TcpStream>, String) {
    let mut stream = daemon.target().tls(&[b"http/1.1"]).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
         Connection: Upgrade\r\nUpgrade: echo/1\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    loop {
        read.push(stream.read_u8().await.unwrap());
        if read.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8(read).unwrap().to_lowercase();
            return (stream, head);
        }
    }
}

#[test]
fn upgraded_connections_are_relayed_cn_75() {
    let name = "connections::proxies::upgraded_connections_are_relayed_cn_75";
    in_own_network(name, async {
        let (daemon, web) = with_pod().await;
        let below = format!("{PODS}/p/proxy");
        let path = format!("{below}/socket/x?lost=1");
        let (mut stream, head) = ask(&daemon, &daemon.token(), &path).await;
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        for line in [
            "connection: upgrade",
            "upgrade: echo/1",
            "x-target: /socket/x\r\n",
        ] {
            assert!(head.contains(line), "{line}: {head}");
        }
        stream.write_all(b"hello").await.unwrap();
        let mut echo = [0; 5];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(&echo, b"hello");
        assert_eq!(web.open(), 1);
        drop(stream);
        until(async || web.open() == 0).await;
        // A refusal of an upgrade is an answer like others.
        let refusing = format!("{below}/status/401");
        let (_stream, head) = ask(&daemon, &daemon.token(), &refusing).await;
        assert!(head.starts_with("http/1.1 401 "), "{head}");
        assert!(head.contains("set-cookie: a=b\r\n"), "{head}");
        let (mut stream, head) = ask(&daemon, &daemon.token(), &format!("{below}/")).await;
        assert!(head.starts_with("http/1.1 500 "), "{head}");
        let mut text = vec![0; 256];
        let read = stream.read(&mut text).await.unwrap();
        let text = String::from_utf8_lossy(&text[..read]).into_owned();
        assert!(
            text.contains("invalid upgrade response: status code 200"),
            "{text}"
        );
    });
}

#[test]
fn sessions_end_with_their_client_its_access_and_the_daemon_cn_73_cn_75() {
    let name = "connections::proxies::\
                sessions_end_with_their_client_its_access_and_the_daemon_cn_73_cn_75";
    in_own_network(name, async {
        let (mut daemon, web) = with_pod().await;
        let open = format!("{PODS}/p/proxy/open");
        let socket = format!("{PODS}/p/proxy/socket");
        let both = async |daemon: &Daemon| {
            let mut lines = daemon.client().lines(Call::get(&open)).await.unwrap();
            assert_eq!(lines.next().await.unwrap().unwrap(), "one");
            let (stream, head) = ask(daemon, &daemon.token(), &socket).await;
            assert!(head.starts_with("http/1.1 101 "), "{head}");
            assert_eq!(web.open(), 2);
            (lines, stream)
        };
        let running = "apiserver_longrunning_requests{verb=\"GET\",group=\"\",version=\"v1\",\
                       resource=\"pods\",subresource=\"proxy\"";
        let count = async || {
            let page = daemon.client().call(Call::get("/metrics")).await.text();
            let line = page.lines().find(|line| line.starts_with(running));
            line.map(|line| line.rsplit(' ').next().unwrap().to_owned())
        };
        let sessions = both(&daemon).await;
        assert_eq!(count().await.unwrap(), "2");
        drop(sessions);
        until(async || web.open() == 0).await;
        until(async || count().await.unwrap() == "0").await;

        let (mut lines, _stream) = both(&daemon).await;
        daemon.stop(Signal::TERM).await;
        assert!(lines.next().await.is_err());
        until(async || web.open() == 0).await;

        daemon.restart().await;
        let (mut lines, mut stream) = both(&daemon).await;
        let rotate = Call::new("POST", "/taffrail/v1/token/rotate");
        daemon.client().call(rotate).await.expect(200);
        assert!(lines.next().await.is_err());
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        assert_eq!(rest, b"");
        until(async || web.open() == 0).await;
    });
}

#[test]
fn running_requests_are_counted_by_their_verbs_cn_73() {
    let name = "connections::proxies::running_requests_are_counted_by_their_verbs_cn_73";
    in_own_network(name, async {
        let (daemon, web) = with_pod().await;
        let path = format!("{PODS}/p/proxy/silent");
        let verbs = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        let mut asking = JoinSet::new();
        for method in verbs.into_iter().chain(["HEAD", "OPTIONS"]) {
            let (client, call) = (daemon.client(), Call::new(method, &path));
            asking.spawn(async move { client.call(call).await.status.as_u16() });
        }
        until(async || web.open() == 7).await;
        let running = async |verb: &str| {
            let labels = format!(
                "apiserver_longrunning_requests{{verb=\"{verb}\",group=\"\",version=\"v1\",\
                 resource=\"pods\",subresource=\"proxy\",scope=\"resource\","
            );
            let page = daemon.client().call(Call::get("/metrics")).await.text();
            let line = page.lines().find(|line| line.starts_with(&labels));
            line.map(|line| line.rsplit(' ').next().unwrap().to_owned())
        };
        for verb in verbs.into_iter().chain(["other"]) {
            // A HEAD counts as a GET.
            let count = if verb == "GET" { "2" } else { "1" };
            assert_eq!(running(verb).await.as_deref(), Some(count), "{verb}");
        }
        web.release();
        while let Some(code) = asking.join_next().await {
            assert_eq!(code.unwrap(), 200);
        }
        for verb in verbs {
            until(async || running(verb).await.as_deref() == Some("0")).await;
        }
    });
}

/// The options that admission sees have the path of the request, with its slash. A query parameter
/// `path` belongs to the other server, as in kube-apiserver.
#[test]
fn admission_sees_the_path_at_the_server_cn_70() {
    let name = "connections::proxies::admission_sees_the_path_at_the_server_cn_70";
    in_own_network(name, async {
        let (daemon, _web) = with_pod().await;
        let client = daemon.client();
        let group = "/apis/admissionregistration.k8s.io/v1";
        let policy = json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CONNECT"], "resources": ["pods/proxy"]}]},
            "validations": [{"expression": "!has(object.path) || object.path != '/echo/secret/'",
                "message": "secret"}]}});
        let binding = json!({"metadata": {"name": "p"},
            "spec": {"policyName": "p", "validationActions": ["Deny"]}});
        make(
            &client,
            [
                Call::post(&format!("{group}/validatingadmissionpolicies"), &policy),
                Call::post(
                    &format!("{group}/validatingadmissionpolicybindings"),
                    &binding,
                ),
            ],
        )
        .await;
        for (path, code) in [
            ("echo/secret/", 422),
            ("echo/secret/?path=/echo", 422),
            ("?path=/echo/secret/", 200),
            ("echo/secret", 200),
            ("echo/secret/a", 200),
        ] {
            let call = Call::get(&format!("{PODS}/p/proxy/{path}"));
            let answer = client.call(call).await;
            assert_eq!(answer.status.as_u16(), code, "{path}: {}", answer.text());
        }
        let call = Call::get(&format!("{PODS}/p/proxy?path=/echo/secret/"));
        assert_eq!(client.call(call).await.status, 301);
    });
}
