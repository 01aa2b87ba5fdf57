//! The program `kube-apiserver`: what this binary is when it is called by that name.
//!
//! Owns the defaults that differ from those of `taffrail`, and the decision where the data are, so
//! that a test environment which starts `etcd` and `kube-apiserver` can use this binary in place of
//! both, or of either. The daemon that serves is the same. This folder must not know how the daemon
//! works: it makes settings of a command line.
//!
//! | module | purpose |
//! |---|---|
//! | [`store_of_shim`] | asks the program at `--etcd-servers` whether it lends its directory |

mod store_of_shim;

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;

use crate::cli::kube_apiserver::{CommandLine, parse};
use crate::cli::{EXIT_REFUSED, complain};
use crate::config::{
    BindAddress, Config, FilePath, MetricsAddress, Settings, StorageBackend, Switch,
};
use crate::controllers::NAMESPACE_DELETION_GRACE;
use crate::daemon::{Conduct, Stop, check_files};
use crate::files::{ThrowawayFolder, remove_leftovers};
use store_of_shim::{Found, find};

/// The name by which the program is called.
pub const NAME: &str = "kube-apiserver";

/// The beginning of the names of its folders.
const PREFIX: &str = "kube-apiserver-";

/// Whether a program of this path is `kube-apiserver`.
pub fn is_named(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(NAME))
}

/// A daemon in the place of kube-apiserver, which can be started.
pub struct Placed {
    /// Its configuration.
    pub config: Config,
    /// How it differs from `taffrail`.
    pub conduct: Conduct,
    /// The folder of a daemon whose objects are in an etcd: it has its tokens and its lock. It is
    /// removed when this is dropped.
    pub folder: Option<ThrowawayFolder>,
}

/// Reads the command line of the process, and finds the data.
///
/// # Errors
/// The exit code, if the command line was answered or refused.
pub fn prepare() -> Result<Placed, ExitCode> {
    let settings = match parse() {
        CommandLine::Serve(settings) => *settings,
        CommandLine::Done(code) => return Err(code),
    };
    let load = |settings| Config::load(settings, None).map_err(|refusal| refusal.to_string());
    let settings = settings.over(defaults());
    // Faults are reported before anything is waited for.
    let placed = load(settings.clone()).and_then(|config| {
        let check = || check_files(&config).map_err(|refusal| refusal.to_string());
        let (settings, folder) = placed(settings, check)?;
        Ok((load(settings)?, folder))
    });
    match placed {
        Ok((config, folder)) => Ok(Placed {
            config,
            folder,
            conduct: Conduct {
                // A client may remove the finalizer of a namespace itself right after its
                // deletion, as controller-runtime's tests do. It has the time for that which
                // kube-controller-manager leaves.
                namespace_grace: NAMESPACE_DELETION_GRACE,
                // A refusal with Retry-After would keep clients of a stopped test waiting.
                serves_to_the_end: true,
                // Clients of a test may still watch, and read nothing any more.
                stop: Stop::WithProcess,
            },
        }),
        Err(problem) => {
            complain(NAME, &problem);
            Err(ExitCode::from(EXIT_REFUSED))
        }
    }
}

/// The settings that kube-apiserver has where the command line has none.
fn defaults() -> Settings {
    Settings {
        allow_privileged: Some(Switch(false)),
        bind_address: Some(BindAddress(Ipv4Addr::UNSPECIFIED.into())),
        metrics_bind_address: Some(MetricsAddress(None)),
        ..Settings::default()
    }
}

/// Decides where the data are. The second value is the folder in [`Placed`]. `check` is called
/// before anything is waited for.
///
/// # Errors
/// One line about a store that can't be used, or the errors of `check`.
fn placed(
    given: Settings,
    check: impl FnOnce() -> Result<(), String>,
) -> Result<(Settings, Option<ThrowawayFolder>), String> {
    let servers = given.etcd_servers.clone().unwrap_or_default().0;
    let has_own_data = given.data_dir.is_some();
    let found = match given.storage_backend.unwrap_or(StorageBackend::Unset) {
        StorageBackend::Memory => Found::Etcd,
        StorageBackend::Embedded if has_own_data => Found::Etcd,
        StorageBackend::Embedded => {
            return Err("--storage-backend=embedded: say where with --data-dir".to_owned());
        }
        StorageBackend::Etcd3 | StorageBackend::Unset if servers.is_empty() && !has_own_data => {
            // The objects would be in a temporary folder.
            return Err("--etcd-servers must be specified".to_owned());
        }
        StorageBackend::Etcd3 | StorageBackend::Unset if has_own_data => Found::Etcd,
        StorageBackend::Etcd3 | StorageBackend::Unset => find(&servers, check)?,
    };
    match found {
        Found::Lent { directory, syncs } => {
            let settings = Settings {
                data_dir: Some(FilePath::from(&*directory)),
                storage_backend: Some(StorageBackend::Embedded),
                unsafe_no_fsync: Some(Switch(!syncs)),
                // The store of the shim is named by its directory now.
                etcd_servers: None,
                ..given
            };
            Ok((settings, None))
        }
        Found::Etcd if given.data_dir.is_some() => Ok((given, None)),
        Found::Etcd => {
            remove_leftovers(PREFIX);
            let folder = ThrowawayFolder::make(PREFIX);
            let folder = folder.map_err(|error| format!("no folder for its files: {error}"))?;
            let data_dir = Some(FilePath::from(
                &*folder.path().join("data").to_string_lossy(),
            ));
            Ok((Settings { data_dir, ..given }, Some(folder)))
        }
    }
}
