//! Appends blocks to a finished GCM message (NIST SP 800-38D, 6.4, 7.1).
//!
//! With H the hash key, J0 the first counter block, L the block with the lengths and X the hash of all
//! blocks of the ciphertext, the tag is `(X + L)·H + E(J0)`, where `+` is XOR. With the key, `X·H` is
//! recovered from the tag, and hashing continues from there: the next block C turns it into `X·H + C·H`.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use az::SaturatingAs as _;
use ghash::GHash;
use ghash::universal_hash::UniversalHash as _;

use super::{KEY_LEN, NONCE_LEN, TAG_LEN};

/// Bytes of a block.
pub(super) const BLOCK_LEN: usize = 16;

type Block = [u8; BLOCK_LEN];

/// Uses the key of the message.
pub(super) struct Tail {
    cipher: Aes128,
    /// The initial hash state.
    hash: GHash,
}

impl Tail {
    pub(super) fn new(key: &[u8; KEY_LEN]) -> Self {
        let cipher = Aes128::new(key.into());
        let mut hash_key = [0; BLOCK_LEN].into();
        cipher.encrypt_block(&mut hash_key);
        Self { hash: GHash::new(&hash_key), cipher }
    }

    /// Encrypts `blocks` in place as the continuation of a message without associated data that has
    /// `sealed_len` bytes (a multiple of the block length) and the tag `tag`. Returns the tag of the
    /// whole message.
    pub(super) fn add(
        &self,
        nonce: &[u8; NONCE_LEN],
        sealed_len: usize,
        tag: [u8; TAG_LEN],
        blocks: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let mask = self.key_stream(nonce, 1);
        // Counter 1 is the mask's. No frame is long enough to make the counter wrap.
        let counters = 2 + (sealed_len / BLOCK_LEN).saturating_as::<u32>()..;
        let hashed = xor(xor(tag, mask), self.times_key(lengths(sealed_len)));
        let (blocks, short) = blocks.as_chunks_mut::<BLOCK_LEN>();
        debug_assert!(short.is_empty(), "whole blocks");
        let mut hash = None;
        for (counter, block) in counters.zip(&mut *blocks) {
            *block = xor(*block, self.key_stream(nonce, counter));
            hash = Some(match hash {
                None => xor(hashed, self.times_key(*block)),
                Some(hash) => self.times_key(xor(hash, *block)),
            });
        }
        match hash {
            None => tag,
            Some(hash) => {
                let all = lengths(sealed_len + blocks.len() * BLOCK_LEN);
                xor(self.times_key(xor(hash, all)), mask)
            }
        }
    }

    fn key_stream(&self, nonce: &[u8; NONCE_LEN], counter: u32) -> Block {
        let mut block = [0; BLOCK_LEN];
        block[..NONCE_LEN].copy_from_slice(nonce);
        block[NONCE_LEN..].copy_from_slice(&counter.to_be_bytes());
        let mut block = block.into();
        self.cipher.encrypt_block(&mut block);
        block.into()
    }

    /// Multiplies a block by the hash key.
    fn times_key(&self, block: Block) -> Block {
        let mut hash = self.hash.clone();
        hash.update(&[block.into()]);
        hash.finalize().into()
    }
}

/// The last block that is hashed: the bit lengths of the associated data (none) and of the ciphertext.
fn lengths(sealed_len: usize) -> Block {
    (sealed_len as u128 * 8).to_be_bytes()
}

fn xor(one: Block, other: Block) -> Block {
    (u128::from_le_bytes(one) ^ u128::from_le_bytes(other)).to_le_bytes()
}
