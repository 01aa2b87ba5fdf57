//! The flags of `taffrail test`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{Action, Arguments, EXIT_REFUSED, complain, refuse};
use crate::config::{Config, ConfigError, StorageBackend, TEST_SERVER_DEFAULTS};
use crate::files::given;
use crate::server::test_controls::FaultPlan;

/// The options of the command.
#[derive(Args, Clone, Debug)]
pub struct TestOptions {
    /// End when the process that started this one has ended, however it ended.
    #[arg(long)]
    pub with_parent: bool,
    /// Manifests to load before the server is ready: a file of YAML documents or JSON, or a folder
    /// with such files, however deep. CustomResourceDefinitions come first, then namespaces. May be
    /// given several times.
    #[arg(long, value_name = "PATH")]
    pub load: Vec<PathBuf>,
    /// Number of simulated nodes, which are Ready and stay so; at most 1000.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub nodes: u32,
    /// Bind pods to nodes and report them Running and Ready, those of Jobs Succeeded. Without any
    /// node one is made.
    #[arg(long)]
    pub pods_run: bool,
    /// Run small controllers for Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs, while
    /// no kube-controller-manager holds its lease.
    #[arg(long)]
    pub workloads: bool,
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

/// The action for these arguments, if they can be understood.
pub(super) fn action(arguments: Arguments, options: TestOptions) -> Action {
    if options.fault_seed.is_some() && options.faults.is_none() {
        let why = "--fault-seed needs --faults, whose decisions it repeats";
        complain("taffrail test", &why);
        return Action::Done(ExitCode::from(EXIT_REFUSED));
    }
    let keeps = arguments.settings.data_dir.is_some();
    match configured(arguments) {
        Ok(config) if keeps || config.backend() != StorageBackend::Memory => {
            let why = "the server keeps its objects in memory and its files in a folder of its \
                       own; leave --data-dir, --storage-backend and --etcd-servers out, or use \
                       taffrail serve";
            complain("taffrail test", &why);
            Action::Done(ExitCode::from(EXIT_REFUSED))
        }
        Ok(config) => Action::Test(Box::new(config), options),
        Err(refusal) => refuse(&refusal),
    }
}

fn configured(arguments: Arguments) -> Result<Config, ConfigError> {
    let defaults = TEST_SERVER_DEFAULTS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Config::load_with(arguments.settings, arguments.config.as_deref(), defaults)
}
