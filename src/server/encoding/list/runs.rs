//! Compressed parts of lists, cached for the next client that lists the same objects (API-65).
//!
//! A list is cut into runs of items. The end of a run depends only on the keys near it, so a
//! changed, new or deleted object changes only its own run. A run is identified by the addresses of
//! its objects, not by names or versions: an object in memory is immutable, so its text stays valid
//! whatever happens in the store.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::mem::size_of;
use std::sync::{Arc, Weak};

use actors::object::CachedObject;
use metrics::{Counter, counter};
use parking_lot::Mutex;

use super::ItemForm;
use crate::server::gzip::segments::Segment;

/// The limit on cached compressed bytes. It covers about 40 MiB of objects.
const BYTES_MAX: usize = 16 << 20;

/// The shortest run, except for the last one of a list.
const RUN_BYTES_MIN: usize = 16 << 10;
/// The longest run, not counting its last item.
pub(super) const RUN_BYTES_MAX: usize = 128 << 10;
/// After the minimum length, one item in this many ends a run.
const ENDS_ONE_IN: u64 = 16;

/// Returns the number of items in the first run.
pub(super) fn run_length(items: &[Arc<CachedObject>]) -> usize {
    let mut bytes = 0;
    for (item, number) in items.iter().zip(1..) {
        bytes += item.item_body().len();
        let is_end = bytes >= RUN_BYTES_MIN && marks_an_end(item);
        if is_end || bytes >= RUN_BYTES_MAX {
            return number;
        }
    }
    items.len()
}

fn marks_an_end(item: &CachedObject) -> bool {
    // FNV-1a and a final mix. The choice of ends does not matter, but it must be stable, and
    // similar names must not all match.
    let hash = item.key().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3_u64)
    });
    let stirred = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (stirred >> 32).is_multiple_of(ENDS_ONE_IN)
}

/// The form in which a run of objects is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RunForm {
    /// The form of each item.
    pub(super) items: ItemForm,
    /// Whether items are protobuf, which has no separators.
    pub(super) is_protobuf: bool,
    /// Whether the run starts the list, so that its first item has no comma before it.
    pub(super) is_first: bool,
    /// Whether the entry holds only the length of the run, without its text.
    pub(super) is_counted: bool,
}

/// The compressed text of a run of items.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) segment: Segment,
    /// The length of the uncompressed text in bytes.
    pub(super) length: usize,
    form: RunForm,
    /// Even a weak reference keeps the allocation, so no other object can get the same address.
    objects: Box<[Weak<CachedObject>]>,
}

impl Run {
    fn is_of(&self, form: &RunForm, items: &[Arc<CachedObject>]) -> bool {
        let is_same = |(kept, item): (&Weak<CachedObject>, &Arc<CachedObject>)| {
            std::ptr::eq(kept.as_ptr(), Arc::as_ptr(item))
        };
        self.form == *form
            && self.objects.len() == items.len()
            && self.objects.iter().zip(items).all(is_same)
    }

    /// Includes the objects' own allocations, which weak references keep, but not the data that the
    /// objects own.
    fn size(&self) -> usize {
        let referred = size_of::<Weak<CachedObject>>() + size_of::<CachedObject>() + 16;
        self.segment.size() + self.objects.len() * referred
    }
}

/// The cache of runs that the module documentation describes. All HTTP threads share it.
pub struct CompressedRuns {
    hasher: RandomState,
    runs: Mutex<Generations>,
    found: Counter,
    made: Counter,
}

/// Recently used runs and older ones. When the young half is full, the old half is dropped as a
/// whole.
#[derive(Default)]
struct Generations {
    young: HashMap<u64, Arc<Run>>,
    young_bytes: usize,
    old: HashMap<u64, Arc<Run>>,
}

impl Default for CompressedRuns {
    fn default() -> CompressedRuns {
        let runs = |result| counter!("taffrail_list_runs_total", "result" => result);
        metrics::describe_counter!(
            "taffrail_list_runs_total",
            "Parts of compressed lists, by result: found in the cache, or made."
        );
        CompressedRuns {
            hasher: RandomState::new(),
            runs: Mutex::default(),
            found: runs("found"),
            made: runs("made"),
        }
    }
}

impl CompressedRuns {
    /// Returns the run of these items, from the cache or compressed from the text that `write`
    /// returns.
    pub(super) fn get(
        &self,
        form: &RunForm,
        items: &[Arc<CachedObject>],
        write: impl FnOnce() -> Vec<u8>,
    ) -> Arc<Run> {
        let number = self.number(form, items);
        if let Some(run) = self.runs.lock().find(number)
            && run.is_of(form, items)
        {
            self.found.increment(1);
            return run;
        }
        // Compress outside the lock. Making the same run twice does no harm.
        let text = write();
        let run = Arc::new(Run {
            segment: Segment::of(&text),
            length: text.len(),
            form: form.clone(),
            objects: items.iter().map(Arc::downgrade).collect(),
        });
        self.made.increment(1);
        self.runs.lock().keep(number, Arc::clone(&run));
        run
    }

    /// Returns the length of the text of a run, from the cache or computed by `count`. A computed
    /// length is cached.
    ///
    /// # Errors
    /// The error of `count`.
    pub(super) fn length<E>(
        &self,
        form: &RunForm,
        items: &[Arc<CachedObject>],
        count: impl FnOnce() -> Result<usize, E>,
    ) -> Result<usize, E> {
        let counted = RunForm {
            is_counted: true,
            ..form.clone()
        };
        for form in [form, &counted] {
            let found = self.runs.lock().find(self.number(form, items));
            if let Some(run) = found.filter(|run| run.is_of(form, items)) {
                return Ok(run.length);
            }
        }
        let length = count()?;
        let run = Run {
            segment: Segment::default(),
            length,
            form: counted,
            objects: items.iter().map(Arc::downgrade).collect(),
        };
        let number = self.number(&run.form, items);
        self.runs.lock().keep(number, Arc::new(run));
        Ok(length)
    }

    fn number(&self, form: &RunForm, items: &[Arc<CachedObject>]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        form.hash(&mut hasher);
        for item in items {
            hasher.write_usize(Arc::as_ptr(item) as usize);
        }
        hasher.finish()
    }
}

impl Generations {
    fn find(&mut self, number: u64) -> Option<Arc<Run>> {
        if let Some(run) = self.young.get(&number) {
            return Some(Arc::clone(run));
        }
        let run = self.old.remove(&number)?;
        self.keep(number, Arc::clone(&run));
        Some(run)
    }

    fn keep(&mut self, number: u64, run: Arc<Run>) {
        let size = run.size();
        if self.young_bytes + size > BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += size;
        if let Some(replaced) = self.young.insert(number, run) {
            self.young_bytes = self.young_bytes.saturating_sub(replaced.size());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::encoding::MetaVersion;
    use crate::server::encoding::tests::cached;

    const FORM: RunForm = RunForm {
        items: ItemForm::Object,
        is_protobuf: false,
        is_first: true,
        is_counted: false,
    };

    fn objects(count: usize, bytes: usize) -> Vec<Arc<CachedObject>> {
        let object = |n| cached(&format!("cm-{n:05}"), &"x".repeat(bytes), n as u64 + 1);
        (0..count).map(object).collect()
    }

    fn runs(items: &[Arc<CachedObject>]) -> Vec<&[Arc<CachedObject>]> {
        let (mut runs, mut rest) = (Vec::new(), items);
        while !rest.is_empty() {
            let (run, others) = rest.split_at(run_length(rest));
            runs.push(run);
            rest = others;
        }
        runs
    }

    #[test]
    fn a_change_leaves_all_but_one_or_two_runs_as_they_are() {
        let before = objects(2_000, 1_000);
        let kept = CompressedRuns::default();
        for run in runs(&before) {
            kept.get(&FORM, run, || vec![b'x'; 100]);
        }
        let count = runs(&before).len();
        assert!((20..125).contains(&count), "{count}");
        let mut changed = before.clone();
        changed[900] = cached("cm-00900", "new", 5_000);
        let mut shorter = before.clone();
        shorter.remove(900);
        for after in [changed, shorter] {
            let mut made = 0;
            for run in runs(&after) {
                kept.get(&FORM, run, || {
                    made += 1;
                    vec![b'y'; 100]
                });
            }
            assert!((1..5).contains(&made), "{made} of {count}");
        }
    }

    #[test]
    fn another_form_or_another_object_is_another_run() {
        let kept = CompressedRuns::default();
        let items = objects(3, 10);
        let lengths = |form: &RunForm, items: &[Arc<CachedObject>], length: usize| {
            kept.get(form, items, || vec![b'x'; length]).length
        };
        assert_eq!(lengths(&FORM, &items, 1), 1);
        assert_eq!(lengths(&FORM, &items, 2), 1, "kept");
        let later = RunForm {
            is_first: false,
            ..FORM
        };
        assert_eq!(lengths(&later, &items, 3), 3);
        let metadata = RunForm {
            items: ItemForm::Metadata(MetaVersion::V1),
            ..FORM
        };
        assert_eq!(lengths(&metadata, &items, 4), 4);
        let protobuf = RunForm {
            is_protobuf: true,
            ..FORM
        };
        assert_eq!(lengths(&protobuf, &items, 7), 7);
        for (version, length) in [("example.com/v1", 8), ("example.com/v2", 9)] {
            let typed = RunForm {
                items: ItemForm::Typed(version.into()),
                ..FORM
            };
            assert_eq!(lengths(&typed, &items, length), length);
        }
        // Equal, but not the same objects.
        assert_eq!(lengths(&FORM, &objects(3, 10), 5), 5);
        assert_eq!(lengths(&FORM, &items[..2], 6), 6);
    }

    #[test]
    fn a_length_is_counted_once_and_is_none_of_a_text() {
        let kept = CompressedRuns::default();
        let items = objects(3, 10);
        let length = |length: usize| kept.length(&FORM, &items, || Ok::<usize, ()>(length));
        assert_eq!((length(7), length(8)), (Ok(7), Ok(7)));
        let run = kept.get(&FORM, &items, || vec![b'x'; 7]);
        assert!(!run.segment.deflated().is_empty());
        assert_eq!(kept.length(&FORM, &items[..2], || Err(())), Err(()));
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_used_stays() {
        let kept = CompressedRuns::default();
        let used = objects(1, 10);
        let noise = |seed: usize| {
            let mut state = seed as u64 | 1;
            let mut next = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as u8
            };
            (0..100_000).map(|_| next()).collect::<Vec<u8>>()
        };
        kept.get(&FORM, &used, || vec![b'x'; 7]);
        for seed in 0..400 {
            kept.get(&FORM, &objects(1, 10), || noise(seed));
            let run = kept.get(&FORM, &used, || panic!("it was used all the time"));
            assert_eq!(run.length, 7);
        }
        let runs = kept.runs.lock();
        let sizes = runs.young.values().chain(runs.old.values());
        let bytes: usize = sizes.map(|run| run.size()).sum();
        assert!(bytes <= BYTES_MAX, "{bytes}");
    }
}
