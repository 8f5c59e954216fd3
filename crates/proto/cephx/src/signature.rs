//! Signatures of messages in the messenger of version 1 (`CephxSessionHandler` in Ceph's `src/auth/cephx`).
//!
//! A signature covers the checksums of a message's parts, not the parts themselves. With the feature
//! `CEPHX_V2` it covers the lengths and the sequence number too, so that a message cannot be repeated or
//! shortened.
//!
//! With a key of type `aes` the signature is made of the encrypted fields. What a key of type `aes256k`
//! encrypts is different each time, so the fields are not encrypted but authenticated (HMAC-SHA-256).

use std::iter;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use hmac::{Hmac, Mac as _};
use loligo_wire::features;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::key::{AES_SECRET_LEN, AES256K_SECRET_LEN, ENVELOPE_VERSION, IV, MAGIC};

const BLOCK_LEN: usize = 16;
/// The length that the older form states in front of its four checksums.
const CHECKSUMS_LEN: u32 = 16;

/// Signs the messages of one connection, in both directions.
pub struct MessageSigner(Form);

enum Form {
    Aes {
        cipher: Box<Aes128>,
        /// Both sides have the feature `CEPHX_V2`.
        is_v2: bool,
    },
    /// The feature is older than these keys.
    Aes256k(Zeroizing<[u8; AES256K_SECRET_LEN]>),
}

/// The fields of a message that its signature covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signed {
    /// The checksum of the header.
    pub header_crc: u32,
    /// Checksum and length of the front.
    pub front: (u32, u32),
    /// Checksum and length of the middle.
    pub middle: (u32, u32),
    /// Checksum and length of the data.
    pub data: (u32, u32),
    /// The sequence number; only its lower half is signed.
    pub seq: u64,
}

impl MessageSigner {
    /// Signs with the session key of a connection with these features. Returns `None` for keys of an unknown
    /// type.
    pub fn new(session_key: &[u8], agreed_features: u64) -> Option<Self> {
        if let Ok(secret) = session_key.try_into() {
            return Some(Self(Form::Aes256k(Zeroizing::new(secret))));
        }
        let secret: &[u8; AES_SECRET_LEN] = session_key.try_into().ok()?;
        let is_v2 = features::has(agreed_features, features::CEPHX_V2);
        Some(Self(Form::Aes { cipher: Box::new(Aes128::new(secret.into())), is_v2 }))
    }

    /// Returns the signature.
    pub fn sign(&self, signed: &Signed) -> u64 {
        match &self.0 {
            Form::Aes { cipher, is_v2: true } => folded(&encrypted(cipher, fields(signed))),
            Form::Aes { cipher, is_v2: false } => folded(&encrypted(cipher, old_fields(signed))[..8]),
            Form::Aes256k(secret) => {
                let mut mac =
                    Hmac::<Sha256>::new_from_slice(&**secret).expect("HMAC takes keys of any length");
                mac.update(&fields(signed));
                folded(&mac.finalize().into_bytes())
            }
        }
    }

    /// Whether the signature is right. Takes the same time for every wrong one.
    pub fn verify(&self, signed: &Signed, signature: u64) -> bool {
        self.sign(signed).to_le_bytes().ct_eq(&signature.to_le_bytes()).into()
    }
}

/// The signed fields.
fn fields(signed: &Signed) -> [u8; 2 * BLOCK_LEN] {
    let mut bytes = [0; 2 * BLOCK_LEN];
    let parts = [signed.front, signed.middle, signed.data].map(|(crc, len)| [crc, len]);
    let words = iter::once(&signed.header_crc).chain(parts.as_flattened());
    for (field, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *field = word.to_le_bytes();
    }
    // Only the lower half of the number has a place.
    bytes[28..].copy_from_slice(&signed.seq.to_le_bytes()[..4]);
    bytes
}

/// The beginning of the older form; what follows does not count.
fn old_fields(signed: &Signed) -> [u8; BLOCK_LEN] {
    let mut bytes = [0; BLOCK_LEN];
    bytes[0] = ENVELOPE_VERSION;
    bytes[1..9].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[9..13].copy_from_slice(&CHECKSUMS_LEN.to_le_bytes());
    bytes[13..].copy_from_slice(&signed.header_crc.to_le_bytes()[..3]);
    bytes
}

/// Encrypts whole blocks (CBC). The padding that would follow does not count.
fn encrypted<const LEN: usize>(cipher: &Aes128, mut bytes: [u8; LEN]) -> [u8; LEN] {
    let mut last = *IV;
    for block in bytes.as_chunks_mut::<BLOCK_LEN>().0 {
        let mut sealed = std::array::from_fn(|i| block[i] ^ last[i]).into();
        cipher.encrypt_block(&mut sealed);
        last = sealed.into();
        *block = last;
    }
    bytes
}

/// All words of 64 bits, with XOR between them.
fn folded(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<8>().0.iter().fold(0, |folded, word| folded ^ u64::from_le_bytes(*word))
}

impl std::fmt::Debug for MessageSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let form = match self.0 {
            Form::Aes { is_v2: true, .. } => "aes",
            Form::Aes { is_v2: false, .. } => "aes, the older form",
            Form::Aes256k(_) => "aes256k",
        };
        f.debug_tuple("MessageSigner").field(&form).finish()
    }
}

#[cfg(test)]
mod tests {
    use aes::cipher::block_padding::Pkcs7;
    use aes::cipher::{BlockModeEncrypt as _, KeyIvInit as _};

    use loligo_wire::Writer;

    use super::*;

    const KEY: [u8; AES_SECRET_LEN] = *b"sixteen bytes...";

    fn signed() -> Signed {
        Signed { header_crc: 0x0102_0304, front: (5, 6), middle: (7, 8), data: (9, 10), seq: 0xa_0000_000b }
    }

    fn encrypted(plain: &[u8]) -> Vec<u8> {
        cbc::Encryptor::<Aes128>::new((&KEY).into(), IV.into()).encrypt_padded_vec::<Pkcs7>(plain)
    }

    fn word(cipher: &[u8], i: usize) -> u64 {
        u64::from_le_bytes(cipher[8 * i..8 * i + 8].try_into().expect("eight bytes"))
    }

    /// Oracle: the definition, in which everything is encrypted, with padding.
    #[test]
    fn both_forms_are_the_beginning_of_the_whole_ciphertext() {
        let mut new = Writer::new();
        [0x0102_0304, 5, 6, 7, 8, 9, 10, 0xb].into_iter().for_each(|field| new.u32(field));
        let cipher = encrypted(new.as_slice());
        let signer = MessageSigner::new(&KEY, features::SUPPORTED).expect("an aes key");
        assert_eq!(signer.sign(&signed()), (0..4).fold(0, |folded, i| folded ^ word(&cipher, i)));

        let mut old = Writer::new();
        old.u8(1);
        old.u64(MAGIC);
        [16, 0x0102_0304, 5, 7, 9].into_iter().for_each(|field| old.u32(field));
        let signer = MessageSigner::new(&KEY, 0).expect("an aes key");
        assert_eq!(signer.sign(&signed()), word(&encrypted(old.as_slice()), 0));
    }

    /// Oracle: the definition, read in a stock 20.2.4 daemon.
    #[test]
    fn longer_keys_authenticate_the_fields() {
        let key = [0x0b; AES256K_SECRET_LEN];
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
        [0x0102_0304_u32, 5, 6, 7, 8, 9, 10, 0xb].iter().for_each(|field| mac.update(&field.to_le_bytes()));
        let mac = mac.finalize().into_bytes();
        let signer = MessageSigner::new(&key, features::SUPPORTED).expect("a key of type aes256k");
        assert_eq!(signer.sign(&signed()), (0..4).fold(0, |folded, i| folded ^ word(&mac, i)));
        assert!(!format!("{signer:?}").contains("11"), "the key is not shown");
    }

    #[test]
    fn every_bit_counts() {
        for key in [&KEY[..], &[7; AES256K_SECRET_LEN]] {
            every_bit_counts_with(key);
        }
    }

    fn every_bit_counts_with(key: &[u8]) {
        let signer = MessageSigner::new(key, features::SUPPORTED).expect("a key");
        let signature = signer.sign(&signed());
        assert!(signer.verify(&signed(), signature));
        assert!((0..64).all(|bit| !signer.verify(&signed(), signature ^ 1 << bit)));
        assert!(!signer.verify(&Signed { seq: 0xc, ..signed() }, signature), "a repeated message");
        assert!(!signer.verify(&Signed { data: (9, 11), ..signed() }, signature), "another length");
        assert!(MessageSigner::new(&key[..15], 0).is_none() && MessageSigner::new(&[0; 31], 0).is_none());
    }
}
