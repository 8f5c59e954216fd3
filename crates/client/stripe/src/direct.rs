//! One I/O on a file: all requests to its objects are sent at once, and their replies form one result.
//!
//! An extent of a file is one contiguous range in each object, so there is one request for each object.
//! Only ranges of more than [`REQUEST_BYTES_MAX`] are split into several. Data is split and joined
//! without copying: a request for several stripe units of an object has one operation for each of them.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::{Errno, IoCtx, ReadOp, WriteOp};

use crate::buffers::Buffers;
use crate::error::{Error, ReadError, WriteError};
use crate::segments::Segments;
use loligo_layout::ObjectNames;
use loligo_layout::{Layout, ObjectExtent, ObjectNo};

/// The most bytes of one request. OSDs refuse writes of more than 90 MiB (`osd_max_write_size`).
const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// The most operations of one request: as many as an object of 4 MiB has units of 64 KiB. More parts are
/// copied into one buffer, since each operation costs the OSD some work.
const PARTS_MAX: usize = 64;

/// The objects of a file: its bytes by offset, without a size and without locks.
#[derive(Clone, Debug)]
pub struct Direct {
    io: IoCtx,
    layout: Layout,
    names: ObjectNames,
}

/// How a range of an object is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// As bytes: holes within an object are read as zeros.
    Plain,
    /// As the ranges for which the OSD's store has data.
    Sparse,
}

impl Direct {
    /// The objects of these names in a pool.
    pub fn new(io: IoCtx, layout: Layout, names: ObjectNames) -> Self {
        Self { io, layout, names }
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Reads `len` bytes at `offset`. A range that no object holds is a hole: the end of the file is not
    /// known at this level.
    ///
    /// # Errors
    /// The first by offset, with the bytes before it. Dropping the future abandons its requests.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Segments, ReadError> {
        self.read_as(Ask::Plain, offset, len).await
    }

    /// Like [`Direct::read`], but also reports the holes within objects, according to the OSDs' stores.
    ///
    /// # Errors
    /// As [`Direct::read`].
    pub async fn read_sparse(&self, offset: u64, len: u64) -> Result<Segments, ReadError> {
        self.read_as(Ask::Sparse, offset, len).await
    }

    pub(crate) async fn read_as(&self, ask: Ask, offset: u64, len: u64) -> Result<Segments, ReadError> {
        let extents = self.layout.extents(offset, len).flat_map(requests);
        let answers =
            join_all(extents.map(|extent| async move { (extent, self.read_object(ask, extent).await) }))
                .await;
        let mut found = Vec::new();
        let mut failed: Option<(u64, Error)> = None;
        for (extent, answer) in answers {
            match answer {
                Ok(ranges) => spread(self.layout, extent, ranges, &mut found),
                Err(e) => note(&mut failed, self.first_byte(extent), e),
            }
        }
        let all = Segments::assemble(offset, offset.saturating_add(len), found);
        match failed {
            None => Ok(all),
            Some((at, source)) => Err(ReadError { at, before: all.before(at), source }),
        }
    }

    /// Writes at `offset`.
    ///
    /// # Errors
    /// The first by offset. All bytes before it are written; some after it may be. Dropping the future
    /// abandons its requests: it is unknown whether they were executed.
    pub async fn write(&self, offset: u64, data: impl Into<Buffers>) -> Result<(), WriteError> {
        let requests = deal(self.layout, offset, data.into());
        let answers = join_all(requests.into_iter().map(|request| async {
            let at = request.file_offset;
            (at, self.write_object(request).await)
        }))
        .await;
        let mut failed = None;
        for (at, answer) in answers {
            if let Err(e) = answer {
                note(&mut failed, at, e);
            }
        }
        match failed {
            None => Ok(()),
            Some((at, source)) => Err(WriteError { at, source }),
        }
    }

    /// The name of an object.
    pub fn name(&self, object: ObjectNo) -> Vec<u8> {
        self.names.name(object)
    }

    /// The pool and namespace.
    pub fn ioctx(&self) -> &IoCtx {
        &self.io
    }

    async fn read_object(&self, ask: Ask, extent: ObjectExtent) -> Result<Ranges, Error> {
        let name = self.name(extent.object);
        let answer = match ask {
            Ask::Plain => {
                self.io.read(name, extent.offset, extent.len).await.map(|data| vec![(extent.offset, data)])
            }
            Ask::Sparse => {
                let op = ReadOp::new().sparse_read(extent.offset, extent.len);
                self.io.operate_read(name, op).await.and_then(|answers| match answers.first() {
                    Some(answer) => answer.sparse(),
                    None => Err(Errno::EPROTO.into()),
                })
            }
        };
        match answer {
            Ok(ranges) => checked(extent, ranges),
            Err(e) if e.is_not_found() => Ok(Ranges::new()),
            Err(e) => Err(e.into()),
        }
    }

    async fn write_object(&self, request: Request) -> Result<(), Error> {
        let Request { object, offset, data, .. } = request;
        let name = self.name(object);
        if data.count() == 1 || data.count() > PARTS_MAX {
            return Ok(self.io.write(name, offset, data.into_bytes()).await?);
        }
        let mut at = offset;
        let op = data.into_parts().fold(WriteOp::new(), |op, part| {
            let begins = at;
            at += part.len() as u64;
            op.write(begins, part)
        });
        Ok(self.io.operate(name, op).await?)
    }

    fn first_byte(&self, extent: ObjectExtent) -> u64 {
        // The extents come from a range of the file, so each byte has an offset in the file.
        self.layout.file_offset(extent.object, extent.offset).unwrap_or(u64::MAX)
    }
}

/// Data of an object by its offset within the object, ascending.
type Ranges = VecDeque<(u64, Bytes)>;

/// The part of a write that goes to one object.
struct Request {
    object: ObjectNo,
    /// The offset within the object.
    offset: u64,
    /// The offset of the first byte within the file.
    file_offset: u64,
    data: Buffers,
}

/// Splits an extent into requests.
fn requests(extent: ObjectExtent) -> impl Iterator<Item = ObjectExtent> {
    let end = extent.offset + extent.len;
    (extent.offset..end).step_by(REQUEST_BYTES_MAX as usize).map(move |offset| {
        let len = (end - offset).min(REQUEST_BYTES_MAX);
        ObjectExtent { object: extent.object, offset, len }
    })
}

/// Distributes data over objects, in the order of the first byte of each request.
fn deal(layout: Layout, offset: u64, mut data: Buffers) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut of_object: HashMap<ObjectNo, usize> = HashMap::new();
    let mut at = offset;
    while !data.is_empty() {
        let (object, object_offset) = layout.locate(at);
        let len = (layout.stripe_unit() - at % layout.stripe_unit()).min(REQUEST_BYTES_MAX);
        let part = data.split_to(len);
        let (begins, taken) = (at, part.len());
        at += taken;
        let open = of_object.get(&object).and_then(|index| requests.get_mut(*index));
        match open.filter(|request| request.data.len() + taken <= REQUEST_BYTES_MAX) {
            Some(request) => part.into_parts().for_each(|part| request.data.push(part)),
            None => {
                of_object.insert(object, requests.len());
                requests.push(Request { object, offset: object_offset, file_offset: begins, data: part });
            }
        }
    }
    requests
}

/// Refuses a reply with ranges outside the requested extent, overlapping or out of order.
fn checked(extent: ObjectExtent, ranges: Vec<(u64, Bytes)>) -> Result<Ranges, Error> {
    let mut at = extent.offset;
    for (begins, data) in &ranges {
        let end = begins.checked_add(data.len() as u64).filter(|end| *end <= extent.offset + extent.len);
        match end.filter(|_| *begins >= at) {
            Some(end) => at = end,
            None => return Err(Error::Rados(Errno::EPROTO.into())),
        }
    }
    Ok(ranges.into())
}

/// Maps an object's data to offsets within the file.
fn spread(layout: Layout, extent: ObjectExtent, mut ranges: Ranges, found: &mut Vec<(u64, Bytes)>) {
    for piece in layout.pieces(extent) {
        let end = piece.object_offset + piece.len;
        while let Some((begins, data)) = ranges.front_mut().filter(|(begins, _)| *begins < end) {
            let here = data.split_to(data.len().min((end - *begins) as usize));
            let at = piece.file_offset + (*begins - piece.object_offset);
            *begins += here.len() as u64;
            if data.is_empty() {
                ranges.pop_front();
            }
            found.push((at, here));
        }
    }
}

/// Keeps the first error by offset.
fn note(failed: &mut Option<(u64, Error)>, at: u64, e: Error) {
    if failed.as_ref().is_none_or(|(first, _)| at < *first) {
        *failed = Some((at, e));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: u64 = 64 << 10;

    fn pattern(offset: u64, len: u64) -> Bytes {
        (offset..offset + len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
    }

    proptest! {
        /// Data that is distributed to objects and spread back into the file has its old offsets,
        /// however the buffers are split.
        #[test]
        fn what_is_dealt_out_comes_back(
            count in 1_u64..5, units in 1_u64..4, offset in 0..9 * UNIT, len in 1..20 * UNIT, cut in 1..3 * UNIT,
        ) {
            let layout = Layout::new(UNIT, count, units * UNIT).expect("valid");
            let whole = pattern(offset, len);
            let parts = (0..len).step_by(cut as usize).map(|at| whole.slice(at as usize..((at + cut).min(len)) as usize));
            let requests = deal(layout, offset, parts.collect());
            let extents: Vec<_> = layout.extents(offset, len).collect();
            prop_assert_eq!(requests.len(), extents.len());
            let mut found = Vec::new();
            for (request, extent) in requests.into_iter().zip(extents) {
                let dealt = ObjectExtent { object: request.object, offset: request.offset, len: request.data.len() };
                prop_assert_eq!(dealt, extent);
                prop_assert_eq!(layout.file_offset(extent.object, extent.offset), Some(request.file_offset));
                let ranges = [(request.offset, request.data.into_bytes())].into();
                spread(layout, extent, ranges, &mut found);
            }
            let back = Segments::assemble(offset, offset + len, found);
            prop_assert!(back.parts().iter().all(|part| matches!(part, crate::Segment::Data(_))));
            prop_assert_eq!(back.into_bytes(), whole);
        }
    }

    #[test]
    fn long_ranges_are_several_requests() {
        let layout = Layout::new(128 << 20, 1, 128 << 20).expect("valid");
        let sent = deal(layout, 1000, Buffers::from(vec![1; 70 << 20]));
        let lens: Vec<u64> = sent.iter().map(|request| request.data.len()).collect();
        assert_eq!(lens, [32 << 20, 32 << 20, 6 << 20]);
        let asked: Vec<_> = layout.extents(1000, 70 << 20).flat_map(requests).collect();
        let places = |r: &ObjectExtent| (r.object, r.offset, r.len);
        let sent: Vec<_> = sent.iter().map(|r| (r.object, r.offset, r.data.len())).collect();
        assert_eq!(sent, asked.iter().map(places).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_that_nobody_asked_for_are_refused() {
        let extent = ObjectExtent { object: ObjectNo(0), offset: 100, len: 10 };
        let data = |len: usize| Bytes::from(vec![1; len]);
        assert!(checked(extent, vec![(100, data(4)), (106, data(4))]).is_ok());
        for wrong in [
            vec![(99, data(1))],
            vec![(105, data(6))],
            vec![(104, data(2)), (105, data(1))],
            vec![(u64::MAX, data(2))],
        ] {
            assert!(checked(extent, wrong).is_err());
        }
    }
}
