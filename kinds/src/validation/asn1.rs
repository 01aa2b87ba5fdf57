//! The ASN.1 structure of certificate requests (PKCS #10), parsed like Go's `encoding/asn1` with
//! its error messages. The contents of names and keys are not parsed, and signatures are not
//! verified.

/// Go's field parameters without any option, as its messages print them.
const PLAIN: &str = "{optional:false explicit:false application:false private:false \
    defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}";

const INTEGER: u8 = 2;
const BIT_STRING: u8 = 3;
const OBJECT_IDENTIFIER: u8 = 6;
const SEQUENCE: u8 = 16;

/// The limit of lengths.
const MAX_LENGTH: usize = 1 << 23;

type Read<T = ()> = Result<T, String>;

fn syntax<T>(what: &str) -> Read<T> {
    Err(format!("asn1: syntax error: {what}"))
}

fn structure<T>(what: &str) -> Read<T> {
    Err(format!("asn1: structure error: {what}"))
}

/// Checks that bytes are a certificate request.
///
/// # Errors
/// Returns Go's message if they are not.
pub fn check_request(der: &[u8]) -> Read {
    let mut whole = Reader { bytes: der, at: 0 };
    let mut request = whole.field(SEQUENCE, "certificateRequest")?;
    let mut asked = request.field(SEQUENCE, "tbsCertificateRequest")?;
    integer(asked.field(INTEGER, "int")?.bytes)?;
    asked.value()?;
    let mut key = asked.field(SEQUENCE, "publicKeyInfo")?;
    algorithm(&mut key)?;
    bits(key.field(BIT_STRING, "BitString")?.bytes)?;
    asked.value()?;
    algorithm(&mut request)?;
    bits(request.field(BIT_STRING, "BitString")?.bytes)?;
    match whole.is_at_end() {
        true => Ok(()),
        false => syntax("trailing data"),
    }
}

fn algorithm(reader: &mut Reader<'_>) -> Read {
    let mut algorithm = reader.field(SEQUENCE, "AlgorithmIdentifier")?;
    let identifier = algorithm.field(OBJECT_IDENTIFIER, "ObjectIdentifier")?;
    if identifier.bytes.is_empty() {
        return syntax("zero length OBJECT IDENTIFIER");
    }
    match algorithm.is_at_end() {
        true => Ok(()),
        false => algorithm.value().map(|_| ()),
    }
}

fn integer(bytes: &[u8]) -> Read {
    match bytes {
        [] => structure("empty integer"),
        [0, next, ..] if *next < 0x80 => structure("integer not minimally-encoded"),
        [0xff, next, ..] if *next >= 0x80 => structure("integer not minimally-encoded"),
        _ if bytes.len() > 8 => structure("integer too large"),
        _ => Ok(()),
    }
}

fn bits(bytes: &[u8]) -> Read {
    let padding = match bytes.split_first() {
        None => return syntax("zero length BIT STRING"),
        Some((padding, rest)) => (*padding, rest.last()),
    };
    let is_valid = match padding {
        (0, _) => true,
        (count @ 1..=7, Some(last)) => last & ((1 << count) - 1) == 0,
        _ => false,
    };
    match is_valid {
        true => Ok(()),
        false => syntax("invalid padding bits in BIT STRING"),
    }
}

struct Reader<'d> {
    bytes: &'d [u8],
    at: usize,
}

/// The header of a value.
struct Header {
    class: u8,
    tag: usize,
    length: usize,
    is_compound: bool,
}

impl<'d> Reader<'d> {
    fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn byte(&mut self) -> Read<u8> {
        let Some(byte) = self.bytes.get(self.at) else {
            return syntax("truncated tag or length");
        };
        self.at += 1;
        Ok(*byte)
    }

    fn header(&mut self) -> Read<Header> {
        if self.is_at_end() {
            return syntax("sequence truncated");
        }
        let first = self.byte()?;
        let mut tag = usize::from(first & 0x1f);
        if tag == 0x1f {
            tag = self.long_tag()?;
        }
        let mut length = 0;
        match self.byte()? {
            0x80 => return syntax("indefinite length found (not DER)"),
            short @ 0..=0x7f => length = usize::from(short),
            long => {
                for _ in 0..long & 0x7f {
                    let byte = self.byte()?;
                    if length >= MAX_LENGTH {
                        return structure("length too large");
                    }
                    length = length << 8 | usize::from(byte);
                    if length == 0 {
                        return structure("superfluous leading zeros in length");
                    }
                }
                if length < 0x80 {
                    return structure("non-minimal length");
                }
            }
        }
        Ok(Header {
            class: first >> 6,
            tag,
            length,
            is_compound: first & 0x20 != 0,
        })
    }

    fn long_tag(&mut self) -> Read<usize> {
        let mut tag = 0;
        for place in 0..4 {
            let Some(byte) = self.bytes.get(self.at).copied() else {
                return syntax("truncated base 128 integer");
            };
            self.at += 1;
            if place == 0 && byte == 0x80 {
                return syntax("integer is not minimally encoded");
            }
            tag = tag << 7 | usize::from(byte & 0x7f);
            if byte < 0x80 {
                return match tag < 0x1f {
                    true => syntax("non-minimal tag"),
                    false => Ok(tag),
                };
            }
        }
        structure("base 128 integer too large")
    }

    fn content(&mut self, length: usize) -> Read<Reader<'d>> {
        let content = self.bytes.get(self.at..);
        let Some(bytes) = content.and_then(|content| content.get(..length)) else {
            return syntax("data truncated");
        };
        self.at += length;
        Ok(Reader { bytes, at: 0 })
    }

    /// Reads a value of any type.
    fn value(&mut self) -> Read<Reader<'d>> {
        let header = self.header()?;
        self.content(header.length)
    }

    /// Reads a value that must have this type. `name` is the name of the type in Go.
    fn field(&mut self, wanted: u8, name: &str) -> Read<Reader<'d>> {
        let header = self.header()?;
        let Header {
            class,
            tag,
            length,
            is_compound,
        } = header;
        let is_sequence = wanted == SEQUENCE;
        if class != 0 || tag != usize::from(wanted) || is_compound != is_sequence {
            return structure(&format!(
                "tags don't match ({wanted} vs {{class:{class} tag:{tag} length:{length} \
                 isCompound:{is_compound}}}) {PLAIN} {name} @{}",
                self.at
            ));
        }
        self.content(length)
    }
}
