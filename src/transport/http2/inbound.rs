//! Counts incoming frames, because no client needs thousands of frames without data.
//!
//! h2 answers any number of PING and SETTINGS frames, and accepts any number of PRIORITY and
//! WINDOW_UPDATE frames. One frame costs very little, but a flood takes a whole CPU core. The
//! server therefore counts frames as their bytes pass by. A client may send a burst of them and
//! then some per second, and window updates in proportion to the bytes it was sent. h2 itself
//! limits frames that open, reset or continue streams.

use std::time::{Duration, Instant};

/// The length of the preface that every client sends first.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

/// Control frames: how many in a burst, and how many per second.
const CONTROL_BURST: u64 = 1_000;
const CONTROL_PER_SECOND: u64 = 100;

/// Frames that accompany data.
const FLOW_BURST: u64 = 20_000;
const FLOW_PER_SECOND: u64 = 2_000;
/// The number of sent bytes that earns one more frame. Each frame of a watch needs two, and no
/// frame is shorter than twice this number.
const BYTES_PER_FLOW: u64 = 32;

/// How many more frames may arrive.
#[derive(Debug)]
struct Allowance {
    left: u64,
    burst: u64,
    per_second: u64,
}

impl Allowance {
    fn new(burst: u64, per_second: u64) -> Allowance {
        Allowance {
            left: burst,
            burst,
            per_second,
        }
    }

    /// Takes one frame. Returns false if the allowance is used up.
    fn take(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    fn refill(&mut self, elapsed: Duration, more: u64) {
        // These sums stay far below the range of a u64.
        let earned = elapsed.as_millis() as u64 * self.per_second / 1000;
        self.left = (self.left + earned + more).min(self.burst.max(more));
    }
}

/// The frames of one connection.
#[derive(Debug)]
pub(in crate::transport) struct InboundFrames {
    /// Bytes to skip before the next frame header.
    skip: usize,
    head: [u8; HEAD_BYTES],
    filled: usize,
    control: Allowance,
    flow: Allowance,
    refilled: Instant,
    /// Bytes sent up to that time.
    sent: u64,
    is_flood: bool,
    /// The number of requests that may be read until more are allowed.
    requests: usize,
}

impl InboundFrames {
    /// Starts counting for a new connection, including its preface.
    pub(in crate::transport) fn new() -> InboundFrames {
        InboundFrames {
            skip: PREFACE_BYTES,
            head: [0; HEAD_BYTES],
            filled: 0,
            control: Allowance::new(CONTROL_BURST, CONTROL_PER_SECOND),
            flow: Allowance::new(FLOW_BURST, FLOW_PER_SECOND),
            refilled: Instant::now(),
            sent: 0,
            is_flood: false,
            requests: 0,
        }
    }

    /// Allows this many requests to be read.
    pub(in crate::transport) fn allow_requests(&mut self, requests: usize) {
        self.requests = requests;
    }

    /// Whether the next byte may be read.
    pub(in crate::transport) fn may_read(&self) -> bool {
        self.requests > 0 || self.skip > 0 || self.filled > 0
    }

    /// Whether more frames arrived than any client needs.
    pub(in crate::transport) fn is_flood(&self) -> bool {
        self.is_flood
    }

    /// Counts the frames in `bytes`, up to the end of the last request that may be read. Returns
    /// how many bytes that is. `sent` is the number of bytes sent so far.
    pub(in crate::transport) fn read(&mut self, mut bytes: &[u8], sent: u64) -> usize {
        let given = bytes.len();
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if !self.may_read() {
                break;
            }
            for byte in bytes.iter().take(HEAD_BYTES - self.filled) {
                if let Some(slot) = self.head.get_mut(self.filled) {
                    *slot = *byte;
                }
                self.filled += 1;
                bytes = bytes.get(1..).unwrap_or_default();
            }
            if self.filled == HEAD_BYTES {
                self.filled = 0;
                let [high, middle, low, kind, ..] = self.head;
                self.skip = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                if kind == HEADERS {
                    self.requests = self.requests.saturating_sub(1);
                }
                self.count(kind, sent);
            }
        }
        given - bytes.len()
    }

    fn count(&mut self, kind: u8, sent: u64) {
        let carries_something = match kind {
            HEADERS | CONTINUATION => true,
            DATA => self.skip > 0,
            _ => false,
        };
        if carries_something || self.allowance(kind).take() {
            return;
        }
        // Read the clock only when it matters.
        let now = Instant::now();
        let elapsed = now.duration_since(self.refilled);
        self.refill(elapsed, sent);
        self.refilled = now;
        self.is_flood |= !self.allowance(kind).take();
    }

    fn allowance(&mut self, kind: u8) -> &mut Allowance {
        match kind {
            DATA | RST_STREAM | WINDOW_UPDATE => &mut self.flow,
            _ => &mut self.control,
        }
    }

    fn refill(&mut self, elapsed: Duration, sent: u64) {
        self.control.refill(elapsed, 0);
        self.flow
            .refill(elapsed, sent.saturating_sub(self.sent) / BYTES_PER_FLOW);
        self.sent = sent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0, (length >> 8) as u8, length as u8, kind, 0, 0, 0, 0, 0];
        frame.extend(std::iter::repeat_n(0, length));
        frame
    }

    fn begun() -> InboundFrames {
        let mut frames = InboundFrames::new();
        frames.allow_requests(usize::MAX);
        frames.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0);
        frames
    }

    #[test]
    fn frames_are_told_apart_however_their_bytes_come() {
        let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        for (kind, length) in [(HEADERS, 700), (DATA, 0), (PING, 8), (DATA, 3), (PING, 8)] {
            all.extend(frame(kind, length));
        }
        for size in 1..all.len() {
            let mut frames = InboundFrames::new();
            frames.allow_requests(usize::MAX);
            for chunk in all.chunks(size) {
                frames.read(chunk, 0);
            }
            assert_eq!(frames.control.left, CONTROL_BURST - 2, "{size}");
            assert_eq!(frames.flow.left, FLOW_BURST - 1, "{size}");
        }
    }

    #[test]
    fn no_more_requests_are_read_than_allowed() {
        let requests = frame(HEADERS, 20).repeat(5);
        for size in 1..requests.len() {
            let mut frames = begun();
            frames.allow_requests(2);
            let (mut bytes, mut passed) = (&requests[..], Vec::new());
            while !bytes.is_empty() {
                let read = frames.read(&bytes[..size.min(bytes.len())], 0);
                bytes = &bytes[read..];
                if !frames.may_read() {
                    passed.push(requests.len() - bytes.len());
                    frames.allow_requests(2);
                }
            }
            assert_eq!(passed, [2 * 29, 4 * 29], "{size}");
        }
    }

    #[test]
    fn a_flood_of_each_kind_is_seen_and_ordinary_frames_are_none() {
        for (kind, length, most) in [
            (PING, 8, CONTROL_BURST),
            (4, 0, CONTROL_BURST),
            (2, 5, CONTROL_BURST),
            (77, 0, CONTROL_BURST),
            (WINDOW_UPDATE, 4, FLOW_BURST),
            (DATA, 0, FLOW_BURST),
        ] {
            let mut frames = begun();
            for _ in 0..most {
                frames.read(&frame(kind, length), 0);
            }
            assert!(!frames.is_flood(), "{kind}");
            for _ in 0..most {
                frames.read(&frame(kind, length), 0);
            }
            assert!(frames.is_flood(), "{kind}");
        }
        let mut frames = begun();
        for _ in 0..100_000 {
            frames.read(&frame(DATA, 1), 0);
            frames.read(&frame(HEADERS, 1), 0);
        }
        assert!(!frames.is_flood());
    }

    #[test]
    fn who_is_sent_much_may_answer_with_as_many_window_updates() {
        let mut frames = begun();
        let mut sent = 0;
        for _ in 0..200_000 {
            sent += 64;
            frames.read(&frame(WINDOW_UPDATE, 4), sent);
            frames.read(&frame(WINDOW_UPDATE, 4), sent);
        }
        assert!(!frames.is_flood());
    }

    #[test]
    fn time_brings_more() {
        let mut frames = begun();
        frames.control.left = 0;
        frames.refill(Duration::from_secs(3), 0);
        assert_eq!(frames.control.left, 3 * CONTROL_PER_SECOND);
        frames.refill(Duration::from_secs(3600), 0);
        assert_eq!(frames.control.left, CONTROL_BURST);
    }
}
