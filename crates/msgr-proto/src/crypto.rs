//! Secure mode's cipher, and the signature of the handshake.

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use hmac::{Hmac, KeyInit, Mac};
use loligo_cephx::handshake::AuthKeys;
use sha2::Sha256;

use crate::CryptoError;

/// Bytes of a GCM tag.
pub(crate) const TAG_LEN: usize = 16;
const KEY_LEN: usize = 16;
const NONCE_LEN: usize = 12;

/// Bytes of a signature of the handshake.
pub(crate) const SIGNATURE_LEN: usize = 32;

/// One direction's cipher. It comes from AWS-LC, which is the fastest that a Rust program can have without unsafe code of its own.
///
/// A nonce is a fixed half (4 bytes) and a counter (8 bytes, little-endian), which goes up by one with each GCM message and
/// wraps; the one from the connection secret is the first.
pub(crate) struct Gcm {
    key: LessSafeKey,
    fixed: [u8; 4],
    counter: u64,
    /// GCM messages that may still be made before the nonces repeat.
    left: u64,
}

/// The two directions as the client sees them. The server's are crossed.
pub(crate) struct GcmPair {
    pub(crate) client_rx: Gcm,
    pub(crate) client_tx: Gcm,
}

impl GcmPair {
    /// The connection secret's first 40 bytes are the key, the nonce of what the client receives, and the nonce of what it
    /// sends.
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
        let key = UnboundKey::new(&AES_128_GCM, key).expect("the key has the cipher's length");
        Self {
            key: LessSafeKey::new(key),
            fixed: [f0, f1, f2, f3],
            counter: u64::from_le_bytes(counter),
            left: u64::MAX,
        }
    }

    /// Encrypts `buf` in place and returns the tag that goes behind it.
    pub(crate) fn encrypt(&mut self, buf: &mut [u8]) -> Result<[u8; TAG_LEN], CryptoError> {
        let nonce = self.next_nonce()?;
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), buf);
        // It fails only beyond 64 GiB, which no frame reaches.
        let tag = sealed.map_err(|_| CryptoError::Tag)?;
        tag.as_ref().try_into().map_err(|_| CryptoError::Tag)
    }

    /// Decrypts `buf` in place. Its last 16 bytes are the tag.
    pub(crate) fn decrypt(&mut self, buf: &mut [u8]) -> Result<(), CryptoError> {
        let nonce = self.next_nonce()?;
        let opened = self.key.open_in_place(nonce, Aad::empty(), buf);
        opened.map(|_| ()).map_err(|_| CryptoError::Tag)
    }

    fn next_nonce(&mut self) -> Result<Nonce, CryptoError> {
        self.left = self.left.checked_sub(1).ok_or(CryptoError::NoncesExhausted)?;
        let mut nonce = [0; NONCE_LEN];
        nonce[..4].copy_from_slice(&self.fixed);
        nonce[4..].copy_from_slice(&self.counter.to_le_bytes());
        self.counter = self.counter.wrapping_add(1);
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// Says nothing of keys and nonces.
impl fmt::Debug for Gcm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gcm")
    }
}

/// Signs one direction of the handshake: an HMAC-SHA-256 with the session key, or zeros without one.
pub(crate) fn sign(keys: &AuthKeys, transcript: &[u8]) -> [u8; SIGNATURE_LEN] {
    if keys.session_key.is_empty() {
        return [0; SIGNATURE_LEN];
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&keys.session_key).expect("HMAC takes keys of any length");
    mac.update(transcript);
    mac.finalize().into_bytes().into()
}
