//! Faults in the actors of a daemon that runs in the process of the test.

use std::time::Duration;

use actors::testing::failpoints;

use crate::harness::{CONFIGMAPS, Call, Client, body, configmap};
use crate::load::until;

/// The daemon's page of metrics.
pub async fn page(client: &Client) -> String {
    client.call(Call::get("/metrics")).await.text()
}

/// Stalls a part for so long that the watchdog names it, and waits until it turns again.
pub async fn stall_a_part(client: &Client) {
    let part = "compactor/base";
    let stalled = |value: u8| format!("taffrail_stalled{{part=\"{part}\"}} {value}\n");
    failpoints::stall_at(part, Duration::from_secs(9));
    for (what, value) in [("the stall is on the page", 1), ("the part turns again", 0)] {
        until(what, async || page(client).await.contains(&stalled(value))).await;
    }
}

/// Has the Cacher of ConfigMaps die once. It is filled anew.
pub async fn kill_a_cacher(client: &Client) {
    failpoints::panic_at("cacher/configmaps", 1);
    until("the Cacher has died, and serves again", async || {
        // It is there from the first time on.
        client.call(Call::post(CONFIGMAPS, &body("a", "1"))).await;
        let is_pending = failpoints::is_pending("cacher/configmaps");
        !is_pending && client.call(Call::get(CONFIGMAPS)).await.status == 200
    })
    .await;
}

/// Has the Cacher of ConfigMaps die of an object until it is left alone for a minute. Who asks for
/// ConfigMaps meanwhile is answered 429.
pub async fn leave_a_cacher_alone(client: &Client) {
    let created = client
        .call(Call::post(CONFIGMAPS, &body("poison", "1")))
        .await;
    created.expect(201);
    failpoints::poison("/registry/configmaps/default/poison");
    let poisoned = body("poison", "2");
    let written = client
        .call(Call::put(&configmap("poison"), &poisoned))
        .await;
    written.expect(200);
    let line = "taffrail_actors_degraded{actor=\"cacher\"} 1\n";
    until("the Cacher is left alone", async || {
        let refused = client.call(Call::get(CONFIGMAPS)).await;
        refused.status == 429 && page(client).await.contains(line)
    })
    .await;
}
