//! The computed part of `docs/sizing.md`: tables and an example, from the constants. Pure.

use super::constants::Constants;
use super::model::{self, Daemons, Load, Plan};

/// The numbers of watchers that the tables show.
const WATCHERS: [f64; 3] = [10_000.0, 100_000.0, 1_000_000.0];

/// The marks around the page's block of constants, and around the part that is computed from it.
pub const CONSTANTS: [&str; 2] = ["<!-- constants -->\n", "<!-- end of constants -->"];
pub const COMPUTED: [&str; 2] = ["<!-- computed -->\n", "<!-- end of computed -->"];

/// Returns the text between two marks.
pub fn between<'p>(page: &'p str, marks: [&str; 2]) -> Result<&'p str, String> {
    let missing = |mark: &str| format!("the page has no line {}", mark.trim());
    let (_, rest) = page.split_once(marks[0]).ok_or_else(|| missing(marks[0]))?;
    let (inside, _) = rest.split_once(marks[1]).ok_or_else(|| missing(marks[1]))?;
    Ok(inside)
}

/// Returns the constants of a page.
pub fn constants(page: &str) -> Result<Constants, String> {
    let block = between(page, CONSTANTS)?.trim();
    let toml = block.strip_prefix("```toml\n");
    let toml = toml.and_then(|rest| rest.strip_suffix("```"));
    Constants::parse(toml.ok_or("the constants are not a block of toml")?)
}

/// Returns the page with other constants, and with the tables computed from them.
pub fn rewritten(page: &str, constants: &Constants) -> Result<String, String> {
    let block = constants.block();
    let read = Constants::parse(&block)?;
    let mut page = page.to_owned();
    let blocks = [
        (CONSTANTS, format!("```toml\n{block}```\n")),
        (COMPUTED, computed(&read)),
    ];
    for (marks, text) in blocks {
        let inside = between(&page, marks)?;
        let marked = format!("{}{inside}{}", marks[0], marks[1]);
        page = page.replacen(&marked, &format!("{}{text}{}", marks[0], marks[1]), 1);
    }
    Ok(page)
}

/// Returns tables and example.
pub fn computed(constants: &Constants) -> String {
    let own = format!(
        "Own objects: {} of 2 KiB for each watcher, each updated every {} minutes and delivered to {}",
        model::OWN_OBJECTS,
        model::OWN_PERIOD_S / 60.0,
        model::OWN_AUDIENCE
    );
    [
        table(
            "Broadcast: 1,000 objects of 1 KiB, 1 update/s, each delivered to everybody",
            constants,
            model::broadcast,
        ),
        table(&own, constants, model::own_objects),
        example(constants),
    ]
    .join("\n")
}

fn table(title: &str, constants: &Constants, shape: fn(f64) -> Load) -> String {
    let loads = WATCHERS.map(shape);
    let plans = loads.map(|load| model::plan(constants, &load));
    let of_daemons = |what: fn(&Daemons) -> String| {
        plans.map(|plan| {
            plan.daemons
                .map_or("–".to_owned(), |daemons| what(&daemons))
        })
    };
    let of_etcd = |what: fn(&Plan) -> String| plans.map(|plan| what(&plan));
    let rows = [
        ("objects", loads.map(|load| number(load.objects))),
        ("updates/s", loads.map(|load| number(load.updates_per_s))),
        (
            "deliveries/s",
            loads.map(|load| number(load.updates_per_s * load.audience)),
        ),
        (
            "**daemons**",
            of_daemons(|of| format!("**{}**", number(of.count))),
        ),
        (
            "with one away, each: cores",
            of_daemons(|of| number(of.cores)),
        ),
        ("GiB", of_daemons(|of| number(of.memory_gib))),
        ("connections", of_daemons(|of| number(of.connections))),
        ("MB/s sent", of_daemons(|of| number(of.sent_mb_per_s))),
        (
            "one dies: everybody is back after, s",
            of_daemons(|of| number(of.back_s)),
        ),
        (
            "all reconnect, list and watch, s",
            of_daemons(|of| number(of.anew_s)),
        ),
        (
            "GB that each sends for that",
            of_daemons(|of| number(of.anew_gb)),
        ),
        (
            "GiB without watchers",
            of_etcd(|of| number(of.least_memory_gib)),
        ),
        (
            "thread that follows, busy",
            of_etcd(|of| percent(of.following)),
        ),
        (
            "a start fills its caches in, s",
            of_etcd(|of| number(of.fill_s)),
        ),
        ("etcd: cores", of_etcd(|of| number(of.etcd.cores))),
        (
            "etcd: of its most writes",
            of_etcd(|of| percent(of.etcd.share)),
        ),
        (
            "etcd: database, GiB",
            of_etcd(|of| number(of.etcd.database_gib)),
        ),
        (
            "etcd: watches of all daemons",
            of_etcd(|of| number(of.etcd.watches)),
        ),
        ("**does it fit?**", of_etcd(verdict)),
    ];
    let mut text = format!("### {title}\n\n| watchers |");
    for watchers in WATCHERS {
        text.push_str(&format!(" {} |", number(watchers)));
    }
    text.push_str("\n|---|---|---|---|\n");
    for (name, cells) in rows {
        text.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
    }
    text
}

/// States whether a plan works, and what to do if it does not.
fn verdict(plan: &Plan) -> String {
    let etcd = &plan.etcd;
    let mut say = vec![if plan.fits() { "yes" } else { "**no**" }.to_owned()];
    if etcd.share > model::BUSY {
        let share = percent(etcd.share);
        say.push(format!("one etcd would take {share} of its most writes"));
    }
    if etcd.database_gib > model::LARGEST_QUOTA_GIB {
        let largest = model::LARGEST_QUOTA_GIB;
        say.push(format!("its database would pass {largest} GiB"));
    } else if etcd.database_gib > model::QUOTA_GIB {
        say.push("with `--quota-backend-bytes` of 8 GiB".to_owned());
    }
    if etcd.clusters > 1.0 {
        say.push(format!(
            "{} etcds by `--etcd-servers-overrides`, each with resources of its own",
            number(etcd.clusters)
        ));
    }
    if plan.daemons.is_none() {
        let (memory, cores) = (model::MEMORY_GIB, model::CORES);
        say.push(format!(
            "no daemon of {cores} cores and {memory} GiB can hold it all"
        ));
    } else if !plan.is_followed() {
        say.push(format!(
            "one thread can't follow it: `--data-threads={}`, for as many resources",
            number(plan.threads())
        ));
    }
    let connections = plan.daemons.map_or(0.0, |daemons| daemons.connections);
    if connections > model::CONNECTIONS {
        say.push("with `--max-connections` and open files for them".to_owned());
    }
    say.join("; ")
}

/// Explains how one cell of the first table is computed.
fn example(constants: &Constants) -> String {
    let load = model::broadcast(WATCHERS[1]);
    let Some(daemons) = model::plan(constants, &load).daemons else {
        return "### By hand\n\nNo number of daemons serves 100,000 watchers.\n".to_owned();
    };
    let woken = constants.delivery_cpu_us + constants.connection_woken_cpu_us;
    let left = daemons.count - 1.0;
    let connection = constants.connection_memory_kib + constants.connection_kernel_memory_kib;
    let watcher = constants.watch_memory_kib + connection;
    let watchers_gib = load.watchers * watcher / 1024.0 / 1024.0;
    let deliveries = load.watchers * (1.0 + 1.0 / model::BOOKMARK_S);
    let lost = load.watchers / daemons.count;
    format!(
        "### By hand\n\n\
         100,000 watchers, broadcast: an update and 1/60 bookmark a second for each are\n\
         {} deliveries/s. Each costs {} µs and wakes a connection for {} µs:\n\
         {} × {} µs = {} cores. A daemon may use {} × {} = {} of its cores, so it\n\
         takes {} to carry that, and with the one that may be away **{}**.\n\n\
         Memory: {} KiB of watch and connection for each watcher are {} GiB, divided by {};\n\
         with what each daemon has anyway ({} MiB, a ring of {} MiB, 1,000 objects) that is\n\
         {} GiB each.\n\n\
         When one of {} dies, {} watchers come back at {} ms of CPU each; left to do it are\n\
         {} with {} idle cores each: {} s.\n",
        number(deliveries),
        number(constants.delivery_cpu_us),
        number(constants.connection_woken_cpu_us),
        number(deliveries),
        number(woken),
        number(deliveries * woken * 1e-6),
        model::CORES,
        model::BUSY,
        number(model::CORES * model::BUSY),
        number(left),
        number(daemons.count),
        number(watcher),
        number(watchers_gib),
        number(left),
        number(constants.daemon_memory_mib),
        number(constants.ring_memory_mib),
        number(daemons.memory_gib),
        number(daemons.count),
        number(lost),
        number(constants.watch_opened_cpu_us / 1000.0),
        number(left),
        number(model::CORES - daemons.cores),
        number(daemons.back_s),
    )
}

fn percent(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Formats about two digits below a hundred, and whole numbers with commas above.
fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.01 => "< 0.01".to_owned(),
        v if v < 1.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if value.abs() < 1000.0 {
        return text.to_owned();
    }
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        let said = [0.0, 0.004, 0.25, 2.0, 16.67, 250.4, 1234.0, 1e6, 16_666.7].map(number);
        let wanted = [
            "0",
            "< 0.01",
            "0.25",
            "2",
            "16.7",
            "250",
            "1,234",
            "1,000,000",
            "16,667",
        ];
        assert_eq!(said, wanted);
    }

    #[test]
    fn a_page_is_rewritten_between_its_marks_alone() {
        let marks = [CONSTANTS[0], CONSTANTS[1], COMPUTED[0], COMPUTED[1]];
        let page = format!(
            "before\n{}x{}\nmiddle\n{}y{}\nafter\n",
            marks[0], marks[1], marks[2], marks[3]
        );
        let new = Constants {
            machine: "this one".to_owned(),
            watch_memory_kib: 2.0,
            etcd_writes_per_s: 1000.0,
            ..Constants::default()
        };
        let written = rewritten(&page, &new).unwrap();
        assert_eq!(constants(&written).unwrap(), new);
        assert_eq!(between(&written, COMPUTED).unwrap(), computed(&new));
        for line in ["before\n", "\nmiddle\n", "\nafter\n"] {
            assert!(written.contains(line), "{written}");
        }
        assert_eq!(rewritten(&written, &new).unwrap(), written);
        assert!(rewritten("nothing", &new).is_err());
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_to_do() {
        let constants = Constants {
            etcd_writes_per_s: 10_000.0,
            etcd_revision_bytes: 1024.0,
            ..Constants::default()
        };
        let verdicts = WATCHERS
            .map(|watchers| verdict(&model::plan(&constants, &model::own_objects(watchers))));
        assert_eq!(verdicts[0], "yes");
        assert!(
            verdicts[1].starts_with("yes; with `--quota-backend-bytes` of 8 GiB; with `--max-c"),
            "{}",
            verdicts[1]
        );
        assert!(
            verdicts[2].starts_with("**no**; one etcd would take 167 %"),
            "{}",
            verdicts[2]
        );
        assert!(
            verdicts[2].contains("4 etcds by `--etcd-servers-overrides"),
            "{}",
            verdicts[2]
        );
    }
}
