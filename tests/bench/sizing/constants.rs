//! The costs of one daemon and its etcd, which `docs/sizing.md` has as a block of TOML. Pure.

use serde::Deserialize;

/// Names each constant once: the field, its key in TOML, and its comment.
macro_rules! constants {
    ($($(#[doc = $says:literal])+ $name:ident,)+) => {
        /// The constants of one machine, each with its unit in its name.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Constants {
            /// The machine on which they were measured.
            pub machine: String,
            $($(#[doc = $says])+ pub $name: f64,)+
        }

        impl Constants {
            /// Returns all numbers, with their descriptions.
            fn rows(&self) -> Vec<(&'static str, f64, String)> {
                vec![$((stringify!($name), self.$name, [$($says),+].concat())),+]
            }
        }
    };
}

constants! {
    /// a daemon that is ready, without objects and watches
    daemon_memory_mib,
    /// recent events of all resources, full: watch-ring-total-bytes
    ring_memory_mib,
    /// an object in the cache, without the bytes of its JSON
    object_memory_bytes,
    /// a byte of an object's JSON in the cache
    json_byte_memory_bytes,
    /// an idle watch, without its connection
    watch_memory_kib,
    /// a connection with TLS and HTTP/2, in the daemon
    connection_memory_kib,
    /// the daemon's end of a connection, in the kernel
    connection_kernel_memory_kib,
    /// an event for one watch, on a connection that has others to send too
    delivery_cpu_us,
    /// waking a connection to send what there is
    connection_woken_cpu_us,
    /// TCP, TLS, HTTP/2 and a watch that resumes
    watch_opened_cpu_us,
    /// an object in a list at resourceVersion=0, without its JSON
    object_listed_cpu_us,
    /// a KiB of JSON in such a list
    json_kib_listed_cpu_us,
    /// an object read from etcd when a daemon starts, as time, without its JSON
    object_filled_us,
    /// a KiB of JSON read then, as time
    json_kib_filled_us,
    /// an update, for the daemon that takes it, with following it
    update_taken_cpu_us,
    /// an update, for each daemon that only follows
    update_followed_cpu_us,
    /// an update, for etcd with one daemon on it
    etcd_update_cpu_us,
    /// an update, for etcd for each further daemon
    etcd_event_cpu_us,
    /// updates of 1 KiB that one etcd takes at most
    etcd_writes_per_s,
    /// etcd's database for each revision of an object of 1 KiB
    etcd_revision_bytes,
    /// watches that a daemon has open on etcd, however many clients it has
    etcd_watches_per_daemon,
}

impl Constants {
    /// Parses a block.
    pub fn parse(block: &str) -> Result<Constants, String> {
        toml::from_str(block).map_err(|error| error.to_string())
    }

    /// Returns the block with rounded numbers, so that the page shows the numbers it computes with.
    pub fn block(&self) -> String {
        let mut block = format!("machine = \"{}\"\n", self.machine);
        for (name, value, says) in self.rows() {
            let line = format!("{name} = {}", rounded(value));
            block.push_str(&format!("{line:<40} #{says}\n"));
        }
        block
    }
}

/// Rounds to three digits, because no constant is more precise.
fn rounded(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let unit = 10f64.powi(magnitude - 2);
    let decimals = (2 - magnitude).max(0) as usize;
    format!("{:.decimals$}", (value / unit).round() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let constants = Constants {
            machine: "a machine".to_owned(),
            daemon_memory_mib: 17.345,
            connection_woken_cpu_us: 0.012_345,
            etcd_writes_per_s: 3456.7,
            ..Constants::default()
        };
        let block = constants.block();
        let read = Constants::parse(&block).unwrap();
        assert_eq!(read.daemon_memory_mib, 17.3);
        assert_eq!(read.connection_woken_cpu_us, 0.0123);
        assert_eq!(read.etcd_writes_per_s, 3460.0);
        assert_eq!(read.etcd_event_cpu_us, 0.0);
        assert_eq!(read.block(), block);
    }

    #[test]
    fn a_block_that_lacks_a_constant_or_has_another_is_refused() {
        let block = Constants::default().block();
        let less: Vec<&str> = block.lines().skip(2).collect();
        assert!(Constants::parse(&less.join("\n")).is_err());
        assert!(Constants::parse(&format!("{block}another = 1")).is_err());
    }
}
