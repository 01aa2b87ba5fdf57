//! Measures the cost of Kubernetes' roles and bindings at a start (AC-67, AC-68), beside a start
//! without them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{AS_INSTALLED, Options};
use crate::meter;
use crate::report::{figure, part};

const ROUNDS: usize = 7;
/// The time in which controllers have filled aggregated roles.
const SETTLE: Duration = Duration::from_secs(2);

/// One start: milliseconds until it is ready, milliseconds of CPU until it is quiet, and MiB.
struct Start {
    ready: f64,
    cpu: f64,
    resident: f64,
}

fn median(starts: &[Start], of: impl Fn(&Start) -> f64) -> f64 {
    let mut values: Vec<f64> = starts.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures starts of daemons with these flags.
pub async fn measure() {
    part("starts with the roles of Kubernetes, and without");
    let flags = [AS_INSTALLED, "--rbac-bootstrap=false"];
    for (what, flags) in [("without", &flags[..]), ("with", &flags[..1])] {
        let mut starts = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            let folder = Arc::new(tempfile::tempdir().unwrap());
            for starts in &mut starts {
                let begun = Instant::now();
                let options = Options::default().over(Arc::clone(&folder));
                let mut daemon = options.arguments(flags).start().await;
                let ready = begun.elapsed().as_secs_f64() * 1e3;
                tokio::time::sleep(SETTLE).await;
                starts.push(Start {
                    ready,
                    cpu: meter::threads(daemon.pid()) * 1e3,
                    resident: daemon.resident(),
                });
                daemon.stop(Signal::TERM).await;
            }
        }
        for (which, starts) in ["first start", "next start"].iter().zip(&starts) {
            let name = |of: &str| format!("{which} {what} them, {of}");
            figure(
                &name("exec to ready"),
                median(starts, |start| start.ready),
                "ms",
                "",
            );
            figure(&name("CPU"), median(starts, |start| start.cpu), "ms", "");
            figure(
                &name("memory"),
                median(starts, |start| start.resident),
                "MiB",
                "",
            );
        }
    }
}
