//! Signals: the first SIGTERM or SIGINT drains, the second exits, SIGHUP reloads. During the start
//! the first one exits: there is nothing to drain yet.

use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// How long the last line of the log may take: who reads it may have stopped reading.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Which signal told the daemon to stop.
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
    /// The exit code of a process that was stopped before it could drain: 128 and the signal's
    /// number, as shells have it.
    pub fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            StopSignal::Interrupt => 130,
            StopSignal::Terminate => 143,
        })
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To end.
    Stop(StopSignal),
    /// To read again what can be reloaded: SIGHUP.
    Reload,
}

/// The signals of the process, from the moment this is made on: none of them kills it any more.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Takes over the signals. Needs a tokio runtime with I/O.
    ///
    /// # Errors
    /// When the operating system refuses the handlers.
    pub fn install() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to stop. To be asked again while draining: the second answer means
    /// "now"; a hangup means nothing any more. May be dropped and called again without losing a
    /// signal.
    pub async fn stop(&mut self) -> StopSignal {
        loop {
            match self.next().await {
                Wish::Stop(signal) => return signal,
                Wish::Reload => tracing::info!("SIGHUP: there is nothing to reload"),
            }
        }
    }

    /// Waits for any signal. May be dropped and called again without losing one.
    pub async fn next(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Stop(StopSignal::Interrupt),
            _ = self.terminate.recv() => Wish::Stop(StopSignal::Terminate),
            _ = self.hangup.recv() => Wish::Reload,
        }
    }
}

/// Signals to stop end the process at once until this is dropped.
#[derive(Debug)]
pub struct StoppedAtOnce {
    _until: oneshot::Sender<()>,
}

/// Has signals to stop end the process at once, with 0, on a thread of its own: a start works on
/// the calling thread for as long as a store takes to open, and whatever it is doing must stand a
/// power cut all the same.
///
/// # Errors
/// When the operating system refuses the handlers or the thread.
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
                if let Wish::Stop(signal) = signals.next().await {
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

    /// One test for all of them: signals reach the whole process.
    #[tokio::test]
    async fn a_hangup_does_not_stop_and_each_stop_signal_does() {
        let mut signals = Signals::install().unwrap();
        kill_process(getpid(), Number::HUP).unwrap();
        assert_eq!(signals.next().await, Wish::Reload);
        kill_process(getpid(), Number::HUP).unwrap();
        kill_process(getpid(), Number::TERM).unwrap();
        assert_eq!(signals.stop().await, StopSignal::Terminate);
        kill_process(getpid(), Number::INT).unwrap();
        assert_eq!(signals.stop().await, StopSignal::Interrupt);
    }
}
