//! The options for reading a pod's log (CN-41).

use super::{OptionsError, Query, query_text};
use crate::field_error::FieldError;
use crate::text::go_time::{Decimals, GoTime};

/// The valid options of a request for a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether the log is sent as it grows.
    pub follow: bool,
    /// Whether the certificate of the kubelet is not checked.
    pub skips_verification: bool,
    previous: bool,
    timestamps: bool,
    since_seconds: Option<i64>,
    /// As the kubelet gets it.
    since_time: Option<String>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
}

impl LogOptions {
    /// Reads and validates the parameters of a request for the log of this pod.
    ///
    /// # Errors
    /// 400 for invalid numbers and times, 422 with all values that are out of range.
    pub fn read(query: &Query, pod: &str) -> Result<LogOptions, OptionsError> {
        let since_seconds = query.integer("sinceSeconds")?;
        let since_time = query.first("sinceTime").filter(|time| !time.is_empty());
        let since_time = since_time.map(|time| GoTime::read(time, Decimals::Any));
        let since_time = since_time.transpose().map_err(OptionsError::Unreadable)?;
        let options = LogOptions {
            follow: query.flag("follow"),
            skips_verification: query.flag("insecureSkipTLSVerifyBackend"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since_seconds,
            since_time: since_time.map(|time| time.print(Decimals::Any)),
            tail_lines: query.integer("tailLines")?,
            limit_bytes: query.integer("limitBytes")?,
        };
        // The feature gate of `stream` is off.
        let errors = options.errors(query.first("stream").is_some());
        if errors.is_empty() {
            return Ok(options);
        }
        Err(OptionsError::Invalid {
            group: "",
            kind: "PodLogOptions",
            name: pod.to_owned(),
            errors,
        })
    }

    fn errors(&self, has_stream: bool) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(lines) = self.tail_lines.filter(|lines| *lines < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("tailLines", lines, detail));
        }
        let at_least_one = |name: &str, number: Option<i64>| {
            let number = number.filter(|number| *number < 1)?;
            Some(FieldError::invalid(name, number, "must be greater than 0"))
        };
        errors.extend(at_least_one("limitBytes", self.limit_bytes));
        if self.since_seconds.is_some() && self.since_time.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("[]", detail));
        } else {
            errors.extend(at_least_one("sinceSeconds", self.since_seconds));
        }
        if has_stream {
            let detail = "may not be specified";
            errors.push(FieldError::forbidden("stream", detail));
        }
        errors
    }

    /// Returns the query of the request to the kubelet (CN-43).
    pub fn kubelet_query(&self) -> String {
        let flag = |is_set: bool| is_set.then(|| "true".to_owned());
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        let all = [
            ("follow", flag(self.follow)),
            ("limitBytes", number(self.limit_bytes)),
            ("previous", flag(self.previous)),
            ("sinceSeconds", number(self.since_seconds)),
            ("sinceTime", self.since_time.clone()),
            ("tailLines", number(self.tail_lines)),
            ("timestamps", flag(self.timestamps)),
        ];
        let given = all.into_iter();
        query_text(
            given
                .filter_map(|(name, value)| Some((name.into(), value?.into())))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_is_asked_for_what_is_set_cn_43() {
        for (given, asked) in [
            ("", ""),
            (
                "follow=0&previous=False&timestamps=&sinceTime=",
                "timestamps=true",
            ),
            (
                "tailLines=0&limitBytes=5&follow=no&sinceSeconds=7",
                "follow=true&limitBytes=5&sinceSeconds=7&tailLines=0",
            ),
            (
                "sinceTime=2026-01-01T02:00:00.5%2B02:00",
                "sinceTime=2026-01-01T00%3A00%3A00Z",
            ),
            ("tailLines=1&tailLines=x&container=a&other=b", "tailLines=1"),
        ] {
            let options = LogOptions::read(&Query::parse(given), "p").unwrap();
            assert_eq!(options.kubelet_query(), asked, "{given}");
        }
    }
}
