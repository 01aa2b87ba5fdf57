//! Measurement of stack use.
#![allow(clippy::unwrap_used)]

use api::deep::MAX_DEPTH;

/// Returns how many bytes of this thread's stack have been used.
fn used() -> usize {
    let here = 0_u8;
    let here = std::ptr::from_ref(&here).addr();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_here = false;
    for line in maps.lines() {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        if let Some((from, to)) = range.filter(|_| !line.contains("kB")) {
            let number = |text| usize::from_str_radix(text, 16).unwrap_or_default();
            is_here = (number(from)..number(to)).contains(&here);
        }
        if let Some(rss) = line.strip_prefix("Rss:").filter(|_| is_here) {
            return rss.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
        }
    }
    0
}

/// Fails if a step takes more than half of the stack that is reserved for a level.
pub fn fits(name: String, most: usize, step: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 30);
    let measured = thread.spawn(move || {
        let before = used();
        step();
        let level = (used() - before) / MAX_DEPTH;
        assert!(level <= most / 2, "{name}: {level} bytes a level");
    });
    measured.unwrap().join().unwrap();
}
