//! The dynamic and metadata informers of the real client-go on custom resources, and its dynamic
//! client, RESTMapper and scale client: `informers custom` of `tests/informers`.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{
    DEFINITIONS, LAMPS, PATIENCE, conditioned, definition, establish, gone, lamp, over_each_killed,
    path_of, schema, until, version,
};
use crate::harness::{Call, Client, Daemon};
use crate::informers::binary;

/// Reflectors of client-go wait up to half a minute before they try again.
const TIMEOUT: std::time::Duration = PATIENCE.saturating_mul(4);

/// The running program, which takes commands and answers each by a line.
pub struct Program {
    watch_list: &'static str,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    _child: Child,
}

impl Program {
    /// Starts it with or without the streaming list (`sendInitialEvents`).
    pub fn start(daemon: &Daemon, watch_list: &'static str) -> Program {
        let mut child = Command::new(binary())
            .args(["custom", "-kubeconfig"])
            .arg(daemon.kubeconfig())
            .env("KUBE_FEATURE_WatchListClient", watch_list)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Program {
            watch_list,
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
        }
    }

    /// Sends a command. Returns the answer.
    async fn answer(&mut self, command: &str) -> String {
        let line = format!("{command}\n");
        self.commands.write_all(line.as_bytes()).await.unwrap();
        let answer = tokio::time::timeout(TIMEOUT, self.answers.next_line()).await;
        let answer = answer.unwrap_or_else(|_| panic!("{command}: no answer"));
        let ended = || panic!("{command}: it ended");
        answer.unwrap().unwrap_or_else(ended)
    }

    /// Sends a command whose answer is known.
    pub async fn does(&mut self, command: &str, expected: &str) {
        let answer = self.answer(command).await;
        let watch_list = self.watch_list;
        assert_eq!(answer, expected, "{command}, WatchListClient={watch_list}");
    }
}

/// Two programs, and the client that writes while they watch.
struct Watched {
    programs: [Program; 2],
    client: Client,
    written: usize,
}

impl Watched {
    /// Creates an object in a version, and waits until all informers of these versions have the
    /// same objects as a list.
    async fn follow(&mut self, stored: &str, versions: &[&str]) {
        let name = format!("lamp-{}", self.written);
        self.written += 1;
        let path = LAMPS.replace("v1", stored);
        let mut made = lamp(&name, json!({"colour": "red"}));
        made["apiVersion"] = json!(format!("example.com/{stored}"));
        self.client.call(Call::post(&path, &made)).await.expect(201);
        let change = Call::merge_patch(&format!("{path}/lamp-0"), &json!({"spec": {"watts": 9}}));
        self.client.call(change).await.expect(200);
        for program in &mut self.programs {
            for version in versions {
                let expected = format!("equal {version} {}", self.written);
                program.does(&format!("equal {version}"), &expected).await;
            }
        }
    }

    async fn each_does(&mut self, command: &str, expected: &str) {
        for program in &mut self.programs {
            program.does(command, expected).await;
        }
    }

    /// Has the RESTMappers forget discovery, and find the kind in its preferred version.
    async fn maps_to(&mut self, version: &str) {
        self.each_does("reset", "reset").await;
        let mapped = format!("mapping example.com/{version} lamps namespace");
        self.each_does("mapping", &mapped).await;
    }

    async fn set_versions(&self, versions: &[Value]) {
        let patch = json!({"spec": {"versions": versions}});
        let patch = Call::merge_patch(&path_of(&lamps(versions)), &patch);
        self.client.call(patch).await.expect(200);
    }

    /// Waits until a version is served or not.
    async fn served(&self, version: &str, status: u16) {
        let path = LAMPS.replace("v1", version);
        let is = |answer: &crate::harness::Answer| answer.status == status;
        until(&self.client, || Call::get(&path), is).await;
    }
}

fn lamps(versions: &[Value]) -> Value {
    definition("lamps", "Lamp", &json!(versions))
}

/// A version with status and scale, whose replicas are watts.
fn with_subresources(name: &str, is_storage: bool, schema: &Value) -> Value {
    let mut version = version(name, is_storage, schema);
    version["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.watts", "statusReplicasPath": ".status.watts"}});
    version
}

/// CRD-91, CRD-100, CRD-215, API-58, API-133: restarts, another schema, versions that come and go,
/// and another definition of the same names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_client_go_follow_custom_objects_crd_91_crd_100_crd_215() {
    over_each_killed(async |daemon: &mut Daemon| {
        let mut watched = Watched {
            programs: ["true", "false"].map(|mode| Program::start(daemon, mode)),
            client: daemon.client(),
            written: 0,
        };
        watched.each_does("mapping", "no mapping").await;
        let mut schema = schema();
        let mut v1 = with_subresources("v1", true, &schema);
        establish(&watched.client, &lamps(std::slice::from_ref(&v1))).await;
        watched.maps_to("v1").await;
        watched.each_does("start v1", "synced v1").await;
        watched.follow("v1", &["v1"]).await;
        daemon.kill().await;
        daemon.restart().await;
        watched.client = daemon.client();
        watched.follow("v1", &["v1"]).await;

        schema["properties"]["spec"]["properties"]["size"] = json!({"type": "string"});
        v1 = with_subresources("v1", true, &schema);
        watched.set_versions(std::slice::from_ref(&v1)).await;
        watched.follow("v1", &["v1"]).await;

        let v2 = with_subresources("v2", false, &schema);
        watched.set_versions(&[v1.clone(), v2.clone()]).await;
        watched.served("v2", 200).await;
        watched.maps_to("v2").await;
        watched.each_does("start v2", "synced v2").await;
        watched.follow("v2", &["v1", "v2"]).await;

        let mut unserved = v1.clone();
        unserved["served"] = json!(false);
        watched.set_versions(&[unserved, v2.clone()]).await;
        watched.served("v1", 404).await;
        watched.follow("v2", &["v2"]).await;
        watched.set_versions(&[v1.clone(), v2.clone()]).await;
        watched.served("v1", 200).await;
        watched.follow("v1", &["v1", "v2"]).await;

        let path = path_of(&lamps(&[]));
        watched.client.call(Call::delete(&path)).await.expect(200);
        gone(&watched.client, &path).await;
        watched.written = 0;
        establish(&watched.client, &lamps(&[v1, v2])).await;
        watched.served("v2", 200).await;
        watched.follow("v1", &["v1", "v2"]).await;
    })
    .await;
}

/// Creates, patches and deletes custom objects until stopped, and ignores errors.
async fn churn(client: Client, writer: u64, stop: tokio::sync::watch::Receiver<bool>) {
    let mut number = 0_u64;
    while !*stop.borrow() {
        number += 1;
        let name = format!("w{writer}-{}", number % 20);
        let path = format!("{LAMPS}/{name}");
        let call = match number % 5 {
            0 => Call::delete(&path),
            1 | 2 => Call::post(LAMPS, &lamp(&name, json!({"colour": "red"}))),
            _ => Call::merge_patch(&path, &json!({"spec": {"watts": number}})),
        };
        let _ = client.attempt(call).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

/// CRD-91, CRD-205, CRD-215: schemas change, versions come, become the stored one and go, and the
/// daemon is killed, all while others write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informers_of_client_go_end_equal_to_a_list_while_a_definition_changes_crd_91_crd_215() {
    over_each_killed(async |daemon: &mut Daemon| {
        let mut watched = Watched {
            programs: ["true", "false"].map(|mode| Program::start(daemon, mode)),
            client: daemon.client(),
            written: 0,
        };
        let plain = schema();
        let mut larger = schema();
        larger["properties"]["spec"]["properties"]["size"] = json!({"type": "string"});
        let v1 = |is_storage, schema| with_subresources("v1", is_storage, schema);
        let v2 = |is_storage, schema| with_subresources("v2", is_storage, schema);
        establish(&watched.client, &lamps(&[v1(true, &plain)])).await;
        watched.each_does("start v1", "synced v1").await;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let writers = (0..3).map(|writer| churn(daemon.client(), writer, stopped.clone()));
        let writers: Vec<_> = writers.map(tokio::spawn).collect();
        for versions in [
            vec![v1(true, &larger)],
            vec![v1(true, &plain), v2(false, &larger)],
            vec![v1(false, &larger), v2(true, &plain)],
            vec![v1(true, &plain), v2(false, &plain)],
        ] {
            watched.set_versions(&versions).await;
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            daemon.kill().await;
            daemon.restart().await;
            watched.client = daemon.client();
        }
        watched.served("v2", 200).await;
        watched.each_does("start v2", "synced v2").await;
        stop.send(true).unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        let list = watched.client.call(Call::get(LAMPS)).await.expect(200);
        let number = list["items"].as_array().unwrap().len();
        assert!(number > 5, "hardly anything was written: {list}");
        for version in ["v1", "v2"] {
            let command = format!("equal {version}");
            let equal = format!("equal {version} {number}");
            watched.each_does(&command, &equal).await;
        }
    })
    .await;
}

/// CRD-83, CRD-86, CRD-185, CRD-188, CRD-220: the dynamic client, and the scale client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dynamic_and_the_scale_client_of_client_go_work_crd_83_crd_188_crd_220() {
    over_each_killed(async |daemon: &mut Daemon| {
        let client = daemon.client();
        let version = with_subresources("v1", true, &schema());
        let created = Call::post(DEFINITIONS, &lamps(&[version]));
        client.call(created).await.expect(201);
        let path = path_of(&lamps(&[]));
        conditioned(&client, &path, "Established", "True").await;
        let mut program = Program::start(daemon, "true");
        program.does("verbs v1", "verbs v1").await;
        program.does("scale v1", "scaled v1").await;
    })
    .await;
}
