//! The command line.
//!
//! This folder owns the commands, in a file for each command but `serve`. It parses the arguments
//! of the process into the requested command and its configuration, or an exit code. This folder
//! must not know resources or requests of clients.

mod access;
mod action;
mod announcement;
pub mod assets;
pub mod backup;
pub mod compact;
mod complaint;
mod defaults;
pub mod inspect;
pub mod kube_apiserver;
pub mod kubeconfig;
mod manual;
mod normalized;
pub mod objects;
mod output;
mod progress;
pub mod restore;
mod running;
pub mod storage;
mod table;
pub mod test_server;
pub mod token;
mod trust;
mod version;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::apiserver_flags::{self, GivenFlags};
use crate::config::{Config, ConfigError, FilePath, Settings};
pub use action::Action;
use assets::AssetsOptions;
use backup::BackupOptions;
pub use complaint::{EXIT_REFUSED, complain};
use inspect::InspectOptions;
use kubeconfig::KubeconfigOptions;
use objects::get::GetOptions;
use objects::history::HistoryOptions;
use objects::undo::UndoOptions;
use restore::RestoreOptions;
use storage::rewrite::RewriteOptions;
use storage::table::TableOptions;
use test_server::TestOptions;

pub use announcement::Announcement;

/// Taffrail: a durable Kubernetes API store for many watches.
///
/// Without a command it serves, and needs no configuration: data in ./taffrail-data, HTTPS on
/// 127.0.0.1:6443, and a kubeconfig whose path is printed.
#[derive(Debug, Parser)]
#[command(
    name = "taffrail",
    version,
    args_override_self = false,
    max_term_width = 100
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    arguments: Arguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve (the default).
    Serve(Arguments),
    /// Run a throwaway server for tests, in memory and on a free port.
    ///
    /// Once it is ready it prints one line of JSON: url, ca (PEM), token, kubeconfig (path), pid
    /// and version. With a command after `--` it runs that with KUBECONFIG set instead, and ends
    /// with its exit code.
    #[command(args_conflicts_with_subcommands = true)]
    Test {
        #[command(subcommand)]
        command: Option<TestCommand>,
        #[command(flatten)]
        arguments: Box<Arguments>,
        #[command(flatten)]
        options: TestOptions,
    },
    /// Print the effective configuration, as a file that --config takes.
    Config(Arguments),
    /// Delete history beyond retention and give the space back to the file system.
    Compact(Arguments),
    /// Write the whole store into a file, while the daemon serves or without one.
    Backup {
        #[command(flatten)]
        arguments: Arguments,
        #[command(flatten)]
        options: BackupOptions,
    },
    /// Make a new store from a backup.
    Restore {
        #[command(flatten)]
        arguments: Arguments,
        #[command(flatten)]
        options: RestoreOptions,
    },
    /// Show stores, resources, actors and queues of the daemon.
    Inspect {
        #[command(flatten)]
        directory: DataDirArguments,
        #[command(flatten)]
        options: InspectOptions,
    },
    /// Show the history of an object, change by change.
    History {
        #[command(flatten)]
        directory: DataDirArguments,
        #[command(flatten)]
        options: HistoryOptions,
    },
    /// Show objects as they were at a revision or a time.
    Get {
        #[command(flatten)]
        directory: DataDirArguments,
        #[command(flatten)]
        options: GetOptions,
    },
    /// Restore an object to an earlier revision, by a normal update.
    Undo {
        #[command(flatten)]
        directory: DataDirArguments,
        #[command(flatten)]
        options: UndoOptions,
    },
    /// Inspect and migrate stored objects.
    #[command(subcommand)]
    Storage(StorageCommand),
    /// Print a kubeconfig for a user, with a client certificate that the daemon's authority signs.
    Kubeconfig {
        #[command(flatten)]
        directory: DataDirArguments,
        #[command(flatten)]
        options: KubeconfigOptions,
    },
    /// Manage the admin token.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print the shell code that completes commands and flags.
    Completions(manual::CompletionsOptions),
    /// Print the manual page, or write those of all commands.
    Man(manual::ManOptions),
    /// Print the version, the commit and the date of the build.
    Version,
}

#[derive(Debug, Subcommand)]
enum StorageCommand {
    /// Print where and in which version each resource is stored, and whether it is cached.
    Table {
        #[command(flatten)]
        arguments: Arguments,
        #[command(flatten)]
        options: TableOptions,
    },
    /// Have the running daemon rewrite the objects that old encryption keys have written, so that
    /// those keys may be removed from the file, and the objects that are stored in old versions of
    /// the API.
    Rewrite {
        #[command(flatten)]
        arguments: Arguments,
        #[command(flatten)]
        options: RewriteOptions,
    },
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    /// Make a folder for envtest, with this program in the places of kube-apiserver and etcd.
    Assets(AssetsOptions),
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Replace the token. The earlier one is refused from then on.
    Rotate(DataDirArguments),
}

/// Where the daemon keeps its files, for commands that need no other setting.
#[derive(Args, Clone, Debug, Default)]
struct DataDirArguments {
    /// File of the daemon's settings, which may name the data directory.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the daemon's data.
    /// [default: ./taffrail-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<FilePath>,
}

impl From<DataDirArguments> for Arguments {
    fn from(given: DataDirArguments) -> Arguments {
        Arguments {
            config: given.config,
            settings: Settings {
                data_dir: given.data_dir,
                ..Settings::default()
            },
        }
    }
}

#[derive(Args, Clone, Debug, Default)]
struct Arguments {
    /// File of settings in YAML, named as the flags are. Flags win over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

impl Arguments {
    /// Combines these arguments with those before the command, for `taffrail --data-dir d serve`.
    /// These override the others.
    fn over(self, before: Arguments) -> Arguments {
        Arguments {
            config: self.config.or(before.config),
            settings: self.settings.over(before.settings),
        }
    }

    fn load(self) -> Result<Config, ConfigError> {
        Config::load(self.settings, self.config.as_deref())
    }
}

/// Reads the command line of the process.
pub fn parse() -> Action {
    parse_from(std::env::args_os())
}

fn parse_from(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Action {
    let arguments = normalized::normalized(arguments.into_iter().collect());
    let mut definition = definition();
    let matches = definition.try_get_matches_from_mut(&arguments);
    let parsed = matches.and_then(|matches| {
        Ok((
            CommandLine::from_arg_matches(&matches)?,
            given_flags(&matches),
        ))
    });
    let (command_line, given) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            return match ConfigError::of_flags(&error, &arguments, &definition) {
                Some(refusal) => refuse(&refusal),
                None => {
                    // Help or the version. A failure to print it can't be reported.
                    let _ = error.print();
                    Action::Done(ExitCode::SUCCESS)
                }
            };
        }
    };
    let ends_in_dashes = arguments.last().is_some_and(|last| last == "--");
    let mut before = command_line.arguments;
    before.settings.apiserver_flags = given;
    let (arguments, command): (Arguments, fn(Box<Config>) -> Action) = match command_line.command {
        None => (Arguments::default(), Action::Serve),
        Some(Command::Serve(arguments)) => (arguments, Action::Serve),
        Some(Command::Config(arguments)) => (arguments, print_config),
        Some(Command::Test {
            command: Some(TestCommand::Assets(options)),
            ..
        }) => return Action::Assets(options),
        Some(Command::Test {
            command: None,
            arguments,
            options,
        }) => return test_server::action(arguments.over(before), options, ends_in_dashes),
        Some(Command::Compact(arguments)) => {
            let arguments = arguments.over(before);
            let retention = compact::retention(&arguments.settings);
            return loaded(arguments, |config| Action::Compact(config, retention));
        }
        Some(Command::Storage(StorageCommand::Rewrite { arguments, options })) => {
            return loaded(arguments.over(before), |config| {
                Action::StorageRewrite(config, options)
            });
        }
        Some(Command::Storage(StorageCommand::Table { arguments, options })) => {
            return loaded(arguments.over(before), |config| {
                Action::StorageTable(config, options)
            });
        }
        Some(Command::Backup { arguments, options }) => {
            return loaded(arguments.over(before), |config| {
                Action::Backup(config, options)
            });
        }
        Some(Command::Restore { arguments, options }) => {
            return loaded(arguments.over(before), |config| {
                Action::Restore(config, options)
            });
        }
        Some(Command::Inspect { directory, options }) => {
            return loaded(Arguments::from(directory).over(before), |config| {
                Action::Inspect(config, options)
            });
        }
        Some(Command::History { directory, options }) => {
            return loaded(Arguments::from(directory).over(before), |config| {
                Action::History(config, options)
            });
        }
        Some(Command::Get { directory, options }) => {
            return loaded(Arguments::from(directory).over(before), |config| {
                Action::Get(config, options)
            });
        }
        Some(Command::Undo { directory, options }) => {
            return loaded(Arguments::from(directory).over(before), |config| {
                Action::Undo(config, options)
            });
        }
        Some(Command::Kubeconfig { directory, options }) => {
            return loaded(Arguments::from(directory).over(before), |config| {
                Action::Kubeconfig(config, options)
            });
        }
        Some(Command::Token(TokenCommand::Rotate(directory))) => {
            (directory.into(), Action::TokenRotate)
        }
        Some(Command::Completions(options)) => return manual::completions(&options, definition),
        Some(Command::Man(options)) => return manual::man(&options, definition),
        Some(Command::Version) => return version::print(),
    };
    loaded(arguments.over(before), command)
}

/// The flags of kube-apiserver before the command `serve` and after it.
fn given_flags(matches: &clap::ArgMatches) -> GivenFlags {
    let before = GivenFlags::of(matches);
    match matches.subcommand_matches(SERVE) {
        Some(serve) => GivenFlags::of(serve).over(before),
        None => before,
    }
}

/// The action for these arguments, if they can be understood.
fn loaded(arguments: Arguments, action: impl FnOnce(Box<Config>) -> Action) -> Action {
    match arguments.load() {
        Ok(config) => action(Box::new(config)),
        Err(refusal) => refuse(&refusal),
    }
}

/// The command that a daemon without a command runs.
const SERVE: &str = "serve";

const TEST: &str = "test";

/// The settings that select the store to back up.
const STORE: &[&str] = &[
    "data_dir",
    "etcd_servers",
    "etcd_prefix",
    "etcd_cafile",
    "etcd_certfile",
    "etcd_keyfile",
];

/// For commands that take all settings: the ones that matter to the command. Its help shows no
/// others.
const SHOWN: [(&[&str], &[&str]); 5] = [
    (&["backup"], STORE),
    (&["restore"], STORE),
    (
        &["compact"],
        &[
            "data_dir",
            "storage_backend",
            "retention_age",
            "retention_bytes",
        ],
    ),
    (
        &["storage", "table"],
        &[
            "data_dir",
            "storage_backend",
            "storage_media_type",
            "storage_versions",
            "encryption_provider_config",
            "etcd_servers",
            "etcd_prefix",
            "etcd_servers_overrides",
            "watch_cache",
            "watch_cache_sizes",
        ],
    ),
    (&["storage", "rewrite"], &["data_dir"]),
];

/// The commands and flags, as --help, shells and manuals show them.
fn definition() -> clap::Command {
    let mut definition = apiserver_flags::augment(CommandLine::command())
        .mut_subcommand(SERVE, apiserver_flags::augment);
    for (path, shown) in SHOWN {
        definition = showing(definition, path, shown);
    }
    definition.mut_subcommand(TEST, defaults::of_test_server)
}

/// Hides the settings of the command at this path, except these.
fn showing(command: clap::Command, path: &[&str], shown: &[&str]) -> clap::Command {
    match path.split_first() {
        Some((first, rest)) => {
            command.mut_subcommand(first, |command| showing(command, rest, shown))
        }
        None => {
            let settings = Settings::augment_args(clap::Command::new("settings"));
            command.mut_args(|argument| {
                let id = argument.get_id();
                let is_setting = settings.get_arguments().any(|one| one.get_id() == id);
                let is_shown = shown.contains(&id.as_str());
                argument.hide(is_setting && !is_shown)
            })
        }
    }
}

fn refuse(refusal: &ConfigError) -> Action {
    complain("taffrail", refusal);
    Action::Done(ExitCode::from(EXIT_REFUSED))
}

fn print_config(config: Box<Config>) -> Action {
    print!("{}", config.to_yaml());
    Action::Done(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
