//! Keys (`CryptoKey` in Ceph's `src/auth/Crypto.h`) and their ciphers.
//!
//! The encoding is: type (u16), time of creation, length of the secret (u16), secret. Files contain it
//! in base64.

mod aes256k;

use std::fmt;
use std::str::FromStr;

use aes::Aes128;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use az::SaturatingAs as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use loligo_wire::{Decode, DecodeError, Encode, Reader, UTime, Writer};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::random;

/// `CEPH_CRYPTO_AES`.
const TYPE_AES: u16 = 1;
/// `CEPH_CRYPTO_AES256KRB5`.
const TYPE_AES256K: u16 = 2;
pub(crate) const AES_SECRET_LEN: usize = 16;
/// The same of type `aes256k`.
pub(crate) const AES256K_SECRET_LEN: usize = aes256k::SECRET_LEN;
/// The protocol fixes the initialization vector (`CEPH_AES_IV`); messages differ by the random
/// challenges, nonces and keys inside.
pub(crate) const IV: &[u8; 16] = b"cephsageyudagreg";
/// Every plaintext starts with a version byte and this number (`AUTH_ENC_MAGIC`), by which a wrong key
/// is detected.
pub(crate) const MAGIC: u64 = 0xff00_9cad_8826_aa55;
pub(crate) const ENVELOPE_VERSION: u8 = 1;

type CbcEncryptor = cbc::Encryptor<Aes128>;
type CbcDecryptor = cbc::Decryptor<Aes128>;

/// A secret key. Comparing two keys of one type takes constant time; dropping wipes the secret; printing
/// hides it.
#[derive(Clone, ZeroizeOnDrop)]
pub struct CryptoKey {
    #[zeroize(skip)]
    created: UTime,
    secret: Secret,
}

#[derive(Clone, Zeroize, ZeroizeOnDrop)]
enum Secret {
    Aes([u8; AES_SECRET_LEN]),
    Aes256k([u8; aes256k::SECRET_LEN]),
}

/// The cipher that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// AES-128-CBC: supported by all releases.
    Aes,
    /// AES-256 and HMAC-SHA-384 (RFC 8009): the default for keys made by releases from 19.2.6 and 20.2.4
    /// on; older ones cannot read it.
    Aes256k,
}

/// The purpose of a sealed text: keys of type `aes256k` derive a different key for each
/// (`CEPHX_KEY_USAGE_*` in `CephxProtocol.h`).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Usage {
    /// The challenges from which the proof of an `aes` key is made.
    Challenge = 0,
    /// The connection secret of a connection to a monitor.
    AuthConnectionSecret = 0x03,
    /// The session key that a client receives with a ticket.
    TicketSessionKey = 0x04,
    /// A ticket, sent to a client that has an older one.
    TicketBlob = 0x05,
    /// A client's proof to a service that it has the ticket's session key.
    Authorize = 0x10,
    /// A service's challenge.
    AuthorizeChallenge = 0x11,
    /// A service's proof that it has opened the ticket.
    AuthorizeReply = 0x12,
    /// The contents of a ticket.
    TicketInfo = 0x30,
}

/// Why bytes or text are not a usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not base64.
    #[error("the key is not valid base64")]
    Base64,
    /// The bytes are not an encoded key.
    #[error("the key is damaged: {0}")]
    Decode(#[from] DecodeError),
    /// The key has an unsupported type.
    #[error("keys of type {kind} ({name}) are not supported: only types {TYPE_AES} (aes) and {TYPE_AES256K} (aes256k) are", name = type_name(*.kind))]
    UnsupportedType {
        /// Ceph's number of the type.
        kind: u16,
    },
    /// The secret has the wrong length.
    #[error("the key's secret has {len} bytes, a key of its type has {expected}")]
    SecretLen {
        /// The length found, in bytes.
        len: usize,
        /// The length of a secret of the key's type.
        expected: usize,
    },
}

/// The ciphertext cannot be decrypted: it was made with another key, or it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot be decrypted with this key")]
pub struct DecryptError;

fn type_name(kind: u16) -> &'static str {
    match kind {
        0 => "none",
        _ => "unknown",
    }
}

impl KeyType {
    /// The name in Ceph's programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aes => "aes",
            Self::Aes256k => "aes256k",
        }
    }

    fn code(self) -> u16 {
        match self {
            Self::Aes => TYPE_AES,
            Self::Aes256k => TYPE_AES256K,
        }
    }

    fn secret_len(self) -> usize {
        match self {
            Self::Aes => AES_SECRET_LEN,
            Self::Aes256k => aes256k::SECRET_LEN,
        }
    }
}

impl FromStr for KeyType {
    type Err = UnknownKeyType;
    fn from_str(name: &str) -> Result<Self, UnknownKeyType> {
        let all = [Self::Aes, Self::Aes256k];
        all.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| UnknownKeyType(name.to_owned()))
    }
}

/// The text is not the name of a key type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no type of keys: aes, aes256k")]
pub struct UnknownKeyType(String);

impl CryptoKey {
    /// Generates a random key that all releases can read.
    pub fn generate(created: UTime) -> Self {
        Self::generate_of(KeyType::Aes, created)
    }

    /// Generates a random key of the given type.
    pub fn generate_of(kind: KeyType, created: UTime) -> Self {
        let secret = match kind {
            KeyType::Aes => Secret::Aes(random::array()),
            KeyType::Aes256k => Secret::Aes256k(random::array()),
        };
        Self { created, secret }
    }

    /// The key of type `aes` with the given secret.
    pub fn from_secret(created: UTime, secret: [u8; AES_SECRET_LEN]) -> Self {
        Self { created, secret: Secret::Aes(secret) }
    }

    /// The type of the key.
    pub fn kind(&self) -> KeyType {
        match self.secret {
            Secret::Aes(_) => KeyType::Aes,
            Secret::Aes256k(_) => KeyType::Aes256k,
        }
    }

    /// The time of creation.
    pub fn created(&self) -> UTime {
        self.created
    }

    /// The secret's bytes.
    pub fn secret(&self) -> &[u8] {
        match &self.secret {
            Secret::Aes(secret) => secret,
            Secret::Aes256k(secret) => secret,
        }
    }

    /// The form in keyring files and in the output of `ceph auth get-key`.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.to_bytes()))
    }

    fn encrypt(&self, usage: Usage, plain: &[u8]) -> Vec<u8> {
        match &self.secret {
            Secret::Aes(secret) => {
                CbcEncryptor::new(secret.into(), IV.into()).encrypt_padded_vec::<Pkcs7>(plain)
            }
            Secret::Aes256k(secret) => aes256k::encrypt(secret, usage, plain),
        }
    }

    fn decrypt(&self, usage: Usage, cipher: &[u8]) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
        match &self.secret {
            Secret::Aes(secret) => CbcDecryptor::new(secret.into(), IV.into())
                .decrypt_padded_vec::<Pkcs7>(cipher)
                .map(Zeroizing::new)
                .map_err(|_| DecryptError),
            Secret::Aes256k(secret) => aes256k::decrypt(secret, usage, cipher),
        }
    }

    /// Encrypts what `body` writes, with the envelope's version and magic number in front
    /// (`encode_encrypt_enc_bl`).
    pub(crate) fn seal(&self, usage: Usage, body: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut w = Writer::with_capacity(128);
        w.u8(ENVELOPE_VERSION);
        w.u64(MAGIC);
        body(&mut w);
        let mut plain = w.into_bytes_mut();
        let sealed = self.encrypt(usage, &plain);
        plain.zeroize();
        sealed
    }

    /// Decrypts the output of [`CryptoKey::seal`] for the same usage, and decodes it with `body`.
    pub(crate) fn open<T>(
        &self,
        usage: Usage,
        sealed: &[u8],
        body: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, DecryptError> {
        let plain = self.decrypt(usage, sealed)?;
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
        self.kind() == other.kind() && bool::from(self.secret().ct_eq(other.secret()))
    }
}

impl Eq for CryptoKey {}

impl fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CryptoKey({}, hidden)", self.kind().as_str())
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
    /// Decodes a key, with errors specific to keys.
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, KeyError> {
        let kind = match r.u16()? {
            TYPE_AES => KeyType::Aes,
            TYPE_AES256K => KeyType::Aes256k,
            kind => return Err(KeyError::UnsupportedType { kind }),
        };
        let created = r.get()?;
        let len = usize::from(r.u16()?);
        let wrong = |_| KeyError::SecretLen { len, expected: kind.secret_len() };
        let bytes = r.raw(len)?;
        let secret = match kind {
            KeyType::Aes => Secret::Aes(bytes.try_into().map_err(wrong)?),
            KeyType::Aes256k => Secret::Aes256k(bytes.try_into().map_err(wrong)?),
        };
        Ok(Self { created, secret })
    }
}

impl Encode for CryptoKey {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.kind().code());
        w.put(&self.created);
        w.u16(self.secret().len().saturating_as::<u16>());
        w.raw(self.secret());
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
            KeyError::SecretLen { len, .. } => {
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

    fn encoded(kind: u16, len: u16) -> String {
        let mut w = Writer::new();
        w.u16(kind);
        w.put(&UTime::default());
        w.u16(len);
        w.zeros(len.into());
        STANDARD.encode(w.as_slice())
    }

    #[test]
    fn other_keys_are_named() {
        let err = encoded(3, 32).parse::<CryptoKey>().unwrap_err();
        assert_eq!(err, KeyError::UnsupportedType { kind: 3 });
        assert!(err.to_string().contains("type 3 (unknown)"), "{err}");
        let err = encoded(TYPE_AES, 32).parse::<CryptoKey>().unwrap_err();
        assert_eq!(err, KeyError::SecretLen { len: 32, expected: 16 });
        assert_eq!("%%".parse::<CryptoKey>(), Err(KeyError::Base64));
        assert!(matches!("AQC8".parse::<CryptoKey>(), Err(KeyError::Decode(_))));
    }

    #[test]
    fn keys_of_both_kinds_are_read_and_differ() {
        let large: CryptoKey = encoded(TYPE_AES256K, 32).parse().unwrap();
        assert_eq!((large.kind(), large.secret().len()), (KeyType::Aes256k, 32));
        assert_eq!(*large.to_base64(), encoded(TYPE_AES256K, 32));
        assert_eq!(format!("{large:?}"), "CryptoKey(aes256k, hidden)");
        assert_ne!(large, encoded(TYPE_AES, 16).parse().unwrap());
        let fresh = CryptoKey::generate_of(KeyType::Aes256k, UTime::default());
        assert_ne!(fresh, large);
        assert_eq!(fresh.to_base64().parse::<CryptoKey>().unwrap(), fresh);
    }

    #[test]
    fn printing_hides_the_secret() {
        assert_eq!(format!("{:?}", key(0x41)), "CryptoKey(aes, hidden)");
    }

    #[test]
    fn only_the_same_key_opens() {
        const USAGE: Usage = Usage::TicketInfo;
        let large = |byte: u8| CryptoKey { created: UTime::default(), secret: Secret::Aes256k([byte; 32]) };
        for (key, other) in [(key(1), key(2)), (large(1), large(2))] {
            let sealed = key.seal(USAGE, |w| w.u32(42));
            assert_eq!(key.open(USAGE, &sealed, |r| r.u32()), Ok(42));
            assert_eq!(other.open(USAGE, &sealed, |r| r.u32()), Err(DecryptError));
            assert_eq!(key.open(USAGE, &sealed[..15], |r| r.u32()), Err(DecryptError));
            assert_eq!(key.open(USAGE, &sealed, |r| r.array::<40>()), Err(DecryptError));
        }
    }
}
