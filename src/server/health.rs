//! `/livez`, `/readyz`, `/healthz` (API-47 to API-51).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;

use super::respond::{self, Answer};
use crate::api::options::Query;

/// The three roots of health paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// All checks.
    Healthz,
    /// Whether the process may keep running; a failure calls for a restart.
    Livez,
    /// Whether clients may send requests.
    Readyz,
}

impl Root {
    /// Returns the root of a path, and the name of the check after it (API-50).
    pub fn of_path(path: &str) -> Option<(Root, &str)> {
        let path = path.trim_matches('/');
        let (root, check) = path.split_once('/').unwrap_or((path, ""));
        let root = match root {
            "healthz" => Root::Healthz,
            "livez" => Root::Livez,
            "readyz" => Root::Readyz,
            _ => return None,
        };
        Some((root, check))
    }

    fn name(self) -> &'static str {
        match self {
            Root::Healthz => "healthz",
            Root::Livez => "livez",
            Root::Readyz => "readyz",
        }
    }
}

/// Reports whether a part of the daemon works. It must be cheap and must not block.
pub type Probe = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// A named check.
pub struct Check {
    name: Cow<'static, str>,
    /// The group name that also excludes the check (OP-23).
    group: &'static str,
    /// The roots that include the check.
    roots: &'static [Root],
    probe: Probe,
}

impl Check {
    /// A check for all three roots.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Check {
        Check {
            name: name.into(),
            group: "",
            roots: &[Root::Healthz, Root::Livez, Root::Readyz],
            probe: Box::new(probe),
        }
    }

    /// Creates a check for `/readyz` only, for failures that end by themselves or that a restart
    /// cannot fix.
    pub fn of_readiness(
        name: impl Into<Cow<'static, str>>,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Check {
        Check {
            roots: &[Root::Readyz],
            ..Check::new(name, probe)
        }
    }

    /// Creates a check for `/readyz` and `/healthz`, for failures that a restart cannot fix.
    pub fn not_of_liveness(
        name: impl Into<Cow<'static, str>>,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Check {
        Check {
            roots: &[Root::Healthz, Root::Readyz],
            ..Check::new(name, probe)
        }
    }

    /// Adds the check to a group, whose name excludes all of its checks (OP-23).
    pub fn in_group(self, group: &'static str) -> Check {
        Check { group, ..self }
    }
}

const PING: &str = "ping";
const SHUTDOWN: &str = "shutdown";
const NOT_FINISHED: &str = "not finished";

/// The check of `/readyz` that fails until the caches that the daemon itself reads are filled.
pub const INFORMER_SYNC: &str = "informer-sync";

/// Returns one phrase for each part that does not work or was restarted, such as `cacher/configmaps
/// not at work`. These do not affect health: requests report an unready cache themselves, and a
/// failed part is being restarted. Anybody may read the phrases (API-48), so they contain no data
/// of the store.
pub type StatusLines = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// A step of the start. Once it is complete it stays so, like a post-start hook of kube-apiserver.
struct Step {
    name: &'static str,
    /// The roots that include it.
    roots: &'static [Root],
    /// Why it is not complete. `None` once it is.
    missing: Mutex<Option<String>>,
}

impl Step {
    fn new(name: &'static str) -> Step {
        Step {
            name,
            roots: match name {
                INFORMER_SYNC => &[Root::Readyz],
                _ => &[Root::Healthz, Root::Livez, Root::Readyz],
            },
            missing: Mutex::new(Some(NOT_FINISHED.to_owned())),
        }
    }
}

/// All checks, and whether the daemon is shutting down.
#[derive(Default)]
pub struct Health {
    checks: Vec<Check>,
    status_lines: Option<StatusLines>,
    /// Steps of the start, in the order of kube-apiserver.
    steps: Vec<Step>,
    /// When `/livez` begins to fail for incomplete steps. `None` means never.
    steps_needed_from: Option<Instant>,
    has_started: AtomicBool,
    is_shutting_down: AtomicBool,
    /// Whether the shutdown was announced, so that load balancers send clients elsewhere.
    is_announced: AtomicBool,
    /// Whether requests on open connections are served during the shutdown too.
    serves_to_the_end: AtomicBool,
}

/// The result of a check.
struct Finding {
    name: Cow<'static, str>,
    group: &'static str,
    outcome: Outcome,
}

enum Outcome {
    Passed,
    Failed(String),
    /// By its own name.
    Excluded,
    /// By the name of its group.
    ExcludedWithGroup,
}

impl Health {
    /// Creates the health checks: these and the built-in ones. `ping` shows that requests are
    /// answered. For readiness, `shutdown` fails once the daemon is shutting down (API-51).
    pub fn new(checks: Vec<Check>) -> Health {
        Health {
            checks,
            ..Health::default()
        }
    }

    /// Adds lines about parts that do not work to `/readyz?verbose`.
    pub fn telling(self, lines: impl Fn() -> Vec<String> + Send + Sync + 'static) -> Health {
        Health {
            status_lines: Some(Box::new(lines)),
            ..self
        }
    }

    /// Adds a check for each of these steps of the start. It fails until the step is complete, in
    /// `/livez` only after the grace period.
    pub fn waiting_for(self, steps: &[&'static str]) -> Health {
        Health {
            steps: steps.iter().map(|name| Step::new(name)).collect(),
            ..self
        }
    }

    /// Has `/livez` fail if a step of the start is not complete after this time. Zero means never,
    /// because a restart seldom mends a part that waits (D-125).
    pub fn with_liveness_grace(self, grace: Duration) -> Health {
        let from = Instant::now().checked_add(grace);
        Health {
            steps_needed_from: from.filter(|_| !grace.is_zero()),
            ..self
        }
    }

    /// Records that a step of the start is complete.
    pub fn complete(&self, step: &str) {
        self.set_missing(step, None);
    }

    /// Records why a step of the start is not complete yet.
    pub fn hold(&self, step: &str, why: impl std::fmt::Display) {
        self.set_missing(step, Some(format!("{NOT_FINISHED}: {why}")));
    }

    /// Whether a step of the start is complete. One that does not exist is.
    pub fn is_complete(&self, step: &str) -> bool {
        let mut steps = self.steps.iter().filter(|one| one.name == step);
        steps.all(|one| one.missing.lock().is_none())
    }

    fn set_missing(&self, step: &str, missing: Option<String>) {
        let steps = self.steps.iter().filter(|one| one.name == step);
        steps.for_each(|one| {
            let mut known = one.missing.lock();
            if known.is_some() {
                known.clone_from(&missing);
            }
        });
    }

    /// Records that each step of the start was tried at least once.
    pub fn complete_start(&self) {
        self.has_started.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Health::complete_start`] was called.
    pub fn has_started(&self) -> bool {
        self.has_started.load(Ordering::Relaxed)
    }

    /// Makes `/readyz` fail from now on, while requests are still served.
    pub fn announce_shutdown(&self) {
        self.is_announced.store(true, Ordering::Relaxed);
    }

    /// Makes `/readyz` fail from now on, while `/livez` does not change (API-51).
    pub fn begin_shutdown(&self) {
        self.is_shutting_down.store(true, Ordering::Relaxed);
    }

    /// Whether the daemon is shutting down.
    pub fn is_shutting_down(&self) -> bool {
        self.is_shutting_down.load(Ordering::Relaxed)
    }

    /// Decides whether requests on open connections are served during the shutdown too.
    pub fn set_serves_to_the_end(&self, serves: bool) {
        self.serves_to_the_end.store(serves, Ordering::Relaxed);
    }

    /// Whether requests are refused, because the daemon is shutting down.
    pub fn refuses_requests(&self) -> bool {
        self.is_shutting_down() && !self.serves_to_the_end.load(Ordering::Relaxed)
    }

    /// Runs all checks and sets their gauges.
    pub fn measure(&self) {
        for root in [Root::Healthz, Root::Livez, Root::Readyz] {
            for finding in self.findings(root, &[]) {
                finding.measure(root);
            }
        }
    }

    /// Responds to a health path.
    pub fn answer(&self, root: Root, check: &str, query: &Query) -> Answer {
        if check.is_empty() {
            self.answer_all(root, query)
        } else {
            self.answer_one(root, check)
        }
    }

    /// Whether all checks of a root pass.
    pub fn passes(&self, root: Root) -> bool {
        let findings = self.findings(root, &[]);
        !findings.iter().any(Finding::is_failure)
    }

    fn findings(&self, root: Root, excluded: &[&str]) -> Vec<Finding> {
        let counts = |check: &&Check| check.roots.contains(&root);
        let ping = Finding::of(PING, Ok(()));
        let checks = self.checks.iter().filter(counts);
        let checks = checks.map(|check| Finding {
            group: check.group,
            ..Finding::of(check.name.clone(), (check.probe)())
        });
        let steps = self.steps.iter();
        let steps = steps.filter(|step| step.roots.contains(&root));
        let steps = steps.map(|step| {
            let missing = match root {
                Root::Livez if !self.needs_steps() => None,
                _ => step.missing.lock().clone(),
            };
            Finding::of(step.name, missing.map_or(Ok(()), Err))
        });
        let shutdown = (root == Root::Readyz).then(|| {
            let stops = self.is_shutting_down() || self.is_announced.load(Ordering::Relaxed);
            let why = || "process is shutting down".to_owned();
            Finding::of(SHUTDOWN, if stops { Err(why()) } else { Ok(()) })
        });
        std::iter::once(ping)
            .chain(checks)
            .chain(steps)
            .chain(shutdown)
            .map(|finding| finding.without(excluded))
            .collect()
    }

    /// Whether incomplete steps of the start count for `/livez`.
    fn needs_steps(&self) -> bool {
        self.steps_needed_from
            .is_some_and(|from| Instant::now() >= from)
    }

    fn answer_all(&self, root: Root, query: &Query) -> Answer {
        let excluded = query.all("exclude");
        let findings = self.findings(root, &excluded);
        findings.iter().for_each(|finding| finding.count(root));
        let failed: Vec<&Finding> = findings.iter().filter(|f| f.is_failure()).collect();
        for finding in &failed {
            if let Outcome::Failed(error) = &finding.outcome {
                tracing::debug!(
                    root = root.name(),
                    check = %finding.name,
                    "health check failed: {error}"
                );
            }
        }
        let is_verbose = query.first("verbose").is_some();
        if failed.is_empty() && !is_verbose {
            return respond::text(StatusCode::OK, "ok");
        }
        let (code, verdict) = if failed.is_empty() {
            (StatusCode::OK, "passed")
        } else {
            (StatusCode::INTERNAL_SERVER_ERROR, "failed")
        };
        let mut lines: String = findings.iter().map(Finding::line).collect();
        lines.push_str(&unmatched(&excluded, &findings));
        if let (Root::Readyz, Some(status_lines)) = (root, &self.status_lines) {
            let parts = status_lines();
            let parts = parts.iter();
            lines.extend(parts.map(|line| format!("[!]{line}, does not count\n")));
        }
        lines.push_str(&format!("{} check {verdict}\n", root.name()));
        respond::text(code, lines)
    }

    fn answer_one(&self, root: Root, name: &str) -> Answer {
        let findings = self.findings(root, &[]);
        let Some(finding) = findings.into_iter().find(|finding| finding.name == name) else {
            return respond::page_not_found();
        };
        match finding.outcome {
            Outcome::Failed(error) => respond::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {error}\n"),
            ),
            Outcome::Passed | Outcome::Excluded | Outcome::ExcludedWithGroup => {
                respond::text(StatusCode::OK, "ok")
            }
        }
    }
}

/// Registers the help texts of the health check metrics.
pub fn describe_metrics() {
    metrics::describe_gauge!(
        "kubernetes_healthcheck",
        "Result of a health check: 1 if it passes, else 0"
    );
    metrics::describe_counter!(
        "kubernetes_healthchecks_total",
        "Results of requested health checks, by outcome"
    );
}

impl Finding {
    fn measure(&self, root: Root) {
        let passes = f64::from(!self.is_failure());
        let name = self.name.to_string();
        metrics::gauge!("kubernetes_healthcheck", "name" => name, "type" => root.name())
            .set(passes);
    }

    /// Counts the result of a requested check.
    fn count(&self, root: Root) {
        let status = match self.outcome {
            Outcome::Passed => "success",
            Outcome::Failed(_) => "error",
            Outcome::Excluded | Outcome::ExcludedWithGroup => return,
        };
        let name = self.name.to_string();
        metrics::counter!(
            "kubernetes_healthchecks_total",
            "name" => name, "type" => root.name(), "status" => status,
        )
        .increment(1);
    }

    fn of(name: impl Into<Cow<'static, str>>, found: Result<(), String>) -> Finding {
        Finding {
            name: name.into(),
            group: "",
            outcome: match found {
                Ok(()) => Outcome::Passed,
                Err(error) => Outcome::Failed(error),
            },
        }
    }

    /// The same finding, excluded if one of these is the name of the check or of its group.
    fn without(self, excluded: &[&str]) -> Finding {
        let has = |name: &str| !name.is_empty() && excluded.contains(&name);
        let outcome = if has(&self.name) {
            Outcome::Excluded
        } else if has(self.group) {
            Outcome::ExcludedWithGroup
        } else {
            return self;
        };
        Finding { outcome, ..self }
    }

    fn is_failure(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }

    /// Formats one line of the listing. It omits the reason of a failure, because anybody may read
    /// it (API-48).
    fn line(&self) -> String {
        match self.outcome {
            Outcome::Passed => format!("[+]{} ok\n", self.name),
            Outcome::Failed(_) => format!("[-]{} failed: reason withheld\n", self.name),
            Outcome::Excluded => format!("[+]{} excluded: ok\n", self.name),
            Outcome::ExcludedWithGroup => {
                format!("[+]{} excluded with {}: ok\n", self.name, self.group)
            }
        }
    }
}

/// Formats the line about excluded names that match no check (API-49).
fn unmatched(excluded: &[&str], findings: &[Finding]) -> String {
    let mut unknown: BTreeSet<&str> = excluded.iter().copied().collect();
    for finding in findings {
        match finding.outcome {
            Outcome::Excluded => unknown.remove(&*finding.name),
            Outcome::ExcludedWithGroup => unknown.remove(finding.group),
            Outcome::Passed | Outcome::Failed(_) => false,
        };
    }
    if unknown.is_empty() {
        return String::new();
    }
    let unknown: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
    format!(
        "warn: some health checks cannot be excluded: no matches for {}\n",
        unknown.join(",")
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::server::respond::ResponseBody;

    const HOOK: &str = "poststarthook/a";

    fn health(storage_works: &Arc<AtomicBool>) -> Health {
        let health = unstarted(storage_works);
        health.complete(INFORMER_SYNC);
        health.complete(HOOK);
        health
    }

    fn unstarted(storage_works: &Arc<AtomicBool>) -> Health {
        let works = Arc::clone(storage_works);
        Health::new(vec![Check::of_readiness("storage", move || {
            works
                .load(Ordering::Relaxed)
                .then_some(())
                .ok_or_else(|| "the disk is on fire".to_owned())
        })])
        .waiting_for(&[INFORMER_SYNC, HOOK])
    }

    fn asked(health: &Health, target: &str) -> (u16, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (root, check) = Root::of_path(path).expect("a health path");
        let answer = health.answer(root, check, &Query::parse(query));
        let code = answer.status().as_u16();
        let ResponseBody::Full(body) = answer.into_body() else {
            panic!("no body");
        };
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    #[test]
    fn all_well_is_ok_without_a_newline_api_47() {
        let health = health(&Arc::new(AtomicBool::new(true)));
        for path in [
            "/livez",
            "/readyz",
            "/healthz",
            "/readyz/",
            "/readyz/storage",
            "/livez/ping",
        ] {
            assert_eq!(asked(&health, path), (200, "ok".to_owned()), "{path}");
        }
    }

    #[test]
    fn verbose_lists_every_check_api_48() {
        let health = health(&Arc::new(AtomicBool::new(true)));
        assert_eq!(
            asked(&health, "/readyz?verbose"),
            (
                200,
                "[+]ping ok\n[+]storage ok\n[+]informer-sync ok\n[+]poststarthook/a ok\n\
                 [+]shutdown ok\nreadyz check passed\n"
                    .to_owned()
            )
        );
        for root in ["livez", "healthz"] {
            let verbose = format!("/{root}?verbose");
            let text = format!("[+]ping ok\n[+]poststarthook/a ok\n{root} check passed\n");
            assert_eq!(asked(&health, &verbose), (200, text));
        }
    }

    #[test]
    fn a_failure_is_a_500_with_the_listing_and_without_the_reason_api_47_and_50() {
        let health = health(&Arc::new(AtomicBool::new(false)));
        let (code, text) = asked(&health, "/readyz");
        assert_eq!(code, 500);
        assert_eq!(
            text,
            "[+]ping ok\n[-]storage failed: reason withheld\n[+]informer-sync ok\n\
             [+]poststarthook/a ok\n[+]shutdown ok\nreadyz check failed\n"
        );
        assert_eq!(
            asked(&health, "/readyz/storage"),
            (
                500,
                "internal server error: the disk is on fire\n".to_owned()
            )
        );
        assert_eq!(asked(&health, "/livez").0, 200);
    }

    #[test]
    fn checks_can_be_excluded_by_name_api_49() {
        let health = health(&Arc::new(AtomicBool::new(false)));
        let (code, text) = asked(
            &health,
            "/readyz?verbose&exclude=storage&exclude=none&exclude=a&exclude=none",
        );
        assert_eq!(code, 200);
        assert!(text.contains("[+]storage excluded: ok\n"), "{text}");
        assert!(text.contains(
            "warn: some health checks cannot be excluded: no matches for \"a\",\"none\"\n"
        ));
        assert!(text.ends_with("readyz check passed\n"));
    }

    #[test]
    fn a_group_of_checks_is_excluded_by_its_name_op_23() {
        let down = || Err("nobody answers".to_owned());
        let health = Health::new(vec![
            Check::not_of_liveness("etcd", down).in_group("etcd"),
            Check::not_of_liveness("etcd-override-0", down).in_group("etcd"),
            Check::of_readiness("etcd-readiness", down).in_group("etcd-readiness"),
        ]);
        assert_eq!(asked(&health, "/healthz").0, 500);
        assert_eq!(asked(&health, "/healthz?exclude=etcd").0, 200);
        let (code, text) = asked(&health, "/readyz?exclude=etcd");
        assert_eq!(code, 500);
        assert!(text.contains("[+]etcd excluded: ok\n"), "{text}");
        assert!(text.contains("[+]etcd-override-0 excluded with etcd: ok\n"));
        assert!(!text.contains("warn"), "{text}");
        assert_eq!(
            asked(&health, "/readyz?exclude=etcd&exclude=etcd-readiness").0,
            200
        );
        assert_eq!(asked(&health, "/livez").0, 200);
    }

    #[test]
    fn readiness_ends_with_the_beginning_of_the_shutdown_api_51() {
        let health = health(&Arc::new(AtomicBool::new(true)));
        health.announce_shutdown();
        assert_eq!(asked(&health, "/readyz").0, 500);
        assert!(!health.is_shutting_down());
        health.begin_shutdown();
        assert_eq!(asked(&health, "/readyz").0, 500);
        assert_eq!(asked(&health, "/livez").0, 200);
        assert!(!health.passes(Root::Readyz));
        assert!(health.passes(Root::Livez));
    }

    #[test]
    fn a_step_of_the_start_fails_until_it_is_complete_api_51() {
        let health = unstarted(&Arc::new(AtomicBool::new(true)));
        let (code, text) = asked(&health, "/readyz");
        assert_eq!(code, 500);
        assert!(text.contains("[-]informer-sync failed"), "{text}");
        assert!(text.contains("[-]poststarthook/a failed"), "{text}");
        let hook = format!("/healthz/{HOOK}");
        let why = |text: &str| (500, format!("internal server error: {text}\n"));
        assert_eq!(asked(&health, &hook), why("not finished"));
        health.hold(HOOK, "the disk is full");
        assert_eq!(asked(&health, &hook), why("not finished: the disk is full"));
        assert!(!asked(&health, "/healthz").1.contains("disk"));
        assert_eq!(asked(&health, "/healthz/informer-sync").0, 404);
        health.complete(INFORMER_SYNC);
        assert!(!health.is_complete(HOOK));
        health.complete(HOOK);
        // It stays complete.
        health.hold(HOOK, "too late");
        assert!(health.is_complete(HOOK));
        for path in ["/readyz", "/healthz", &hook] {
            assert_eq!(asked(&health, path).0, 200, "{path}");
        }
    }

    #[test]
    fn steps_count_for_liveness_after_the_grace_period_alone_d_125() {
        let livez = |grace| {
            let health = unstarted(&Arc::default()).with_liveness_grace(grace);
            let one = asked(&health, &format!("/livez/{HOOK}")).0;
            let (code, text) = asked(&health, "/livez?verbose");
            assert_eq!(code, one);
            (code, text.contains("[+]poststarthook/a ok\n"))
        };
        assert_eq!(livez(Duration::ZERO), (200, true));
        assert_eq!(livez(Duration::from_secs(3600)), (200, true));
        assert_eq!(livez(Duration::from_nanos(1)), (500, false));
    }

    #[test]
    fn a_check_that_is_not_there_is_not_found_api_50() {
        let health = Health::default();
        assert_eq!(asked(&health, "/readyz/nonsense").0, 404);
        assert!(Root::of_path("/version").is_none());
    }

    #[tokio::test]
    async fn what_is_not_at_work_is_told_and_does_not_count() {
        let health = health(&Arc::new(AtomicBool::new(true)));
        let health = health.telling(|| vec!["cacher/configmaps not at work".to_owned()]);
        let verbose = Query::parse("verbose");
        let text = |root| match health.answer(root, "", &verbose).into_body() {
            ResponseBody::Full(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => String::new(),
        };
        let readyz = text(Root::Readyz);
        assert!(
            readyz
                .contains("[!]cacher/configmaps not at work, does not count\nreadyz check passed"),
            "{readyz}"
        );
        assert!(!text(Root::Livez).contains("configmaps"));
    }
}
