//! The action that a command line asks for.

use std::process::ExitCode;

use super::assets::AssetsOptions;
use super::backup::BackupOptions;
use super::inspect::InspectOptions;
use super::kubeconfig::KubeconfigOptions;
use super::objects::get::GetOptions;
use super::objects::history::HistoryOptions;
use super::objects::undo::UndoOptions;
use super::restore::RestoreOptions;
use super::storage::rewrite::RewriteOptions;
use super::storage::table::TableOptions;
use super::test_server::TestOptions;
use crate::config::Config;

/// The action that the command line requests.
#[derive(Debug)]
pub enum Action {
    /// Serve until stopped.
    Serve(Box<Config>),
    /// Make a folder of programs for envtest.
    Assets(AssetsOptions),
    /// Serve tests until stopped, with these options.
    Test(Box<Config>, TestOptions),
    /// Compact, through the running daemon or without one. The names are the retention flags that
    /// were given.
    Compact(Box<Config>, Vec<&'static str>),
    /// Write a backup.
    Backup(Box<Config>, BackupOptions),
    /// Restore a backup.
    Restore(Box<Config>, RestoreOptions),
    /// Show the state of the daemon.
    Inspect(Box<Config>, InspectOptions),
    /// Show the history of an object.
    History(Box<Config>, HistoryOptions),
    /// Show objects of the past.
    Get(Box<Config>, GetOptions),
    /// Restore an object to an earlier revision.
    Undo(Box<Config>, UndoOptions),
    /// Print how each resource is stored.
    StorageTable(Box<Config>, TableOptions),
    /// Rewrite everything that an old key has encrypted, or that has an old version.
    StorageRewrite(Box<Config>, RewriteOptions),
    /// Make a kubeconfig for a user.
    Kubeconfig(Box<Config>, KubeconfigOptions),
    /// Replace the admin's token.
    TokenRotate(Box<Config>),
    /// Nothing more, because the command line was answered or refused already.
    Done(ExitCode),
}
