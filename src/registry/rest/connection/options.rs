//! The options of streams: as admission sees them, and as kubelets get them.

use serde_json::Value;

use crate::api::object::Object;
use crate::api::options::{Query, query_text};
use crate::api::resource::ResourceDefinition;
use crate::api::schema::{Scalar, Shape, Type};
use crate::api::status::Status;
use crate::api::text::quoting::go_quote;

/// The streams that a client asks for in a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStreams {
    /// The input of the command.
    pub stdin: bool,
    /// Its output.
    pub stdout: bool,
    /// Its errors.
    pub stderr: bool,
    /// Whether it has a terminal, whose size changes.
    pub tty: bool,
}

impl CommandStreams {
    /// Returns the streams of the options of a command.
    pub(super) fn of(options: &Object) -> CommandStreams {
        let is_asked = |name: &str| options.at(&[name]) == Some(&Value::Bool(true));
        CommandStreams {
            stdin: is_asked("stdin"),
            stdout: is_asked("stdout"),
            stderr: is_asked("stderr"),
            tty: is_asked("tty"),
        }
    }
}

/// Reads the options of a connection from the query.
///
/// # Errors
/// 400 for a port that is not a number (CN-66).
pub(super) fn of(kind: &ResourceDefinition, query: &Query) -> Result<Object, Box<Status>> {
    let mut options = Object::default();
    options.set_type(&kind.kind, &kind.api_version());
    let found = kind.object_type().found();
    let of = found.and_then(|(schema, id)| schema.get(id));
    for field in of.into_iter().flat_map(|of| of.fields()) {
        let texts = query.all(&field.name);
        let value = match (&field.of.shape, &*texts) {
            (_, []) => continue,
            (Shape::List(item), texts) if is_number(item.as_ref()) => numbers(texts)?.into(),
            (Shape::List(_), texts) => texts.iter().map(|text| Value::from(*text)).collect(),
            (_, [first, ..]) => match value_of(&field.of, first) {
                Some(value) => value,
                None => continue,
            },
        };
        options.0.insert(field.name.clone(), value);
    }
    Ok(options)
}

fn is_number(of: &Type) -> bool {
    matches!(of.shape, Shape::Scalar(Scalar::Int32 | Scalar::Int64))
}

/// Parses a parameter, as Kubernetes parses query parameters: any text but "false" and "0" is true.
fn value_of(of: &Type, text: &str) -> Option<Value> {
    match of.shape {
        Shape::Scalar(Scalar::String) => Some(text.into()),
        Shape::Scalar(Scalar::Bool) => {
            Some((!text.eq_ignore_ascii_case("false") && text != "0").into())
        }
        _ => None,
    }
}

/// Parses ports. Each text may have several.
fn numbers(texts: &[&str]) -> Result<Vec<u16>, Box<Status>> {
    use std::num::IntErrorKind;

    let texts = texts.iter().flat_map(|text| text.split(','));
    let number = |text: &str| {
        // Go takes no sign here.
        let parsed = match text.starts_with('+') {
            true => Err("invalid syntax"),
            false => text.parse::<u16>().map_err(|error| match error.kind() {
                IntErrorKind::PosOverflow => "value out of range",
                _ => "invalid syntax",
            }),
        };
        parsed.map_err(|why| {
            let quoted = go_quote(text);
            let why =
                format!("cannot convert to []int32: strconv.ParseUint: parsing {quoted}: {why}");
            Box::new(Status::bad_request(why))
        })
    };
    texts.map(number).collect()
}

/// Returns the query with which a kubelet is asked to forward ports (CN-66).
pub(super) fn ports_query(options: &Object) -> String {
    let ports = options.items(&["ports"]).iter();
    let ports: Vec<String> = ports.map(Value::to_string).collect();
    match ports.is_empty() {
        true => String::new(),
        false => query_text(vec![("port".into(), ports.join(",").into())]),
    }
}

/// Returns the query with which a kubelet is asked for a command (CN-49).
pub(super) fn command_query(options: &Object, streams: CommandStreams) -> String {
    let names = [
        (streams.stdin, "input"),
        (streams.stdout, "output"),
        (streams.stderr, "error"),
        (streams.tty, "tty"),
    ];
    let streams = names.into_iter().filter(|(is_asked, _)| *is_asked);
    let streams = streams.map(|(_, name)| (name.into(), "1".into()));
    let words = options.items(&["command"]).iter();
    let words = words.filter_map(|word| Some(("command".into(), word.as_str()?.into())));
    query_text(streams.chain(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::definitions::core;

    #[test]
    fn kubelets_are_asked_in_their_own_words_cn_49_cn_66() {
        let read = |kind: &'static str, text: &str| {
            let read = of(&core::connection_options(kind), &Query::parse(text));
            read.map_err(|status| status.message)
        };
        let command = |kind: &'static str| {
            let text = "command=a+b&stdout=1&stderr=false&stdin=&tty=x&command=%26";
            let options = read(kind, text).unwrap();
            command_query(&options, CommandStreams::of(&options))
        };
        assert_eq!(
            command("core.v1.PodExecOptions"),
            "command=a+b&command=%26&input=1&output=1&tty=1"
        );
        // An attached command runs already.
        let attached = command("core.v1.PodAttachOptions");
        assert_eq!(attached, "input=1&output=1&tty=1");
        let ports = |text: &str| {
            let options = read("core.v1.PodPortForwardOptions", text)?;
            Ok::<String, String>(ports_query(&options))
        };
        assert_eq!(ports("").unwrap(), "");
        assert_eq!(ports("ports=80,83&ports=1").unwrap(), "port=80%2C83%2C1");
        for (text, why) in [
            ("x", "invalid syntax"),
            ("", "invalid syntax"),
            ("+1", "invalid syntax"),
            ("65536", "value out of range"),
        ] {
            let parsing = format!("strconv.ParseUint: parsing \"{text}\": {why}");
            let refused = ports(&format!("ports={}", text.replace('+', "%2B"))).unwrap_err();
            assert_eq!(refused, format!("cannot convert to []int32: {parsing}"));
        }
    }
}
