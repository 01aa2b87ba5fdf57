//! Flags that stand for settings under other names, and checks of flags against each other.

use super::GivenFlags;
use super::kind::whole;
use crate::api::text::go_duration;
use crate::config::admission_plugins::{ADMISSION_PLUGINS, AdmissionPlugins};
use crate::config::{ConfigError, LogFilter, LogFormat, Settings};

/// The verbosity from which kube-apiserver logs what is of use in debugging.
const DEBUG_VERBOSITY: i64 = 4;

const ADMISSION_CONTROL: &str = "admission-control";

impl Settings {
    /// Sets the settings that given flags stand for. Returns the faults of the flags.
    pub(in crate::config) fn obey_stand_ins(&mut self) -> Vec<ConfigError> {
        let given = self.apiserver_flags.clone();
        let verbosity = given.value("v").and_then(|text| whole(text).ok());
        if verbosity.is_some_and(|verbosity| verbosity >= DEBUG_VERBOSITY) {
            self.log_level.get_or_insert_with(LogFilter::debug);
        }
        if given.value("logging-format") == Some("json") {
            self.log_format.get_or_insert(LogFormat::Json);
        }
        let mut faults = leadership(&given);
        faults.extend(self.control_admission(&given));
        faults
    }

    /// Enables the plugins of `admission-control`, and disables all others.
    fn control_admission(&mut self, given: &GivenFlags) -> Option<ConfigError> {
        let names = given.value(ADMISSION_CONTROL)?;
        if self.enable_admission_plugins.is_some() || self.disable_admission_plugins.is_some() {
            let problem = "it and enable-admission-plugins or disable-admission-plugins are \
                           mutually exclusive";
            return Some(ConfigError::of_setting(ADMISSION_CONTROL, problem));
        }
        let enabled: AdmissionPlugins = match names.parse() {
            Ok(enabled) => enabled,
            Err(problem) => return Some(ConfigError::of_setting(ADMISSION_CONTROL, &problem)),
        };
        let others = ADMISSION_PLUGINS.iter().copied();
        let others = others.filter(|plugin| !enabled.names(plugin.name));
        self.disable_admission_plugins = Some(AdmissionPlugins(others.collect()));
        self.enable_admission_plugins = Some(enabled);
        None
    }
}

/// The times of elections must fit together, whether or not there are elections.
fn leadership(given: &GivenFlags) -> Vec<ConfigError> {
    let nanos = |name: &str, default: i64| {
        let value = given.value(name).map(go_duration::parse);
        value.and_then(Result::ok).unwrap_or(default)
    };
    const SECOND: i64 = 1_000_000_000;
    let [lease, renewal, retry] = [
        ("coordinated-leadership-lease-duration", 15 * SECOND),
        ("coordinated-leadership-renew-deadline", 10 * SECOND),
        ("coordinated-leadership-retry-period", 2 * SECOND),
    ]
    .map(|(name, default)| (name, nanos(name, default)));
    let pairs = [(lease, renewal), (renewal, retry)];
    let wrong = pairs.into_iter().filter(|(long, short)| long.1 <= short.1);
    wrong
        .map(|(long, short)| {
            let problem = format!("must be greater than --{}", short.0);
            ConfigError::of_setting(long.0, &problem)
        })
        .collect()
}
