//! Pure. Gives the flags of a command line the forms that the parser knows, as kube-apiserver's
//! parser does: underscores in names are dashes, `-v` is `--v`, lists may be given several times,
//! and a list without a value is empty.

use std::ffi::{OsStr, OsString};

use crate::config::apiserver_flags::{is_list, separator};

/// The flag that stands for the short one, `-v`.
const VERBOSITY: &str = "v";

/// A list, and where it stands in the command line.
struct List {
    name: String,
    place: usize,
    values: Vec<OsString>,
}

/// The arguments with each flag in one form, and repeated lists joined at their first place.
pub(super) fn normalized(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut kept: Vec<OsString> = Vec::new();
    let mut lists: Vec<List> = Vec::new();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            kept.push(argument);
            kept.extend(arguments);
            break;
        }
        let Some((name, given)) = flag_of(&argument) else {
            kept.push(argument);
            continue;
        };
        if !is_list(&name) {
            kept.push(flag(&name, given.as_deref()));
            continue;
        }
        let value = match given {
            Some(value) => value,
            // A value may begin with one dash.
            None => arguments
                .next_if(|next| !next.as_encoded_bytes().starts_with(b"--"))
                .unwrap_or_default(),
        };
        // linear: a few lists of one command line.
        match lists.iter_mut().find(|list| list.name == name) {
            Some(list) => list.values.push(value),
            None => {
                lists.push(List {
                    name,
                    place: kept.len(),
                    values: vec![value],
                });
                kept.push(OsString::new());
            }
        }
    }
    for List {
        name,
        place,
        values,
    } in lists
    {
        let values: Vec<OsString> = match values.len() {
            1 => values,
            _ => values.into_iter().filter(|one| !one.is_empty()).collect(),
        };
        let joined = values.join(OsStr::new(separator(&name)));
        if let Some(argument) = kept.get_mut(place) {
            *argument = flag(&name, Some(&joined));
        }
    }
    kept
}

/// The name of a flag with dashes, and its value if that is in the same argument.
fn flag_of(argument: &OsStr) -> Option<(String, Option<OsString>)> {
    let text = argument.to_str()?;
    if let Some(rest) = text.strip_prefix("-v") {
        let value = rest.strip_prefix('=').unwrap_or(rest);
        let value = (!rest.is_empty()).then(|| value.into());
        return Some((VERBOSITY.to_owned(), value));
    }
    let flag = text.strip_prefix("--")?;
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value.into())),
        None => (flag, None),
    };
    Some((name.replace('_', "-"), value))
}

fn flag(name: &str, value: Option<&OsStr>) -> OsString {
    let mut flag = OsString::from(format!("--{name}"));
    if let Some(value) = value {
        flag.push("=");
        flag.push(value);
    }
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_one_form_and_lists_are_joined() {
        for (given, wanted) in [
            ("t --data-dir d", "t --data-dir d"),
            (
                "t --data_dir=a_b --secure_port 1",
                "t --data-dir=a_b --secure-port 1",
            ),
            (
                "t --service-account-issuer a --secure-port 1 --service-account-issuer=b",
                "t --service-account-issuer=a,b --secure-port 1",
            ),
            (
                "t --service-account-key-file",
                "t --service-account-key-file=",
            ),
            (
                "t --service-account-key-file=k --service-account-key-files l",
                "t --service-account-key-file=k --service-account-key-files l",
            ),
            (
                "t --feature-gates A=true --feature_gates= --feature-gates=B=true",
                "t --feature-gates=A=true,B=true",
            ),
            (
                "t --disable-admission-plugins --runtime-config --v=1",
                "t --disable-admission-plugins= --runtime-config= --v=1",
            ),
            ("t --controllers -namespace", "t --controllers=-namespace"),
            (
                "t --tls-sni-cert-key a,b --tls-sni-cert-key c,d:e",
                "t --tls-sni-cert-key=a,b;c,d:e",
            ),
            ("t -v 4 -v=5 -v6 -v", "t --v 4 --v=5 --v=6 --v"),
            (
                "t test -- c --feature_gates=a -v",
                "t test -- c --feature_gates=a -v",
            ),
        ] {
            let arguments = given.split(' ').map(OsString::from).collect();
            let all = normalized(arguments).join(OsStr::new(" "));
            assert_eq!(all.into_string().unwrap(), wanted);
        }
    }
}
