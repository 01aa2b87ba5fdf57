//! `kubectl proxy` and `get --raw` in front of the daemon's proxies, in a network of their own.

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::proxies::{ADDRESS, PODS, make, of_pod, rewritten, service, with_pod};
use super::until;
use super::web_server::PAGE;
use crate::harness::own_network::in_own_network;
use crate::harness::{CONFIGMAPS, Call, Kubectl};

/// A request to `kubectl proxy`, which needs no credentials.
async fn ask(at: &str, path: &str, upgrade: Option<&str>) -> Response<Incoming> {
    let stream = TcpStream::connect(at).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::get(path).header("host", at);
    if let Some(protocol) = upgrade {
        request = request.header("connection", "Upgrade");
        request = request.header("upgrade", protocol);
    }
    let request = request.body(Empty::<&[u8]>::new()).unwrap();
    sender.send_request(request).await.unwrap()
}

async fn text(at: &str, path: &str) -> String {
    let body = ask(at, path, None).await.into_body();
    String::from_utf8(body.collect().await.unwrap().to_bytes().into()).unwrap()
}

#[test]
fn pages_links_and_upgrades_lead_through_kubectl_cn_70_cn_74_cn_75() {
    let name = "connections::kubectl_proxy::\
                pages_links_and_upgrades_lead_through_kubectl_cn_70_cn_74_cn_75";
    in_own_network(name, async {
        let (daemon, web) = with_pod().await;
        let endpoints = json!([of_pod("p", "default")]);
        let nobody = json!([]);
        make(&daemon.client(), service(&web, &endpoints, &nobody)).await;
        for version in ["1.20", "1.32", "1.36"] {
            let Some(kubectl) = Kubectl::find(version, &daemon) else {
                continue;
            };
            let mut proxy = kubectl.follow(&["proxy", "--port=0"]);
            let line = proxy.line().await;
            let at = line.strip_prefix("Starting to serve on ").unwrap();

            let below = format!("{PODS}/p:{}/proxy", web.port);
            // Newer kubectls ask for the host of the daemon, as links to it show.
            let echo = text(at, &format!("{below}/echo/x?a=1")).await;
            let echo: Value = serde_json::from_str(&echo).unwrap();
            assert_eq!(echo["target"], "/echo/x?a=1", "{version}");
            let forwarded = &echo["headers"]["x-forwarded-for"];
            assert_eq!(forwarded, "127.0.0.1, 127.0.0.1", "{version}");
            assert_eq!(echo["headers"]["authorization"], Value::Null);
            let host = echo["headers"]["host"].as_str().unwrap();
            let page = text(at, &format!("{below}/page")).await;
            assert_eq!(page, rewritten(host, &below), "{version}");
            assert_ne!(page, PAGE.replace("SELF", host));

            // Targets of redirects and links are served there, too.
            let moved = ask(at, &below, None).await;
            assert_eq!(moved.status(), 301, "{version}");
            let to = moved.headers()["location"].to_str().unwrap().to_owned();
            assert_eq!(to, format!("{below}/"));
            assert_eq!(text(at, &to).await, "web\n");
            let own = format!("http://{ADDRESS}:{}/chunks", web.port);
            for to in ["/chunks", &own] {
                let moved = ask(at, &format!("{below}/redirect?to={to}"), None).await;
                assert_eq!(moved.status(), 302, "{version}");
                let to = moved.headers()["location"].to_str().unwrap().to_owned();
                assert_eq!(to, format!("{below}/chunks"));
                assert_eq!(text(at, &to).await, "one\ntwo\n");
            }

            let socket = ask(at, &format!("{below}/socket/x"), Some("websocket")).await;
            assert_eq!(socket.status(), 101, "{version}");
            assert_eq!(socket.headers()["x-target"], "/socket/x");
            let socket = hyper::upgrade::on(socket).await.unwrap();
            let mut socket = TokioIo::new(socket);
            socket.write_all(b"hello").await.unwrap();
            let mut echo = [0; 5];
            socket.read_exact(&mut echo).await.unwrap();
            assert_eq!(&echo, b"hello", "{version}");
            drop(socket);
            until(async || web.open() == 0).await;

            let raw = async |path: &str| kubectl.ok(&["get", "--raw", path]).await;
            assert_eq!(raw(&format!("{below}/chunks")).await, "one\ntwo\n");
            let services = "/api/v1/namespaces/default/services";
            assert_eq!(raw(&format!("{services}/s:web/proxy/x")).await, "web\n");
            let path = format!("{below}/status/404");
            let said = kubectl.fails(&["get", "--raw", &path]).await;
            assert!(said.contains("could not find the requested"), "{said}");

            // A watch is sent as it grows.
            let path = format!("{CONFIGMAPS}?watch=true&fieldSelector=metadata.name=v{version}");
            let mut events = ask(at, &path, None).await.into_body();
            let made = json!({"metadata": {"name": format!("v{version}")}});
            make(&daemon.client(), [Call::post(CONFIGMAPS, &made)]).await;
            let event = events.frame().await.unwrap().unwrap();
            let event: Value = serde_json::from_slice(event.data_ref().unwrap()).unwrap();
            assert_eq!(event["type"], "ADDED", "{version}");
            // Its access is that of the kubectl that is asked.
            let refused = ask(at, &format!("{PODS}/p/exec?command=a"), None).await;
            assert_eq!(refused.status(), 403, "{version}");
        }
    });
}
