//! Functions of texts.

use super::super::values::value::{Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;

/// Returns the result of a function of texts.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    let [Value::String(text), rest @ ..] = arguments else {
        return no_overload();
    };
    let text: &str = text;
    match (name, rest) {
        ("contains", [Value::String(part)]) => {
            let found = memchr::memmem::find(text.as_bytes(), part.as_bytes());
            Ok(Value::Bool(found.is_some()))
        }
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("lowerAscii", []) => made(text.to_ascii_lowercase(), work),
        ("upperAscii", []) => made(text.to_ascii_uppercase(), work),
        ("trim", []) => made(text.trim().to_owned(), work),
        ("strings.quote", []) => quote(text, work),
        ("jsonpatch.escapeKey", []) => made(text.replace('~', "~0").replace('/', "~1"), work),
        ("charAt", [Value::Int(at)]) => char_at(text, *at),
        ("substring", [Value::Int(start)]) => substring(text, *start, None),
        ("substring", [Value::Int(start), Value::Int(end)]) => substring(text, *start, Some(*end)),
        ("replace", [Value::String(old), Value::String(new)]) => replace(text, old, new, -1, work),
        ("replace", [Value::String(old), Value::String(new), Value::Int(most)]) => {
            replace(text, old, new, *most, work)
        }
        ("split", [Value::String(separator)]) => split(text, separator, -1, work),
        ("split", [Value::String(separator), Value::Int(most)]) => {
            split(text, separator, *most, work)
        }
        ("indexOf", [Value::String(part)]) => index_of(text, part, 0),
        ("indexOf", [Value::String(part), Value::Int(from)]) => index_of(text, part, *from),
        ("lastIndexOf", [Value::String(part)]) => last_index_of(text, part, None),
        ("lastIndexOf", [Value::String(part), Value::Int(until)]) => {
            last_index_of(text, part, Some(*until))
        }
        _ => no_overload(),
    }
}

fn made<'v>(text: String, work: &Work) -> Outcome<Value<'v>> {
    work.make_bytes(text.len())?;
    Ok(Value::text(text))
}

/// Returns the byte at which a character begins, or the end for the number of characters.
fn byte_of(text: &str, at: i64) -> Option<usize> {
    let at = usize::try_from(at).ok()?;
    let mut places = text.char_indices().map(|(byte, _)| byte);
    match places.nth(at) {
        Some(byte) => Some(byte),
        None => (text.chars().count() == at).then_some(text.len()),
    }
}

fn out_of_range<T>(at: i64) -> Outcome<T> {
    error(format!("index out of range: {at}"))
}

fn char_at<'v>(text: &str, at: i64) -> Outcome<Value<'v>> {
    let Some(byte) = byte_of(text, at) else {
        return out_of_range(at);
    };
    let rest = text.get(byte..).unwrap_or_default();
    let letter: String = rest.chars().take(1).collect();
    Ok(Value::text(letter))
}

fn substring<'v>(text: &str, start: i64, end: Option<i64>) -> Outcome<Value<'v>> {
    if let Some(end) = end.filter(|end| start > *end) {
        return error(format!(
            "invalid substring range. start: {start}, end: {end}"
        ));
    }
    let Some(from) = byte_of(text, start) else {
        return out_of_range(start);
    };
    let until = match end {
        None => text.len(),
        Some(end) => match byte_of(text, end) {
            Some(byte) => byte,
            None => return out_of_range(end),
        },
    };
    Ok(Value::text(
        text.get(from..until).unwrap_or_default().to_owned(),
    ))
}

fn index_of<'v>(text: &str, part: &str, from: i64) -> Outcome<Value<'v>> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if from < 0 {
        return out_of_range(from);
    }
    let found = byte_of(text, from).and_then(|start| {
        let rest = text.get(start..)?;
        let at = memchr::memmem::find(rest.as_bytes(), part.as_bytes())?;
        let before = rest.get(..at)?.chars().count();
        i64::try_from(before).ok()?.checked_add(from)
    });
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn last_index_of<'v>(text: &str, part: &str, until: Option<i64>) -> Outcome<Value<'v>> {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if part.is_empty() {
        return Ok(Value::Int(until.unwrap_or_else(length)));
    }
    let haystack = match until {
        None => text,
        Some(until) if until < 0 => return out_of_range(until),
        Some(until) if until >= length() => return Ok(Value::Int(-1)),
        Some(until) => {
            // The last possible match begins at this character.
            let end = byte_of(text, until).unwrap_or(text.len());
            let end = (end + part.len()).min(text.len());
            text.get(..end).unwrap_or(text)
        }
    };
    let found = memchr::memmem::rfind(haystack.as_bytes(), part.as_bytes());
    let before = found
        .and_then(|at| haystack.get(..at))
        .map(|before| before.chars().count());
    Ok(Value::Int(
        before.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1),
    ))
}

fn replace<'v>(text: &str, old: &str, new: &str, most: i64, work: &Work) -> Outcome<Value<'v>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // The length of the result is known before anything is built.
    let places = match old.is_empty() {
        true => text.chars().count() + 1,
        false => memchr::memmem::find_iter(text.as_bytes(), old.as_bytes()).count(),
    };
    let places = places.min(most);
    let length = text.len() - places * old.len() + places.saturating_mul(new.len());
    work.make_bytes(length)?;
    Ok(Value::text(text.replacen(old, new, places)))
}

fn split<'v>(text: &str, separator: &str, most: i64, work: &Work) -> Outcome<Value<'v>> {
    work.make_bytes(text.len())?;
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let item = |part: &str| Value::text(part.to_owned());
    let items = if separator.is_empty() {
        let mut items = Vec::new();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            work.take(1)?;
            if items.len() + 1 == most {
                items.push(item(rest));
                break;
            }
            let (first, following) = rest
                .split_at_checked(letter.len_utf8())
                .unwrap_or((rest, ""));
            items.push(item(first));
            rest = following;
        }
        items
    } else {
        let mut items = Vec::new();
        for part in text.splitn(most, separator) {
            work.take(1)?;
            items.push(item(part));
        }
        items
    };
    Ok(Value::list(items))
}

fn quote<'v>(text: &str, work: &Work) -> Outcome<Value<'v>> {
    work.make_bytes(2 * text.len() + 2)?;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    Ok(Value::text(out))
}
