//! Prints figures, one per line, with their goals.

use std::time::Duration;

/// Prints the heading of a part.
pub fn part(title: &str) {
    println!("\n{title}");
}

/// Prints a figure.
pub fn figure(name: &str, value: f64, unit: &str, wanted: &str) {
    let value = match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    println!("  {name:<52} {value:>10} {unit:<6} {wanted}");
}

/// Prints how many cores other processes used. Figures of a busy machine are noise.
pub fn noise(cores: f64) {
    figure(
        "cores busy with something else",
        cores,
        "",
        "near 0, else repeat",
    );
}

/// Durations, for means and percentiles.
#[derive(Default)]
pub struct Durations(Vec<Duration>);

impl Durations {
    pub fn add(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub fn extend(&mut self, other: Durations) {
        self.0.extend(other.0);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the mean in milliseconds.
    pub fn mean(&self) -> f64 {
        let sum: Duration = self.0.iter().sum();
        sum.as_secs_f64() * 1e3 / self.0.len() as f64
    }

    /// Returns the duration that this share of all durations does not exceed, in milliseconds.
    pub fn percentile(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        let index = ((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1));
        self.0
            .get(index)
            .map_or(f64::NAN, |duration| duration.as_secs_f64() * 1e3)
    }
}
