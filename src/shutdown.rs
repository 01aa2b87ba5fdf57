//! Signals: the first SIGTERM or SIGINT drains, the second exits, SIGHUP reloads. During the start
//! the first one exits, because there is nothing to drain yet. SIGUSR1 and SIGUSR2 do nothing.

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// The time limit for the last log line, whose reader may have stopped.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The signal that stopped the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT, as from Ctrl-C.
    Interrupt,
    /// SIGTERM, as from a service manager.
    Terminate,
}

impl fmt::Display for StopSignal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            StopSignal::Interrupt => "SIGINT",
            StopSignal::Terminate => "SIGTERM",
        })
    }
}

impl StopSignal {
    /// Returns the exit code of a process that was stopped before it could drain: 128 plus the
    /// number of the signal, as in shells.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            StopSignal::Interrupt => 130,
            StopSignal::Terminate => 143,
        })
    }
}

/// The action that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalAction {
    /// Stop the daemon.
    Stop(StopSignal),
    /// Reload changed files (SIGHUP).
    Reload,
}

/// The signals of the process. While this exists, they do not kill the process.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// SIGUSR1 and SIGUSR2, which have a meaning in other servers. Here they are ignored.
    unused: [(&'static str, Signal); 2],
}

impl Signals {
    /// Installs the handlers. Needs a tokio runtime with I/O.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn install() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            unused: [
                ("SIGUSR1", signal(SignalKind::user_defined1())?),
                ("SIGUSR2", signal(SignalKind::user_defined2())?),
            ],
        })
    }

    /// Waits for a signal to stop, and ignores SIGHUP. Call it again while draining, where the next
    /// signal means "now". Cancel safe: no signal is lost.
    pub async fn stop(&mut self) -> StopSignal {
        loop {
            match self.next().await {
                SignalAction::Stop(signal) => return signal,
                SignalAction::Reload => tracing::info!("SIGHUP: there is nothing to reload"),
            }
        }
    }

    /// Waits for any signal. Cancel safe: no signal is lost.
    pub async fn next(&mut self) -> SignalAction {
        let [(first, one), (second, two)] = &mut self.unused;
        loop {
            let unused = tokio::select! {
                _ = self.interrupt.recv() => return SignalAction::Stop(StopSignal::Interrupt),
                _ = self.terminate.recv() => return SignalAction::Stop(StopSignal::Terminate),
                _ = self.hangup.recv() => return SignalAction::Reload,
                _ = one.recv() => *first,
                _ = two.recv() => *second,
            };
            tracing::info!("{unused} has no effect; SIGHUP reloads files, SIGTERM stops");
        }
    }
}

/// While this exists, signals to stop end the process at once.
#[derive(Debug)]
pub struct StoppedAtOnce {
    _until: oneshot::Sender<()>,
}

/// Makes signals to stop end the process at once, with exit code 0, on a separate thread. The
/// calling thread is blocked while a store opens, and a store must survive a power failure at that
/// time anyway.
///
/// # Errors
/// An error of the operating system.
pub fn stop_at_once() -> io::Result<StoppedAtOnce> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::install()?
    };
    let (until, dropped) = oneshot::channel();
    let watch = async move {
        let stopped = async {
            loop {
                if let SignalAction::Stop(signal) = signals.next().await {
                    return signal;
                }
            }
        };
        tokio::select! {
            _ = dropped => {}
            signal = stopped => leave(signal),
        }
    };
    let thread = std::thread::Builder::new().name("start-signals".to_owned());
    thread.spawn(move || runtime.block_on(watch))?;
    Ok(StoppedAtOnce { _until: until })
}

fn leave(signal: StopSignal) {
    let (said, heard) = mpsc::sync_channel(1);
    let say = move || {
        tracing::info!(%signal, "stopping before the start is complete");
        let _ = said.send(());
    };
    let thread = std::thread::Builder::new().name("last-words".to_owned());
    if thread.spawn(say).is_ok() {
        let _ = heard.recv_timeout(LAST_WORDS);
    }
    std::process::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Signal as Number, getpid, kill_process};

    /// One test for all signals, because each reaches the whole process.
    #[tokio::test]
    async fn a_hangup_does_not_stop_and_each_stop_signal_does() {
        let mut signals = Signals::install().unwrap();
        kill_process(getpid(), Number::HUP).unwrap();
        assert_eq!(signals.next().await, SignalAction::Reload);
        kill_process(getpid(), Number::USR1).unwrap();
        kill_process(getpid(), Number::USR2).unwrap();
        kill_process(getpid(), Number::HUP).unwrap();
        kill_process(getpid(), Number::TERM).unwrap();
        assert_eq!(signals.stop().await, StopSignal::Terminate);
        kill_process(getpid(), Number::INT).unwrap();
        assert_eq!(signals.stop().await, StopSignal::Interrupt);
    }
}
