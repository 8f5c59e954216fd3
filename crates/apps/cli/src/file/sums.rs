//! Compares a local file with a striped one: checksums of the local bytes that belong to each object,
//! against those that the OSDs compute of the objects. No data is transferred.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Checksum, ChecksumKind, ReadOp};
use loligo_stripe::{Direct, Layout, ObjectNo};
use loligo_wire::crc::crc32c;

use super::local::{Source, Way};
use crate::failure::Failure;

/// Number of objects that are queried concurrently.
const OBJECTS_UNDER_WAY: usize = 16;

/// Checksums of a file's beginning, by object.
pub(super) struct Sums {
    layout: Layout,
    at: u64,
    objects: BTreeMap<ObjectNo, Sum>,
}

#[derive(Clone, Copy)]
struct Sum {
    len: u64,
    crc: u32,
}

impl Sums {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, at: 0, objects: BTreeMap::new() }
    }

    /// Adds the next bytes of the file.
    pub(super) fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let (object, _) = self.layout.locate(self.at);
            let room = self.layout.stripe_unit() - self.at % self.layout.stripe_unit();
            let (here, rest) = data.split_at(data.len().min(room as usize));
            let sum = self.objects.entry(object).or_insert(Sum { len: 0, crc: u32::MAX });
            *sum = Sum { len: sum.len + here.len() as u64, crc: crc32c(sum.crc, here) };
            self.at += here.len() as u64;
            data = rest;
        }
    }

    /// Computes the checksums of a local file's first `len` bytes, or of all of it if it is shorter.
    pub(super) async fn of_file(layout: Layout, file: &Path, len: u64, way: Way) -> Result<Self, Failure> {
        let mut source = Source::open(file, 0, way)?;
        let mut sums = Self::new(layout);
        while let Some(piece) = source.next().await? {
            let wanted = (len - sums.at).min(piece.len() as u64);
            sums.add(&piece[..wanted as usize]);
            if sums.at == len {
                break;
            }
        }
        Ok(sums)
    }

    /// Compares with the objects. Returns the file offset of the first object that differs; `None` if
    /// none does.
    pub(super) async fn first_difference(&self, direct: &Direct) -> Result<Option<u64>, loligo_rados::Error> {
        let asked = self.objects.iter().map(|(object, sum)| async move {
            let same = crc_of(direct, *object, sum.len).await? == sum.crc;
            Ok::<_, loligo_rados::Error>((!same).then_some(*object))
        });
        let differing =
            stream::iter(asked).buffer_unordered(OBJECTS_UNDER_WAY).try_collect::<Vec<_>>().await?;
        let offset = |object| self.layout.file_offset(object, 0).unwrap_or(u64::MAX);
        Ok(differing.into_iter().flatten().map(offset).min())
    }

    /// Returns the number of bytes added.
    pub(super) fn len(&self) -> u64 {
        self.at
    }
}

/// Returns the checksum of an object's first `len` bytes. Missing bytes count as zeros.
async fn crc_of(direct: &Direct, object: ObjectNo, len: u64) -> Result<u32, loligo_rados::Error> {
    let (io, name) = (direct.ioctx(), direct.name(object));
    let there = match io.stat(name.clone()).await {
        Ok(stat) => stat.size.min(len),
        Err(e) if e.is_not_found() => 0,
        Err(e) => return Err(e),
    };
    let mut crc = u32::MAX;
    if there > 0 {
        let kind = ChecksumKind::Crc32c;
        let checksum = Checksum { kind, seed: crc.into(), offset: 0, len: there, chunk: 0 };
        let answers = io.operate_read(name, ReadOp::new().checksum(checksum)).await?;
        let sums = answers.first().map(|answer| answer.checksums(kind)).transpose()?.unwrap_or_default();
        // The checksum has 32 bits.
        crc = sums
            .first()
            .ok_or(loligo_rados::Error::Os(loligo_rados::Errno::EPROTO))
            .map(|sum| *sum as u32)?;
    }
    let zeros = [0; 4096];
    let mut missing = len - there;
    while missing > 0 {
        let here = missing.min(zeros.len() as u64);
        crc = crc32c(crc, &zeros[..here as usize]);
        missing -= here;
    }
    Ok(crc)
}
