//! The bodies of answers that are passed on, as they are or with other links.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::write::{DeflateEncoder, GzEncoder, MultiGzDecoder, ZlibEncoder};
use flate2::{Compression, Decompress, FlushDecompress, Status};
use futures_util::Stream;
use http_body::Frame;

use super::html::HtmlLinks;
use crate::egress::{ForwardedBody, HELD_BYTES_MAX};

/// The most bytes that the rewriting of a body holds: a tag with other links, and the windows of
/// compression.
const REWRITING_BYTES: usize = 768 << 10;

/// The bytes that are rewritten at a time. Links grow, and compressed bytes may stand for a
/// thousand times as many.
const PLAIN_BYTES: usize = 4 << 10;
const COMPRESSED_BYTES: usize = 16;

/// The room that is kept for the rewritten bytes.
const SCRATCH_BYTES: usize = 64 << 10;

/// The bytes that a poll decompresses before it lets others go on.
const TURN_BYTES: usize = 64 << 10;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    /// With or without the frame of zlib.
    Deflate,
}

/// The body of another server's answer.
pub enum PassedBody {
    /// As it is.
    Same(ForwardedBody),
    /// HTML with other links.
    Rewritten(Box<Rewriting>),
}

impl From<ForwardedBody> for PassedBody {
    fn from(body: ForwardedBody) -> PassedBody {
        PassedBody::Same(body)
    }
}

impl PassedBody {
    pub(super) fn rewritten(body: ForwardedBody, html: HtmlLinks, coding: Coding) -> PassedBody {
        PassedBody::Rewritten(Box::new(Rewriting {
            body,
            links: Links::Waiting(html, coding),
            unread: Bytes::new(),
            trailers: None,
            is_over: false,
        }))
    }

    /// The most bytes that it holds while nobody reads it.
    pub fn held(&self) -> usize {
        match self {
            PassedBody::Same(_) => HELD_BYTES_MAX,
            PassedBody::Rewritten(_) => HELD_BYTES_MAX + REWRITING_BYTES,
        }
    }
}

impl Stream for PassedBody {
    type Item = Result<Frame<Bytes>, String>;

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        match self.get_mut() {
            PassedBody::Same(body) => Pin::new(body).poll_next(context),
            PassedBody::Rewritten(rewriting) => rewriting.poll(context),
        }
    }
}

/// A body whose links are rewritten.
pub struct Rewriting {
    body: ForwardedBody,
    links: Links,
    /// Bytes of the body that have arrived.
    unread: Bytes,
    trailers: Option<Frame<Bytes>>,
    is_over: bool,
}

impl Rewriting {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let decompressed = self.links.decompressed();
        loop {
            if !self.unread.is_empty() {
                if self.links.decompressed() - decompressed > TURN_BYTES {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                let length = self.links.slice().min(self.unread.len());
                let slice = self.unread.split_to(length);
                match self.links.write(&slice) {
                    Ok(bytes) if bytes.is_empty() => continue,
                    written => return Poll::Ready(Some(framed(written))),
                }
            }
            if self.is_over {
                return Poll::Ready(self.trailers.take().map(Ok));
            }
            match ready!(Pin::new(&mut self.body).poll_next(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.unread = bytes,
                    Err(trailers) => {
                        self.trailers = Some(trailers);
                        return Poll::Ready(Some(self.finish()));
                    }
                },
                Some(Err(why)) => return Poll::Ready(Some(Err(why))),
                None => return Poll::Ready(Some(self.finish())),
            }
        }
    }

    fn finish(&mut self) -> Result<Frame<Bytes>, String> {
        self.is_over = true;
        framed(self.links.finish())
    }
}

fn framed(written: io::Result<Vec<u8>>) -> Result<Frame<Bytes>, String> {
    let bytes = written.map_err(|error| format!("a compressed page can't be read: {error}"))?;
    Ok(Frame::data(bytes.into()))
}

/// Decompresses a body, rewrites its links, and compresses it again.
enum Links {
    /// Nothing has come.
    Waiting(HtmlLinks, Coding),
    Plain(Sink),
    Gzip(MultiGzDecoder<Sink>),
    Deflate(Inflate, Sink),
    /// It is over, or broken.
    Over,
}

impl Links {
    /// The bytes to write at a time.
    fn slice(&self) -> usize {
        match self {
            Links::Waiting(_, Coding::Plain) | Links::Plain(_) => PLAIN_BYTES,
            _ => COMPRESSED_BYTES,
        }
    }

    /// The bytes that were decompressed so far.
    fn decompressed(&self) -> usize {
        match self {
            Links::Waiting(..) | Links::Over => 0,
            Links::Plain(sink) | Links::Deflate(_, sink) => sink.taken,
            Links::Gzip(decoder) => decoder.get_ref().taken,
        }
    }

    /// Takes bytes of the body, and returns those of the new one that are ready.
    fn write(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if let Links::Waiting(..) = self {
            *self = std::mem::replace(self, Links::Over).begun(bytes);
        }
        match self {
            Links::Waiting(..) | Links::Over => Ok(Vec::new()),
            Links::Plain(sink) => {
                sink.write_all(bytes)?;
                Ok(sink.ready())
            }
            Links::Gzip(decoder) => {
                decoder.write_all(bytes)?;
                Ok(decoder.get_mut().ready())
            }
            Links::Deflate(inflate, sink) => {
                inflate.write(bytes, sink)?;
                Ok(sink.ready())
            }
        }
    }

    fn begun(self, first: &[u8]) -> Links {
        let Links::Waiting(html, coding) = self else {
            return self;
        };
        // The first byte of zlib names the method and a window of at most 32 KiB.
        let has_frame = matches!(first, [head, ..] if head & 0x8f == 0x08);
        let (level, out) = (Compression::default(), Vec::new());
        let encoder = match coding {
            Coding::Plain => Encoder::Plain(out),
            Coding::Gzip => Encoder::Gzip(GzEncoder::new(out, level)),
            Coding::Deflate if has_frame => Encoder::Zlib(ZlibEncoder::new(out, level)),
            Coding::Deflate => Encoder::Deflate(DeflateEncoder::new(out, level)),
        };
        let sink = Sink {
            html,
            encoder,
            scratch: Vec::new(),
            taken: 0,
        };
        match coding {
            Coding::Plain => Links::Plain(sink),
            Coding::Gzip => Links::Gzip(MultiGzDecoder::new(sink)),
            Coding::Deflate => Links::Deflate(Inflate::new(has_frame), sink),
        }
    }

    /// Returns the last bytes.
    fn finish(&mut self) -> io::Result<Vec<u8>> {
        match std::mem::replace(self, Links::Over) {
            // An empty body stays empty.
            Links::Waiting(..) | Links::Over => Ok(Vec::new()),
            Links::Plain(sink) => sink.finish(),
            Links::Gzip(decoder) => decoder.finish()?.finish(),
            Links::Deflate(inflate, _) if !inflate.has_ended => {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Links::Deflate(_, sink) => sink.finish(),
        }
    }
}

/// Decompresses a body of the coding `deflate`, and sees whether it is whole.
struct Inflate {
    decompress: Decompress,
    has_ended: bool,
}

impl Inflate {
    fn new(has_frame: bool) -> Inflate {
        Inflate {
            decompress: Decompress::new(has_frame),
            has_ended: false,
        }
    }

    /// Writes what these bytes stand for. Bytes after the end are left out.
    fn write(&mut self, mut bytes: &[u8], sink: &mut Sink) -> io::Result<()> {
        let mut plain = [0; 4 << 10];
        while !self.has_ended {
            let before = (self.decompress.total_in(), self.decompress.total_out());
            let status = self
                .decompress
                .decompress(bytes, &mut plain, FlushDecompress::None)?;
            let taken = self.decompress.total_in() - before.0;
            let made = self.decompress.total_out() - before.1;
            let [taken, made] = [taken, made].map(|count| usize::try_from(count).unwrap_or(0));
            bytes = bytes.get(taken..).unwrap_or_default();
            sink.write_all(plain.get(..made).unwrap_or_default())?;
            self.has_ended = status == Status::StreamEnd;
            if made == 0 && bytes.is_empty() {
                break;
            }
            if made == 0 && taken == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(())
    }
}

/// Takes the bytes of a page, and has those of the new one.
struct Sink {
    html: HtmlLinks,
    encoder: Encoder,
    scratch: Vec<u8>,
    /// The bytes that it has taken.
    taken: usize,
}

impl Sink {
    /// Takes the bytes that are ready.
    fn ready(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.encoder {
            Encoder::Plain(out) => out,
            Encoder::Gzip(encoder) => encoder.get_mut(),
            Encoder::Deflate(encoder) => encoder.get_mut(),
            Encoder::Zlib(encoder) => encoder.get_mut(),
        })
    }

    fn finish(mut self) -> io::Result<Vec<u8>> {
        self.scratch.clear();
        self.html.finish(&mut self.scratch);
        self.encoder.write_all(&self.scratch)?;
        match self.encoder {
            Encoder::Plain(out) => Ok(out),
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Deflate(encoder) => encoder.finish(),
            Encoder::Zlib(encoder) => encoder.finish(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.taken += bytes.len();
        self.scratch.clear();
        self.html.push(bytes, &mut self.scratch);
        self.encoder.write_all(&self.scratch)?;
        if self.scratch.capacity() > SCRATCH_BYTES {
            self.scratch = Vec::new();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Encoder {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(DeflateEncoder<Vec<u8>>),
    Zlib(ZlibEncoder<Vec<u8>>),
}

impl Write for Encoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Encoder::Plain(out) => out.write(bytes),
            Encoder::Gzip(encoder) => encoder.write(bytes),
            Encoder::Deflate(encoder) => encoder.write(bytes),
            Encoder::Zlib(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::write::{DeflateDecoder, ZlibDecoder};

    use super::*;

    const PAGE: &[u8] = b"<a href=/x>a</a>";
    const REWRITTEN: &[u8] = b"<a href=\"/p/x\">a</a>";

    fn rewritten(coding: Coding, body: &[u8]) -> io::Result<Vec<u8>> {
        let replace = |link: &str| Some(format!("/p{link}"));
        let mut links = Links::Waiting(HtmlLinks::new(Box::new(replace)), coding);
        let mut out = Vec::new();
        for piece in body.chunks(3) {
            out.extend(links.write(piece)?);
        }
        out.extend(links.finish()?);
        Ok(out)
    }

    /// Cuts of a compressed page are no whole pages.
    fn assert_cuts_fail(coding: Coding, compressed: &[u8]) {
        for length in 1..compressed.len() {
            let cut = compressed.get(..length).unwrap();
            assert!(rewritten(coding, cut).is_err(), "{coding:?} {length}");
        }
    }

    #[test]
    fn compressed_pages_are_compressed_again_cn_74() {
        assert_eq!(rewritten(Coding::Plain, PAGE).unwrap(), REWRITTEN);
        let level = Compression::default();

        let mut encoder = GzEncoder::new(Vec::new(), level);
        encoder.write_all(PAGE).unwrap();
        let compressed = encoder.finish().unwrap();
        let mut plain = MultiGzDecoder::new(Vec::new());
        plain
            .write_all(&rewritten(Coding::Gzip, &compressed).unwrap())
            .unwrap();
        assert_eq!(plain.finish().unwrap(), REWRITTEN);
        assert_cuts_fail(Coding::Gzip, &compressed);

        let mut encoder = DeflateEncoder::new(Vec::new(), level);
        encoder.write_all(PAGE).unwrap();
        let compressed = encoder.finish().unwrap();
        assert_cuts_fail(Coding::Deflate, &compressed);
        let mut plain = DeflateDecoder::new(Vec::new());
        plain
            .write_all(&rewritten(Coding::Deflate, &compressed).unwrap())
            .unwrap();
        assert_eq!(plain.finish().unwrap(), REWRITTEN);

        let mut encoder = ZlibEncoder::new(Vec::new(), level);
        encoder.write_all(PAGE).unwrap();
        let compressed = encoder.finish().unwrap();
        assert_cuts_fail(Coding::Deflate, &compressed);
        let mut plain = ZlibDecoder::new(Vec::new());
        plain
            .write_all(&rewritten(Coding::Deflate, &compressed).unwrap())
            .unwrap();
        assert_eq!(plain.finish().unwrap(), REWRITTEN);

        assert!(rewritten(Coding::Gzip, PAGE).is_err());
        assert_eq!(rewritten(Coding::Gzip, b"").unwrap(), b"");
    }
}
