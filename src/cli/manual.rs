//! `taffrail completions` and `taffrail man`: the completions for shells and the manual pages. Both
//! come from the definitions that --help shows.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use super::action::Action;
use super::complaint;

/// The shell to complete in.
#[derive(Args, Debug)]
pub(super) struct CompletionsOptions {
    /// The shell.
    shell: Shell,
}

/// Where manual pages are written.
#[derive(Args, Debug)]
pub(super) struct ManOptions {
    /// Directory for the pages of all commands, which is made. Without it the page of taffrail is
    /// printed.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub(super) fn completions(options: &CompletionsOptions, mut command: Command) -> Action {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "taffrail", &mut script);
    print("completions", &script)
}

/// Prints or writes the manual.
pub(super) fn man(options: &ManOptions, command: Command) -> Action {
    if let Some(folder) = &options.output {
        let made = match folder.exists() {
            true => Ok(()),
            false => std::fs::create_dir_all(folder),
        };
        return match made.and_then(|()| clap_mangen::generate_to(command, folder)) {
            Ok(()) => Action::Done(ExitCode::SUCCESS),
            Err(error) => failed("man", &format!("--output={}: {error}", folder.display())),
        };
    }
    let mut page = Vec::new();
    match clap_mangen::Man::new(command).render(&mut page) {
        Ok(()) => print("man", &page),
        Err(error) => failed("man", &error.to_string()),
    }
}

fn print(command: &str, text: &[u8]) -> Action {
    match io::stdout().write_all(text) {
        // The reader may stop early, as head does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            failed(command, &error.to_string())
        }
        _ => Action::Done(ExitCode::SUCCESS),
    }
}

fn failed(command: &str, problem: &str) -> Action {
    Action::Done(complaint::failed(command, &problem))
}
