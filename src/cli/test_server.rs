//! The flags of `taffrail test`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{Action, Arguments, EXIT_REFUSED, complain, refuse};
use crate::config::{Config, ConfigError, StorageBackend, Switch, TEST_SERVER_DEFAULTS};
use crate::controllers::Simulation;
use crate::files::given;
use crate::server::test_controls::FaultPlan;

/// The command, as messages name it.
pub const NAME: &str = "taffrail test";

/// The options of the command.
#[derive(Args, Clone, Debug)]
pub struct TestOptions {
    /// End when the process that started this one has ended, however it ended.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = Switch(false), default_missing_value = "true")]
    pub with_parent: Switch,
    /// Manifests to load before the server is ready: a file of YAML documents or JSON, or a folder
    /// with such files, however deep. CustomResourceDefinitions come first, then namespaces. May be
    /// given several times.
    #[arg(long, value_name = "PATH")]
    pub load: Vec<PathBuf>,
    /// Number of simulated nodes, which are Ready and stay so; at most 1000.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(Simulation::NODES_MAX)))]
    pub nodes: u32,
    /// Bind pods to nodes and report them Running and Ready, those of Jobs Succeeded. Without any
    /// node one is made.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = Switch(false), default_missing_value = "true")]
    pub pods_run: Switch,
    /// Run small controllers for Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs, while
    /// no kube-controller-manager holds its lease.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = Switch(false), default_missing_value = "true")]
    pub workloads: Switch,
    /// Faults that requests meet once the server is ready and loaded: a file in JSON or YAML, or
    /// the JSON itself. It is the document of /taffrail/v1/test/faults, which can replace them.
    #[arg(long, value_name = "FILE|JSON", value_parser = fault_plan)]
    pub faults: Option<FaultPlan>,
    /// Seed of the faults, to repeat a run whose seed was logged. Replaces that of --faults.
    #[arg(long, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=FaultPlan::SEED_MAX))]
    pub fault_seed: Option<u64>,
    /// Command to run with KUBECONFIG set. The server ends with it.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The longest file of faults.
const FAULTS_BYTES_MAX: u64 = 64 * 1024;

/// Reads the value of `--faults`.
fn fault_plan(value: &str) -> Result<FaultPlan, String> {
    if value.trim_start().starts_with('{') {
        return FaultPlan::read(value.as_bytes());
    }
    let read = given::read(Path::new(value), FAULTS_BYTES_MAX);
    let read = read.map_err(|error| format!("the file can't be read: {error}"))?;
    FaultPlan::read(&read.bytes)
}

/// The action for these arguments, if they can be understood. `ends_in_dashes` says that the last
/// of them is `--`.
pub(super) fn action(arguments: Arguments, options: TestOptions, ends_in_dashes: bool) -> Action {
    if options.command.is_empty() && ends_in_dashes {
        return refused("no command follows --; leave the dashes out to serve without one");
    }
    if options.fault_seed.is_some() && options.faults.is_none() {
        return refused("--fault-seed needs --faults, whose decisions it repeats");
    }
    let config = match configured(arguments) {
        Ok(config) => config,
        Err(refusal) => return refuse(&refusal),
    };
    match of_other_stores(&config) {
        Some(name) => refused(&format!(
            "--{name} (or {name} in the file of --config): the server keeps its objects in memory \
             and its files in a folder of its own; leave the setting out, or use taffrail serve"
        )),
        None => Action::Test(Box::new(config), options),
    }
}

fn refused(why: &str) -> Action {
    complain(NAME, &why);
    Action::Done(ExitCode::from(EXIT_REFUSED))
}

/// A setting that asks for another store, or for another folder.
fn of_other_stores(config: &Config) -> Option<&'static str> {
    let has_servers = !config.etcd_servers.0.is_empty();
    let has_overrides = !config.etcd_servers_overrides.0.is_empty();
    match config.backend() {
        _ if config.data_dir.is_set() => Some("data-dir"),
        _ if has_servers => Some("etcd-servers"),
        _ if has_overrides => Some("etcd-servers-overrides"),
        StorageBackend::Memory => None,
        _ => Some("storage-backend"),
    }
}

fn configured(arguments: Arguments) -> Result<Config, ConfigError> {
    // Without a default of its own, a directory that is given would look like the default.
    let defaults = TEST_SERVER_DEFAULTS.into_iter().chain([("data-dir", "")]);
    let defaults = defaults.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Config::load_with(arguments.settings, arguments.config.as_deref(), defaults)
}
