//! What a request asks for beside its object: query parameters and option bodies (3.1).

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use crate::api::decode::{BodyFormat, decode_value};
use crate::api::duration::parse_go_duration;
use crate::api::field_error::{FieldError, FieldErrorKind, go_quote};
use crate::api::resource::ResourceDefinition;
use crate::api::status::Status;
use crate::api::version::{Preconditions, VersionMatch};

pub use crate::api::version::{list_version, parse_version, read_version};

const META_GROUP: &str = "meta.k8s.io";

/// Longer field managers are refused (API-81).
const MAX_FIELD_MANAGER_BYTES: usize = 128;

/// The parameters of a query string, in order, percent-decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Splits a query string; never fails, as unknown and odd parameters are ignored (API-78).
    pub fn parse(text: &str) -> Query {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decode_part(name)?, decode_part(value)?))
            })
            .collect();
        Query { pairs }
    }

    /// The first value of a parameter, which is the one that counts (API-78).
    pub fn first(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.pairs
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// A parameter as yes or no: absent, `0` and `false` are no, anything else is yes (API-6).
    pub fn flag(&self, name: &str) -> bool {
        self.first(name).is_some_and(is_yes)
    }

    /// The text of a parameter; empty when absent.
    fn text(&self, name: &str) -> String {
        self.first(name).unwrap_or_default().to_owned()
    }

    /// A whole number; absent is `None`, an empty text is no number.
    fn integer(&self, name: &str) -> Result<Option<i64>, Box<Status>> {
        self.first(name).map(parse_integer).transpose()
    }
}

fn parse_integer(text: &str) -> Result<i64, Box<Status>> {
    use std::num::IntErrorKind;

    text.parse().map_err(|error: std::num::ParseIntError| {
        let why = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let quoted = go_quote(text);
        Box::new(Status::bad_request(format!(
            "strconv.ParseInt: parsing {quoted}: {why}"
        )))
    })
}

fn is_yes(text: &str) -> bool {
    text != "0" && !text.eq_ignore_ascii_case("false")
}

/// Percent-decodes a name or value, plus signs being blanks; `None` for a broken escape, whose
/// pair then doesn't count.
fn decode_part(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(text.to_owned());
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => hex_digit(*rest.next()?)? * 16 + hex_digit(*rest.next()?)?,
            other => *other,
        });
    }
    Some(match String::from_utf8_lossy(&decoded) {
        Cow::Borrowed(valid) => valid.to_owned(),
        Cow::Owned(mended) => mended,
    })
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// `resourceVersionMatch` as given, so that validation can name a value it doesn't know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionMatchText {
    /// `Exact`.
    Exact,
    /// `NotOlderThan`.
    NotOlderThan,
    /// Anything else; refused by validation.
    Other(String),
}

impl VersionMatchText {
    fn of(text: &str) -> VersionMatchText {
        match text {
            "Exact" => VersionMatchText::Exact,
            "NotOlderThan" => VersionMatchText::NotOlderThan,
            other => VersionMatchText::Other(other.to_owned()),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            VersionMatchText::Exact => "Exact",
            VersionMatchText::NotOlderThan => "NotOlderThan",
            VersionMatchText::Other(text) => text,
        }
    }

    /// What storage takes; `None` for what validation refuses.
    pub fn known(&self) -> Option<VersionMatch> {
        match self {
            VersionMatchText::Exact => Some(VersionMatch::Exact),
            VersionMatchText::NotOlderThan => Some(VersionMatch::NotOlderThan),
            VersionMatchText::Other(_) => None,
        }
    }
}

/// The options of list and watch (3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `labelSelector`, not parsed yet.
    pub labels: String,
    /// `fieldSelector`, not parsed yet.
    pub fields: String,
    /// `resourceVersion`, not parsed yet.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub version_match: Option<VersionMatchText>,
    /// `limit`; 0 is no limit.
    pub limit: usize,
    /// `continue`.
    pub continue_token: Option<String>,
    /// `timeoutSeconds`.
    pub timeout_seconds: Option<u64>,
    /// `watch`.
    pub watch: bool,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads the parameters.
    ///
    /// # Errors
    /// 400 for a number that is none (API-78).
    pub fn parse(query: &Query) -> Result<ListOptions, Box<Status>> {
        let non_empty = |name: &str| query.first(name).filter(|text| !text.is_empty());
        let limit = query.integer("limit")?.unwrap_or(0);
        let timeout = query.integer("timeoutSeconds")?;
        Ok(ListOptions {
            labels: query.text("labelSelector"),
            fields: query.text("fieldSelector"),
            resource_version: query.text("resourceVersion"),
            version_match: non_empty("resourceVersionMatch").map(VersionMatchText::of),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: non_empty("continue").map(str::to_owned),
            timeout_seconds: timeout.and_then(|seconds| u64::try_from(seconds).ok()),
            watch: query.flag("watch"),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.first("sendInitialEvents").map(is_yes),
        })
    }

    /// The rules for a list (LI-1, API-84).
    ///
    /// # Errors
    /// 422 with kind ListOptions.
    pub fn validate_list(&self) -> Result<(), Box<Status>> {
        let mut errors = Vec::new();
        let path = "resourceVersionMatch";
        if let Some(version_match) = &self.version_match {
            if self.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(path, detail));
            }
            errors.extend(self.match_with_continue());
            match version_match {
                VersionMatchText::Other(text) => errors.push(FieldError::not_supported(
                    path,
                    text.as_str(),
                    &["Exact", "NotOlderThan", ""],
                )),
                VersionMatchText::Exact if self.resource_version == "0" => {
                    let detail =
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    errors.push(FieldError::forbidden(path, detail));
                }
                _ => {}
            }
        }
        if self.send_initial_events.is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", detail));
        }
        refuse("ListOptions", &errors)
    }

    /// The rules for a watch (WA-3, API-84), to be asked after [`ListOptions::default_watch`].
    ///
    /// # Errors
    /// 422 with kind ListOptions.
    pub fn validate_watch(&self) -> Result<(), Box<Status>> {
        let mut errors = Vec::new();
        let path = "resourceVersionMatch";
        let not_older = self.version_match == Some(VersionMatchText::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(path, detail));
        }
        if let Some(version_match) = &self.version_match {
            if self.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(path, detail));
            }
            if !not_older {
                let supported = &["NotOlderThan"];
                errors.push(FieldError::not_supported(
                    path,
                    version_match.as_str(),
                    supported,
                ));
            }
            errors.extend(self.match_with_continue());
        }
        refuse("ListOptions", &errors)
    }

    /// A plain watch from no version or from 0 starts with the state (WA-5, API-85).
    pub fn default_watch(&mut self) {
        let plain = self.send_initial_events.is_none() && self.version_match.is_none();
        if plain && matches!(self.resource_version.as_str(), "" | "0") {
            self.send_initial_events = Some(true);
            self.version_match = Some(VersionMatchText::NotOlderThan);
        }
    }

    fn match_with_continue(&self) -> Option<FieldError> {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        self.continue_token
            .as_ref()
            .map(|_| FieldError::forbidden("resourceVersionMatch", detail))
    }
}

/// `fieldValidation` (API-90).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Unknown and duplicate members are accepted silently.
    Ignore,
    /// They are accepted with warnings.
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

/// The verb that [`WriteOptions`] are of, for the text of a refusal (API-80).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteVerb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
}

impl WriteVerb {
    fn kind(self) -> &'static str {
        match self {
            WriteVerb::Create => "CreateOptions",
            WriteVerb::Update => "UpdateOptions",
            WriteVerb::Patch => "PatchOptions",
        }
    }
}

/// The options of create, update and patch (3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// `dryRun=All`.
    pub dry_run: bool,
    /// `fieldManager`; empty when not given (see [`default_manager`]).
    pub field_manager: String,
    /// `fieldValidation`.
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// Reads and checks the parameters (API-80, API-81).
    ///
    /// # Errors
    /// 422 with the kind of the verb's options.
    pub fn parse(query: &Query, verb: WriteVerb) -> Result<WriteOptions, Box<Status>> {
        let dry_run = query.all("dryRun");
        let field_manager = query.text("fieldManager");
        let mut errors = validate_field_manager(&field_manager);
        errors.extend(validate_dry_run(&dry_run));
        let field_validation = match query.first("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = &["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported(
                    "fieldValidation",
                    other,
                    supported,
                ));
                FieldValidation::Warn
            }
        };
        if verb == WriteVerb::Patch && query.first("force").is_some() {
            let detail = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden("force", detail));
        }
        refuse(verb.kind(), &errors)?;
        Ok(WriteOptions {
            dry_run: is_dry_run(&dry_run),
            field_manager,
            field_validation,
        })
    }
}

/// The field manager of a request that names none: its User-Agent up to the first slash, cut to
/// what a field manager may be (API-155).
pub fn default_manager(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in name.chars().filter(|c| is_printable(*c)) {
        if manager.len() + c.len_utf8() > MAX_FIELD_MANAGER_BYTES {
            break;
        }
        manager.push(c);
    }
    manager
}

/// What happens to dependents of a deleted object (API-114).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object stays until they are gone.
    Foreground,
    /// They are collected afterwards.
    Background,
    /// They stay.
    Orphan,
}

/// The options of a deletion (3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `dryRun: [All]`.
    pub dry_run: bool,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`.
    pub propagation_policy: Option<Propagation>,
    /// `orphanDependents`.
    pub orphan_dependents: Option<bool>,
    /// `preconditions`, which only a body has (API-83).
    pub preconditions: Preconditions,
}

/// A deletion's options before they are checked.
#[derive(Debug, Default)]
struct RawDeleteOptions {
    dry_run: Vec<String>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    preconditions: Preconditions,
}

impl DeleteOptions {
    /// Reads and checks the options: a body, if there is one, wins entirely (API-82, API-83).
    ///
    /// # Errors
    /// 400 for what can't be read, 422 with kind DeleteOptions for what isn't allowed.
    pub fn parse(
        query: &Query,
        body: &[u8],
        format: BodyFormat,
        definition: &ResourceDefinition,
    ) -> Result<DeleteOptions, Box<Status>> {
        let raw = if body.is_empty() {
            RawDeleteOptions::of_query(query)?
        } else {
            RawDeleteOptions::of_body(body, format, definition)
                .map_err(|message| Box::new(Status::bad_request(message)))?
        };
        raw.checked()
    }
}

impl RawDeleteOptions {
    fn of_query(query: &Query) -> Result<RawDeleteOptions, Box<Status>> {
        Ok(RawDeleteOptions {
            dry_run: query.all("dryRun").into_iter().map(str::to_owned).collect(),
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.first("orphanDependents").map(is_yes),
            preconditions: Preconditions::default(),
        })
    }

    fn of_body(
        body: &[u8],
        format: BodyFormat,
        definition: &ResourceDefinition,
    ) -> Result<RawDeleteOptions, String> {
        let (value, _) = decode_value(body, format)?;
        let members = match value {
            Value::Object(members) => members,
            Value::Null if format == BodyFormat::Yaml => serde_json::Map::new(),
            _ => return Err("the body is no DeleteOptions: not an object".to_owned()),
        };
        let text = |name: &str| optional(members.get(name), name, "a string", Value::as_str);
        let kind = text("kind")?.unwrap_or_default();
        let version = text("apiVersion")?.unwrap_or_default();
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(format!("the body is of kind {kind:?}, not DeleteOptions"));
        }
        if !matches!(version, "" | "v1" | "meta.k8s.io/v1") && version != definition.api_version() {
            return Err(format!(
                "no kind DeleteOptions is known in version {version:?}"
            ));
        }
        let preconditions = match members.get("preconditions") {
            None | Some(Value::Null) => Preconditions::default(),
            Some(Value::Object(given)) => {
                let part = |name: &str| {
                    let place = format!("preconditions.{name}");
                    optional(given.get(name), &place, "a string", Value::as_str)
                };
                Preconditions {
                    uid: part("uid")?.map(str::to_owned),
                    resource_version: part("resourceVersion")?.map(str::to_owned),
                }
            }
            Some(_) => return Err("preconditions must be an object".to_owned()),
        };
        let whole = "a whole number";
        Ok(RawDeleteOptions {
            dry_run: text_list(members.get("dryRun"), "dryRun")?,
            grace_period_seconds: optional(
                members.get("gracePeriodSeconds"),
                "gracePeriodSeconds",
                whole,
                Value::as_i64,
            )?,
            propagation_policy: text("propagationPolicy")?.map(str::to_owned),
            orphan_dependents: optional(
                members.get("orphanDependents"),
                "orphanDependents",
                "a boolean",
                Value::as_bool,
            )?,
            preconditions,
        })
    }

    fn checked(self) -> Result<DeleteOptions, Box<Status>> {
        let mut errors = Vec::new();
        let path = "propagationPolicy";
        let policy = match self.propagation_policy.as_deref() {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = &["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(path, other, supported));
                None
            }
        };
        if let (Some(text), Some(_)) = (&self.propagation_policy, self.orphan_dependents) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.insert(0, FieldError::invalid(path, text.as_str(), detail));
        }
        let dry_run: Vec<&str> = self.dry_run.iter().map(String::as_str).collect();
        errors.extend(validate_dry_run(&dry_run));
        refuse("DeleteOptions", &errors)?;
        Ok(DeleteOptions {
            dry_run: is_dry_run(&dry_run),
            grace_period_seconds: self.grace_period_seconds,
            propagation_policy: policy,
            orphan_dependents: self.orphan_dependents,
            preconditions: self.preconditions,
        })
    }
}

fn optional<'v, T>(
    value: Option<&'v Value>,
    name: &str,
    wanted: &str,
    read: impl Fn(&'v Value) -> Option<T>,
) -> Result<Option<T>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(format!("{name} of the DeleteOptions must be {wanted}")),
        },
    }
}

fn text_list(value: Option<&Value>, name: &str) -> Result<Vec<String>, String> {
    let list = optional(value, name, "a list of strings", Value::as_array)?;
    list.into_iter()
        .flatten()
        .map(|item| match item {
            Value::String(text) => Ok(text.clone()),
            _ => Err(format!(
                "{name} of the DeleteOptions must be a list of strings"
            )),
        })
        .collect()
}

/// How long a request may take by its parameter `timeout`: `None` without one, and never more
/// than `longest` (API-15).
///
/// # Errors
/// 400 when it is no duration.
pub fn request_timeout(query: &Query, longest: Duration) -> Result<Option<Duration>, Box<Status>> {
    let Some(text) = query.first("timeout").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let given = parse_go_duration(text).map_err(|why| {
        Status::bad_request(format!(
            "invalid timeout specified in the request URL - {why}"
        ))
    })?;
    Ok((!given.is_zero()).then(|| given.min(longest)))
}

fn validate_dry_run(values: &[&str]) -> Option<FieldError> {
    let known = values.iter().all(|value| matches!(*value, "All" | ""));
    let given: Vec<Value> = values.iter().map(|value| (*value).into()).collect();
    (!known).then(|| FieldError::not_supported("dryRun", given, &["All"]))
}

fn is_dry_run(values: &[&str]) -> bool {
    values.contains(&"All")
}

fn validate_field_manager(manager: &str) -> Vec<FieldError> {
    let path = "fieldManager";
    let mut errors = Vec::new();
    if manager.len() > MAX_FIELD_MANAGER_BYTES {
        errors.push(FieldError::too_long(path, MAX_FIELD_MANAGER_BYTES));
    }
    for (index, c) in manager.char_indices() {
        if !is_printable(c) {
            let detail = format!(
                "invalid character U+{:04X} (at position {index})",
                u32::from(c)
            );
            errors.push(FieldError::new(
                FieldErrorKind::Invalid,
                path,
                &manager.into(),
                detail,
            ));
        }
    }
    errors
}

fn is_printable(c: char) -> bool {
    !c.is_control()
}

/// Answers 422 when there are errors (API-80).
fn refuse(kind: &str, errors: &[FieldError]) -> Result<(), Box<Status>> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Box::new(Status::invalid(META_GROUP, kind, "", errors)))
}
