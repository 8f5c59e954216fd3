//! The data that `bench` writes into objects, and checks when it reads them.

use std::io::Write;

use bytes::{Bytes, BytesMut};

/// Returns the data of the object with this number: `rados bench` of release 16 writes it, and checks it
/// when it reads.
///
/// `spare` is the buffer of a finished operation. If nothing else holds it, only its beginning is
/// rewritten, so that there are as many buffers as operations in flight, as in `rados bench`.
pub(super) fn contents(spare: Option<Bytes>, bytes: usize, number: u64) -> Bytes {
    let mut data = match spare.map(Bytes::try_into_mut) {
        Some(Ok(data)) if data.len() == bytes => data,
        _ => {
            let mut data = BytesMut::with_capacity(bytes);
            data.resize(bytes, b'z');
            data
        }
    };
    // As C's snprintf does: truncated at the end of the buffer, and terminated with a zero all the same.
    let mut text = [0; 48];
    let mut free = &mut text[..];
    write!(free, "I'm the {number:>16}th op!").expect("a number has at most 20 digits");
    let len = 48 - free.len() + 1;
    if bytes > 0 {
        let shown = len.min(bytes);
        data[..shown].copy_from_slice(&text[..shown]);
        data[shown - 1] = 0;
    }
    data.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_hold_what_rados_bench_looks_for() {
        let of = |bytes, number| contents(None, bytes, number);
        assert_eq!(of(36, 7)[..], *b"I'm the                7th op!\0zzzzz");
        assert_eq!(of(20, 7)[..], *b"I'm the            \0");
        assert_eq!((of(1, 7), of(0, 7)), (Bytes::from_static(b"\0"), Bytes::new()));
        assert_eq!(of(64, u64::MAX)[..36], *b"I'm the 18446744073709551615th op!\0z");
    }

    #[test]
    fn a_buffer_that_is_free_is_used_again() {
        let first = contents(None, 100, 123_456);
        let at = first.as_ptr();
        let held = first.clone();
        let second = contents(Some(first), 100, 8);
        assert_ne!(second.as_ptr(), at);
        drop(second);
        let third = contents(Some(held), 100, 9);
        assert_eq!((third.as_ptr(), &third[..]), (at, &contents(None, 100, 9)[..]));
    }
}
