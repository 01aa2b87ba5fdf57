//! `taffrail backup`: writes a whole store into a file.
//!
//! The running daemon reads its store and goes on serving. If none runs, the command opens the data
//! directory, or reads an etcd. It checks the data as it arrives, and gives the file its name only
//! at the end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use actors::engine::Engine;
use clap::{Args, ValueEnum};

use super::access::Access;
use super::progress::Progress;
use super::running::{self, Unreached};
use crate::auth::read_kubeconfig;
use crate::build_info;
use crate::cli::complaint::failed;
use crate::config::{Config, StorageBackend};
use crate::files::NewFile;
use crate::storage::Root;
use crate::storage::backup::{BackupSource, Decoder, Header, Item, Summary};

const PATH: &str = "/taffrail/v1/backup";
const WHAT: &str = "backing up";

/// The store to back up, and the file to write.
#[derive(Args, Clone, Debug)]
pub struct BackupOptions {
    /// File to write. It must not exist, and gets its name when it is complete.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Read the etcd of --etcd-servers and not the daemon's store.
    #[arg(long, value_name = "STORE")]
    from: Option<Store>,
}

/// A store that is not a daemon's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// An etcd cluster.
    Etcd,
}

/// Opens the store of a configuration.
pub type OpenStore<'o> = &'o dyn Fn(&Config) -> Result<Arc<dyn Engine>, String>;

/// How stores are opened when no daemon runs.
#[derive(Clone, Copy)]
pub struct Openers<'o> {
    /// Opens the store of the data directory, which must exist.
    pub directory: OpenStore<'o>,
    /// Connects to the etcd.
    pub etcd: OpenStore<'o>,
}

/// Makes the backup.
pub fn run(config: &Config, options: &BackupOptions, openers: Openers<'_>) -> ExitCode {
    match backup(config, options, openers) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(problem) => failed("backup", &problem),
    }
}

fn backup(
    config: &Config,
    options: &BackupOptions,
    openers: Openers<'_>,
) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let mut writing = Writing::begin(&options.file)?;
    match options.from {
        Some(Store::Etcd) => {
            let engine = (openers.etcd)(config)?;
            runtime.block_on(read(engine, config, &mut writing))?;
        }
        None => from_daemon(config, openers, &runtime, &mut writing)?,
    }
    let (file, summary, bytes) = writing.finish()?;
    if options.from == Some(Store::Etcd) && summary.events == 0 {
        // The unfinished file is removed.
        return Err(format!(
            "--etcd-prefix={}: the etcd holds nothing there; see `etcdctl get --prefix --keys-only \
             --limit 5 /`",
            config.etcd_prefix
        ));
    }
    let path = &options.file;
    file.complete().map_err(|error| naming(path, &error))?;
    Ok(report(path, &summary, bytes))
}

fn from_daemon(
    config: &Config,
    openers: Openers<'_>,
    runtime: &tokio::runtime::Runtime,
    writing: &mut Writing,
) -> Result<(), String> {
    let data_dir = config.data_dir.as_path();
    let access = read_kubeconfig(data_dir).map_err(|error| error.to_string())?;
    if let Some(access) = access.map(Access::from) {
        let mut hear = |piece: &[u8]| writing.add(piece);
        match runtime.block_on(running::get(&access, PATH, &mut hear)) {
            Ok(()) => return Ok(()),
            Err(Unreached::NobodyThere(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    match config.backend() {
        StorageBackend::Memory => {
            let text = "no daemon answers, and storage-backend=memory keeps nothing on disk";
            return Err(text.into());
        }
        StorageBackend::Etcd3 => {
            return Err("no daemon answers; --from etcd reads the etcd without one".into());
        }
        StorageBackend::Unset | StorageBackend::Embedded => {}
    }
    if !data_dir.exists() {
        return Err(format!(
            "--data-dir={}: there is no such directory",
            data_dir.display()
        ));
    }
    let engine = (openers.directory)(config)?;
    runtime.block_on(read(engine, config, writing))
}

/// Reads a store that this command has opened.
async fn read(
    engine: Arc<dyn Engine>,
    config: &Config,
    writing: &mut Writing,
) -> Result<(), String> {
    let root = Root::from(config.etcd_prefix.as_str());
    let source = BackupSource::new(engine.clone(), root.to_string(), build_info::program());
    let mut read = Ok(());
    if let Some(mut pieces) = source.begin() {
        while let Some(piece) = pieces.recv().await
            && read.is_ok()
        {
            read = writing.add(&piece);
        }
    }
    // After an error too, because closing releases the lock properly.
    engine.close().await;
    read
}

/// The unfinished file, and the progress of reading it.
struct Writing {
    file: NewFile,
    decoder: Decoder,
    header: Option<Header>,
    bytes: u64,
    progress: Progress,
}

impl Writing {
    fn begin(path: &Path) -> Result<Writing, String> {
        Ok(Writing {
            file: NewFile::begin(path).map_err(|error| naming(path, &error))?,
            decoder: Decoder::default(),
            header: None,
            bytes: 0,
            progress: Progress::new(WHAT, 0),
        })
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), String> {
        self.decoder.push(piece);
        while let Some(item) = self
            .decoder
            .next_item()
            .map_err(|error| error.to_string())?
        {
            if let Item::Header(header) = item {
                self.progress.expect(WHAT, header.estimated_bytes);
                self.header = Some(header);
            }
        }
        self.bytes += piece.len() as u64;
        self.progress.add(piece.len());
        let written = self.file.write_all(piece);
        written.map_err(|error| format!("the file can't be written: {error}"))
    }

    /// The file, which is complete except for its name, its summary, and its bytes.
    fn finish(self) -> Result<(NewFile, Summary, u64), String> {
        let Writing {
            file,
            decoder,
            bytes,
            progress,
            ..
        } = self;
        let summary = decoder.finish();
        let summary = summary.map_err(|error| format!("the backup is incomplete: {error}"))?;
        drop(progress);
        Ok((file, summary, bytes))
    }
}

fn report(path: &Path, summary: &Summary, bytes: u64) -> String {
    let Summary {
        revision,
        compacted,
        events,
        ..
    } = summary;
    let history = match compacted < revision {
        true => format!("with history from revision {compacted} on"),
        false => "without history".to_owned(),
    };
    format!(
        "{}: revision {revision}, {history}; {events} records, {bytes} bytes",
        path.display()
    )
}

fn naming(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
