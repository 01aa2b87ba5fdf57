//! `taffrail restore`: makes a store from a backup.
//!
//! The file is read several times: first to check all of it, before anything is written, then to
//! find the point to restore, and then to restore it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use actors::engine::Revision;
use clap::Args;

use super::backup::{OpenStore, Store};
use super::progress::Progress;
use crate::cli::complaint::failed;
use crate::config::Config;
use crate::files::given;
use crate::storage::Root;
use crate::storage::backup::{Decoder, Header, IntoEngine, Item, Point, Points, Summary};
use crate::storage::embedded::restore::{Restore, RestorePlan};

/// The bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// The options of the command.
#[derive(Args, Clone, Debug)]
pub struct RestoreOptions {
    /// File that `taffrail backup` has written.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write into the etcd of --etcd-servers and not into a data directory.
    #[arg(long, value_name = "STORE")]
    to: Option<Store>,
    /// Go back to this revision, within the history of the backup.
    #[arg(long, value_name = "REVISION")]
    to_revision: Option<u64>,
    /// Go back to this time, within the history of the backup: 2026-11-23T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to_time: Option<jiff::Timestamp>,
    /// Add this to the revision and forget history, so that clients that have seen later revisions
    /// list again. It must be more than has been written since the backup: 1000000.
    #[arg(long, value_name = "NUMBER")]
    bump_revision: Option<u64>,
}

fn time(text: &str) -> Result<jiff::Timestamp, &'static str> {
    let time = text.parse();
    time.map_err(|_| "not a time with its zone, such as 2026-11-23T12:00:00Z")
}

/// Restores the backup.
pub fn run(config: &Config, options: &RestoreOptions, open_etcd: OpenStore<'_>) -> ExitCode {
    match restore(config, options, open_etcd) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => failed("restore", &problem),
    }
}

fn restore(
    config: &Config,
    options: &RestoreOptions,
    open_etcd: OpenStore<'_>,
) -> Result<String, String> {
    let point = match (options.to_revision, options.to_time) {
        (None, None) => Point::Newest,
        (Some(revision), None) => Point::Revision(Revision(revision)),
        (None, Some(time)) => Point::Time(SystemTime::from(time)),
        (Some(_), Some(_)) => {
            return Err("--to-revision and --to-time: give one of them".to_owned());
        }
    };
    if options.to.is_some() && options.bump_revision.is_some() {
        let text = "--bump-revision: an etcd numbers revisions itself; leave it out";
        return Err(text.to_owned());
    }
    let file = &options.file;
    let (header, summary) = checked(file)?;
    let until = found(file, &summary, point)?;
    let root = Root::from(config.etcd_prefix.as_str()).to_string();
    match options.to {
        Some(Store::Etcd) if header.prefix != root => Err(format!(
            "{}: its keys begin with {}, and --etcd-prefix={} asks for others",
            file.display(),
            header.prefix,
            config.etcd_prefix
        )),
        Some(Store::Etcd) => into_etcd(config, file, &summary, until, open_etcd),
        None => {
            let report = into_directory(config, options, &summary, until)?;
            Ok(match header.prefix == root {
                true => report,
                false => format!("{report}\nserve it with --etcd-prefix={}", header.prefix),
            })
        }
    }
}

/// Checks the whole file.
fn checked(path: &Path) -> Result<(Header, Summary), String> {
    let mut header = None;
    let summary = each(path, "checking", |item| {
        if let Item::Header(found) = item {
            header = Some(found);
        }
        Ok(())
    })?;
    match header {
        Some(header) => Ok((header, summary)),
        None => Err(format!("{}: it has no header", path.display())),
    }
}

/// The revision of the point.
fn found(path: &Path, summary: &Summary, point: Point) -> Result<Revision, String> {
    let naming = |error| format!("{}: {error}", path.display());
    let mut points = Points::new(summary, point).map_err(naming)?;
    each(path, "reading", |item| match item {
        Item::Event { revision, record } => points.see(revision, &record).map_err(naming),
        Item::Header(_) => Ok(()),
    })?;
    points.finish().map_err(naming)
}

fn into_directory(
    config: &Config,
    options: &RestoreOptions,
    summary: &Summary,
    until: Revision,
) -> Result<String, String> {
    let bump = options.bump_revision.unwrap_or_default();
    let revision = until.0.checked_add(bump);
    let revision = revision.filter(|revision| *revision <= i64::MAX as u64);
    let revision =
        revision.ok_or_else(|| format!("--bump-revision={bump}: revisions end at {}", i64::MAX))?;
    let plan = RestorePlan {
        until,
        compacted: Revision(summary.compacted),
        revision: Revision(revision),
    };
    let directory = config.data_dir.as_path();
    let mut restore = Restore::begin(directory, plan).map_err(|error| error.to_string())?;
    each(&options.file, "restoring", |item| match item {
        Item::Event { revision, record } => restore
            .push(revision, record)
            .map_err(|error| error.to_string()),
        Item::Header(_) => Ok(()),
    })?;
    let keys = restore.finish(&summary.leases());
    let keys = keys.map_err(|error| error.to_string())?;
    Ok(told(directory, keys, until, revision))
}

fn told(directory: &Path, keys: u64, until: Revision, revision: u64) -> String {
    let place = directory.display();
    let advice = match revision == until.0 {
        true => {
            "\nclients that have seen later revisions may not notice: --bump-revision makes them \
             list again"
        }
        false => "",
    };
    let begins = match revision == until.0 {
        true => String::new(),
        false => format!(", which is revision {revision} from now on"),
    };
    format!("{place}: the state of revision {until}{begins}; {keys} keys{advice}")
}

fn into_etcd(
    config: &Config,
    path: &Path,
    summary: &Summary,
    until: Revision,
    open: OpenStore<'_>,
) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let engine = open(config)?;
    let root = Root::from(config.etcd_prefix.as_str()).to_string();
    let leases = summary.leases();
    let begun = IntoEngine::begin(engine, &root, until, &leases);
    let mut into = runtime.block_on(begun).map_err(|error| error.to_string())?;
    each(path, "reading", |item| match item {
        Item::Event { revision, record } => into
            .see(revision, &record)
            .map_err(|error| error.to_string()),
        Item::Header(_) => Ok(()),
    })?;
    each(path, "restoring", |item| match item {
        Item::Event { revision, record } => runtime
            .block_on(into.write(revision, &record))
            .map_err(|error| error.to_string()),
        Item::Header(_) => Ok(()),
    })?;
    let finished = runtime.block_on(into.finish());
    let (keys, revision) = finished.map_err(|error| error.to_string())?;
    Ok(format!(
        "{}: the state of revision {until}, which etcd numbers up to {revision}; {keys} keys",
        config.etcd_servers
    ))
}

/// Passes the parts of a backup to `hear`, and returns its summary.
fn each(
    path: &Path,
    what: &'static str,
    mut hear: impl FnMut(Item) -> Result<(), String>,
) -> Result<Summary, String> {
    let naming = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let (mut file, bytes) = given::open_long(path).map_err(|error| naming(&error))?;
    let progress = Progress::new(what, bytes);
    let mut decoder = Decoder::default();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read(&mut piece).map_err(|error| naming(&error))?;
        let read = piece.get(..read).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        decoder.push(read);
        while let Some(item) = decoder.next_item().map_err(|error| naming(&error))? {
            hear(item)?;
        }
        progress.add(read.len());
    }
    decoder.finish().map_err(|error| naming(&error))
}
