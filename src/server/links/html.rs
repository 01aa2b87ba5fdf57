//! Finds the links of an HTML document as it arrives, and replaces them. Pure.
//!
//! Everything but replaced attributes stays as it is, so a document of another kind passes
//! unchanged. Only the tag that arrives is held. Libraries that rewrite HTML bring a selector
//! engine or a whole parser, and only two things are needed here: where tags begin, and where their
//! attributes do.

use std::ops::Range;

/// The most bytes of a tag whose links are replaced. A longer one passes as it is.
const TAG_BYTES_MAX: usize = 64 << 10;

/// The most attributes of such a tag.
const ATTRIBUTES_MAX: usize = 256;

/// Replaces a link, which is written as in HTML. `None` leaves it.
pub type Replace = Box<dyn Fn(&str) -> Option<String>>;

/// A document that arrives.
pub struct HtmlLinks {
    replace: Replace,
    state: State,
    /// The bytes of the tag that arrives.
    tag: Vec<u8>,
    /// The attributes of this tag.
    attributes: Vec<Attribute>,
    /// The names of those that are links.
    links: &'static [&'static str],
    /// Whether the tag is too long to be held, so its bytes are passed on at once.
    is_overlong: bool,
    is_end_tag: bool,
    /// The end tag of an element whose content is text, such as `</script`.
    text_end: &'static [u8],
}

/// The place of an attribute in its tag.
struct Attribute {
    name: Range<usize>,
    value: Range<usize>,
    quote: Option<u8>,
}

#[derive(Clone, Copy)]
enum State {
    Text,
    /// After `<`.
    Open,
    /// After `</`.
    OpenEnd,
    /// After `<!`.
    Markup,
    /// After `<!-`.
    MarkupDash,
    /// In a comment, after this many dashes.
    Comment(u8),
    /// In a comment, after `--!`.
    CommentBang,
    /// In something that ends with the next `>`.
    Bogus,
    TagName,
    /// Between attributes.
    Between,
    /// In the name of an attribute that begins here.
    Name(usize),
    /// After the name of an attribute.
    AfterName,
    /// After the `=` of an attribute.
    BeforeValue,
    /// In a value that begins here, until this quote.
    Quoted(usize, u8),
    /// In a value that begins here, without quotes.
    Unquoted(usize),
    /// In the text of an element, after this many bytes of its end tag.
    TextOnly(usize),
}

impl HtmlLinks {
    /// A document that begins.
    pub fn new(replace: Replace) -> HtmlLinks {
        HtmlLinks {
            replace,
            state: State::Text,
            tag: Vec::new(),
            attributes: Vec::new(),
            links: &[],
            is_overlong: false,
            is_end_tag: false,
            text_end: b"",
        }
    }

    /// Takes bytes of the document, and appends what is known of the result.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while let [byte, rest @ ..] = bytes {
            if matches!(self.state, State::Text) {
                let end = memchr::memchr(b'<', bytes).unwrap_or(bytes.len());
                let (text, rest) = bytes.split_at(end);
                out.extend_from_slice(text);
                bytes = rest.get(1..).unwrap_or_default();
                if !rest.is_empty() {
                    self.tag.push(b'<');
                    self.state = State::Open;
                }
                continue;
            }
            if self.step(*byte, out) {
                bytes = rest;
            }
        }
    }

    /// Appends what was held, at the end of the document.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.tag);
    }

    /// Takes a byte in a state other than text. Returns false if the byte belongs to the next
    /// state.
    fn step(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        match self.state {
            State::Text => false,
            State::TextOnly(matched) => self.text_only(byte, matched, out),
            State::Open | State::OpenEnd | State::Markup | State::MarkupDash => {
                self.opened(byte, out)
            }
            State::Comment(_) | State::CommentBang | State::Bogus => {
                out.push(byte);
                self.state = commented(self.state, byte);
                true
            }
            _ => {
                let place = self.tag.len();
                match self.is_overlong {
                    true => out.push(byte),
                    false => self.tag.push(byte),
                }
                match self.in_tag(byte, place) {
                    Some(state) => self.state = state,
                    None => self.end_tag(out),
                }
                if self.tag.len() > TAG_BYTES_MAX || self.attributes.len() > ATTRIBUTES_MAX {
                    self.is_overlong = true;
                    self.attributes.clear();
                    out.append(&mut self.tag);
                }
                true
            }
        }
    }

    /// The first bytes after `<`.
    fn opened(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        let next = match (self.state, byte) {
            (State::Open, b'/') => State::OpenEnd,
            (State::Open, b'!') => State::Markup,
            (State::Open, b'?') => State::Bogus,
            (State::Open | State::OpenEnd, byte) if byte.is_ascii_alphabetic() => {
                self.is_end_tag = matches!(self.state, State::OpenEnd);
                State::TagName
            }
            (State::Markup, b'-') => State::MarkupDash,
            // The dashes of the beginning count for the end, too: `<!-->` is a comment.
            (State::MarkupDash, b'-') => State::Comment(2),
            (State::Open, _) => {
                out.append(&mut self.tag);
                self.state = State::Text;
                return false;
            }
            (_, b'>') => State::Text,
            _ => State::Bogus,
        };
        self.tag.push(byte);
        self.state = next;
        if !matches!(
            next,
            State::OpenEnd | State::Markup | State::MarkupDash | State::TagName
        ) {
            out.append(&mut self.tag);
        }
        true
    }

    /// A byte of a tag, at this place. Returns the next state, `None` at the end of the tag.
    fn in_tag(&mut self, byte: u8, place: usize) -> Option<State> {
        let is_space = byte.is_ascii_whitespace();
        let next = match (self.state, byte) {
            (State::Quoted(start, quote), byte) => {
                if byte != quote {
                    return Some(self.state);
                }
                self.value(start..place, Some(quote));
                State::Between
            }
            (State::BeforeValue, quote @ (b'"' | b'\'')) => State::Quoted(place + 1, quote),
            (State::BeforeValue, _) if is_space => State::BeforeValue,
            (State::BeforeValue, byte) if byte != b'>' => State::Unquoted(place),
            (State::Unquoted(start), byte) if is_space || byte == b'>' => {
                self.value(start..place, None);
                State::Between
            }
            (State::Unquoted(_), _) => self.state,
            (State::TagName, byte) if is_space || matches!(byte, b'/' | b'>') => {
                self.named(place);
                State::Between
            }
            (State::TagName, _) => State::TagName,
            (State::Name(start), byte) if is_space || matches!(byte, b'/' | b'>' | b'=') => {
                self.name(start..place);
                match byte {
                    b'=' => State::BeforeValue,
                    b'/' => State::Between,
                    _ => State::AfterName,
                }
            }
            (State::AfterName, b'=') => State::BeforeValue,
            (State::AfterName, _) if is_space => State::AfterName,
            (State::Name(_), _) => self.state,
            (_, b'/' | b'>') => State::Between,
            (_, _) if is_space => State::Between,
            _ => State::Name(place),
        };
        (byte != b'>').then_some(next)
    }

    /// Takes the name of the tag, which ends here.
    fn named(&mut self, end: usize) {
        let name = self.tag.get(1..end).unwrap_or_default();
        let name = name.to_ascii_lowercase();
        (self.links, self.text_end) = match self.is_end_tag {
            true => (&[][..], &b""[..]),
            false => (links_of(&name), end_of_text(&name)),
        };
    }

    fn name(&mut self, name: Range<usize>) {
        if !self.is_overlong && !self.links.is_empty() {
            self.attributes.push(Attribute {
                name,
                value: 0..0,
                quote: None,
            });
        }
    }

    fn value(&mut self, value: Range<usize>, quote: Option<u8>) {
        if let Some(attribute) = self.attributes.last_mut() {
            (attribute.value, attribute.quote) = (value, quote);
        }
    }

    /// Appends a tag that has ended.
    fn end_tag(&mut self, out: &mut Vec<u8>) {
        self.state = match self.text_end.is_empty() {
            true => State::Text,
            false => State::TextOnly(0),
        };
        self.append_tag(out);
        self.tag.clear();
        self.attributes.clear();
        self.is_overlong = false;
    }

    fn append_tag(&self, out: &mut Vec<u8>) {
        let part = |range: &Range<usize>| self.tag.get(range.clone()).unwrap_or_default();
        let replaced = |attribute: &Attribute| {
            let name = part(&attribute.name);
            let is_named = |link: &&str| name.eq_ignore_ascii_case(link.as_bytes());
            // linear: an element has a few links.
            let is_link = self.links.iter().any(is_named);
            let value = std::str::from_utf8(part(&attribute.value)).ok()?;
            is_link.then(|| (self.replace)(value)).flatten()
        };
        let replaced: Vec<Option<String>> = self.attributes.iter().map(replaced).collect();
        if !replaced.iter().any(Option::is_some) {
            out.extend_from_slice(&self.tag);
            return;
        }
        let mut done = 0;
        for (attribute, replaced) in self.attributes.iter().zip(replaced) {
            let Attribute { value, quote, .. } = attribute;
            let is_bare = quote.is_none() && !value.is_empty() && !part(value).contains(&b'"');
            let quotes = usize::from(quote.is_some());
            let (before, after) = (value.start.saturating_sub(quotes), value.end + quotes);
            let value = match &replaced {
                Some(replaced) => replaced.as_bytes(),
                None if is_bare => part(value),
                None => continue,
            };
            out.extend_from_slice(part(&(done..before)));
            out.push(b'"');
            out.extend_from_slice(value);
            out.push(b'"');
            done = after;
        }
        out.extend_from_slice(part(&(done..self.tag.len())));
    }

    /// The text of an element, which ends with its end tag. A script in a comment of a script may
    /// end earlier than for a browser; then more links are replaced, and nothing else changes.
    fn text_only(&mut self, byte: u8, matched: usize, out: &mut Vec<u8>) -> bool {
        if matched == self.text_end.len() {
            if byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>') {
                self.state = State::Bogus;
                return false;
            }
            self.state = State::TextOnly(0);
            return false;
        }
        out.push(byte);
        let expected = self.text_end.get(matched);
        self.state = State::TextOnly(match byte {
            byte if Some(&byte.to_ascii_lowercase()) == expected => matched + 1,
            b'<' => 1,
            _ => 0,
        });
        true
    }
}

fn commented(state: State, byte: u8) -> State {
    match (state, byte) {
        (State::Bogus | State::CommentBang, b'>') => State::Text,
        (State::Bogus, _) => State::Bogus,
        (State::Comment(2..), b'>') => State::Text,
        (State::Comment(2..), b'!') => State::CommentBang,
        (State::Comment(dashes), b'-') => State::Comment(dashes.saturating_add(1)),
        (_, b'-') => State::Comment(1),
        _ => State::Comment(0),
    }
}

/// Returns the end tag of an element whose content is text, without its `>`. Nothing ends
/// `plaintext`.
fn end_of_text(name: &[u8]) -> &'static [u8] {
    match name {
        b"iframe" => b"</iframe",
        b"noembed" => b"</noembed",
        b"noframes" => b"</noframes",
        // A capital letter ends nothing.
        b"plaintext" => b"<P",
        b"script" => b"</script",
        b"style" => b"</style",
        b"textarea" => b"</textarea",
        b"title" => b"</title",
        b"xmp" => b"</xmp",
        _ => b"",
    }
}

/// Returns the attributes of an element that are links (CN-74).
fn links_of(name: &[u8]) -> &'static [&'static str] {
    match name {
        b"a" | b"area" | b"base" | b"link" => &["href"],
        b"applet" => &["codebase"],
        b"audio" | b"embed" | b"script" | b"source" => &["src"],
        b"blockquote" | b"del" | b"ins" | b"q" => &["cite"],
        b"body" => &["background"],
        b"button" => &["formaction"],
        b"command" => &["icon"],
        b"form" => &["action"],
        b"frame" | b"iframe" => &["longdesc", "src"],
        b"head" => &["profile"],
        b"html" => &["manifest"],
        b"img" => &["longdesc", "src", "usemap"],
        b"input" => &["formaction", "src", "usemap"],
        b"object" => &["classid", "codebase", "data", "usemap"],
        b"video" => &["poster", "src"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document with `/p` before each path, in pieces of this size.
    fn rewritten(document: &str, piece: usize) -> String {
        let replace = |link: &str| link.starts_with('/').then(|| format!("/p{link}"));
        let mut html = HtmlLinks::new(Box::new(replace));
        let mut out = Vec::new();
        for piece in document.as_bytes().chunks(piece) {
            html.push(piece, &mut out);
        }
        html.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn links_of_elements_are_replaced_cn_74() {
        for (document, expected) in [
            ("<a href=/x>y</a>", "<a href=\"/p/x\">y</a>"),
            ("<A HREF='/x'\n id=i>", "<A HREF=\"/p/x\"\n id=\"i\">"),
            ("<a id='i' href = \"/x\" b>", "<a id='i' href = \"/p/x\" b>"),
            ("<img alt=\"/a\" src=/i/>", "<img alt=\"/a\" src=\"/p/i/\">"),
            ("<a href=\"/a>b\">", "<a href=\"/p/a>b\">"),
            ("<a title=it's href=/x>", "<a title=\"it's\" href=\"/p/x\">"),
            ("<a/href=/x>", "<a/href=\"/p/x\">"),
            ("<a href=/x href=/y>", "<a href=\"/p/x\" href=\"/p/y\">"),
            ("<a b c=\"\" href=\"/x\"/>", "<a b c=\"\" href=\"/p/x\"/>"),
            (
                "<title><a href=/x></title ><a href=/x>",
                "<title><a href=/x></title ><a href=\"/p/x\">",
            ),
            (
                "<script>'</scripts <a href=/x></SCRIPT><a href=/x>",
                "<script>'</scripts <a href=/x></SCRIPT><a href=\"/p/x\">",
            ),
            ("<!--><a href=/x>", "<!--><a href=\"/p/x\">"),
            ("<!-- - --!><a href=/x>", "<!-- - --!><a href=\"/p/x\">"),
            ("<!doctype a><a href=/x>", "<!doctype a><a href=\"/p/x\">"),
            ("<?a?><a href=/x>", "<?a?><a href=\"/p/x\">"),
            ("</><a href=/x>", "</><a href=\"/p/x\">"),
            ("a << b <3 <a href=/x>", "a << b <3 <a href=\"/p/x\">"),
        ] {
            for piece in [1, 2, 7, document.len()] {
                assert_eq!(rewritten(document, piece), expected, "{document}, {piece}");
            }
        }
    }

    #[test]
    fn everything_else_stays_cn_74() {
        for document in [
            "",
            "text",
            "<",
            "<a",
            "<a href=/x",
            "<a href=\"/x>",
            "<a href>",
            "<a href=>",
            "<a href=x>",
            "<p href=/x src=/y>",
            "<!-- <a href=/x> -->",
            "<!-- - -><a href=/x>",
            "<!- <a href='/x'",
            "<style>a { background: url(/x) } <a href=/x>",
            "<plaintext></plaintext><a href=/x></plaintext><a href=/x>",
            "</a href=/x>",
            "<img srcset=\"/set 2x\">",
            "\u{0}<\u{0}a\u{0} href=/x>",
        ] {
            for piece in [1, 3, document.len().max(1)] {
                assert_eq!(rewritten(document, piece), document, "{piece}");
            }
        }
    }

    #[test]
    fn a_tag_that_is_too_long_passes_and_is_not_held() {
        let long = format!("<a b=\"{}\" href=/x><a href=/y>", "c".repeat(TAG_BYTES_MAX));
        let expected = long.replace("/y", "\"/p/y\"");
        assert_eq!(rewritten(&long, 1000), expected);
        assert_eq!(rewritten(&long, long.len()), expected);
        let many = format!("<a{} href=/x><a href=/y>", " b".repeat(ATTRIBUTES_MAX));
        assert_eq!(rewritten(&many, 1000), many.replace("/y", "\"/p/y\""));
        // The text of such an element stays text.
        let script = format!(
            "<script b=\"{}\"><a href=/x></script>",
            "c".repeat(TAG_BYTES_MAX)
        );
        assert_eq!(rewritten(&script, 1000), script);
    }
}
