//! `taffrail test assets`: a folder for envtest with this program in the places of kube-apiserver
//! and etcd, and an archive of it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::complaint::failed;
use crate::files::{create_archive, open_program, place_program};

/// The programs whose places this one takes.
const PLACES: [&str; 2] = ["kube-apiserver", "etcd"];

/// The program that is linked if it is found.
const KUBECTL: &str = "kubectl";

/// Where the assets go.
#[derive(Args, Clone, Debug)]
pub struct AssetsOptions {
    /// Folder for the programs, which is made: the value of KUBEBUILDER_ASSETS.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// File to write, a .tar.gz of the programs for setup-envtest sideload. It has no kubectl.
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// Replace other programs of these names in the folder.
    #[arg(long)]
    replace: bool,
}

/// Makes the folder and the archive.
pub fn run(options: &AssetsOptions) -> ExitCode {
    match make(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => failed("test assets", &problem),
    }
}

fn make(options: &AssetsOptions) -> Result<(), String> {
    let program = std::env::current_exe().and_then(fs::canonicalize);
    let program = program.map_err(|error| format!("this program was not found: {error}"))?;
    let folder = &options.folder;
    fs::create_dir_all(folder).map_err(|error| match folder.exists() {
        true => format!("{}: it is not a folder; name another one", folder.display()),
        false => format!("{}: {error}", folder.display()),
    })?;
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
    for name in PLACES {
        let place = folder.join(name);
        place_program(&program, &place, options.replace)
            .map_err(|error| format!("{}: {error}", place.display()))?;
    }
    let kubectl = folder.join(KUBECTL);
    // The program of an earlier link may have been removed.
    let leads_nowhere = kubectl.is_symlink() && !kubectl.exists();
    if leads_nowhere {
        fs::remove_file(&kubectl).map_err(|error| format!("{}: {error}", kubectl.display()))?;
    }
    if kubectl.symlink_metadata().is_err() {
        match found(KUBECTL) {
            Some(path) => std::os::unix::fs::symlink(path, &kubectl)
                .map_err(|error| format!("{}: {error}", kubectl.display()))?,
            None => eprintln!("taffrail test assets: no kubectl in PATH, so the folder has none"),
        }
    }
    if let Some(archive) = &options.archive {
        pack(&program, archive).map_err(|error| format!("{}: {error}", archive.display()))?;
    }
    println!(
        "export KUBEBUILDER_ASSETS={}",
        super::announcement::in_shell(&folder)
    );
    Ok(())
}

/// Looks a program up in PATH.
fn found(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let mut programs = candidates.filter_map(|path| fs::canonicalize(path).ok());
    programs.find(|path| path.is_file())
}

/// Writes the archive: setup-envtest takes whole files, and no links.
fn pack(program: &Path, archive: &Path) -> io::Result<()> {
    let packed = GzEncoder::new(create_archive(archive)?, Compression::default());
    let mut tar = tar::Builder::new(packed);
    for name in PLACES {
        let mut file = open_program(program)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(file.metadata()?.len());
        header.set_mode(0o755);
        header.set_cksum();
        tar.append_data(
            &mut header,
            format!("controller-tools/envtest/{name}"),
            &mut file,
        )?;
    }
    tar.into_inner()?.finish()?.flush()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn an_archive_has_whole_programs() {
        let folder = tempfile::tempdir().unwrap();
        let program = file(folder.path(), "taffrail", b"program");
        let archive = folder.path().join("a.tar.gz");
        pack(&program, &archive).unwrap();
        let unpacked = flate2::read::GzDecoder::new(File::open(archive).unwrap());
        let mut tar = tar::Archive::new(unpacked);
        let entries = tar.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            assert!(entry.header().entry_type().is_file());
            assert_eq!(entry.header().mode().unwrap(), 0o755);
            (entry.path().unwrap().display().to_string(), text)
        });
        let wanted = PLACES.map(|name| {
            (
                format!("controller-tools/envtest/{name}"),
                "program".to_owned(),
            )
        });
        assert_eq!(entries.collect::<Vec<_>>(), wanted);
    }
}
