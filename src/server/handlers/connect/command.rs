//! Pure. A command in a container, whose client speaks WebSocket with channels and whose kubelet
//! speaks SPDY (CN-52 to CN-59, CN-65).
//!
//! It takes the bytes of both sides as they arrive, and keeps nothing else but the content of the
//! stream of errors.

use bytes::BytesMut;
use serde_json::{Value, json};

use crate::api::status::Status;
use crate::api::text::quoting::go_quote;
use crate::api::text::truncation::truncated;
use crate::registry::rest::CommandStreams;
use crate::upgraded::websocket::{self, CloseCode};
use crate::upgraded::{Progress, Translation, spdy};

/// The channels of a client (CN-56).
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// A message on it closes the channel that it names (CN-57).
const CLOSE: u8 = 255;

/// The order in which a client opens streams.
const OPENED: [(u8, &str); 5] = [
    (ERROR, "error"),
    (STDIN, "stdin"),
    (STDOUT, "stdout"),
    (STDERR, "stderr"),
    (RESIZE, "resize"),
];

/// The most bytes that are kept of the stream of errors, which has one Status.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// The pings that a kubelet may leave unanswered: a minute of them.
const UNANSWERED_MAX: u32 = 12;

/// The most bytes that a message shows of one that can't be understood.
const SHOWN_BYTES_MAX: usize = 1 << 10;

/// Whether the client of a command has a channel.
fn has(streams: CommandStreams, channel: u8) -> bool {
    match channel {
        STDIN => streams.stdin,
        STDOUT => streams.stdout,
        STDERR => streams.stderr,
        RESIZE => streams.tty,
        _ => channel == ERROR,
    }
}

/// The state of a stream to the kubelet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stream {
    /// Its number, 0 if it was not asked for.
    number: u32,
    /// Whether the daemon sends no more on it.
    is_closed: bool,
    /// Whether the kubelet sends no more on it.
    has_ended: bool,
}

/// The message of the client that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Message {
    /// Its channel has not come.
    #[default]
    Begun,
    /// Its bytes are for this channel.
    Of(u8),
    /// Its next byte is a channel to close.
    Closing,
    /// Nothing of it matters.
    Ignored,
}

/// A command that runs.
#[derive(Debug, Default)]
pub struct Command {
    client: websocket::Reader,
    kubelet: spdy::Reader,
    /// By channel.
    streams: [Stream; OPENED.len()],
    message: Message,
    errors: Vec<u8>,
    /// The number of the last ping to the kubelet, which are odd.
    pinged: u32,
    answered: u32,
    to_client: BytesMut,
    to_kubelet: BytesMut,
}

impl Command {
    /// Begins with a client whose handshake is answered. It has to be shown that the connection
    /// works (CN-58). The streams to the kubelet are opened, too.
    pub fn new(streams: CommandStreams) -> Command {
        // linear: there are three.
        let lowest = [STDOUT, STDERR].into_iter().find(|one| has(streams, *one));
        let mut command = Command::default();
        websocket::message(&mut command.to_client, lowest.unwrap_or(ERROR), &[]);
        let mut writer = spdy::Writer::default();
        let opened = OPENED.iter().filter(|(channel, _)| has(streams, *channel));
        for ((channel, kind), number) in opened.zip((1..).step_by(2)) {
            writer.open(&mut command.to_kubelet, number, &[("streamtype", kind)]);
            if let Some(stream) = command.streams.get_mut(usize::from(*channel)) {
                stream.number = number;
            }
        }
        // Nothing is sent on the stream of errors.
        command.send(ERROR, &[], true);
        command
    }

    /// Ends a command whose kubelet can't be reached, or refuses it.
    pub fn refused(&mut self, why: &Status) -> Progress {
        self.end(&untyped(why))
    }

    /// Takes bytes of a message.
    fn message_part(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            self.message = match self.message {
                Message::Begun if *first == CLOSE => Message::Closing,
                Message::Begun => Message::Of(*first),
                Message::Closing => {
                    if *first != ERROR {
                        self.send(*first, &[], true);
                    }
                    Message::Ignored
                }
                // Clients only read the outputs.
                Message::Of(channel @ (STDIN | RESIZE)) => {
                    self.send(channel, bytes, false);
                    return;
                }
                Message::Of(_) | Message::Ignored => return,
            };
            bytes = rest;
        }
    }

    /// Sends bytes on the stream of a channel, unless it is closed (CN-54).
    fn send(&mut self, channel: u8, bytes: &[u8], is_last: bool) {
        let stream = self.streams.get_mut(usize::from(channel));
        let Some(stream) = stream.filter(|stream| stream.number != 0 && !stream.is_closed) else {
            return;
        };
        stream.is_closed = is_last;
        spdy::data(&mut self.to_kubelet, stream.number, bytes, is_last);
    }

    /// Passes bytes of a stream on.
    fn output(&mut self, stream: u32, bytes: &[u8]) {
        match self.channel_of(stream) {
            Some(channel @ (STDOUT | STDERR)) if !bytes.is_empty() => {
                websocket::message(&mut self.to_client, channel, bytes);
            }
            Some(ERROR) => {
                let room = ERROR_BYTES_MAX - self.errors.len();
                self.errors.extend(bytes.iter().take(room));
            }
            _ => {}
        }
    }

    fn channel_of(&self, number: u32) -> Option<u8> {
        // linear: there are five.
        let place = self
            .streams
            .iter()
            .position(|stream| stream.number == number);
        place.filter(|_| number != 0).map(|place| place as u8)
    }

    /// Whether the command has ended, and all of its output has come.
    fn has_ended(&self) -> bool {
        let outputs = [STDOUT, STDERR, ERROR].into_iter();
        let streams = outputs.filter_map(|channel| self.streams.get(usize::from(channel)));
        streams
            .filter(|stream| stream.number != 0)
            .all(|stream| stream.has_ended)
    }

    fn end(&mut self, status: &Value) -> Progress {
        websocket::message(&mut self.to_client, ERROR, status.to_string().as_bytes());
        self.close(CloseCode::Normal)
    }

    fn close(&mut self, code: CloseCode) -> Progress {
        websocket::close(&mut self.to_client, code);
        Progress::Ended
    }
}

impl Translation for Command {
    fn of_client(&mut self, mut bytes: &mut [u8]) -> Progress {
        loop {
            let event = match self.client.next(&mut bytes) {
                Ok(Some(event)) => event,
                Ok(None) => return Progress::Open,
                Err(_) => return self.close(CloseCode::ProtocolError),
            };
            match event {
                websocket::Event::Data {
                    is_first,
                    bytes,
                    is_last: _,
                } => {
                    if is_first {
                        self.message = Message::Begun;
                    }
                    self.message_part(bytes);
                }
                websocket::Event::Ping(content) => websocket::pong(&mut self.to_client, &content),
                websocket::Event::Close => return self.close(CloseCode::Normal),
            }
        }
    }

    fn of_server(&mut self, mut bytes: &[u8]) -> Progress {
        loop {
            let event = match self.kubelet.next(&mut bytes) {
                Ok(Some(event)) => event,
                Ok(None) => return Progress::Open,
                Err(why) => return self.refused(&Status::internal(why)),
            };
            let ended = match event {
                spdy::Event::Data {
                    stream,
                    bytes,
                    is_last,
                } => {
                    self.output(stream, bytes);
                    is_last.then_some(stream)
                }
                spdy::Event::Headers { stream, is_last } => is_last.then_some(stream),
                spdy::Event::Reset(stream) => {
                    if self.channel_of(stream) == Some(ERROR) {
                        let why = "error reading from error stream: stream reset";
                        return self.refused(&Status::internal(why));
                    }
                    Some(stream)
                }
                spdy::Event::Opened(stream) => {
                    spdy::refuse(&mut self.to_kubelet, stream);
                    None
                }
                spdy::Event::Ping(number) if number % 2 == 0 => {
                    spdy::ping(&mut self.to_kubelet, number);
                    None
                }
                spdy::Event::Ping(number) => {
                    self.answered = self.answered.max(number);
                    None
                }
                spdy::Event::GoAway => None,
            };
            if let Some(ended) = ended.and_then(|stream| self.channel_of(stream)) {
                if let Some(stream) = self.streams.get_mut(usize::from(ended)) {
                    stream.has_ended = true;
                }
                if self.has_ended() {
                    let outcome = outcome(&self.errors);
                    return self.end(&outcome);
                }
            }
        }
    }

    /// The outcome of the command is unknown then, which is not a success.
    fn server_gone(&mut self) -> Progress {
        self.refused(&Status::internal(
            "error reading from error stream: unexpected EOF",
        ))
    }

    fn stop(&mut self) {
        let _ = self.close(CloseCode::GoingAway);
    }

    /// Sends the kubelet a ping (CN-59).
    fn tick(&mut self) -> Progress {
        if self.pinged.saturating_sub(self.answered) / 2 >= UNANSWERED_MAX {
            return self.refused(&Status::internal("the kubelet does not answer any more"));
        }
        self.pinged = match self.pinged {
            0 => 1,
            last => last.wrapping_add(2),
        };
        spdy::ping(&mut self.to_kubelet, self.pinged);
        Progress::Open
    }

    fn to_client(&mut self) -> &mut BytesMut {
        &mut self.to_client
    }

    fn to_server(&mut self) -> &mut BytesMut {
        &mut self.to_kubelet
    }
}

/// A Status without its kind, as clients of commands get it.
fn untyped(status: &Status) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    if let Value::Object(members) = &mut value {
        members.remove("kind");
        members.remove("apiVersion");
    }
    value
}

/// The Status that a client gets for the content of a kubelet's stream of errors (CN-53).
fn outcome(errors: &[u8]) -> Value {
    let success = || json!({"metadata": {}, "status": "Success"});
    if errors.is_empty() {
        return success();
    }
    let failed = |why: String| untyped(&Status::internal(why));
    let of_stream = |why: &str| failed(format!("error stream protocol error: {why}"));
    let status: Value = match serde_json::from_slice(errors) {
        Ok(status) => status,
        Err(why) => {
            let text = truncated(String::from_utf8_lossy(errors).into(), SHOWN_BYTES_MAX);
            return of_stream(&format!("{why} in {}", go_quote(&text)));
        }
    };
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("status"), text("reason")) {
        ("Success", _) => success(),
        ("Failure", "NonZeroExitCode") => {
            let Some(details) = status.get("details") else {
                return of_stream("details must be set");
            };
            let causes = details.get("causes").and_then(Value::as_array);
            // linear: a Status has a few causes.
            let code = causes
                .into_iter()
                .flatten()
                .find(|cause| cause.get("reason").and_then(Value::as_str) == Some("ExitCode"));
            let Some(code) = code else {
                return of_stream("no ExitCode cause given");
            };
            let code = code
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if code.parse::<u8>().is_err() {
                return of_stream(&format!("invalid exit code value {}", go_quote(code)));
            }
            let message = format!(
                "command terminated with non-zero exit code: command terminated with exit code \
                 {code}"
            );
            json!({
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code}]},
            })
        }
        ("Failure", _) => failed(text("message").to_owned()),
        _ => of_stream("unknown error"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::asked::ANSWER_WITHIN;
    use super::*;
    use crate::upgraded::{Translated, TranslatedEnd};

    const ALL: CommandStreams = CommandStreams {
        stdin: true,
        stdout: true,
        stderr: true,
        tty: true,
    };

    /// A binary message of a client, masked with zeros.
    fn sent(content: &[u8]) -> Vec<u8> {
        assert!(content.len() < 126);
        let mut frame = vec![0x82, 0x80 | content.len() as u8, 0, 0, 0, 0];
        frame.extend(content);
        frame
    }

    /// The messages in the frames of a server, all of which are short.
    fn messages(frames: &BytesMut) -> Vec<String> {
        let (mut rest, mut all) = (&frames[..], Vec::new());
        while let [first, length, tail @ ..] = rest {
            let (begin, length) = match length {
                126 => (2, usize::from(u16::from_be_bytes([tail[0], tail[1]]))),
                short => (0, usize::from(*short)),
            };
            let content = &tail[begin..begin + length];
            all.push(match (first, content) {
                (0x82, [channel, text @ ..]) => {
                    format!("{channel} {}", String::from_utf8_lossy(text))
                }
                (0x88, code) => format!("close {}", u16::from_be_bytes([code[0], code[1]])),
                (other, content) => format!("{other:#x} {content:?}"),
            });
            rest = &tail[begin + length..];
        }
        all
    }

    /// The frames for a kubelet.
    fn frames(bytes: &BytesMut) -> Vec<String> {
        let (mut reader, mut rest, mut all) = (spdy::Reader::default(), &bytes[..], Vec::new());
        while let Some(event) = reader.next(&mut rest).unwrap() {
            all.push(match event {
                spdy::Event::Data {
                    stream,
                    bytes,
                    is_last,
                } => format!("{stream} {:?} {is_last}", String::from_utf8_lossy(bytes)),
                other => format!("{other:?}"),
            });
        }
        all
    }

    fn begun(wanted: CommandStreams) -> Command {
        let mut command = Command::new(wanted);
        command.to_client.clear();
        command.to_kubelet.clear();
        command
    }

    #[test]
    fn the_first_message_is_empty_and_streams_are_opened_in_order_cn_58_cn_65() {
        let nothing = CommandStreams::default();
        for (wanted, first) in [
            (ALL, "1 "),
            (
                CommandStreams {
                    stderr: true,
                    ..nothing
                },
                "2 ",
            ),
            (
                CommandStreams {
                    stdin: true,
                    ..nothing
                },
                "3 ",
            ),
        ] {
            assert_eq!(messages(&Command::new(wanted).to_client), [first]);
        }
        let command = Command::new(ALL);
        let opened = [
            "Opened(1)",
            "Opened(3)",
            "Opened(5)",
            "Opened(7)",
            "Opened(9)",
        ];
        assert_eq!(
            frames(&command.to_kubelet),
            [&opened[..], &["1 \"\" true"]].concat()
        );
    }

    #[test]
    fn bytes_go_to_their_streams_and_channels_cn_54_cn_57_cn_59() {
        let mut command = begun(ALL);
        let all = [
            sent(&[STDIN, b'a', b'b']),
            // Neither exists nor may be written.
            sent(&[9, b'x']),
            sent(&[STDOUT, b'x']),
            sent(&[]),
            sent(b"\x04{\"Width\":80,\"Height\":24}"),
            sent(&[CLOSE, STDIN]),
            sent(&[STDIN, b'c']),
            sent(&[CLOSE, ERROR]),
            sent(&[CLOSE]),
        ]
        .concat();
        let expected = [
            "3 \"ab\" false",
            "9 \"{\\\"Width\\\":80,\\\"Height\\\":24}\" false",
            "3 \"\" true",
        ];
        assert_eq!(command.of_client(&mut all.clone()), Progress::Open);
        assert_eq!(frames(&command.to_kubelet), expected);
        // Also in pieces: a message is one stream of bytes.
        let mut command = begun(ALL);
        for byte in all {
            assert_eq!(command.of_client(&mut [byte]), Progress::Open);
        }
        let pieces = frames(&command.to_kubelet);
        assert_eq!(pieces[..2], ["3 \"a\" false", "3 \"b\" false"]);
        assert_eq!(pieces.last().unwrap(), "3 \"\" true");

        let mut kubelet = BytesMut::new();
        spdy::data(&mut kubelet, 5, b"out", false);
        spdy::data(&mut kubelet, 7, b"err", true);
        spdy::data(&mut kubelet, 3, b"nobody reads this", false);
        spdy::data(&mut kubelet, 77, b"nor this", false);
        spdy::ping(&mut kubelet, 2);
        spdy::ping(&mut kubelet, 1);
        let mut opened = BytesMut::new();
        spdy::Writer::default().open(&mut opened, 2, &[]);
        kubelet.unsplit(opened);
        command.to_kubelet.clear();
        assert_eq!(command.of_server(&kubelet), Progress::Open);
        assert_eq!(messages(&command.to_client), ["1 out", "2 err"]);
        assert_eq!(frames(&command.to_kubelet), ["Ping(2)", "Reset(2)"]);
    }

    #[test]
    fn a_channel_that_was_not_asked_for_takes_nothing_cn_54() {
        let mut command = begun(CommandStreams {
            stdout: true,
            ..CommandStreams::default()
        });
        let mut bytes = sent(&[STDIN, b'a']);
        assert_eq!(command.of_client(&mut bytes), Progress::Open);
        assert!(command.to_kubelet.is_empty());
    }

    /// The Status of a command that has ended with these bytes of errors.
    fn ended(errors: &[u8]) -> Value {
        let mut command = begun(CommandStreams {
            stdout: true,
            ..CommandStreams::default()
        });
        let mut kubelet = BytesMut::new();
        spdy::data(&mut kubelet, 1, errors, true);
        assert_eq!(command.of_server(&kubelet), Progress::Open);
        kubelet.clear();
        spdy::data(&mut kubelet, 3, b"rest", true);
        assert_eq!(command.of_server(&kubelet), Progress::Ended);
        let messages = messages(&command.to_client);
        let [rest, status, close] = &messages[..] else {
            panic!("{messages:?}");
        };
        assert_eq!((&**rest, &**close), ("1 rest", "close 1000"));
        serde_json::from_str(status.strip_prefix("3 ").unwrap()).unwrap()
    }

    #[test]
    fn the_outcome_is_the_last_message_cn_53() {
        let success = json!({"metadata": {}, "status": "Success"});
        assert_eq!(ended(b""), success);
        assert_eq!(ended(br#"{"metadata":{},"status":"Success"}"#), success);
        let failure = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"x",
            "details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        let expected = json!({"metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code: command terminated with exit \
                        code 3",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}});
        assert_eq!(ended(failure), expected);
        for (errors, why) in [
            (
                &br#"{"status":"Failure","message":"no shell"}"#[..],
                "no shell",
            ),
            (
                br#"{"status":"Failure","reason":"NonZeroExitCode"}"#,
                "error stream protocol error: details must be set",
            ),
            (
                br#"{"status":"Failure","reason":"NonZeroExitCode","details":{}}"#,
                "error stream protocol error: no ExitCode cause given",
            ),
            (
                br#"{"status":"Failure","reason":"NonZeroExitCode",
                    "details":{"causes":[{"reason":"ExitCode","message":"256"}]}}"#,
                "error stream protocol error: invalid exit code value \"256\"",
            ),
            (
                br#"{"status":"Odd"}"#,
                "error stream protocol error: unknown error",
            ),
        ] {
            let status = ended(errors);
            assert_eq!(status["message"], format!("Internal error occurred: {why}"));
            assert_eq!(status["code"], 500);
            assert_eq!(status.get("kind"), None);
        }
        let unreadable = ended(&vec![b'x'; 2 * ERROR_BYTES_MAX]);
        let message = unreadable["message"].as_str().unwrap();
        assert!(
            message.contains("error stream protocol error: expected value"),
            "{message}"
        );
    }

    #[test]
    fn an_early_end_is_no_success() {
        let mut command = begun(ALL);
        assert_eq!(command.server_gone(), Progress::Ended);
        let messages = messages(&command.to_client);
        assert!(
            messages[0].contains("\"status\":\"Failure\""),
            "{messages:?}"
        );
        let mut command = begun(ALL);
        let mut reset = BytesMut::new();
        spdy::refuse(&mut reset, 1);
        assert_eq!(command.of_server(&reset), Progress::Ended);
        let mut command = begun(ALL);
        assert_eq!(
            command.of_server(b"HTTP/1.1 200 OK\r\n\r\n"),
            Progress::Open
        );
        let mut command = begun(ALL);
        assert_eq!(command.of_server(&[0xff; 8]), Progress::Ended);
    }

    #[test]
    fn clients_are_answered_and_closed_with_a_reason_cn_59() {
        let mut command = begun(ALL);
        let mut ping = sent(b"hi");
        ping[0] = 0x89;
        assert_eq!(command.of_client(&mut ping), Progress::Open);
        let mut close = sent(b"\x03\xe8");
        close[0] = 0x88;
        assert_eq!(command.of_client(&mut close), Progress::Ended);
        assert_eq!(
            messages(&command.to_client),
            ["0x8a [104, 105]", "close 1000"]
        );
        let mut command = begun(ALL);
        assert_eq!(command.of_client(&mut [0x82, 1]), Progress::Ended);
        assert_eq!(messages(&command.to_client), ["close 1002"]);
    }

    #[test]
    fn a_kubelet_that_answers_no_ping_for_a_minute_is_gone_cn_59() {
        let mut command = begun(ALL);
        let mut answer = BytesMut::new();
        for number in (1..=19).step_by(2) {
            assert_eq!(command.tick(), Progress::Open);
            spdy::ping(&mut answer, number);
        }
        assert_eq!(frames(&command.to_kubelet).len(), 10);
        assert_eq!(command.of_server(&answer), Progress::Open);
        for _ in 0..UNANSWERED_MAX {
            assert_eq!(command.tick(), Progress::Open);
        }
        assert_eq!(command.tick(), Progress::Ended);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_that_is_being_asked_owes_no_answer_to_pings_cn_59() {
        let (_client, near) = tokio::io::duplex(64 << 10);
        let (far, _kubelet) = tokio::io::duplex(64 << 10);
        let mut session = Translated::new(near, Command::new(ALL));
        let asking = tokio::time::timeout(ANSWER_WITHIN, &mut session);
        assert!(asking.await.is_err());
        session.connect(far);
        let connected = Instant::now();
        assert!(matches!(session.await, TranslatedEnd::InOrder));
        let minute = Duration::from_secs(60);
        let took = connected.elapsed();
        assert!(took >= minute && took < 2 * minute, "{took:?}");
    }
}
