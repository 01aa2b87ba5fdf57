//! Properties of all ciphers, and the data that each of them authenticates.

use super::*;

const PLACE: &[u8] = b"/registry/secrets/default/a";

fn cipher(algorithm: Algorithm, fill: u8, length: usize) -> Arc<dyn Cipher> {
    algorithm.with_key(&vec![fill; length]).unwrap()
}

fn encrypted(cipher: &dyn Cipher, plain: &[u8]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    cipher.encrypt(PLACE, plain, &mut out).unwrap();
    out.split_off(6)
}

#[test]
fn every_cipher_reads_what_it_wrote_with_every_length_of_key_en_7() {
    for algorithm in Algorithm::ALL {
        for length in algorithm.key_lengths() {
            let cipher = cipher(algorithm, 7, *length);
            for plain in [&b""[..], b"a", b"sixteen bytes, ok", &[9; 5000]] {
                let stored = encrypted(&*cipher, plain);
                assert_eq!(cipher.decrypt(PLACE, &stored).unwrap(), plain);
                assert_ne!(encrypted(&*cipher, plain), stored, "the nonce is random");
            }
        }
        for length in [0, 15, 17, 31, 33, 64] {
            assert!(algorithm.with_key(&vec![7; length]).is_none(), "{length}");
        }
    }
}

#[test]
fn payloads_are_as_long_as_kubernetes_makes_them_en_7() {
    let length = |algorithm, plain: &[u8]| encrypted(&*cipher(algorithm, 7, 32), plain).len();
    assert_eq!(length(Algorithm::AesGcm, b"abc"), 12 + 3 + 16);
    assert_eq!(length(Algorithm::Secretbox, b"abc"), 24 + 3 + 16);
    assert_eq!(length(Algorithm::AesCbc, b"abc"), 16 + 16);
    assert_eq!(length(Algorithm::AesCbc, &[1; 16]), 16 + 32);
}

#[test]
fn a_wrong_key_and_a_damaged_value_are_errors_and_nothing_else() {
    for algorithm in Algorithm::ALL {
        let (right, wrong) = (cipher(algorithm, 7, 32), cipher(algorithm, 8, 32));
        let stored = encrypted(&*right, b"a value");
        // Nothing authenticates what CBC wrote; see below.
        if algorithm != Algorithm::AesCbc {
            assert!(wrong.decrypt(PLACE, &stored).is_err(), "{algorithm:?}");
            for byte in 0..stored.len() {
                let mut damaged = stored.clone();
                damaged[byte] ^= 1;
                assert!(
                    right.decrypt(PLACE, &damaged).is_err(),
                    "{algorithm:?} {byte}"
                );
            }
        }
        for length in 0..stored.len() {
            assert!(
                right.decrypt(PLACE, &stored[..length]).is_err(),
                "{algorithm:?} {length}"
            );
        }
    }
}

#[test]
fn a_wrong_key_of_cbc_hardly_ever_passes_and_never_as_what_was_written() {
    // Unauthenticated: about one wrong key in 256 finds a padding.
    let plain = br#"{"kind":"Secret"}"#;
    let stored = encrypted(&*cipher(Algorithm::AesCbc, 7, 32), plain);
    let wrong: Vec<u8> = (0..=255).filter(|fill| *fill != 7).collect();
    let passed = wrong.iter().filter_map(|fill| {
        let cipher = cipher(Algorithm::AesCbc, *fill, 32);
        cipher.decrypt(PLACE, &stored).ok()
    });
    let passed: Vec<Vec<u8>> = passed.collect();
    assert!(passed.len() < 20, "{}", passed.len());
    assert!(passed.iter().all(|text| text != plain));
}

#[test]
fn only_aesgcm_binds_the_place_en_1_pf_20() {
    for algorithm in Algorithm::ALL {
        let cipher = cipher(algorithm, 7, 32);
        let stored = encrypted(&*cipher, b"a value");
        let moved = cipher.decrypt(b"/other/secrets/default/a", &stored);
        assert_eq!(
            moved.is_err(),
            algorithm == Algorithm::AesGcm,
            "{algorithm:?}"
        );
    }
}
