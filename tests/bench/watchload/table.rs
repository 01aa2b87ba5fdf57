//! The table of all figures, printed at the end.

use parking_lot::Mutex;

use crate::daemons;

use super::goals::{Goal, Limit};

/// A figure is noise when other processes use more cores than this.
const NOISE: f64 = 0.1;

/// The rows in the order in which their runs were first added.
#[derive(Default)]
pub struct Table(Mutex<Vec<Row>>);

struct Row {
    of: String,
    goal: Goal,
    measured: Option<f64>,
    other_cores: f64,
}

impl Row {
    /// Whether this is a fault instead of a figure.
    fn behaviour(&self) -> bool {
        matches!(self.goal.limit, Limit::AtMost(0.0))
    }

    fn met(&self) -> bool {
        self.measured.is_some_and(|value| match self.goal.limit {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
        })
    }
}

impl Table {
    /// Adds a figure of the run `of`, and the noise during it. Of two values for a goal the worse
    /// one is kept.
    pub fn add(&self, of: &str, goal: Goal, measured: f64, other_cores: f64) {
        let value = number(measured);
        println!("  {of}: {}: {value} {}", goal.what, goal.unit);
        let mut rows = self.0.lock();
        let same = |row: &&mut Row| row.of == of && row.goal.what == goal.what;
        if let Some(row) = rows.iter_mut().find(same) {
            row.measured = row.measured.map(|before| match goal.limit {
                Limit::AtMost(_) => before.max(measured),
                Limit::AtLeast(_) => before.min(measured),
            });
            row.other_cores = row.other_cores.max(other_cores);
            return;
        }
        let row = Row {
            of: of.to_owned(),
            goal,
            measured: Some(measured),
            other_cores,
        };
        let last = rows.iter().rposition(|row| row.of == of);
        let end = rows.len();
        rows.insert(last.map_or(end, |last| last + 1), row);
    }

    /// Records a part that failed, whose figures are unknown.
    pub fn broken(&self, part: &str) {
        self.0.lock().push(Row {
            of: part.to_owned(),
            goal: Goal {
                what: "broke, see above",
                unit: "",
                limit: Limit::AtMost(0.0),
                theirs: "",
            },
            measured: None,
            other_cores: 0.0,
        });
    }

    /// Prints the table. Returns whether there was no fault: nothing lost, nothing broken. A busy
    /// machine may be the reason for missed goals.
    pub fn print(&self) -> bool {
        let rows = self.0.lock();
        println!(
            "\n  {:<50} {:>12} {:>16} {:>10}",
            "", "limit", "kube-apiserver", "measured"
        );
        let mut before = "";
        for row in rows.iter() {
            if row.of != before {
                println!("\n  {}", row.of);
            }
            before = &row.of;
            println!("{}", line(row));
        }
        let met = rows.iter().filter(|row| row.met()).count();
        if let Some(version) = daemons::version() {
            println!("\n  Over etcd {version}, which is busy elsewhere.");
        }
        println!(
            "\n  {met} of {} met. kube-apiserver 1.36.2 on etcd 3.5, measured with the same tool.",
            rows.len()
        );
        rows.iter().all(|row| row.met() || !row.behaviour())
    }
}

fn line(row: &Row) -> String {
    let (sign, limit) = match row.goal.limit {
        Limit::AtMost(limit) => ("<=", limit),
        Limit::AtLeast(limit) => (">=", limit),
    };
    let limit = format!("{sign} {} {}", number(limit), row.goal.unit);
    let theirs = match row.goal.theirs {
        "" => "-",
        theirs => theirs,
    };
    let measured = row.measured.map_or("-".to_owned(), number);
    let verdict = if row.met() { "met" } else { "MISSED" };
    let noise = if row.other_cores > NOISE {
        format!("  ({:.1} cores busy elsewhere)", row.other_cores)
    } else {
        String::new()
    };
    format!(
        "    {:<48} {:>12} {theirs:>16} {measured:>10} {verdict}{noise}",
        row.goal.what,
        limit.trim_end()
    )
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
