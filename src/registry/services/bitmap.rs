//! Port allocations as the bits of a big-endian integer, as Kubernetes stores them.

/// The bits of a port range. Leading zero bytes are dropped, as Go's `big.Int` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bitmap {
    /// The bytes, least significant first.
    bytes: Vec<u8>,
}

impl Bitmap {
    /// Reads the stored bytes.
    pub(super) fn read(stored: &[u8]) -> Bitmap {
        let bytes = stored.iter().rev().copied().collect();
        Bitmap { bytes }
    }

    /// Returns the bytes to store.
    pub(super) fn stored(&self) -> Vec<u8> {
        let bytes = self.bytes.iter().rev().copied();
        bytes.skip_while(|byte| *byte == 0).collect()
    }

    /// Returns whether a bit is set.
    pub(super) fn has(&self, bit: usize) -> bool {
        let byte = self.bytes.get(bit / 8);
        byte.is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
    }

    /// Sets or clears a bit.
    pub(super) fn set(&mut self, bit: usize, is_set: bool) {
        if self.bytes.len() <= bit / 8 {
            self.bytes.resize(bit / 8 + 1, 0);
        }
        if let Some(byte) = self.bytes.get_mut(bit / 8) {
            match is_set {
                true => *byte |= 1 << (bit % 8),
                false => *byte &= !(1 << (bit % 8)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-228: kube-apiserver can read the stored bytes.
    #[test]
    fn bits_are_those_of_a_whole_number_in_bytes() {
        let mut bits = Bitmap::default();
        assert!(bits.stored().is_empty());
        for bit in [0, 9, 17] {
            bits.set(bit, true);
        }
        assert_eq!(bits.stored(), [0b10, 0b10, 0b1]);
        assert_eq!(Bitmap::read(&bits.stored()), bits);
        let set: Vec<usize> = (0..40).filter(|bit| bits.has(*bit)).collect();
        assert_eq!(set, [0, 9, 17]);
        bits.set(17, false);
        assert_eq!(bits.stored(), [0b10, 0b1]);
    }
}
