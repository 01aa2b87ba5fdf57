//! `taffrail kubeconfig`: a kubeconfig with a client certificate for a user.
//!
//! The daemon's own authority signs the certificate, so the daemon need not run: it trusts its
//! authority anyway. A certificate can't be revoked before it expires, so it expires soon unless
//! the operator says otherwise.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use http::Uri;

use crate::auth::{Credential, Kubeconfig, kubeconfig, read_kubeconfig};
use crate::cli::complaint::failed;
use crate::config::{Config, Period};
use crate::files::own;
use crate::transport::tls::client_signer;

/// RFC 5280 allows 64 characters. Users of service accounts are longer, and nobody refuses them.
const NAME_BYTES_MAX: usize = 512;

/// A century. The daemon's authority expires sooner, and certificates can't represent every later
/// date.
const VALID_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The options of the command.
#[derive(Args, Clone, Debug)]
pub struct KubeconfigOptions {
    /// Name of the user.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// Group of the user; may be given several times. Members of system:masters may do
    /// everything.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// How long the certificate is valid: 12h, 90d. It can't be revoked before.
    #[arg(long, value_name = "DURATION", default_value = "90d")]
    valid_for: Period,
    /// URL of the server, if clients reach it elsewhere than the admin does.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// File to write, readable for its owner alone. Without it the kubeconfig is printed.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes or prints the kubeconfig.
pub fn run(config: &Config, options: &KubeconfigOptions) -> ExitCode {
    match made(config.data_dir.as_path(), options).and_then(|text| put(&text, options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => failed("kubeconfig", &problem),
    }
}

fn made(data_dir: &Path, options: &KubeconfigOptions) -> Result<String, String> {
    check_name("--user", &options.user)?;
    for group in &options.groups {
        check_name("--group", group)?;
    }
    if options.valid_for.0.is_zero() {
        return Err("--valid-for=0s: the certificate would never be valid".to_owned());
    }
    if options.valid_for.0 > VALID_MAX {
        let (asked, most) = (options.valid_for, Period(VALID_MAX));
        return Err(format!("--valid-for={asked}: at most {most} is possible"));
    }
    let access = read_kubeconfig(data_dir).map_err(|error| error.to_string())?;
    let access = access.ok_or_else(|| {
        let data_dir = data_dir.display();
        format!("--data-dir={data_dir}: no daemon has run there; start one first")
    })?;
    let server = match &options.server {
        Some(url) => checked_url(url)?.to_owned(),
        None => format!("https://{}", access.address),
    };
    let (user, groups, valid_for) = (&options.user, &options.groups, options.valid_for.0);
    let signed = client_signer::sign(data_dir, user, groups, valid_for);
    let signed = signed.map_err(|error| error.to_string())?;
    Ok(kubeconfig(&Kubeconfig {
        server: &server,
        trust_pem: &access.trust_pem,
        user,
        credential: Credential::Certificate {
            certificate_pem: &signed.certificate_pem,
            key_pem: &signed.key_pem,
        },
    }))
}

fn check_name(flag: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "{flag}={name:?}: a name has 1 to {NAME_BYTES_MAX} bytes and no control characters"
        ));
    }
    Ok(())
}

fn checked_url(url: &str) -> Result<&str, String> {
    let parsed: Option<Uri> = url.parse().ok();
    let is_good = parsed.is_some_and(|parsed| {
        parsed.scheme_str() == Some("https") && parsed.host().is_some_and(|host| !host.is_empty())
    });
    match is_good {
        true => Ok(url.trim_end_matches('/')),
        false => Err(format!(
            "--server={url:?}: not a URL of a server, such as https://taffrail.example:6443"
        )),
    }
}

fn put(text: &str, options: &KubeconfigOptions) -> Result<(), String> {
    let Some(path) = &options.output else {
        print!("{text}");
        return Ok(());
    };
    own::write(path, text.as_bytes())
        .map_err(|error| format!("--output={}: {error}", path.display()))
}
