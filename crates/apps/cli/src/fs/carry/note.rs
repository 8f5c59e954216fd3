//! Notes on how far a transfer has come: a later one with `--resume` goes on from there.
//!
//! A put keeps its note in an attribute of the file that it writes, a get in a file beside the local one. A
//! note is made when what it tells of is durable. It counts if it is about the same source in the same
//! state, and if samples of what is there are equal to the source's: another program may have written there
//! meanwhile. `--verify` compares everything.

use std::fs::File as Local;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use loligo_fs::File;

use crate::failure::{Context, Failure};

/// The time between two notes.
pub(super) const NOTE_PAUSE: Duration = Duration::from_secs(1);
/// The samples: their number and size.
const SAMPLES: u64 = 16;
const SAMPLE_BYTES: u64 = 64 << 10;

/// The ranges that are compared before an end: the first, the last, and some between them.
fn samples(end: u64) -> impl Iterator<Item = (u64, u64)> {
    let last = end.saturating_sub(SAMPLE_BYTES);
    let mut starts: Vec<u64> = (0..SAMPLES).map(|n| last / SAMPLES * n).chain([last]).collect();
    starts.dedup();
    starts.into_iter().map(move |at| (at, SAMPLE_BYTES.min(end - at)))
}

/// Returns `true` if samples of both files before an end are equal.
pub(super) async fn are_samples_equal(file: &File, local: &Local, end: u64) -> Result<bool, Failure> {
    let each = samples(end).map(|(at, len)| async move {
        let mut here = vec![0; len as usize];
        let is_there = local.read_exact_at(&mut here, at).is_ok();
        let there = file.read_at(at, len).await.context(|| "read".to_owned())?;
        Ok(is_there && there[..] == here[..])
    });
    let compared: Vec<Result<bool, Failure>> = stream::iter(each).buffered(SAMPLES as usize).collect().await;
    compared.into_iter().try_fold(true, |all, is| Ok(all && is?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_at_both_ends_and_between() {
        assert_eq!(samples(10).collect::<Vec<_>>(), [(0, 10)]);
        assert_eq!(samples(0).collect::<Vec<_>>(), [(0, 0)]);
        let many: Vec<_> = samples(1 << 30).collect();
        assert_eq!(many.len() as u64, SAMPLES + 1);
        assert_eq!((many[0].0, many[SAMPLES as usize]), (0, ((1 << 30) - SAMPLE_BYTES, SAMPLE_BYTES)));
        assert!(many.windows(2).all(|two| two[0].0 < two[1].0));
    }
}
