//! Several buffers in one read or write.

use bytes::{Bytes, BytesMut};

use super::File;
use crate::error::Error;

impl File {
    /// Writes buffers one after another, as one write: others see all of it or, of each object, none.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub async fn write_vectored_at(&self, offset: u64, parts: &[Bytes]) -> Result<(), Error> {
        let data = match parts {
            [only] => only.clone(),
            parts => {
                let mut all = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
                parts.iter().for_each(|part| all.extend_from_slice(part));
                all.freeze()
            }
        };
        self.write_at(offset, data).await
    }

    /// Reads into buffers of these lengths, one after another, as one read. At the file's end the last ones
    /// are shorter, or empty.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub async fn read_vectored_at(&self, offset: u64, lens: &[u64]) -> Result<Vec<Bytes>, Error> {
        let total = lens.iter().fold(0, |sum: u64, len| sum.saturating_add(*len));
        let mut data = self.read_at(offset, total).await?;
        let split =
            |len: &u64| data.split_to(usize::try_from(*len).map_or(data.len(), |len| len.min(data.len())));
        Ok(lens.iter().map(split).collect())
    }
}
