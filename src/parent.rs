//! The process that started this one, and its death. A program that serves tests ends with the test
//! that started it, however that test died.
//!
//! The kernel can send a signal on the death of a parent, but it means the thread that started the
//! process, and runtimes end threads while their program goes on. So the process is watched.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use tokio::sync::oneshot;

/// How often the parent is looked up where the kernel has no pidfds (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How soon the thread that waits for a death ends if nobody waits for it any more.
const WAIT_AT_MOST: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The parent that this process had at one moment.
#[derive(Debug)]
pub struct Parent {
    pid: Pid,
    /// Readable once the parent has died.
    death: Option<OwnedFd>,
}

impl Parent {
    /// The parent of now. Call it early: if the parent has died before, this is the process that
    /// has adopted this one. `None` if the parent is outside the container, which dies with it.
    pub fn of_now() -> Option<Parent> {
        let pid = getppid()?;
        // The kernel may lack pidfds, or a filter of system calls may forbid them.
        let death = pidfd_open(pid, PidfdFlags::empty()).ok();
        // The pid may have become another process's before the pidfd was opened.
        let death = death.filter(|_| getppid() == Some(pid));
        Some(Parent { pid, death })
    }

    /// Resolves when the parent has died. It waits on a thread of its own: a safe way to have the
    /// runtime wait for a pidfd does not exist.
    pub async fn died(self) {
        if let Some(death) = self.death {
            let (send, seen) = oneshot::channel();
            let wait = move || wait(&death, send);
            let waits = thread::Builder::new().name("parent".to_owned()).spawn(wait);
            if waits.is_ok() && seen.await.is_ok() {
                return;
            }
        }
        while getppid() == Some(self.pid) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Reports when the file is readable, or ends if nobody waits for that any more.
fn wait(death: &OwnedFd, seen: oneshot::Sender<()>) {
    while !seen.is_closed() {
        match is_readable(death) {
            Ok(true) => {
                // The receiver may just have gone.
                let _ = seen.send(());
                return;
            }
            Ok(false) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn is_readable(file: &OwnedFd) -> Result<bool, Errno> {
    let mut files = [PollFd::new(file, PollFlags::IN)];
    Ok(poll(&mut files, Some(&WAIT_AT_MOST))? > 0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn of(pid: u32) -> Parent {
        let pid = Pid::from_raw(pid as i32).unwrap();
        let death = Some(pidfd_open(pid, PidfdFlags::empty()).unwrap());
        Parent { pid, death }
    }

    #[tokio::test]
    async fn the_death_of_a_process_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut died = std::pin::pin!(of(child.id()).died());
        assert!(futures_util::poll!(&mut died).is_pending());
        child.kill().unwrap();
        died.await;
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn a_living_parent_has_not_died() {
        let mut died = std::pin::pin!(Parent::of_now().unwrap().died());
        assert!(futures_util::poll!(&mut died).is_pending());
    }
}
