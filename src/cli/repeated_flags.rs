//! Pure. Flags that kube-apiserver accepts several times: their values are joined to one, separated
//! by commas, as in a file.

use std::ffi::OsString;

/// The flags that may be repeated.
const REPEATED: [&str; 2] = ["--service-account-issuer", "--service-account-key-file"];

/// The arguments with repeated flags joined to one.
pub(super) fn joined(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut found: Vec<(&str, Vec<OsString>)> = Vec::new();
    let mut arguments = arguments.into_iter();
    let mut command = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            // The rest is the command line of another program.
            command.push(argument);
            command.extend(arguments);
            break;
        }
        match flag_of(&argument) {
            None => kept.push(argument),
            Some((flag, given)) => {
                // A flag without a value is refused by the parser.
                let Some(value) = given.or_else(|| arguments.next()) else {
                    kept.push(argument);
                    continue;
                };
                match found.iter_mut().find(|(known, _)| *known == flag) {
                    Some((_, values)) => values.push(value),
                    None => found.push((flag, vec![value])),
                }
            }
        }
    }
    for (flag, values) in found {
        let mut argument = OsString::from(format!("{flag}="));
        argument.push(values.join(&OsString::from(",")));
        kept.push(argument);
    }
    kept.extend(command);
    kept
}

/// The repeated flag that this argument is, and its value if that is in the argument.
fn flag_of(argument: &OsString) -> Option<(&'static str, Option<OsString>)> {
    let text = argument.to_str()?;
    REPEATED.into_iter().find_map(|flag| {
        let rest = text.strip_prefix(flag)?;
        match rest.strip_prefix('=') {
            Some(value) => Some((flag, Some(value.into()))),
            None => rest.is_empty().then_some((flag, None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_are_given_several_times_are_one_list() {
        let joined = |text: &str| {
            let all = super::joined(text.split(' ').map(OsString::from).collect());
            all.join(&OsString::from(" ")).into_string().unwrap()
        };
        for (given, told) in [
            ("t --data-dir d", "t --data-dir d"),
            (
                "t --service-account-issuer a --secure-port 1 --service-account-issuer=b",
                "t --secure-port 1 --service-account-issuer=a,b",
            ),
            (
                "t --service-account-issuer a -- t --service-account-issuer b",
                "t --service-account-issuer=a -- t --service-account-issuer b",
            ),
            (
                "t --service-account-key-file",
                "t --service-account-key-file",
            ),
            (
                "t --service-account-key-file=k --service-account-key-files l",
                "t --service-account-key-files l --service-account-key-file=k",
            ),
        ] {
            assert_eq!(joined(given), told);
        }
    }
}
