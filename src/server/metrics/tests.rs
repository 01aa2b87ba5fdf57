use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use actors::dispatcher::{Caller, WatchFrame};
use bytes::Bytes;
use http::Method;
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::api::request_info::RequestInfo;
use crate::auth::Access;
use crate::kinds::definitions::core::configmaps;
use crate::server::filters::in_flight::InFlightLimits;
use crate::storage::{RunningWatch, WatchStream};
use crate::transport::WatchBody;

/// Runs the work with its own recorder and returns the page.
fn page(work: impl FnOnce(&Measures)) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let measures = Measures::new(
            Some(Box::new(move || handle.render())),
            Arc::new(InFlight::new(InFlightLimits::default())),
            None,
        );
        work(&measures);
        measures.render(|_, _, _| true)
    })
}

fn labels(method: Method, path: &str, watch: bool) -> RequestLabels {
    let info = RequestInfo::parse(&method, path, watch, "").expect("a path");
    RequestLabels::of(&info, &method).about(&configmaps(), None, false)
}

/// Returns a metered watch of ConfigMaps, as on a thread of its own.
fn metered(
    measures: &Measures,
    stream: impl WatchStream + 'static,
    times_initial: bool,
) -> MeteredWatch {
    MeteredWatch::new(
        RunningWatch::other(stream),
        &measures.thread(),
        configmaps().into(),
        times_initial,
        Access::default(),
        None,
    )
}

/// Reads all frames of a watch.
fn drain(watch: &mut MeteredWatch) {
    let caller = Caller::task(&Context::from_waker(Waker::noop()));
    while let Poll::Ready(Some(_)) = watch.poll_next(&caller) {}
}

struct Frames(Vec<Bytes>);

impl WatchStream for Frames {
    fn poll_next(&mut self, _: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        Poll::Ready(self.0.pop().map(WatchFrame::from))
    }
}

#[test]
fn requests_are_counted_by_verb_resource_scope_and_code_api_52_and_53() {
    let page = page(|_| {
        let meters = RequestMeters::default();
        let list = labels(Method::GET, "/api/v1/namespaces/d/configmaps", false);
        meters.start(list.clone()).finish(200);
        meters.start(list.clone()).finish(429);
        drop(meters.start(list));
        meters
            .start(labels(Method::GET, "/api/v1/configmaps", true))
            .finish(200);
        meters
            .start(labels(
                Method::POST,
                "/api/v1/namespaces/d/configmaps",
                false,
            ))
            .finish(201);
    });
    let line = |name: &str, verb: &str, scope: &str, rest: &str| {
        format!(
            "{name}{{verb=\"{verb}\",dry_run=\"\",group=\"\",version=\"v1\",resource=\"configmaps\",\
             subresource=\"\",scope=\"{scope}\",component=\"apiserver\"{rest}"
        )
    };
    for expected in [
        line(
            "apiserver_request_total",
            "LIST",
            "namespace",
            ",code=\"200\"} 1",
        ),
        line(
            "apiserver_request_total",
            "WATCH",
            "cluster",
            ",code=\"200\"} 1",
        ),
        line(
            "apiserver_request_total",
            "POST",
            "resource",
            ",code=\"201\"} 1",
        ),
        line(
            "apiserver_request_terminations_total",
            "LIST",
            "namespace",
            ",code=\"429\"} 1",
        ),
        line("apiserver_request_aborts_total", "LIST", "namespace", "} 1"),
        line(
            "apiserver_request_duration_seconds_count",
            "LIST",
            "namespace",
            "} 2",
        ),
    ] {
        assert!(page.contains(&expected), "{expected}\n{page}");
    }
    assert!(!page.contains("apiserver_request_duration_seconds_count{verb=\"WATCH\""));
    assert!(page.contains("# HELP apiserver_request_total Finished requests"));
}

#[test]
fn unknown_methods_share_one_verb_so_that_nobody_can_make_series_api_53() {
    let page = page(|_| {
        let meters = RequestMeters::default();
        for method in [b"BREW", b"WHEN"] {
            let method = Method::from_bytes(method).expect("a token");
            meters
                .start(labels(method, "/api/v1/configmaps", false))
                .finish(405);
        }
    });
    assert!(
        page.contains("apiserver_request_total{verb=\"other\""),
        "{page}"
    );
    assert!(!page.contains("BREW"));
}

#[test]
fn what_watchers_are_sent_is_added_up_over_threads_me_61() {
    let page = page(|measures| {
        for _ in 0..2 {
            let frames = Frames(vec![Bytes::from(vec![0; 100]), Bytes::from(vec![0; 1500])]);
            let mut watch = metered(measures, frames, false);
            drain(&mut watch);
            std::mem::forget(watch);
        }
    });
    let labels = r#"group="",version="v1",resource="configmaps""#;
    for expected in [
        format!("apiserver_watch_events_total{{{labels}}} 4"),
        format!("apiserver_watch_events_sizes_bucket{{{labels},le=\"1024\"}} 2"),
        format!("apiserver_watch_events_sizes_bucket{{{labels},le=\"2048\"}} 4"),
        format!("apiserver_watch_events_sizes_bucket{{{labels},le=\"+Inf\"}} 4"),
        format!("apiserver_watch_events_sizes_sum{{{labels}}} 3200"),
        format!("apiserver_watch_events_sizes_count{{{labels}}} 4"),
    ] {
        assert!(page.contains(&expected), "{expected}\n{page}");
    }
    assert!(
        page.contains("apiserver_longrunning_requests{verb=\"WATCH\""),
        "{page}"
    );
}

#[test]
fn a_watch_counts_as_open_until_it_is_dropped_api_52() {
    let open = |dropped: bool| {
        page(|measures| {
            let watch = metered(measures, Frames(Vec::new()), false);
            if dropped {
                drop(watch);
            } else {
                std::mem::forget(watch);
            }
        })
    };
    let end = "subresource=\"\",component=\"apiserver\"}";
    assert!(open(false).contains(&format!("{end} 1")));
    assert!(open(true).contains(&format!("{end} 0")));
}

#[test]
fn initial_events_are_timed_until_their_bookmark_me_61() {
    let page = page(|measures| {
        let end = br#"{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let frames = Frames(vec![Bytes::from_static(end), Bytes::from_static(b"{}")]);
        let mut watch = metered(measures, frames, true);
        drain(&mut watch);
    });
    assert!(
        page.contains("apiserver_watch_list_duration_seconds_count"),
        "{page}"
    );
}

/// Events that the watch cache received this many milliseconds ago.
struct Delayed(Vec<u64>);

impl WatchStream for Delayed {
    fn poll_next(&mut self, _: &Caller<'_>) -> Poll<Option<WatchFrame>> {
        Poll::Ready(self.0.pop().map(|millis| WatchFrame {
            since: Instant::now().checked_sub(Duration::from_millis(millis)),
            ..WatchFrame::from(Bytes::new())
        }))
    }
}

#[test]
fn one_in_eight_deliveries_is_timed_from_the_first_on() {
    let page = page(|measures| {
        // The stream yields the last delay first. The 1st, 9th and 17th events are timed.
        let mut delays = vec![0; 24];
        (delays[23], delays[15], delays[7], delays[6]) = (7, 70, 7000, 7000);
        let mut watch = metered(measures, Delayed(delays), false);
        drain(&mut watch);
    });
    let labels = r#"group="",version="v1",resource="configmaps""#;
    for (bound, count) in [("0.005", 0), ("0.01", 1), ("0.1", 2), ("1", 2), ("+Inf", 3)] {
        let line =
            format!("taffrail_watch_delivery_seconds_bucket{{{labels},le=\"{bound}\"}} {count}\n");
        assert!(page.contains(&line), "{line}{page}");
    }
    let sum = page.lines().find_map(|line| {
        line.strip_prefix(&format!("taffrail_watch_delivery_seconds_sum{{{labels}}} "))
    });
    let sum: f64 = sum.unwrap().parse().unwrap();
    assert!((7.07..8.0).contains(&sum), "{sum}");
    assert!(page.contains("# TYPE taffrail_watch_delivery_seconds histogram\n"));
}
