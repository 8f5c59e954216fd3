//! Secure mode's cipher, and the signature of the handshake.

use std::fmt;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes128Gcm, KeyInit};
use hmac::{Hmac, Mac};
use loligo_cephx::handshake::AuthKeys;
use sha2::Sha256;

use crate::CryptoError;

/// Bytes of a GCM tag.
pub(crate) const TAG_LEN: usize = 16;
const KEY_LEN: usize = 16;
const NONCE_LEN: usize = 12;

/// Bytes of a signature of the handshake.
pub(crate) const SIGNATURE_LEN: usize = 32;

/// One direction's cipher.
///
/// A nonce is a fixed half (4 bytes) and a counter (8 bytes, little-endian), which goes up by one with each GCM message and
/// wraps; the one from the connection secret is the first.
pub(crate) struct Gcm {
    cipher: Aes128Gcm,
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
        Self {
            cipher: Aes128Gcm::new(&(*key).into()),
            fixed: [f0, f1, f2, f3],
            counter: u64::from_le_bytes(counter),
            left: u64::MAX,
        }
    }

    /// Encrypts `buf` in place and returns the tag that goes behind it.
    pub(crate) fn encrypt(&mut self, buf: &mut [u8]) -> Result<[u8; TAG_LEN], CryptoError> {
        let nonce = self.next_nonce()?;
        let tag = self.cipher.encrypt_inout_detached(&nonce.into(), &[], buf.into());
        // It fails only beyond 64 GiB, which no frame reaches.
        tag.map(Into::into).map_err(|_| CryptoError::Tag)
    }

    /// Decrypts `buf` in place. Its last 16 bytes are the tag, and stay as they are.
    pub(crate) fn decrypt(&mut self, buf: &mut [u8]) -> Result<(), CryptoError> {
        let nonce = self.next_nonce()?;
        let (text, tag) = buf.split_last_chunk_mut::<TAG_LEN>().ok_or(CryptoError::Tag)?;
        let tag = (*tag).into();
        self.cipher
            .decrypt_inout_detached(&nonce.into(), &[], text.into(), &tag)
            .map_err(|_| CryptoError::Tag)
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
