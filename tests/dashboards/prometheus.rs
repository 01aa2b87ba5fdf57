//! The real Prometheus and promtool that `tests/run.sh` fetches.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::harness::cache;
use crate::harness::not_run::not_run;

/// The time limit for a start on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The shell that holds Prometheus and kills it when the test's end of the pipe closes, however the
/// test ended.
const GUARD: &str = r#""$@" & p=$!; cat > /dev/null; kill -9 $p 2> /dev/null; wait $p"#;

/// The folder with `prometheus` and `promtool`.
pub struct Tools {
    folder: PathBuf,
}

impl Tools {
    /// `None` only where the environment says in so many words that there are none.
    pub fn find() -> Option<Tools> {
        let variable = "TAFFRAIL_PROMETHEUS";
        let folder = match std::env::var_os(variable) {
            Some(none) if none == "none" => {
                not_run("Prometheus");
                return None;
            }
            Some(folder) => PathBuf::from(folder),
            None => cache().join("taffrail/prometheus"),
        };
        for tool in ["prometheus", "promtool"] {
            assert!(
                folder.join(tool).is_file(),
                "no {tool} in {folder}: tests/run.sh fetches it, and so does\n\
                 tests/fetch-prometheus.sh trixie 2.53 {folder}\n\
                 Or set {variable} to the folder that has prometheus and promtool.",
                folder = folder.display()
            );
        }
        Some(Tools { folder })
    }

    /// Runs promtool on some files. It must succeed.
    pub fn promtool(&self, arguments: &[&str], files: &[PathBuf]) {
        let output = Command::new(self.folder.join("promtool"))
            .args(arguments)
            .args(files)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "promtool {} says:\n{}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A Prometheus that scrapes and evaluates once a second. It is killed when this is dropped.
pub struct Prometheus {
    address: SocketAddr,
    guard: Child,
    folder: TempDir,
}

/// What a query has found: the labels of a series and its value.
#[derive(Clone, Debug)]
pub struct Sample {
    pub labels: Value,
    pub value: String,
}

impl Prometheus {
    /// Starts one with these scrape configurations and files of rules.
    pub async fn start(tools: &Tools, scrapes: &Value, rules: &[Value]) -> Prometheus {
        let folder = tempfile::tempdir().unwrap();
        // JSON is YAML.
        let write = |name: &str, content: &Value| {
            std::fs::write(folder.path().join(name), content.to_string()).unwrap();
        };
        let mut names = Vec::new();
        for (number, content) in rules.iter().enumerate() {
            names.push(format!("rules-{number}.json"));
            write(&names[number], content);
        }
        let config = serde_json::json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": names,
            "scrape_configs": scrapes,
        });
        write("prometheus.json", &config);
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let guard = Command::new("sh")
            .args(["-c", GUARD, "prometheus"])
            .arg(tools.folder.join("prometheus"))
            .arg("--config.file=prometheus.json")
            .arg("--storage.tsdb.path=data")
            .arg("--web.listen-address=127.0.0.1:0")
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut prometheus = Prometheus {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            guard,
            folder,
        };
        prometheus.ready().await;
        prometheus
    }

    /// Waits until it has said where it listens, and answers there.
    async fn ready(&mut self) {
        let begun = Instant::now();
        loop {
            let log = self.log();
            let said = log.split("msg=\"Listening on\" address=").nth(1);
            let said = said.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            if let Some(address) = said {
                self.address = address;
                if self.get("/-/ready").await.is_ok() {
                    return;
                }
            }
            let ended = log.contains("level=error") || self.guard.try_wait().unwrap().is_some();
            assert!(
                !ended && begun.elapsed() < TIMEOUT,
                "Prometheus does not start:\n{log}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// What an expression is now; the error of one that is wrong.
    pub async fn query(&self, expression: &str) -> Result<Vec<Sample>, String> {
        let encoded = utf8_percent_encode(expression, NON_ALPHANUMERIC);
        let answer = self.get(&format!("/api/v1/query?query={encoded}")).await?;
        let result = answer["data"]["result"].as_array().cloned();
        let samples = result.unwrap_or_default().into_iter().map(|one| Sample {
            value: one["value"][1].as_str().unwrap_or_default().to_owned(),
            labels: one["metric"].clone(),
        });
        Ok(samples.collect())
    }

    /// The state of all rules.
    pub async fn rules(&self) -> Vec<Value> {
        let answer = self.get("/api/v1/rules").await.unwrap();
        let groups = answer["data"]["groups"].as_array().cloned();
        let groups = groups.into_iter().flatten();
        groups
            .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
            .collect()
    }

    /// The targets that it cannot scrape, and why.
    pub async fn not_scraped(&self) -> Vec<String> {
        let answer = self.get("/api/v1/targets").await.unwrap();
        let targets = answer["data"]["activeTargets"].as_array().cloned();
        let targets = targets.into_iter().flatten();
        let failing = targets.filter(|target| target["health"] != "up");
        failing
            .map(|target| {
                format!(
                    "{} is not scraped: {}",
                    target["scrapeUrl"], target["lastError"]
                )
            })
            .collect()
    }

    /// The answer to a request, `null` if it is no JSON; the error if it is refused.
    async fn get(&self, path: &str) -> Result<Value, String> {
        let told = |error: &dyn std::error::Error| error.to_string();
        let stream = TcpStream::connect(self.address).await;
        let stream = TokioIo::new(stream.map_err(|error| told(&error))?);
        let opened = http1::handshake(stream).await;
        let (mut sender, connection) = opened.map_err(|error| told(&error))?;
        tokio::spawn(connection);
        let request = http::Request::get(path).header("host", self.address.to_string());
        let request = request.body(Empty::<bytes::Bytes>::new()).unwrap();
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| told(&error))?;
        let status = answer.status();
        let body = answer.into_body().collect().await;
        let body = body.map_err(|error| told(&error))?.to_bytes();
        let parsed: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(parsed);
        }
        let said = parsed["error"].as_str().map(str::to_owned);
        Err(said.unwrap_or_else(|| format!("{status}: {}", String::from_utf8_lossy(&body))))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // The guard kills it and waits for it.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
        if std::thread::panicking() {
            eprintln!("Prometheus' log:\n{}", self.log());
        }
    }
}
