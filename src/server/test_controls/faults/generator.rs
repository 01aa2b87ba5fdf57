//! Pure. Random numbers that are the same for the same seed in each run and each version, so that a
//! test that failed can be repeated. The generator is SplitMix64.

/// The step of the state, an odd number whose bits are irregular.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers. Sequences of one seed are independent of each other.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    state: u64,
}

impl Generator {
    /// Begins the sequence with this number among those of a seed.
    pub(super) fn new(seed: u64, sequence: u64) -> Generator {
        Generator {
            state: mixed(seed.wrapping_add(mixed(sequence.wrapping_add(STEP)))),
        }
    }

    /// Returns the next number, from 0 to less than 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(STEP);
        // A double has 53 bits for the digits.
        (mixed(self.state) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Returns bits that depend on all bits of a number.
fn mixed(number: u64) -> u64 {
    let once = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of many numbers, and how many are below a tenth.
    fn measured(mut generator: Generator) -> (f64, usize) {
        let numbers: Vec<f64> = (0..10_000).map(|_| generator.unit()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let small = numbers.iter().filter(|number| **number < 0.1).count();
        (numbers.iter().sum::<f64>() / 10_000.0, small)
    }

    #[test]
    fn a_sequence_is_that_of_splitmix64() {
        // The first numbers of the published generator for the state 0.
        let mut generator = Generator { state: 0 };
        let bits = [0xe220_a839_7b1d_cdaf_u64, 0x6e78_9e6a_a1b9_65f4];
        for bits in bits {
            assert_eq!(generator.unit(), (bits >> 11) as f64 / (1_u64 << 53) as f64);
        }
    }

    #[test]
    fn numbers_repeat_with_their_seed_and_differ_between_seeds_and_sequences() {
        let first = |seed, sequence| {
            let mut generator = Generator::new(seed, sequence);
            [generator.unit(), generator.unit()]
        };
        assert_eq!(first(7, 0), first(7, 0));
        let all = [
            first(7, 0),
            first(7, 1),
            first(8, 0),
            first(0, 0),
            first(0, 1),
        ];
        for (place, one) in all.iter().enumerate() {
            assert!(all[place + 1..].iter().all(|other| other != one));
        }
    }

    #[test]
    fn numbers_are_spread_evenly() {
        for (seed, sequence) in [(0, 0), (0, 1), (1, 0), (u64::MAX, 63)] {
            let (mean, small) = measured(Generator::new(seed, sequence));
            assert!((mean - 0.5).abs() < 0.02, "{mean}");
            assert!(small.abs_diff(1000) < 150, "{small}");
        }
    }
}
