//! Servers inside this process, started by `Server::builder`.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use serde_json::json;
use taffrail::{Server, ServerBuilder, ServerError, StorageEngine};

use crate::harness::{Call, Client, Target};
use crate::process::{Process, turn};
use crate::servers::etcd::{self, Cluster};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// More than a server takes to stop when nothing holds it up.
const SOON: Duration = Duration::from_secs(30);

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(work)
}

/// A client that trusts what the server says is to be trusted.
fn client(server: &Server, token: Option<&str>) -> Client {
    let pem = server.trust_pem().as_bytes();
    Target::new(server.address(), token.map(str::to_owned), Some(pem)).client()
}

/// An executor without a runtime.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

async fn started(builder: ServerBuilder) -> Server {
    let server = builder.start().await.unwrap();
    let ready = tokio::time::timeout(SOON, server.ready()).await;
    ready.unwrap().unwrap();
    server
}

async fn create(client: &Client, name: &str) {
    let object = json!({"metadata": {"name": name}});
    client
        .call(Call::post(CONFIG_MAPS, &object))
        .await
        .expect(201);
}

/// The value of a series of ConfigMaps: how many creates of them succeeded.
fn creates(page: &str) -> u64 {
    let mut lines = page.lines().filter(|line| {
        line.starts_with("apiserver_request_total{")
            && line.contains(r#"resource="configmaps""#)
            && line.contains(r#"verb="POST""#)
            && line.contains(r#"code="201""#)
    });
    lines.next().map_or(0, |line| {
        let (_, value) = line.rsplit_once(' ').unwrap();
        value.parse().unwrap()
    })
}

#[test]
fn two_servers_in_one_process_have_two_pages_of_metrics() {
    let _turn = turn();
    run(async {
        let one = started(Server::builder().engine(StorageEngine::Memory)).await;
        let other = started(Server::builder()).await;
        let clients = [&one, &other].map(|server| client(server, server.admin_token()));
        for (client, count) in clients.iter().zip([2, 3]) {
            for number in 0..count {
                create(client, &format!("of-{number}")).await;
            }
        }
        for ((server, client), count) in [&one, &other].into_iter().zip(&clients).zip([2, 3]) {
            let page = client.call(Call::get("/metrics")).await;
            let page = String::from_utf8(page.body.to_vec()).unwrap();
            assert_eq!(creates(&page), count);
            assert_eq!(creates(&server.metrics()), count);
            // Every thread measures for its server: those of actors, of HTTP, and the first one.
            for family in [
                "taffrail_watch_ring_events",
                "apiserver_request_duration_seconds",
                "process_start_time_seconds",
            ] {
                assert!(page.contains(family), "{family} is missing:\n{page}");
            }
        }
        let engine = "taffrail_storage_commit_duration_seconds";
        assert!(other.metrics().contains(engine), "{}", other.metrics());
        assert!(!one.metrics().contains(engine), "{}", one.metrics());
        one.stop().await.unwrap();
        create(&clients[1], "after-the-end-of-the-other").await;
        assert_eq!(creates(&other.metrics()), 4);
        other.stop().await.unwrap();
        // No server has taken the recorder of the process.
        metrics::set_global_recorder(metrics::NoopRecorder).expect("nobody has installed one");
    });
}

#[test]
fn a_setting_of_one_server_is_not_a_setting_of_another() {
    let _turn = turn();
    run(async {
        let memory = || Server::builder().engine(StorageEngine::Memory);
        let strict = started(memory().setting("allow-privileged", "false")).await;
        let lenient = started(memory()).await;
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{
                "name": "c", "image": "i", "securityContext": {"privileged": true},
            }]},
        });
        for (server, code) in [(&strict, 422), (&lenient, 201)] {
            let client = client(server, server.admin_token());
            let call = Call::post("/api/v1/namespaces/default/pods", &pod);
            client.call(call).await.expect(code);
        }
        strict.stop().await.unwrap();
        lenient.stop().await.unwrap();
    });
}

#[test]
fn users_of_the_builder_are_authenticated_and_authorized() {
    let _turn = turn();
    run(async {
        let builder = Server::builder()
            .engine(StorageEngine::Memory)
            .user("ann", "token-of-ann", &["system:masters"])
            .user("bob", "token-of-bob", &["crew"]);
        let server = started(builder).await;
        let status = async |token| {
            let client = client(&server, token);
            client.call(Call::get(CONFIG_MAPS)).await.status
        };
        assert_eq!(status(Some("token-of-ann")).await, 200);
        assert_eq!(status(Some("token-of-bob")).await, 403);
        assert_eq!(status(Some("token-of-eve")).await, 401);
        assert_eq!(status(None).await, 403);
        assert_eq!(status(server.admin_token()).await, 200);
        server.stop().await.unwrap();
    });
}

#[test]
fn a_server_that_has_stopped_leaves_neither_threads_nor_a_temporary_directory() {
    let _turn = turn();
    run(async {
        let cycle = async || {
            let server = started(Server::builder()).await;
            let kubeconfig = server.kubeconfig().to_owned();
            let data = kubeconfig.parent().unwrap();
            let mode = std::fs::metadata(data).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
            let mode = std::fs::metadata(&kubeconfig).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            create(&client(&server, server.admin_token()), "a").await;
            let address = server.address();
            server.stop().await.unwrap();
            assert!(!data.exists());
            assert!(is_closed(address).await);
        };
        cycle().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = Process::threads();
        cycle().await;
        cycle().await;
        // The watchdog looks once a second whether it is still needed.
        while Process::threads() > before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

async fn is_closed(address: SocketAddr) -> bool {
    tokio::net::TcpStream::connect(address).await.is_err()
}

#[test]
fn a_directory_of_its_own_keeps_objects_and_the_engine_decides_where_they_are() {
    let _turn = turn();
    if etcd::find("3.5").is_none() {
        return;
    }
    let cluster = Cluster::single("3.5");
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let etcd = StorageEngine::Etcd {
            servers: cluster.urls(),
            prefix: "/elsewhere".to_owned(),
        };
        for (engine, is_kept) in [
            (StorageEngine::Memory, false),
            (StorageEngine::Embedded, true),
            (etcd, true),
        ] {
            let data = folder.path().join(format!("{}", is_kept));
            let start = async || {
                let builder = Server::builder().data_dir(&data).engine(engine.clone());
                started(builder).await
            };
            let server = start().await;
            create(&client(&server, server.admin_token()), "kept").await;
            server.stop().await.unwrap();
            let server = start().await;
            let one = format!("{CONFIG_MAPS}/kept");
            let found = client(&server, server.admin_token());
            let found = found.call(Call::get(&one)).await.status;
            assert_eq!(found == 200, is_kept, "{engine:?}: {found}");
            server.stop().await.unwrap();
            assert!(data.exists());
        }
    });
}

#[test]
fn what_can_not_start_says_why_and_leaves_nothing_running() {
    let _turn = turn();
    run(async {
        let before = Process::threads();
        let why = async |builder: ServerBuilder| builder.start().await.unwrap_err().to_string();
        let unknown = why(Server::builder().setting("wath-cache", "true")).await;
        assert!(unknown.contains("did you mean --watch-cache"), "{unknown}");
        let invalid = why(Server::builder().setting("http-threads", "many")).await;
        assert!(invalid.contains("http-threads"), "{invalid}");
        let token = why(Server::builder().user("ann", "two words", &[])).await;
        assert!(
            token.contains("ann") && !token.contains("two words"),
            "{token}"
        );
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let bound = Server::builder().address(address).start().await;
        assert!(matches!(bound, Err(ServerError::Start(_))), "{bound:?}");
        while Process::threads() > before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn a_dropped_server_stops_in_the_background_and_then_removes_its_directory() {
    let _turn = turn();
    run(async {
        let server = started(Server::builder()).await;
        let (address, kubeconfig) = (server.address(), server.kubeconfig().to_owned());
        create(&client(&server, server.admin_token()), "a").await;
        drop(server);
        let gone = async {
            while !is_closed(address).await || kubeconfig.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, gone).await.unwrap();
    });
}

#[test]
fn a_start_that_nobody_waits_for_leaves_nothing_running() {
    let _turn = turn();
    run(async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = Process::threads();
        for milliseconds in [0, 1, 5, 20, 100] {
            let start = Server::builder().start();
            let within = Duration::from_millis(milliseconds);
            drop(tokio::time::timeout(within, start).await);
        }
        let ended = async {
            while Process::threads() > before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, ended).await.unwrap();
    });
}

/// The program has no runtime of its own, so nothing of a server may need one.
#[test]
fn any_executor_starts_a_server_and_adds_resources_that_are_measured() {
    let _turn = turn();
    let server = Server::builder().engine(StorageEngine::Memory).start();
    let server = block_on(server).unwrap();
    block_on(server.ready()).unwrap();
    let resources = server.resources();
    block_on(resources.add(crate::gadgets("gizmos"))).unwrap();
    run(async {
        let client = client(&server, server.admin_token());
        let gizmos = "/apis/example.com/v1/namespaces/default/gizmos";
        let object = json!({
            "apiVersion": "example.com/v1", "kind": crate::kind_of("gizmos"), "metadata": {"name": "a"},
        });
        client.call(Call::post(gizmos, &object)).await.expect(201);
        let page = server.metrics();
        // Its storage and its cache measure into the page of the server.
        for series in [
            "etcd_request_duration_seconds_count",
            "apiserver_cache_list_total",
        ] {
            let mut lines = page.lines().filter(|line| line.starts_with(series));
            let is_there = lines.any(|line| line.contains(r#"resource="gizmos""#));
            assert!(is_there, "{series} is missing:\n{page}");
        }
    });
    block_on(resources.remove("example.com", "v1", "gizmos")).unwrap();
    block_on(server.stop()).unwrap();
    let late = block_on(resources.add(crate::gadgets("gizmos")));
    assert_eq!(late.unwrap_err().to_string(), "the server has stopped");
}

/// How far a server is ahead of this machine, by a new object, in seconds.
async fn ahead(client: &Client, name: &str) -> i64 {
    let object = json!({"metadata": {"name": name}});
    let made = client
        .call(Call::post(CONFIG_MAPS, &object))
        .await
        .expect(201);
    let created = made["metadata"]["creationTimestamp"].as_str().unwrap();
    let created: jiff::Timestamp = created.parse().unwrap();
    let now = jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap();
    created.as_second() - now.as_second()
}

#[test]
fn each_server_for_tests_has_a_clock_of_its_own() {
    const HOUR: Duration = Duration::from_secs(3600);
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let _turn = turn();
    run(async {
        let memory = || Server::builder().engine(StorageEngine::Memory);
        let one = started(memory().for_tests()).await;
        let other = started(Server::builder().for_tests()).await;
        let usual = started(memory()).await;
        let clients = [&one, &other, &usual].map(|server| client(server, server.admin_token()));
        for client in &clients {
            let event = json!({
                "metadata": {"name": "e", "namespace": "default"},
                "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
            });
            client.call(Call::post(EVENTS, &event)).await.expect(201);
        }
        one.advance(2 * HOUR).await.unwrap();
        other.advance(HOUR / 2).await.unwrap();
        let refused = usual.advance(HOUR).await.unwrap_err();
        assert!(matches!(refused, ServerError::NotForTests), "{refused}");
        let expected = [(7200, 404), (1800, 200), (0, 200)];
        for (client, (seconds, code)) in clients.iter().zip(expected) {
            let found = ahead(client, "a").await;
            assert!((found - seconds).abs() < 30, "{found} is not {seconds}");
            let event = client.call(Call::get(&format!("{EVENTS}/e"))).await;
            assert_eq!(event.status, code);
        }
        // The embedded engine expires its leases in the same way.
        other.advance(HOUR).await.unwrap();
        let event = clients[1].call(Call::get(&format!("{EVENTS}/e"))).await;
        event.refusal(404, "NotFound");
        let too_far = one.advance(Duration::MAX).await.unwrap_err();
        assert_eq!(too_far.to_string(), "the clock would pass the year 9000");
        assert!(
            (ahead(&clients[0], "b").await - 7200).abs() < 30,
            "it has moved"
        );
        // Only servers for tests have the paths.
        let faults = "/taffrail/v1/test/faults";
        for (client, code) in clients.iter().zip([200, 200, 404]) {
            assert_eq!(client.call(Call::get(faults)).await.status, code);
        }
        for server in [one, other, usual] {
            server.stop().await.unwrap();
        }
    });
}

#[test]
fn a_server_that_stops_ends_the_delays_of_a_test() {
    let _turn = turn();
    run(async {
        let builder = Server::builder().engine(StorageEngine::Memory).for_tests();
        let server = started(builder).await;
        let [client, delayed] = [0; 2].map(|_| client(&server, server.admin_token()));
        let plan = json!({"rules": [{"latency": "1m"}]});
        let set = Call::put("/taffrail/v1/test/faults", &plan);
        client.call(set).await.expect(200);
        let delayed = tokio::spawn(async move { delayed.call(Call::get(CONFIG_MAPS)).await });
        let hits = async || {
            let shown = client
                .call(Call::get("/taffrail/v1/test/faults"))
                .await
                .expect(200);
            shown["rules"][0]["hits"]["latency"] == 1
        };
        while !hits().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::timeout(SOON, server.stop())
            .await
            .unwrap()
            .unwrap();
        // It was answered, because the stop waits for requests.
        assert_eq!(delayed.await.unwrap().status, 200);
    });
}
