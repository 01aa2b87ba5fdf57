//! Completion indexes of a Job: `1,3-5,7`.

use api::text::quoting::go_quote;

use super::schedules::parse_go_int;

/// Returns the number of indexes, all of which must be below `completions`.
///
/// # Errors
/// Returns the message for an invalid text.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let mut total: i64 = 0;
    let mut last = None;
    for interval in text.split(',') {
        let (first, end) = parse_interval(interval, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(not_increasing(last, first));
        }
        total = total
            .saturating_add(end.saturating_sub(first))
            .saturating_add(1);
        last = Some(end);
    }
    Ok(total)
}

fn not_increasing(previous: i64, current: i64) -> String {
    format!("non-increasing order, previous: {previous}, current: {current}")
}

fn parse_interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut parts = text.split('-');
    let first = parts.next().unwrap_or_default();
    let (second, third) = (parts.next(), parts.next());
    if third.is_some() {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most \
             two parts separated by '-'",
            go_quote(text)
        ));
    }
    let index = |text: &str| {
        let index = parse_go_int(text).map_err(|_| {
            format!(
                "cannot convert string to integer for index: {}",
                go_quote(text)
            )
        })?;
        if index >= completions {
            return Err(format!("too large index: {}", go_quote(text)));
        }
        Ok(index)
    };
    let first = index(first)?;
    let Some(second) = second else {
        return Ok((first, first));
    };
    let second = index(second)?;
    if first >= second {
        return Err(not_increasing(first, second));
    }
    Ok((first, second))
}

/// Returns the first index that is both completed and failed. Invalid intervals are skipped.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &'_ str| -> Vec<(i64, i64)> {
        let intervals = text
            .split(',')
            .map(|interval| parse_interval(interval, completions));
        intervals.filter_map(Result::ok).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut completed, mut failed) = (completed.into_iter(), failed.into_iter());
    let (mut one, mut other) = (completed.next()?, failed.next()?);
    loop {
        if one.0 <= other.1 && other.0 <= one.1 {
            return Some(one.0.max(other.0));
        }
        if one.0 <= other.0 {
            one = completed.next()?;
        } else {
            other = failed.next()?;
        }
    }
}
