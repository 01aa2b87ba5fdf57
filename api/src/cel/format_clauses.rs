//! The clauses of format strings: `%s`, `%.2f`.

/// A formatting clause.
pub(super) struct Clause {
    /// The letter after the precision.
    pub letter: u8,
    /// The number of decimals.
    pub precision: Option<usize>,
    /// The position after it.
    pub end: usize,
}

/// Parses the clause after a `%`.
pub(super) fn clause(bytes: &[u8], from: usize) -> Result<Clause, String> {
    let mut at = from;
    let mut precision = None;
    if bytes.get(at) == Some(&b'.') {
        at += 1;
        let rest = bytes.get(at..).unwrap_or_default();
        let digits: String = rest
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .map(|byte| char::from(*byte))
            .collect();
        at += digits.len();
        let wrong = |what: &str| format!("error while parsing precision: {what}");
        if at >= bytes.len() {
            return Err(wrong("could not find end of precision specifier"));
        }
        let Ok(parsed) = digits.parse::<i64>() else {
            let why = match digits.is_empty() {
                true => "invalid syntax",
                false => "value out of range",
            };
            return Err(wrong(&format!(
                "error while converting precision to integer: strconv.Atoi: parsing \
                 \"{digits}\": {why}"
            )));
        };
        precision = usize::try_from(parsed).ok();
    }
    let letter = bytes.get(at).copied().unwrap_or_default();
    match requirement(letter).is_empty() {
        true => Err(format!(
            "unrecognized formatting clause \"{}\"",
            char::from(letter)
        )),
        false => Ok(Clause {
            letter,
            precision,
            end: at + 1,
        }),
    }
}

/// Returns the requirement of a clause, as errors name it. Empty for an unknown clause.
pub(super) fn requirement(clause: u8) -> &'static str {
    match clause {
        b's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, \
             types, durations, and timestamps"
        }
        b'd' => "decimal clause can only be used on integers",
        b'f' => "fixed-point clause can only be used on doubles",
        b'e' => "scientific clause can only be used on doubles",
        b'b' => "only integers and bools can be formatted as binary",
        b'x' | b'X' => "only integers, byte buffers, and strings can be formatted as hex",
        b'o' => "octal clause can only be used on integers",
        _ => "",
    }
}
