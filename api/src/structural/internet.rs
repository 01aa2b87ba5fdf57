//! The formats of addresses on networks, as Go's packages `net`, `net/url` and `net/mail` read
//! them.

use std::net::Ipv6Addr;

/// Returns whether a text is four decimal numbers. As in Go before 1.17, they may begin with zeros.
fn is_dotted(text: &str) -> bool {
    let is_byte = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let digits = part.trim_start_matches('0');
        is_number && (digits.is_empty() || digits.parse::<u8>().is_ok())
    };
    text.split('.').count() == 4 && text.split('.').all(is_byte)
}

/// Returns whether a text is an IPv4 address, or an IPv6 address that ends with one.
pub(super) fn is_ipv4(text: &str) -> bool {
    is_dotted(text) || text.contains('.') && is_ipv6(text)
}

/// Returns whether a text is an IPv6 address.
pub(super) fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

/// Returns whether a text is an address with the length of a prefix.
pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let digits = length.trim_start_matches('0');
    let length = if digits.is_empty() {
        Some(0)
    } else {
        digits.parse::<u8>().ok()
    };
    let Some(length) = length.filter(|_| is_number) else {
        return false;
    };
    is_dotted(address) && length <= 32 || is_ipv6(address) && length <= 128
}

/// Returns whether a text is a hardware address of 6, 8 or 20 bytes.
pub(super) fn is_mac(text: &str) -> bool {
    let has_parts = |separator: char, digits: usize, counts: [usize; 3]| {
        let is_part =
            |part: &str| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        counts.contains(&text.split(separator).count()) && text.split(separator).all(is_part)
    };
    has_parts(':', 2, [6, 8, 20]) || has_parts('-', 2, [6, 8, 20]) || has_parts('.', 4, [3, 4, 10])
}

/// Returns whether a text is an absolute URI, or an absolute path.
pub(super) fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((has_scheme, rest)) = after_scheme(text) else {
        return false;
    };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        return has_scheme;
    }
    let path = match rest.strip_prefix("//").filter(|_| has_scheme) {
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if !is_authority(authority) {
                return false;
            }
            path
        }
        None => rest,
    };
    has_valid_escapes(path)
}

/// Returns whether a URI has a scheme, and the text after it. `None` if the scheme is empty.
fn after_scheme(text: &str) -> Option<(bool, &str)> {
    for (at, letter) in text.char_indices() {
        match letter {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return text.get(at + 1..).map(|rest| (true, rest)),
            _ => return Some((false, text)),
        }
    }
    Some((false, text))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = match text.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", text),
    };
    let is_of_user =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    user.bytes().all(is_of_user) && has_valid_escapes(user) && is_host(host)
}

fn is_host(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.rsplit_once(']') else {
            return false;
        };
        return is_port(port) && address.bytes().all(is_of_host);
    }
    let port = text.rfind(':').and_then(|at| text.get(at..));
    port.is_none_or(is_port) && text.bytes().all(is_of_host) && !text.contains('%')
}

/// Returns whether a byte may be part of a host without an escape.
fn is_of_host(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte)
}

fn is_port(text: &str) -> bool {
    let digits = text.strip_prefix(':');
    text.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn has_valid_escapes(text: &str) -> bool {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let mut parts = text.as_bytes().split(|byte| *byte == b'%');
    parts.next();
    parts.all(|part| is_hex(part.first()) && is_hex(part.get(1)))
}

/// Returns whether a text is an address of mail, with or without a name before it. Comments are not
/// read.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    let Some(inside) = text.strip_suffix('>') else {
        return is_mailbox(text);
    };
    let Some((name, address)) = inside.rsplit_once('<') else {
        return false;
    };
    is_phrase(name) && is_mailbox(address)
}

/// Returns whether a text is a name before an address: words, and quoted texts.
fn is_phrase(text: &str) -> bool {
    let is_quoted = |text: &str| text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    let text = text.trim();
    let mut words = text.split([' ', '\t']).filter(|word| !word.is_empty());
    is_quoted(text) || words.all(|word| word.chars().all(|c| is_atom(c) || c == '.'))
}

fn is_mailbox(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let inside = local
        .strip_prefix('"')
        .and_then(|local| local.strip_suffix('"'));
    let is_local = match inside {
        // linear: there are four such letters.
        Some(inside) => !inside.contains(['"', '\\', '\r', '\n']),
        None => is_dot_atom(local),
    };
    let literal = domain
        .strip_prefix('[')
        .and_then(|domain| domain.strip_suffix(']'));
    let is_domain = match literal {
        Some(literal) => is_dotted(literal) || is_ipv6(literal.trim_start_matches("IPv6:")),
        None => is_dot_atom(domain),
    };
    is_local && is_domain
}

fn is_dot_atom(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(is_atom);
    text.split('.').all(is_part)
}

fn is_atom(letter: char) -> bool {
    const OTHERS: &str = "!#$%&'*+-/=?^_`{|}~";
    // linear: there are 19 other letters.
    !letter.is_ascii() || letter.is_ascii_alphanumeric() || OTHERS.contains(letter)
}
