//! Signatures of messages in the messenger of version 1 (`CephxSessionHandler` in Ceph's `src/auth/cephx`).
//!
//! A signature covers the checksums of a message's parts, not the parts themselves. With the feature
//! `CEPHX_V2` it covers the lengths and the sequence number too, so that a message cannot be repeated or
//! shortened.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use loligo_wire::{Writer, features};
use subtle::ConstantTimeEq as _;

use crate::key::{AES_SECRET_LEN, ENVELOPE_VERSION, IV, MAGIC};

const BLOCK_LEN: usize = 16;
/// The length that the older form states in front of its four checksums.
const CHECKSUMS_LEN: u32 = 16;

/// Signs the messages of one connection, in both directions.
pub struct MessageSigner {
    cipher: Aes128,
    /// Both sides have the feature `CEPHX_V2`.
    is_v2: bool,
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
    /// Signs with the session key of a connection with these features. Returns `None` for keys that are
    /// not of the type `aes`: the form of their signatures is not supported.
    pub fn new(session_key: &[u8], agreed_features: u64) -> Option<Self> {
        let secret: &[u8; AES_SECRET_LEN] = session_key.try_into().ok()?;
        let is_v2 = features::has(agreed_features, features::CEPHX_V2);
        Some(Self { cipher: Aes128::new(secret.into()), is_v2 })
    }

    /// Returns the signature.
    pub fn sign(&self, signed: &Signed) -> u64 {
        let mut plain = Writer::with_capacity(2 * BLOCK_LEN);
        if self.is_v2 {
            let lower_half = signed.seq & u64::from(u32::MAX);
            plain.u32(signed.header_crc);
            for (crc, len) in [signed.front, signed.middle, signed.data] {
                plain.u32(crc);
                plain.u32(len);
            }
            plain.raw(&lower_half.to_le_bytes()[..4]);
        } else {
            plain.u8(ENVELOPE_VERSION);
            plain.u64(MAGIC);
            plain.u32(CHECKSUMS_LEN);
            plain.raw(&signed.header_crc.to_le_bytes()[..3]);
        }
        // CBC. What follows these blocks (padding, and the rest of the older form) does not count.
        let mut last = *IV;
        let mut words = Vec::with_capacity(4);
        for block in plain.as_slice().chunks_exact(BLOCK_LEN) {
            let mut cipher = std::array::from_fn(|i| block[i] ^ last[i]).into();
            self.cipher.encrypt_block(&mut cipher);
            last = cipher.into();
            words.extend(last.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
        }
        match self.is_v2 {
            true => words.iter().fold(0, |folded, word| folded ^ word),
            false => words[0],
        }
    }

    /// Whether the signature is right. Takes the same time for every wrong one.
    pub fn verify(&self, signed: &Signed, signature: u64) -> bool {
        self.sign(signed).to_le_bytes().ct_eq(&signature.to_le_bytes()).into()
    }
}

impl std::fmt::Debug for MessageSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageSigner").field("is_v2", &self.is_v2).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use aes::cipher::block_padding::Pkcs7;
    use aes::cipher::{BlockModeEncrypt as _, KeyIvInit as _};

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

    #[test]
    fn every_bit_counts() {
        let signer = MessageSigner::new(&KEY, features::SUPPORTED).expect("an aes key");
        let signature = signer.sign(&signed());
        assert!(signer.verify(&signed(), signature));
        assert!((0..64).all(|bit| !signer.verify(&signed(), signature ^ 1 << bit)));
        assert!(!signer.verify(&Signed { seq: 0xc, ..signed() }, signature), "a repeated message");
        assert!(!signer.verify(&Signed { data: (9, 11), ..signed() }, signature), "another length");
        assert!(MessageSigner::new(&KEY[..15], 0).is_none() && MessageSigner::new(&[0; 32], 0).is_none());
    }
}
