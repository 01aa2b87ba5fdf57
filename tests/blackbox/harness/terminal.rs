//! A real terminal with a program in it.
//!
//! It is a pseudo-terminal that controls the program, so a change of its size is signalled and its
//! keys may send signals, too. Tests hold the side of the person: they type, read, and look at the
//! settings.

use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use futures_util::FutureExt;
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};

/// How long anything may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A terminal with a program that is killed when this is dropped.
pub struct Terminal {
    /// The side of the person, which tokio reads like a pipe.
    person: Receiver,
    /// The side of the program. It keeps the settings when the program has ended.
    program: Option<OwnedFd>,
    child: Child,
    /// The output that no test has waited for yet.
    shown: Vec<u8>,
    /// The settings before the program started.
    before: String,
}

/// How a program in a terminal has ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The output that no test has waited for yet.
    pub rest: String,
}

impl Terminal {
    /// Starts a program in a new terminal, with a number of columns and rows.
    pub fn start(mut command: Command, columns: u16, rows: u16) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).unwrap();
        unlockpt(&person).unwrap();
        rustix::io::ioctl_fionbio(&person, true).unwrap();
        let program = ioctl_tiocgptpeer(&person, flags).unwrap();
        tcsetwinsize(&person, size(columns, rows)).unwrap();
        let before = settings(&program);
        let end = || Stdio::from(program.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        let spawned = command.kill_on_drop(true).spawn();
        let child = spawned.unwrap_or_else(|why| panic!("{command:?}: {why}"));
        Terminal {
            person: Receiver::from_owned_fd_unchecked(person).unwrap(),
            program: Some(program),
            child,
            shown: Vec::new(),
            before,
        }
    }

    /// Changes the size.
    pub fn resize(&self, columns: u16, rows: u16) {
        tcsetwinsize(&self.person, size(columns, rows)).unwrap();
    }

    /// Types keys.
    pub fn types(&self, keys: &[u8]) {
        let written = rustix::io::write(&self.person, keys).unwrap();
        assert_eq!(written, keys.len());
    }

    /// Whether keys go to the program as they are: unedited, not echoed, and without signals.
    pub fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.person).unwrap().local_modes;
        let cooked = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        !modes.intersects(cooked)
    }

    /// Waits until a text is shown, and returns all that was shown up to its end and was not yet
    /// returned.
    pub async fn shows(&mut self, text: &str) -> String {
        let waiting = tokio::time::timeout(TIMEOUT, async {
            loop {
                let mut windows = self.shown.windows(text.len());
                if let Some(at) = windows.position(|window| window == text.as_bytes()) {
                    let rest = self.shown.split_off(at + text.len());
                    return Some(std::mem::replace(&mut self.shown, rest));
                }
                if !self.read().await {
                    return None;
                }
            }
        });
        match waiting.await {
            Ok(Some(shown)) => String::from_utf8(shown).unwrap(),
            _ => panic!(
                "no {text:?}, but {:?}",
                String::from_utf8_lossy(&self.shown)
            ),
        }
    }

    /// Waits for the end of the program, which must leave the settings as they were.
    pub async fn ended(mut self) -> Ended {
        let waiting = tokio::time::timeout(TIMEOUT, self.child.wait()).await;
        let Ok(status) = waiting else {
            while self.read().now_or_never() == Some(true) {}
            panic!("no end: {:?}", String::from_utf8_lossy(&self.shown));
        };
        let program = self.program.take().unwrap();
        assert_eq!(settings(&program), self.before);
        // No process has the side of the program open, so reading comes to an end.
        drop(program);
        while self.read().await {}
        Ended {
            code: status.unwrap().code(),
            rest: String::from_utf8(std::mem::take(&mut self.shown)).unwrap(),
        }
    }

    /// Closes the terminal, as a window is closed, and waits for the end of the program.
    pub async fn closed(self) {
        let Terminal {
            person, mut child, ..
        } = self;
        drop(person);
        let waiting = tokio::time::timeout(TIMEOUT, child.wait()).await;
        waiting.expect("an end").unwrap();
    }

    /// Waits for more that is shown. Returns false once nobody can show more.
    async fn read(&mut self) -> bool {
        match self.person.read_buf(&mut self.shown).await {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => {
                assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
                false
            }
        }
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// All settings of a terminal, as a text to compare.
fn settings(of: &OwnedFd) -> String {
    format!("{:?}", tcgetattr(of).unwrap())
}
