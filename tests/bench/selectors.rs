//! Measures lists with selectors that select few of many objects.

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::{Call, Daemon};
use crate::load;
use crate::meter::Sample;
use crate::report::{figure, noise, part};

/// The number of pods of one node.
const EACH: u64 = 50;
const CLIENTS: u64 = 64;
const REPEATS: u64 = 200;

fn node(number: u64, pods: u64) -> String {
    format!("node-{:05}", number * 7919 % (pods / EACH))
}

async fn create(daemon: &Daemon, pods: u64) {
    let path = format!("/api/v1/namespaces/{}/pods", load::NAMESPACE);
    let clients = (0..CLIENTS).map(|first| {
        let (client, path) = (daemon.client(), path.clone());
        tokio::spawn(async move {
            for number in (first..pods).step_by(CLIENTS as usize) {
                let node = node(number, pods);
                let pod = json!({
                    "metadata": { "name": load::name(number), "labels": { "node": node } },
                    "spec": { "nodeName": node, "containers": [{ "name": "a", "image": "b" }] },
                });
                client.call(Call::post(&path, &pod)).await.expect(201);
            }
        })
    });
    for done in join_all(clients).await {
        done.unwrap();
    }
}

/// Returns the milliseconds of the daemon's CPU for a list.
async fn list(daemon: &Daemon, selector: &str, pods: u64, repeats: u64) -> f64 {
    let client = daemon.client();
    let start = Sample::take(daemon.pid());
    for number in 0..repeats {
        let path = format!("/api/v1/pods?{selector}{}", node(number, pods));
        let list = client.call(Call::get(&path)).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len() as u64, EACH);
    }
    let used = start.until(&Sample::take(daemon.pid()));
    noise(used.other_cores);
    used.daemon * 1e3 / repeats as f64
}

pub async fn measure(pods: u64) {
    part(&format!("CPU of a list of {EACH} of {pods} pods"));
    let daemon = Daemon::start().await;
    load::namespace(&daemon).await;
    create(&daemon, pods).await;
    let by_field = list(&daemon, "fieldSelector=spec.nodeName%3D", pods, REPEATS).await;
    figure("by the node that they run on", by_field, "ms", "< 1");
    let by_label = list(&daemon, "labelSelector=node%3D", pods, REPEATS / 10).await;
    figure("by a label, which has no index", by_label, "ms", "");
}
