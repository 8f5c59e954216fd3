//! The data of a file: one I/O goes to all of its objects at once.
//!
//! No lock is held and no capability looked at here: the caller holds a reference that keeps the file's
//! capability for the time of the I/O.

use std::time::SystemTime;

use az::SaturatingAs as _;
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use loligo_layout::{Layout, ObjectExtent, ObjectNo};
use loligo_rados::{Errno, IoCtx, OpCode, OsdOp, ReadOp, SnapId, WhenFull, WriteOp, WriteOptions};
use loligo_wire::message::osd::Extent;
use loligo_wire::{Ino, SnapContext};

use crate::error::Error;
use crate::inode::Attrs;

/// The most bytes of one request. OSDs refuse writes of more than 90 MiB (`osd_max_write_size`).
const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// The objects of a file, as its attributes describe them at one time.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    io: IoCtx,
    layout: Layout,
    ino: Ino,
    /// The last truncation: OSDs apply it to objects that it has not reached yet, and ignore the writes
    /// from before it.
    truncate_seq: u32,
    truncate_size: u64,
}

/// A write that failed.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    /// The first byte that may not have been written.
    pub(crate) at: u64,
    pub(crate) why: Error,
}

impl Objects {
    /// The objects of a file. `io` is the pool that holds them.
    ///
    /// # Errors
    /// EINVAL if the layout is impossible.
    pub(crate) fn new(io: &IoCtx, ino: Ino, attrs: &Attrs, context: &SnapContext) -> Result<Self, Error> {
        let raw = attrs.layout;
        let layout = Layout::new(raw.stripe_unit.into(), raw.stripe_count.into(), raw.object_size.into());
        let layout = layout.map_err(|_| Errno::EINVAL)?;
        let io = io.with_namespace(attrs.pool_ns.as_bytes()).with_when_full(WhenFull::Try);
        let io = io.with_snap_context(context.seq, &context.snaps)?;
        let (truncate_seq, truncate_size) = (attrs.truncate_seq, attrs.truncate_size);
        Ok(Self { io, layout, ino, truncate_seq, truncate_size })
    }

    /// The same objects as they were at a snapshot.
    pub(crate) fn at_snapshot(self, snap: SnapId) -> Self {
        Self { io: self.io.at_snapshot(snap), ..self }
    }

    /// Returns how the file's bytes lie in its objects.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Reads a range. What no object holds is zeros: the caller knows the file's size.
    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        let extents = self.layout.extents(offset, len).flat_map(requests);
        let answers = join_all(extents.map(|extent| async move { (extent, self.read_object(extent).await) }));
        let answers = answers.await;
        if let [(extent, Ok(_))] = answers.as_slice()
            && self.layout.pieces(*extent).count() == 1
        {
            let [(_, data)] = <[_; 1]>::try_from(answers).unwrap_or_else(|_| unreachable!("there is one"));
            return data.map(|data| filled(data, len));
        }
        let mut whole = BytesMut::zeroed(usize::try_from(len).map_err(|_| Errno::EINVAL)?);
        for (extent, answer) in answers {
            let data = answer?;
            self.spread(extent, &data, offset, &mut whole);
        }
        Ok(whole.freeze())
    }

    /// Copies an object's data to its places in the file's range.
    fn spread(&self, extent: ObjectExtent, data: &[u8], offset: u64, whole: &mut [u8]) {
        for piece in self.layout.pieces(extent) {
            let begin = (piece.object_offset - extent.offset).saturating_as::<usize>();
            let Some(rest) = data.get(begin..) else { return };
            let part = &rest[..rest.len().min(piece.len.saturating_as::<usize>())];
            let at = (piece.file_offset - offset).saturating_as::<usize>();
            if let Some(place) = whole.get_mut(at..at + part.len()) {
                place.copy_from_slice(part);
            }
        }
    }

    /// Reads a part of one object: less, if the object ends before.
    pub(crate) async fn read_object(&self, extent: ObjectExtent) -> Result<Bytes, Error> {
        let op = ReadOp::new().op(OsdOp::with_extent(OpCode::READ, self.extent(extent), Bytes::new()));
        match self.io.operate_read(self.name(extent.object), op).await {
            Ok(answers) => match answers.into_iter().next() {
                Some(answer) if answer.data.len() as u64 <= extent.len => Ok(answer.data),
                _ => Err(Errno::EPROTO.into()),
            },
            Err(e) if e.is_not_found() => Ok(Bytes::new()),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes at an offset: to all objects at once.
    ///
    /// # Errors
    /// The first by offset: all bytes before it are written, some after it may be.
    pub(crate) async fn write(&self, offset: u64, data: Bytes) -> Result<(), WriteFailed> {
        let extents = self.layout.extents(offset, data.len() as u64).flat_map(requests);
        let done = join_all(extents.map(|extent| {
            let part = self.gather(extent, offset, &data);
            async move { (extent, self.write_object(extent, part).await) }
        }));
        let mut failed: Option<WriteFailed> = None;
        for (extent, answer) in done.await {
            let Err(why) = answer else { continue };
            let at = self.layout.file_offset(extent.object, extent.offset).unwrap_or(u64::MAX);
            if failed.as_ref().is_none_or(|first| at < first.at) {
                failed = Some(WriteFailed { at, why });
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns an object's part of the file's range: without a copy, if it lies in one piece.
    fn gather(&self, extent: ObjectExtent, offset: u64, data: &Bytes) -> Bytes {
        let place = |at: u64, len: u64| {
            (at - offset).saturating_as::<usize>()..(at - offset + len).saturating_as::<usize>()
        };
        let mut pieces = self.layout.pieces(extent).peekable();
        let first = pieces.next();
        match (first, pieces.peek()) {
            (Some(only), None) => data.slice(place(only.file_offset, only.len)),
            (first, _) => {
                let mut part = BytesMut::with_capacity(extent.len.saturating_as::<usize>());
                for piece in first.into_iter().chain(pieces) {
                    part.extend_from_slice(&data[place(piece.file_offset, piece.len)]);
                }
                part.freeze()
            }
        }
    }

    async fn write_object(&self, extent: ObjectExtent, data: Bytes) -> Result<(), Error> {
        self.change(extent.object, WriteOp::new().op(self.write_op(extent, data))).await
    }

    /// Writes several parts of one object in one step.
    pub(crate) async fn write_parts(
        &self,
        object: ObjectNo,
        parts: Vec<(u64, Vec<Bytes>)>,
    ) -> Result<(), Error> {
        let op = parts.into_iter().fold(WriteOp::new(), |op, (offset, pieces)| {
            let len = pieces.iter().map(|piece| piece.len() as u64).sum();
            let write = self.write_op(ObjectExtent { object, offset, len }, Bytes::new());
            op.op(write.with_pieces(pieces))
        });
        self.change(object, op).await
    }

    fn write_op(&self, extent: ObjectExtent, data: Bytes) -> OsdOp {
        OsdOp::with_extent(OpCode::WRITE, self.extent(extent), data)
    }

    /// Makes a range read as zeros. What lies in it of an object that does not exist stays a hole.
    ///
    /// The request names no truncation: an OSD that cuts an object's end off instead compares the two, and
    /// a stock one ends if they differ.
    pub(crate) async fn zero(&self, offset: u64, len: u64) -> Result<(), Error> {
        let extents = self.layout.extents(offset, len).flat_map(requests);
        let done = join_all(
            extents.map(|extent| self.change(extent.object, WriteOp::new().zero(extent.offset, extent.len))),
        );
        for answer in done.await {
            match answer {
                Err(e) if e.is_not_found() => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Makes an object a copy of another file's, without its data passing through here. Where the source
    /// has none, it becomes a hole.
    ///
    /// # Errors
    /// EOPNOTSUPP or EINVAL if the OSD has no such operation, EPERM if the key does not allow it.
    pub(crate) async fn copy_object(&self, to: u64, from: &Self, source: u64) -> Result<(), Error> {
        let to = ObjectNo(to);
        let whole = ObjectExtent { object: to, offset: 0, len: self.layout.object_size() };
        let truncation = self.extent(whole);
        let op = WriteOp::new().copy_from_truncated(
            &from.io,
            from.name(ObjectNo(source)),
            (truncation.truncate_seq, truncation.truncate_size),
        );
        let options = WriteOptions { when_full: WhenFull::Try, ..WriteOptions::default() };
        match self.io.execute(self.name(to), op, options).await?.errno() {
            None => Ok(()),
            Some(Errno::ENOENT) => {
                match self.change(to, WriteOp::new().zero(whole.offset, whole.len)).await {
                    Err(e) if e.is_not_found() => Ok(()),
                    other => other,
                }
            }
            Some(errno) => Err(errno.into()),
        }
    }

    async fn change(&self, object: ObjectNo, op: WriteOp) -> Result<(), Error> {
        let options = WriteOptions {
            mtime: Some(SystemTime::now()),
            when_full: WhenFull::Try,
            ..WriteOptions::default()
        };
        let done = self.io.execute(self.name(object), op, options).await?;
        done.errno().map_or(Ok(()), |errno| Err(errno.into()))
    }

    /// Returns the operation's arguments: the truncation is that of the object.
    fn extent(&self, extent: ObjectExtent) -> Extent {
        let truncate_size = match self.truncate_size {
            0 => 0,
            u64::MAX => u64::MAX,
            size => self.layout.object_len(extent.object, size),
        };
        let truncate_seq = self.truncate_seq;
        Extent { offset: extent.offset, length: extent.len, truncate_size, truncate_seq }
    }

    fn name(&self, object: ObjectNo) -> Vec<u8> {
        self.ino.object_name(object.0).into_bytes()
    }
}

/// Splits an extent into requests.
fn requests(extent: ObjectExtent) -> impl Iterator<Item = ObjectExtent> {
    let end = extent.offset + extent.len;
    (extent.offset..end).step_by(REQUEST_BYTES_MAX.saturating_as::<usize>()).map(move |offset| {
        let len = (end - offset).min(REQUEST_BYTES_MAX);
        ObjectExtent { object: extent.object, offset, len }
    })
}

/// Extends data by the zeros that an object's end leaves out.
pub(crate) fn filled(data: Bytes, len: u64) -> Bytes {
    if data.len() as u64 >= len {
        return data;
    }
    let mut whole = BytesMut::from(&data[..]);
    whole.resize(len.saturating_as::<usize>(), 0);
    whole.freeze()
}
