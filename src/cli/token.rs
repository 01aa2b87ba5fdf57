//! `taffrail token rotate`: replaces the admin's token.
//!
//! A running daemon replaces it at once: it refuses the earlier token and ends watches that were
//! opened with it. If none runs, the command replaces the files.

use std::process::ExitCode;

use crate::auth::{self, AdminAccess};
use crate::cli::access::Access;
use crate::cli::complaint::failed;
use crate::cli::running::{self, Unreached};
use crate::config::Config;
use crate::storage::embedded::disk::Directory;

const PATH: &str = "/taffrail/v1/token/rotate";

/// Replaces the token, and prints where the new one is.
pub fn rotate(config: &Config) -> ExitCode {
    match replace(config) {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(problem) => failed("token rotate", &problem),
    }
}

fn replace(config: &Config) -> Result<String, String> {
    let data_dir = config.data_dir.as_path();
    let shown = data_dir.display();
    let access = auth::read_kubeconfig(data_dir).map_err(|error| error.to_string())?;
    let access = access.ok_or_else(|| {
        format!("--data-dir={shown}: no daemon has run there, so there is no token yet")
    })?;
    let done = match ask(&Access::from(access.clone())) {
        Ok(watches) => format!("the admin's token was replaced; {watches} watches ended"),
        Err(Unreached::NobodyThere(_)) => {
            alone(config, &access)?;
            "the admin's token was replaced; no daemon is running".to_owned()
        }
        Err(error) => return Err(error.to_string()),
    };
    Ok(format!(
        "{done}. The new one is in {shown}/admin.token and admin.kubeconfig"
    ))
}

/// Has the running daemon replace the token. Returns how many watches ended.
fn ask(access: &Access) -> Result<u64, Unreached> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(Unreached::NoRuntime)?;
    let answer = runtime.block_on(running::post_whole(access, PATH))?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
    Ok(answer["watchesEnded"].as_u64().unwrap_or_default())
}

/// Replaces the files while no daemon holds the directory.
fn alone(config: &Config, access: &AdminAccess) -> Result<(), String> {
    let data_dir = config.data_dir.as_path();
    let _held = Directory::open(data_dir).map_err(|error| error.to_string())?;
    let token = auth::replace_token(data_dir).map_err(|error| error.to_string())?;
    let written = auth::write_kubeconfig(data_dir, access.address, &access.trust_pem, &token);
    written.map(|_| ()).map_err(|error| error.to_string())
}
