//! The signals of `taffrail test`.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that a test server handles. While this exists, they do not kill the process.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    quit: Signal,
    first_user: Signal,
    second_user: Signal,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(super) fn install() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            first_user: signal(SignalKind::user_defined1())?,
            second_user: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for a signal. Cancel safe: no signal is lost.
    pub(super) async fn next(&mut self) -> Number {
        tokio::select! {
            _ = self.terminate.recv() => Number::TERM,
            _ = self.interrupt.recv() => Number::INT,
            _ = self.hangup.recv() => Number::HUP,
            _ = self.quit.recv() => Number::QUIT,
            _ = self.first_user.recv() => Number::USR1,
            _ = self.second_user.recv() => Number::USR2,
        }
    }

    /// Waits for a signal to stop. The terminal of a test is its own, so SIGHUP stops, too.
    pub(super) async fn stopping(&mut self) -> Number {
        loop {
            let number = self.next().await;
            if number != Number::USR1 && number != Number::USR2 {
                return number;
            }
        }
    }
}
