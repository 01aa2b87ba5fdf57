//! Reports tests that do not run because a program is missing.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that this test does not run a program that is not there. Where `TAFFRAIL_NOT_RUN` names a
/// file, a line of it has the program and the test, so that `tests/run.sh` can count them.
pub fn not_run(program: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a thread without a name");
    eprintln!("{test} is not run: there is no {program}");
    if let Some(file) = std::env::var_os("TAFFRAIL_NOT_RUN") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        // One write, because other tests append at the same time.
        let line = format!("{program}\t{test}\n");
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
