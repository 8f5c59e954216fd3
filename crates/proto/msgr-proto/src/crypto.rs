//! The cipher of secure mode, and the signature of the handshake.

mod tail;

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use hmac::{Hmac, KeyInit, Mac};
use loligo_cephx::handshake::AuthKeys;
use sha2::Sha256;

use self::tail::{BLOCK_LEN, Tail};
use crate::CryptoError;

/// Bytes of a GCM tag.
pub(crate) const TAG_LEN: usize = 16;
const KEY_LEN: usize = 16;
const NONCE_LEN: usize = 12;

/// Bytes of a signature of the handshake.
pub(crate) const SIGNATURE_LEN: usize = 32;

/// The cipher of one direction. It uses AWS-LC, the fastest implementation available to a Rust program
/// without unsafe code of its own.
///
/// A nonce consists of a fixed part (4 bytes) and a counter (8 bytes, little-endian) that is incremented
/// with each GCM message and wraps; the first nonce comes from the connection secret.
pub(crate) struct Gcm {
    key: LessSafeKey,
    tail: Tail,
    fixed: [u8; 4],
    counter: u64,
    /// GCM messages that can be made before nonces repeat.
    left: u64,
}

/// The two directions as the client sees them; the server uses them the other way round.
pub(crate) struct GcmPair {
    pub(crate) client_rx: Gcm,
    pub(crate) client_tx: Gcm,
}

impl GcmPair {
    /// Splits the connection secret's first 40 bytes into the key, the nonce of the direction that the
    /// client receives, and the nonce of the direction that it sends.
    pub(crate) fn new(connection_secret: &[u8]) -> Result<Self, CryptoError> {
        let short = CryptoError::ShortSecret(connection_secret.len());
        let (key, rest) = connection_secret.split_first_chunk::<KEY_LEN>().ok_or(short)?;
        let (rx, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(short)?;
        let tx = rest.first_chunk::<NONCE_LEN>().ok_or(short)?;
        Ok(Self { client_rx: Gcm::new(key, rx), client_tx: Gcm::new(key, tx) })
    }
}

impl Gcm {
    fn new(key: &[u8; KEY_LEN], nonce: &[u8; NONCE_LEN]) -> Self {
        let [f0, f1, f2, f3, counter @ ..] = *nonce;
        let unbound = UnboundKey::new(&AES_128_GCM, key).expect("the key has the cipher's length");
        Self {
            key: LessSafeKey::new(unbound),
            tail: Tail::new(key),
            fixed: [f0, f1, f2, f3],
            counter: u64::from_le_bytes(counter),
            left: u64::MAX,
        }
    }

    /// Encrypts `buf` in place and returns the tag, which follows it.
    pub(crate) fn encrypt(&mut self, buf: &mut [u8]) -> Result<[u8; TAG_LEN], CryptoError> {
        let nonce = Nonce::assume_unique_for_key(self.next_nonce()?);
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), buf);
        // It fails only above 64 GiB, a length that no frame reaches.
        let tag = sealed.map_err(|_| CryptoError::Tag)?;
        tag.as_ref().try_into().map_err(|_| CryptoError::Tag)
    }

    /// Encrypts into `to`, as one message: the first `front_len` bytes of `to`, then `data` from its
    /// place, zeros up to a whole block, and `end`. The tag follows.
    ///
    /// # Panics
    /// If `front_len` or the length of `end` is not a multiple of the block length, or if the length of
    /// `to` does not match.
    pub(crate) fn encrypt_apart(
        &mut self,
        front_len: usize,
        data: &[u8],
        end: &[u8],
        to: &mut [u8],
    ) -> Result<(), CryptoError> {
        assert!(front_len.is_multiple_of(BLOCK_LEN) && end.len().is_multiple_of(BLOCK_LEN), "whole blocks");
        let nonce = self.next_nonce()?;
        let unique = Nonce::assume_unique_for_key(nonce);
        let (whole, rest) = data.split_at(data.len() - data.len() % BLOCK_LEN);
        let (front, behind) = to.split_at_mut(front_len);
        let sealed = &mut behind[..whole.len() + TAG_LEN];
        let done = self.key.seal_in_place_scatter(unique, Aad::empty(), front, whole, sealed);
        done.map_err(|_| CryptoError::Tag)?;
        // The cipher accepts two pieces, but there are more: the last few blocks are added to what is a
        // complete message for the cipher.
        let blocks = &mut behind[whole.len()..];
        let tag = *blocks.first_chunk().expect("a tag was written there");
        let (blocks, place) = blocks.split_at_mut(rest.len().next_multiple_of(BLOCK_LEN) + end.len());
        let padding = blocks.len() - end.len();
        blocks[..rest.len()].copy_from_slice(rest);
        blocks[rest.len()..padding].fill(0);
        blocks[padding..].copy_from_slice(end);
        place.copy_from_slice(&self.tail.add(&nonce, front_len + whole.len(), tag, blocks));
        Ok(())
    }

    /// Decrypts `buf` in place. Its last 16 bytes are the tag.
    pub(crate) fn decrypt(&mut self, buf: &mut [u8]) -> Result<(), CryptoError> {
        let nonce = Nonce::assume_unique_for_key(self.next_nonce()?);
        let opened = self.key.open_in_place(nonce, Aad::empty(), buf);
        opened.map(|_| ()).map_err(|_| CryptoError::Tag)
    }

    fn next_nonce(&mut self) -> Result<[u8; NONCE_LEN], CryptoError> {
        self.left = self.left.checked_sub(1).ok_or(CryptoError::NoncesExhausted)?;
        let mut nonce = [0; NONCE_LEN];
        nonce[..4].copy_from_slice(&self.fixed);
        nonce[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        Ok(nonce)
    }
}

/// Shows neither keys nor nonces.
impl fmt::Debug for Gcm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gcm")
    }
}

/// Signs one direction of the handshake: an HMAC-SHA-256 with the session key, or zeros if there is no
/// key.
pub(crate) fn sign(keys: &AuthKeys, transcript: &[u8]) -> [u8; SIGNATURE_LEN] {
    if keys.session_key.is_empty() {
        return [0; SIGNATURE_LEN];
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&keys.session_key).expect("HMAC takes keys of any length");
    mac.update(transcript);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The result equals that of one contiguous message.
        #[test]
        fn what_is_encrypted_from_apart_is_the_same(
            key: [u8; KEY_LEN],
            nonce: [u8; NONCE_LEN],
            front_blocks in 0..20_usize,
            data_len in 0..5000_usize,
            end_blocks in 0..4_usize,
        ) {
            let byte = |at: usize| (at * 7 + at / 256) as u8;
            let front: Vec<u8> = (0..front_blocks * BLOCK_LEN).map(byte).collect();
            let data: Vec<u8> = (0..data_len).map(|at| byte(at + 99)).collect();
            let end: Vec<u8> = (0..end_blocks * BLOCK_LEN).map(|at| byte(at + 5)).collect();
            let mut whole = [&front[..], &data].concat();
            whole.resize(whole.len().next_multiple_of(BLOCK_LEN), 0);
            whole.extend_from_slice(&end);
            let mut apart = vec![0xa5; whole.len() + TAG_LEN];
            apart[..front.len()].copy_from_slice(&front);
            let tag = Gcm::new(&key, &nonce).encrypt(&mut whole).expect("a message");
            whole.extend_from_slice(&tag);
            Gcm::new(&key, &nonce).encrypt_apart(front.len(), &data, &end, &mut apart).expect("a message");
            prop_assert_eq!(apart, whole);
        }
    }
}
