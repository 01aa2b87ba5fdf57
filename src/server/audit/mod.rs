//! The audit log: a record of the requests of each user, and their outcomes.
//!
//! This folder owns the policy, the events and the thread that writes them, in the formats of
//! kube-apiserver. It takes facts about a request from [`RequestRecord`], and writes lines of JSON.
//! It must not know what handlers do.
//!
//! On the thread of the request an event costs only a few cloned strings. Bodies are shared, and
//! the writing thread decodes them, applies defaults and drops managed fields.
//!
//! [`RequestRecord`]: super::request_record::RequestRecord

mod afterwards;
mod body;
mod event;
mod log;
mod policy;
mod trail;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use metrics::{Counter, counter, describe_counter};

pub use afterwards::Afterwards;
pub use body::{Holds, Subject};
pub use policy::{Decided, Level, Policy, Stage};
pub use trail::{DEPRECATED, Trail};

use crate::config::Config;
use crate::files::{RollingLimits, RollingLog, given};
use event::Event;
use log::EventLog;

const POLICY_BYTES_MAX: u64 = 1 << 20;

/// The reason why the audit log cannot be opened, as one line for the operator.
#[derive(Debug, thiserror::Error)]
#[error("--{setting}={}: {problem}", .path.display())]
pub struct AuditError {
    setting: &'static str,
    path: PathBuf,
    problem: String,
}

/// The policy and the log.
pub struct Audit {
    policy: Policy,
    log: EventLog,
    events: Counter,
    levels: [Counter; 4],
    /// The bytes that are kept of bodies that are being sent.
    sent: AtomicUsize,
}

impl Audit {
    /// Reads the policy and opens the log. `None` if no policy is configured.
    ///
    /// # Errors
    /// [`AuditError`]
    pub fn open(config: &Config) -> Result<Option<Arc<Audit>>, AuditError> {
        describe();
        if !config.audit_policy_file.is_set() {
            return Ok(None);
        }
        let policy = given_policy(config)?;
        let path = config.audit_log_path.as_path();
        let limits = RollingLimits {
            file_bytes: config.audit_log_maxsize.saturating_mul(1 << 20),
            count: config.audit_log_maxbackup,
            age: std::time::Duration::from_secs(config.audit_log_maxage.saturating_mul(86_400)),
        };
        let event_bytes = match config.audit_log_truncate_enabled.0 {
            true => config.audit_log_truncate_max_event_size,
            false => usize::MAX,
        };
        let log =
            EventLog::open(path, limits, event_bytes).map_err(|error| no_log(path, &error))?;
        let level = |level: Level| counter!("apiserver_audit_level_total", "level" => level.name());
        Ok(Some(Arc::new(Audit {
            policy,
            log,
            events: counter!("apiserver_audit_event_total"),
            levels: [
                level(Level::None),
                level(Level::Metadata),
                level(Level::Request),
                level(Level::RequestResponse),
            ],
            sent: AtomicUsize::new(0),
        })))
    }

    /// Validates the files that the settings name, without creating any.
    ///
    /// # Errors
    /// [`AuditError`]
    pub fn check(config: &Config) -> Result<(), AuditError> {
        if !config.audit_policy_file.is_set() {
            return Ok(());
        }
        given_policy(config)?;
        let path = config.audit_log_path.as_path();
        match path.as_os_str() == "-" {
            true => Ok(()),
            false => RollingLog::check(path).map_err(|error| no_log(path, &error)),
        }
    }

    /// Writes the queued events and closes the log.
    pub fn close(&self) {
        self.log.close();
    }

    fn record(&self, event: Event) {
        if !event.facts.decided.omitted.contains(&event.stage) {
            self.events.increment(1);
            self.log.add(event);
        }
    }
}

fn no_log(path: &Path, error: &std::io::Error) -> AuditError {
    AuditError {
        setting: "audit-log-path",
        path: path.to_owned(),
        problem: error.to_string(),
    }
}

fn given_policy(config: &Config) -> Result<Policy, AuditError> {
    let path = config.audit_policy_file.as_path();
    read_policy(path).map_err(|problem| AuditError {
        setting: "audit-policy-file",
        path: path.to_owned(),
        problem,
    })
}

fn read_policy(path: &Path) -> Result<Policy, String> {
    let file = given::read(path, POLICY_BYTES_MAX).map_err(|error| error.to_string())?;
    Policy::parse(file.text().map_err(|error| error.to_string())?)
}

fn describe() {
    describe_counter!(
        "apiserver_audit_event_total",
        "Audit events that the policy selected"
    );
    describe_counter!(
        "apiserver_audit_level_total",
        "Requests, by the level at which the audit policy records them"
    );
    describe_counter!("apiserver_audit_error_total", "Audit events that were lost");
    describe_counter!(
        "apiserver_audit_requests_rejected_total",
        "Always 0: if the audit log cannot be written, events are lost and no request is rejected"
    );
    counter!("apiserver_audit_event_total").increment(0);
    counter!("apiserver_audit_requests_rejected_total").increment(0);
    counter!("apiserver_audit_error_total", "plugin" => "log").increment(0);
}
