//! Signals: the first SIGTERM or SIGINT drains, the second exits, SIGHUP reloads.

use std::fmt;
use std::io;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

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
