//! Keys (`CryptoKey` in Ceph's `src/auth/Crypto.h`) and what is done with them.
//!
//! The encoding is: type (u16), time of creation, length of the secret (u16), secret. Files hold it in base64.

use std::fmt;
use std::str::FromStr;

use aes::Aes128;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loligo_wire::{Decode, DecodeError, Encode, Reader, UTime, Writer};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::random;

/// `CEPH_CRYPTO_AES`: AES-128-CBC.
const TYPE_AES: u16 = 1;
/// `CEPH_CRYPTO_AES256KRB5`: the default for keys made by releases from 19.2.6 and 20.2.4 on.
const TYPE_AES256K: u16 = 2;
const AES_SECRET_LEN: usize = 16;
/// The protocol fixes the initialization vector (`CEPH_AES_IV`); what differs between messages are the random challenges,
/// nonces and keys inside.
const IV: &[u8; 16] = b"cephsageyudagreg";
/// What every plaintext starts with: a version byte and this number, so that a wrong key is noticed (`AUTH_ENC_MAGIC`).
const MAGIC: u64 = 0xff00_9cad_8826_aa55;
const ENVELOPE_VERSION: u8 = 1;

type CbcEncryptor = cbc::Encryptor<Aes128>;
type CbcDecryptor = cbc::Decryptor<Aes128>;

/// A secret key of type `aes`. Comparing takes the same time whatever the keys; dropping wipes it; printing hides it.
#[derive(Clone, ZeroizeOnDrop)]
pub struct CryptoKey {
    #[zeroize(skip)]
    created: UTime,
    secret: [u8; AES_SECRET_LEN],
}

/// Why bytes or text are no usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not base64.
    #[error("the key is not valid base64")]
    Base64,
    /// Base64, but not of a key.
    #[error("the key is damaged: {0}")]
    Decode(#[from] DecodeError),
    /// A key of a kind that is not supported.
    #[error("keys of type {kind} ({name}) are not supported: only type {TYPE_AES} (aes) is", name = type_name(*.kind))]
    UnsupportedType {
        /// Ceph's number of the type.
        kind: u16,
    },
    /// A secret of the wrong length.
    #[error("the key's secret has {len} bytes, an aes key has {AES_SECRET_LEN}")]
    SecretLen {
        /// The length found, in bytes.
        len: usize,
    },
}

/// A ciphertext that cannot be opened: another key made it, or it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot be decrypted with this key")]
pub struct DecryptError;

fn type_name(kind: u16) -> &'static str {
    match kind {
        0 => "none",
        TYPE_AES => "aes",
        TYPE_AES256K => "aes256k",
        _ => "unknown",
    }
}

impl CryptoKey {
    /// A new random key.
    pub fn generate(created: UTime) -> Self {
        Self { created, secret: random::array() }
    }

    /// The key with the given secret.
    pub fn from_secret(created: UTime, secret: [u8; AES_SECRET_LEN]) -> Self {
        Self { created, secret }
    }

    /// When the key was made.
    pub fn created(&self) -> UTime {
        self.created
    }

    /// The secret's bytes.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// The form that keyring files and `ceph auth get-key` show.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.to_bytes()))
    }

    /// Encrypts as it is (AES-128-CBC, PKCS#7 padding).
    pub(crate) fn encrypt(&self, plain: &[u8]) -> Vec<u8> {
        CbcEncryptor::new(&self.secret.into(), IV.into()).encrypt_padded_vec::<Pkcs7>(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
        CbcDecryptor::new(&self.secret.into(), IV.into())
            .decrypt_padded_vec::<Pkcs7>(cipher)
            .map(Zeroizing::new)
            .map_err(|_| DecryptError)
    }

    /// Encrypts what `body` writes, behind the envelope's version and magic number (`encode_encrypt_enc_bl`).
    pub(crate) fn seal(&self, body: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut w = Writer::with_capacity(128);
        w.u8(ENVELOPE_VERSION);
        w.u64(MAGIC);
        body(&mut w);
        let mut plain = w.into_bytes_mut();
        let sealed = self.encrypt(&plain);
        plain.zeroize();
        sealed
    }

    /// Opens what [`CryptoKey::seal`] made, and reads it with `body`.
    pub(crate) fn open<T>(
        &self,
        sealed: &[u8],
        body: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, DecryptError> {
        let plain = self.decrypt(sealed)?;
        let mut r = Reader::new(&plain);
        let read = r.u8().and_then(|_version| r.u64()).and_then(|magic| match magic {
            MAGIC => body(&mut r),
            other => Err(DecodeError::Invalid { what: "cephx magic number", value: other }),
        });
        read.map_err(|_| DecryptError)
    }
}

impl PartialEq for CryptoKey {
    fn eq(&self, other: &Self) -> bool {
        self.secret.ct_eq(&other.secret).into()
    }
}

impl Eq for CryptoKey {}

impl fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CryptoKey(aes, hidden)")
    }
}

impl FromStr for CryptoKey {
    type Err = KeyError;
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| KeyError::Base64)?);
        Self::read(&mut Reader::new(&bytes))
    }
}

impl CryptoKey {
    /// Reads an encoded key, and says what is wrong in a key's terms.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, KeyError> {
        let kind = r.u16()?;
        if kind != TYPE_AES {
            return Err(KeyError::UnsupportedType { kind });
        }
        let created = r.get()?;
        let len = usize::from(r.u16()?);
        let secret = r.raw(len)?.try_into().map_err(|_| KeyError::SecretLen { len })?;
        Ok(Self { created, secret })
    }
}

impl Encode for CryptoKey {
    fn encode(&self, w: &mut Writer) {
        w.u16(TYPE_AES);
        w.put(&self.created);
        w.u16(AES_SECRET_LEN as u16);
        w.raw(&self.secret);
    }
}

impl Decode for CryptoKey {
    const MIN_LEN: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::read(r).map_err(|e| match e {
            KeyError::Decode(e) => e,
            KeyError::UnsupportedType { kind } => {
                DecodeError::Invalid { what: "CryptoKey type", value: u64::from(kind) }
            }
            KeyError::SecretLen { len } => {
                DecodeError::Invalid { what: "CryptoKey length", value: len as u64 }
            }
            KeyError::Base64 => DecodeError::Invalid { what: "CryptoKey", value: 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> CryptoKey {
        CryptoKey::from_secret(UTime { sec: 1, nsec: 2 }, [byte; 16])
    }

    #[test]
    fn text_round_trip() {
        let text = key(7).to_base64();
        let again: CryptoKey = text.parse().unwrap();
        assert_eq!(again, key(7));
        assert_eq!(again.created(), UTime { sec: 1, nsec: 2 });
        assert_ne!(again, key(8));
    }

    #[test]
    fn a_key_of_ceph_authtool_is_read() {
        // ceph-authtool --gen-print-key
        let key: CryptoKey = "AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==".parse().unwrap();
        assert_eq!(key.created().sec, 0x671f_15bc);
        assert_eq!(*key.to_base64(), "AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==");
    }

    #[test]
    fn other_keys_are_named() {
        let mut w = Writer::new();
        w.u16(2);
        w.put(&UTime::default());
        w.u16(32);
        w.zeros(32);
        let err = STANDARD.encode(w.as_slice()).parse::<CryptoKey>().unwrap_err();
        assert_eq!(err, KeyError::UnsupportedType { kind: 2 });
        assert!(err.to_string().contains("type 2 (aes256k)"), "{err}");
        assert_eq!("%%".parse::<CryptoKey>(), Err(KeyError::Base64));
        assert!(matches!("AQC8".parse::<CryptoKey>(), Err(KeyError::Decode(_))));
    }

    #[test]
    fn printing_hides_the_secret() {
        assert_eq!(format!("{:?}", key(0x41)), "CryptoKey(aes, hidden)");
    }

    #[test]
    fn only_the_same_key_opens() {
        let sealed = key(1).seal(|w| w.u32(42));
        assert_eq!(key(1).open(&sealed, |r| r.u32()), Ok(42));
        assert_eq!(key(2).open(&sealed, |r| r.u32()), Err(DecryptError));
        assert_eq!(key(1).open(&sealed[..15], |r| r.u32()), Err(DecryptError));
        assert_eq!(key(1).open(&sealed, |r| r.array::<40>()), Err(DecryptError));
    }
}
