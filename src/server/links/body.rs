//! The bodies of answers that are passed on, as they are or with other links.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{
    DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder, ZlibDecoder, ZlibEncoder,
};
use futures_util::Stream;
use http_body::Frame;

use super::html::HtmlLinks;
use crate::egress::{ForwardedBody, HELD_BYTES_MAX};

/// The most bytes that the rewriting of a body holds: a tag, and the windows of packing.
const REWRITING_BYTES: usize = 512 << 10;

/// The bytes that are rewritten at a time. Links grow, and packed bytes may stand for a thousand
/// times as many.
const PLAIN_BYTES: usize = 8 << 10;
const PACKED_BYTES: usize = 64;

/// The bytes that a poll unpacks before it lets others go on.
const TURN_BYTES: usize = 64 << 10;

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
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
    pub(super) fn rewritten(body: ForwardedBody, html: HtmlLinks, packing: Packing) -> PassedBody {
        PassedBody::Rewritten(Box::new(Rewriting {
            body,
            links: Links::Waiting(html, packing),
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
        let unpacked = self.links.unpacked();
        loop {
            if !self.unread.is_empty() {
                if self.links.unpacked() - unpacked > TURN_BYTES {
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
    let bytes = written.map_err(|error| format!("a packed page can't be read: {error}"))?;
    Ok(Frame::data(bytes.into()))
}

/// Unpacks a body, rewrites its links, and packs it again.
enum Links {
    /// Nothing has come.
    Waiting(HtmlLinks, Packing),
    Plain(Sink),
    Gzip(MultiGzDecoder<Sink>),
    Deflate(DeflateDecoder<Sink>),
    Zlib(ZlibDecoder<Sink>),
    /// It is over, or broken.
    Over,
}

impl Links {
    /// The bytes to write at a time.
    fn slice(&self) -> usize {
        match self {
            Links::Waiting(_, Packing::Plain) | Links::Plain(_) => PLAIN_BYTES,
            _ => PACKED_BYTES,
        }
    }

    /// The bytes that were unpacked so far.
    fn unpacked(&self) -> usize {
        match self {
            Links::Waiting(..) | Links::Over => 0,
            Links::Plain(sink) => sink.taken,
            Links::Gzip(decoder) => decoder.get_ref().taken,
            Links::Deflate(decoder) => decoder.get_ref().taken,
            Links::Zlib(decoder) => decoder.get_ref().taken,
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
            Links::Deflate(decoder) => {
                decoder.write_all(bytes)?;
                Ok(decoder.get_mut().ready())
            }
            Links::Zlib(decoder) => {
                decoder.write_all(bytes)?;
                Ok(decoder.get_mut().ready())
            }
        }
    }

    fn begun(self, first: &[u8]) -> Links {
        let Links::Waiting(html, packing) = self else {
            return self;
        };
        // The first byte of zlib names the method and a window of at most 32 KiB.
        let has_frame = matches!(first, [head, ..] if head & 0x8f == 0x08);
        let (level, out) = (Compression::default(), Vec::new());
        let sink = |packer| Sink {
            html,
            packer,
            scratch: Vec::new(),
            taken: 0,
        };
        match packing {
            Packing::Plain => Links::Plain(sink(Packer::Plain(out))),
            Packing::Gzip => {
                let packer = Packer::Gzip(GzEncoder::new(out, level));
                Links::Gzip(MultiGzDecoder::new(sink(packer)))
            }
            Packing::Deflate if has_frame => {
                let packer = Packer::Zlib(ZlibEncoder::new(out, level));
                Links::Zlib(ZlibDecoder::new(sink(packer)))
            }
            Packing::Deflate => {
                let packer = Packer::Deflate(DeflateEncoder::new(out, level));
                Links::Deflate(DeflateDecoder::new(sink(packer)))
            }
        }
    }

    /// Returns the last bytes.
    fn finish(&mut self) -> io::Result<Vec<u8>> {
        match std::mem::replace(self, Links::Over) {
            // An empty body stays empty.
            Links::Waiting(..) | Links::Over => Ok(Vec::new()),
            Links::Plain(sink) => sink.finish(),
            Links::Gzip(decoder) => decoder.finish()?.finish(),
            Links::Deflate(decoder) => decoder.finish()?.finish(),
            Links::Zlib(decoder) => decoder.finish()?.finish(),
        }
    }
}

/// Takes the bytes of a page, and has those of the new one.
struct Sink {
    html: HtmlLinks,
    packer: Packer,
    scratch: Vec<u8>,
    /// The bytes that it has taken.
    taken: usize,
}

impl Sink {
    /// Takes the bytes that are ready.
    fn ready(&mut self) -> Vec<u8> {
        std::mem::take(match &mut self.packer {
            Packer::Plain(out) => out,
            Packer::Gzip(packer) => packer.get_mut(),
            Packer::Deflate(packer) => packer.get_mut(),
            Packer::Zlib(packer) => packer.get_mut(),
        })
    }

    fn finish(mut self) -> io::Result<Vec<u8>> {
        self.scratch.clear();
        self.html.finish(&mut self.scratch);
        self.packer.write_all(&self.scratch)?;
        match self.packer {
            Packer::Plain(out) => Ok(out),
            Packer::Gzip(packer) => packer.finish(),
            Packer::Deflate(packer) => packer.finish(),
            Packer::Zlib(packer) => packer.finish(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.taken += bytes.len();
        self.scratch.clear();
        self.html.push(bytes, &mut self.scratch);
        self.packer.write_all(&self.scratch)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Packer {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(DeflateEncoder<Vec<u8>>),
    Zlib(ZlibEncoder<Vec<u8>>),
}

impl Write for Packer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packer::Plain(out) => out.write(bytes),
            Packer::Gzip(packer) => packer.write(bytes),
            Packer::Deflate(packer) => packer.write(bytes),
            Packer::Zlib(packer) => packer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &[u8] = b"<a href=/x>a</a>";
    const REWRITTEN: &[u8] = b"<a href=\"/p/x\">a</a>";

    fn rewritten(packing: Packing, body: &[u8]) -> io::Result<Vec<u8>> {
        let replace = |link: &str| Some(format!("/p{link}"));
        let mut links = Links::Waiting(HtmlLinks::new(Box::new(replace)), packing);
        let mut out = Vec::new();
        for piece in body.chunks(3) {
            out.extend(links.write(piece)?);
        }
        out.extend(links.finish()?);
        Ok(out)
    }

    #[test]
    fn packed_pages_are_packed_again_cn_74() {
        assert_eq!(rewritten(Packing::Plain, PAGE).unwrap(), REWRITTEN);
        let level = Compression::default();

        let mut packer = GzEncoder::new(Vec::new(), level);
        packer.write_all(PAGE).unwrap();
        let packed = packer.finish().unwrap();
        let mut plain = MultiGzDecoder::new(Vec::new());
        plain
            .write_all(&rewritten(Packing::Gzip, &packed).unwrap())
            .unwrap();
        assert_eq!(plain.finish().unwrap(), REWRITTEN);
        for length in 1..packed.len() {
            let cut = packed.get(..length).unwrap();
            assert!(rewritten(Packing::Gzip, cut).is_err(), "{length}");
        }

        let mut packer = DeflateEncoder::new(Vec::new(), level);
        packer.write_all(PAGE).unwrap();
        let packed = packer.finish().unwrap();
        let mut plain = DeflateDecoder::new(Vec::new());
        plain
            .write_all(&rewritten(Packing::Deflate, &packed).unwrap())
            .unwrap();
        assert_eq!(plain.finish().unwrap(), REWRITTEN);

        let mut packer = ZlibEncoder::new(Vec::new(), level);
        packer.write_all(PAGE).unwrap();
        let packed = packer.finish().unwrap();
        let mut plain = ZlibDecoder::new(Vec::new());
        plain
            .write_all(&rewritten(Packing::Deflate, &packed).unwrap())
            .unwrap();
        assert_eq!(plain.finish().unwrap(), REWRITTEN);

        assert!(rewritten(Packing::Gzip, PAGE).is_err());
        assert_eq!(rewritten(Packing::Gzip, b"").unwrap(), b"");
    }
}
