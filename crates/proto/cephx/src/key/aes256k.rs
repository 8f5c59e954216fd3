//! The cipher of `aes256k` keys: aes256-cts-hmac-sha384-192 of RFC 8009, as Kerberos 5 uses it.
//!
//! Two keys are derived from the secret for each usage. A random block and the plaintext are encrypted
//! together; 24 bytes of a MAC over the ciphertext follow.

use aes::Aes256;
use az::SaturatingAs as _;
use cts::{CbcCs3, Decrypt as _, Encrypt as _, KeyIvInit as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha384;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{DecryptError, Usage};
use crate::random;

/// Bytes of a secret.
pub(super) const SECRET_LEN: usize = 32;
const BLOCK: usize = 16;
const MAC_LEN: usize = 24;
const IV: [u8; BLOCK] = [0; BLOCK];

/// The purpose of a derived key (RFC 8009, section 5).
#[derive(Clone, Copy)]
#[repr(u8)]
enum Purpose {
    Encryption = 0xaa,
    Integrity = 0x55,
}

/// Encrypts with a new random block. No plaintext is empty, because each has an envelope; the library
/// would encrypt an empty one differently from the RFC.
pub(super) fn encrypt(secret: &[u8; SECRET_LEN], usage: Usage, plain: &[u8]) -> Vec<u8> {
    encrypt_behind(random::array(), secret, usage as u32, plain)
}

fn encrypt_behind(first: [u8; BLOCK], secret: &[u8; SECRET_LEN], usage: u32, plain: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(BLOCK + plain.len() + MAC_LEN);
    sealed.extend_from_slice(&first);
    sealed.extend_from_slice(plain);
    let key = derive::<SECRET_LEN>(secret, usage, Purpose::Encryption);
    CbcCs3::<Aes256>::new((&*key).into(), &IV.into())
        .encrypt(&mut sealed)
        .expect("there is a block at least");
    let mac = mac(secret, usage, &sealed);
    sealed.extend_from_slice(&mac);
    sealed
}

pub(super) fn decrypt(
    secret: &[u8; SECRET_LEN],
    usage: Usage,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
    decrypt_used(secret, usage as u32, sealed)
}

fn decrypt_used(
    secret: &[u8; SECRET_LEN],
    usage: u32,
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
    let (sealed, found) = sealed.split_last_chunk::<MAC_LEN>().ok_or(DecryptError)?;
    if sealed.len() < BLOCK || !bool::from(mac(secret, usage, sealed).ct_eq(found)) {
        return Err(DecryptError);
    }
    let mut plain = Zeroizing::new(sealed.to_vec());
    let key = derive::<SECRET_LEN>(secret, usage, Purpose::Encryption);
    CbcCs3::<Aes256>::new((&*key).into(), &IV.into()).decrypt(&mut plain).map_err(|_| DecryptError)?;
    Ok(Zeroizing::new(plain[BLOCK..].to_vec()))
}

/// The MAC over the initialization vector and the ciphertext.
fn mac(secret: &[u8; SECRET_LEN], usage: u32, sealed: &[u8]) -> [u8; MAC_LEN] {
    let key = derive::<MAC_LEN>(secret, usage, Purpose::Integrity);
    first_of(hmac(&*key, &[&IV, sealed]))
}

/// Derives a key: the first `LEN` bytes of a MAC over the usage, the purpose and the length
/// (KDF-HMAC-SHA2 of RFC 8009, section 3).
fn derive<const LEN: usize>(secret: &[u8; SECRET_LEN], usage: u32, purpose: Purpose) -> Zeroizing<[u8; LEN]> {
    let bits = (LEN.saturating_as::<u32>() * 8).to_be_bytes();
    let parts = [&1u32.to_be_bytes()[..], &usage.to_be_bytes(), &[purpose as u8, 0], &bits];
    Zeroizing::new(first_of(hmac(secret, &parts)))
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 48] {
    let mut mac = Hmac::<Sha384>::new_from_slice(key).expect("HMAC takes keys of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn first_of<const LEN: usize>(all: [u8; 48]) -> [u8; LEN] {
    let all = Zeroizing::new(all);
    *all.first_chunk().expect("no derived key is longer than a SHA-384")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
        digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    }

    fn secret() -> [u8; SECRET_LEN] {
        let secret = bytes("6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52");
        secret.try_into().expect("32 bytes")
    }

    /// The key derivation and sample encryptions of RFC 8009, appendix A.
    #[test]
    fn the_samples_of_the_rfc_are_met() {
        assert_eq!(
            derive::<32>(&secret(), 2, Purpose::Encryption).to_vec(),
            bytes("56AB22BEE63D82D7BC5227F6773F8EA7A5EB1C825160C38312980C442E5C7E49")
        );
        assert_eq!(
            derive::<24>(&secret(), 2, Purpose::Integrity).to_vec(),
            bytes("69B16514E3CD8E56B82010D5C73012B622C4D00FFC23ED1F")
        );
        let first = bytes("B80D3251C1F6471494256FFE712D0B9A").try_into().expect("a block");
        let sealed = encrypt_behind(first, &secret(), 2, &[0, 1, 2, 3, 4, 5]);
        let expected =
            "4ED7B37C2BCAC8F74F23C1CF07E62BC7B75FB3F637B9 F559C7F664F69EAB7B6092237526EA0D1F61CB20D69D10F2";
        assert_eq!(sealed, bytes(expected));
        assert_eq!(
            decrypt_used(&secret(), 2, &sealed).map(|plain| plain.to_vec()),
            Ok(vec![0, 1, 2, 3, 4, 5])
        );
    }

    #[test]
    fn what_was_changed_cut_or_sealed_for_another_usage_is_refused() {
        for len in [0, 1, 15, 16, 17, 32, 100] {
            let plain: Vec<u8> = (0..len).collect();
            let sealed = encrypt(&secret(), Usage::Authorize, &plain);
            let opened = decrypt(&secret(), Usage::Authorize, &sealed);
            assert_eq!(opened.map(|plain| plain.to_vec()), Ok(plain));
            assert_eq!(decrypt(&secret(), Usage::AuthorizeReply, &sealed), Err(DecryptError));
            for end in 0..sealed.len() {
                assert_eq!(decrypt(&secret(), Usage::Authorize, &sealed[..end]), Err(DecryptError));
            }
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 0x10;
                assert_eq!(decrypt(&secret(), Usage::Authorize, &changed), Err(DecryptError));
            }
        }
    }
}
