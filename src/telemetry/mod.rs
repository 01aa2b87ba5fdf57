//! Logs, metrics and the panic hook of the process.
//!
//! This folder owns the log subscriber, the metrics recorder and the measurements of the process.
//! It must not know the parts of the daemon that log or measure.

pub mod expressions;
mod family;
mod log_writer;
mod process;
mod resource_series;
mod series;

use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use std::time::Duration;

use metrics_exporter_prometheus::Matcher;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFilter, LogFormat};
use log_writer::LOG;
pub use log_writer::log_health;
pub use process::process_lines;
pub use series::Series;

/// The interval for folding samples of histograms into buckets. Without it the samples would
/// accumulate while no client reads the metrics.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Warnings of these crates describe the behaviour of unknown clients. To see them, name the crate
/// in `--log-level`.
const QUIET_CRATES: &str = "h2=error,hyper=error,rustls=error,tokio_rustls=error";

/// Why logging or metrics can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// Another subscriber is installed already.
    #[error("the log can't be set up: {0}")]
    Log(String),
    /// A table of buckets is invalid.
    #[error("the metrics can't be set up: {0}")]
    Metrics(#[from] metrics_exporter_prometheus::BuildError),
    /// Another recorder is installed already.
    #[error("the metrics can't be set up: {0}")]
    Recorder(String),
}

/// Sends the log to stderr. A panic becomes one log line.
///
/// # Errors
/// The process has a log already.
pub fn install_log(filter: &LogFilter, format: LogFormat) -> Result<(), TelemetryError> {
    let directives = format!("{QUIET_CRATES},{}", filter.directives());
    let filter = EnvFilter::builder()
        .parse(directives)
        .map_err(|error| TelemetryError::Log(error.to_string()))?;
    let lines = tracing_subscriber::fmt::layer().with_writer(|| LOG.writer(std::io::stderr()));
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
        LogFormat::Text => registry.with(lines.with_ansi(false)).try_init(),
        LogFormat::Auto => registry
            .with(lines.with_ansi(std::io::stderr().is_terminal()))
            .try_init(),
    }
    .map_err(|error| TelemetryError::Log(error.to_string()))?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = one_line(panic.payload_as_str().unwrap_or("no message"));
    let location = panic.location().map(ToString::to_string);
    tracing::error!(
        location = location.unwrap_or_default(),
        thread = std::thread::current().name().unwrap_or_default(),
        "panicked: {message}"
    );
}

/// Joins the lines of a message, such as that of a failed assertion.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Series of a daemon, which nothing measures into yet.
///
/// # Errors
/// A table of buckets is invalid.
pub fn new_series() -> Result<Series, TelemetryError> {
    Series::new(buckets())
}

/// Installs the process's recorder, which renders the page of `/metrics`. The caller must run
/// [`upkeep`].
///
/// # Errors
/// The process has a recorder already.
pub fn install_metrics() -> Result<Series, TelemetryError> {
    let series = new_series()?;
    metrics::set_global_recorder(series.clone())
        .map_err(|error| TelemetryError::Recorder(error.to_string()))?;
    Ok(series)
}

/// Bounds the memory of histograms. Never returns.
pub async fn upkeep(series: Series) {
    process::started();
    let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        ticks.tick().await;
        series.run_upkeep();
    }
}

/// The bounds of requests that take long.
const REQUEST_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 1.0, 10.0];

/// The buckets of histograms. They are some of Kubernetes' own where a dashboard reads them: each
/// bucket is a series for each set of labels, so two dozen would make most of the page.
fn buckets() -> Vec<(Matcher, &'static [f64])> {
    // Objectives are 1 s, 5 s and 30 s, by scope.
    const OBJECTIVE_SECONDS: &[f64] = &[0.1, 1.0, 5.0, 30.0];
    const READ_WAIT_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 1.0, 3.0];
    const FINE_SECONDS: &[f64] = &[
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
    ];
    // ME-1, thinned out.
    const STORE_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 1.0, 10.0, 60.0];
    // ME-40, thinned out.
    const CIPHER_SECONDS: &[f64] = &eightfold::<9>(0.000_005);
    const RESPONSE_BYTES: &[f64] = &[1e3, 1e5, 1e7];
    const EVENT_BYTES: &[f64] = &[
        1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0,
    ];
    const COUNTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0];
    // ME-6.
    const LEASE_OBJECTS: &[f64] = &[10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0];
    // From half an hour to a year.
    const CERTIFICATE_SECONDS: &[f64] = &[
        0.0,
        1800.0,
        3600.0,
        21_600.0,
        86_400.0,
        172_800.0,
        345_600.0,
        604_800.0,
        2_592_000.0,
        7_776_000.0,
        31_104_000.0,
    ];
    const FILTER_SECONDS: &[f64] = &[0.0001, 0.001, 0.01, 0.1, 1.0, 10.0];
    const BODY_BYTES: &[f64] = &[5e4, 2.5e5, 1.05e6, 2.05e6, 3.05e6];
    let full = |name: &str| Matcher::Full(name.to_owned());
    let mut buckets = vec![
        (full("apiserver_request_duration_seconds"), REQUEST_SECONDS),
        (
            full("apiserver_request_sli_duration_seconds"),
            OBJECTIVE_SECONDS,
        ),
        (full("etcd_lease_object_counts"), LEASE_OBJECTS),
        (full("etcd_request_duration_seconds"), STORE_SECONDS),
        (
            full("apiserver_storage_transformation_duration_seconds"),
            CIPHER_SECONDS,
        ),
        (full("apiserver_response_sizes"), RESPONSE_BYTES),
        (full("apiserver_request_body_size_bytes"), BODY_BYTES),
        (
            full("apiserver_client_certificate_expiration_seconds"),
            CERTIFICATE_SECONDS,
        ),
        (
            full("apiserver_request_filter_duration_seconds"),
            FILTER_SECONDS,
        ),
        (full("apiserver_watch_events_sizes"), EVENT_BYTES),
        (
            full("apiserver_watch_cache_read_wait_seconds"),
            READ_WAIT_SECONDS,
        ),
        (Matcher::Suffix("_seconds".to_owned()), FINE_SECONDS),
        (Matcher::Suffix("_bytes".to_owned()), RESPONSE_BYTES),
        (Matcher::Suffix("_count".to_owned()), COUNTS),
    ];
    let of_access = access_buckets();
    buckets.extend(of_access.map(|(name, bounds)| (full(name), bounds)));
    let of_admission = admission_buckets();
    buckets.extend(of_admission.map(|(name, bounds)| (full(name), bounds)));
    buckets
}

/// The buckets of histograms of authentication and authorization: some of Kubernetes'.
fn access_buckets() -> [(&'static str, &'static [f64]); 9] {
    const DECISION_SECONDS: &[f64] = &[0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384];
    const GRAPH_SECONDS: &[f64] = &eightfold::<4>(0.0001);
    const CONDITION_SECONDS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25];
    const TOKEN_SECONDS: &[f64] = &[0.001, 0.01, 0.1, 1.0, 10.0];
    [
        ("authentication_duration_seconds", DECISION_SECONDS),
        ("authorization_duration_seconds", DECISION_SECONDS),
        (
            "apiserver_impersonation_attempts_duration_seconds",
            DECISION_SECONDS,
        ),
        (
            "apiserver_impersonation_authorization_attempts_duration_seconds",
            DECISION_SECONDS,
        ),
        (
            "authentication_token_cache_request_duration_seconds",
            REQUEST_SECONDS,
        ),
        (
            "apiserver_authorization_webhook_duration_seconds",
            REQUEST_SECONDS,
        ),
        (
            "apiserver_authorization_match_condition_evaluation_seconds",
            CONDITION_SECONDS,
        ),
        (
            "apiserver_authentication_jwt_authenticator_latency_seconds",
            TOKEN_SECONDS,
        ),
        (
            "node_authorizer_graph_actions_duration_seconds",
            GRAPH_SECONDS,
        ),
    ]
}

/// The buckets of histograms of admission and of conversion webhooks, which are Kubernetes' (HK-83,
/// HK-94 to HK-96).
fn admission_buckets() -> [(&'static str, &'static [f64]); 10] {
    const STEP_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
    const WEBHOOK_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
    const CONDITION_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
    const CHECK_SECONDS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];
    const DEFAULT_SECONDS: &[f64] = &[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    ];
    const CALL_SECONDS: &[f64] = &[
        0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0,
    ];
    const CONVERSION_SECONDS: &[f64] = &[
        0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
        8.192, 16.384,
    ];
    [
        (
            "apiserver_admission_controller_admission_duration_seconds",
            STEP_SECONDS,
        ),
        (
            "apiserver_admission_step_admission_duration_seconds",
            STEP_SECONDS,
        ),
        (
            "apiserver_admission_webhook_admission_duration_seconds",
            WEBHOOK_SECONDS,
        ),
        (
            "apiserver_admission_match_condition_evaluation_seconds",
            CONDITION_SECONDS,
        ),
        (
            "apiserver_validating_admission_policy_check_duration_seconds",
            CHECK_SECONDS,
        ),
        (
            "apiserver_mutating_admission_policy_check_duration_seconds",
            CHECK_SECONDS,
        ),
        (
            "apiserver_cel_compilation_duration_seconds",
            DEFAULT_SECONDS,
        ),
        ("apiserver_cel_evaluation_duration_seconds", DEFAULT_SECONDS),
        (
            "apiserver_conversion_webhook_duration_seconds",
            CALL_SECONDS,
        ),
        (
            "apiserver_crd_conversion_webhook_duration_seconds",
            CONVERSION_SECONDS,
        ),
    ]
}

/// Bounds, each eight times the one before.
const fn eightfold<const N: usize>(first: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut at = 1;
    while at < N {
        bounds[at] = bounds[at - 1] * 8.0;
        at += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::{Key, Label, Level, Metadata, Recorder};
    use metrics_exporter_prometheus::PrometheusBuilder;

    #[test]
    fn a_histogram_named_by_kubernetes_has_its_buckets() {
        let mut builder = PrometheusBuilder::new();
        for (matcher, buckets) in buckets() {
            builder = builder.set_buckets_for_metric(matcher, buckets).unwrap();
        }
        let recorder = builder.build_recorder();
        let metadata = Metadata::new("test", Level::INFO, None);
        for name in [
            "apiserver_request_duration_seconds",
            "taffrail_commit_seconds",
        ] {
            let key = Key::from_parts(name, vec![Label::new("verb", "GET")]);
            recorder.register_histogram(&key, &metadata).record(0.01);
        }
        let text = recorder.handle().render();
        assert!(
            text.contains(r#"apiserver_request_duration_seconds_bucket{verb="GET",le="0.025"} 1"#),
            "{text}"
        );
        assert!(
            text.contains(r#"taffrail_commit_seconds_bucket{verb="GET",le="0.01"} 1"#),
            "{text}"
        );
    }

    #[test]
    fn a_panic_is_told_in_one_line() {
        assert_eq!(
            one_line("assertion failed\n  left: 1\n right: 2"),
            "assertion failed left: 1 right: 2"
        );
    }

    #[test]
    fn the_quiet_crates_are_a_filter_that_a_user_can_override() {
        for user in ["info", "debug,h2=trace"] {
            let directives = format!("{QUIET_CRATES},{user}");
            let filter = EnvFilter::builder().parse(directives).unwrap().to_string();
            assert!(filter.contains("hyper=error"), "{filter}");
            assert_eq!(filter.contains("h2=trace"), user.contains("h2=trace"));
        }
    }
}
