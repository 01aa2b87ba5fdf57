//! The command of `taffrail test -- COMMAND`.

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, ExitCode, ExitStatus};

use rustix::process::{Pid, Signal as Number, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::signals::Signals;

/// Variables that lead clients to another server than that of KUBECONFIG.
const OTHER_SERVERS: [&str; 3] = [
    "KUBERNETES_MASTER",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
];

/// The code of a shell for a command that does not exist.
const NOT_FOUND: u8 = 127;
/// The code of a shell for a command that can't be run.
const NOT_RUN: u8 = 126;
/// Codes of processes that a signal has ended begin here.
const BY_SIGNAL: i32 = 128;

/// The command can't be run.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", .name.display())]
pub(super) struct NotRun {
    name: OsString,
    error: io::Error,
}

impl NotRun {
    /// The code that a shell has for this.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_RUN,
        })
    }
}

/// A command that runs.
pub(super) struct RunningCommand {
    child: Child,
    /// Comes when a child of this process may have ended.
    ends: Signal,
}

impl RunningCommand {
    /// Runs a command in the process group of this process, with its input and outputs.
    ///
    /// # Errors
    /// [`NotRun`]
    pub(super) fn start(words: &[OsString], kubeconfig: &Path) -> Result<RunningCommand, NotRun> {
        let (name, arguments) = words.split_first().ok_or_else(|| NotRun {
            name: OsString::new(),
            error: io::ErrorKind::NotFound.into(),
        })?;
        let mut command = Command::new(name);
        command.args(arguments).env("KUBECONFIG", kubeconfig);
        for variable in OTHER_SERVERS {
            command.env_remove(variable);
        }
        let not_run = |error| NotRun {
            name: name.clone(),
            error,
        };
        let ends = signal(SignalKind::child()).map_err(not_run)?;
        let child = command.spawn().map_err(not_run)?;
        Ok(RunningCommand { child, ends })
    }

    /// Passes signals on until the command ends, and returns its code. When the parent has died,
    /// the command gets SIGTERM.
    pub(super) async fn ended(
        mut self,
        signals: &mut Signals,
        mut death: Pin<&mut impl Future<Output = ()>>,
    ) -> ExitCode {
        let mut has_parent = true;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return code_of(status).into(),
                Ok(None) => {}
                Err(_) => return ExitCode::FAILURE,
            }
            tokio::select! {
                _ = self.ends.recv() => {}
                number = signals.next() => self.pass_on(number),
                () = &mut death, if has_parent => {
                    has_parent = false;
                    self.send(Number::TERM);
                }
            }
        }
    }

    /// Passes a signal on, unless the terminal has sent it to the command, too.
    fn pass_on(&self, number: Number) {
        let of_terminal = number == Number::INT || number == Number::QUIT;
        if !(of_terminal && is_in_foreground()) {
            self.send(number);
        }
    }

    fn send(&self, number: Number) {
        let pid = i32::try_from(self.child.id()).ok();
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            // The command may just have ended. Its pid is its own until its end was seen here.
            let _ = kill_process(pid, number);
        }
    }
}

/// Whether keys such as Ctrl-C reach this process and its command.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp())
}

/// The exit code when this signal came before the command ran: as if the signal had ended it.
pub(super) fn code_of_signal(signal: Number) -> ExitCode {
    code_of(ExitStatus::from_raw(signal.as_raw())).into()
}

/// The exit code for the end of a command: its own, or 128 and the number of the signal.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code();
    let code = code.or_else(|| Some(BY_SIGNAL + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_command_has_the_code_of_a_shell() {
        // The wait status has the code in its second byte, and a signal in the first.
        for (raw, code) in [(0, 0), (3 << 8, 3), (15, 143), (9, 137)] {
            assert_eq!(code_of(ExitStatus::from_raw(raw)), code);
        }
    }
}
