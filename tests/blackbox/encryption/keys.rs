//! Files of `--encryption-provider-config`.

use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// A file of rules outside of the data directory.
pub struct Keys {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Keys {
    /// With these rules, each for some resources: providers such as `aesgcm:new=2,old=1` and
    /// `identity`, where the numbers stand for keys.
    pub fn new(rules: &[(&str, &[&str])]) -> Keys {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys {
            path: folder.path().join("encryption.yaml"),
            _folder: folder,
        };
        keys.write(rules);
        keys
    }

    /// Other rules from now on.
    pub fn write(&self, rules: &[(&str, &[&str])]) {
        let rules: String = rules
            .iter()
            .map(|(names, providers)| rule(names, providers))
            .collect();
        self.write_text(&format!(
            "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n\
             resources:\n{rules}"
        ));
    }

    /// Any text from now on, in one step.
    pub fn write_text(&self, text: &str) {
        let new = self.path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .mode(0o600)
            .create(true)
            .truncate(true)
            .write(true)
            .open(&new)
            .unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        std::fs::rename(new, &self.path).unwrap();
    }

    /// The flag that names the file.
    pub fn flag(&self) -> String {
        format!("--encryption-provider-config={}", self.path.display())
    }
}

fn rule(names: &str, providers: &[&str]) -> String {
    let mut text = format!("- resources: [{names}]\n  providers:\n");
    for provider in providers {
        let Some((algorithm, keys)) = provider.split_once(':') else {
            text += &format!("  - {provider}: {{}}\n");
            continue;
        };
        text += &format!("  - {algorithm}:\n      keys:\n");
        for key in keys.split(',') {
            let (name, number) = key.split_once('=').unwrap();
            let secret = BASE64_STANDARD.encode([number.parse::<u8>().unwrap(); 32]);
            text += &format!("      - {{name: '{name}', secret: '{secret}'}}\n");
        }
    }
    text
}
