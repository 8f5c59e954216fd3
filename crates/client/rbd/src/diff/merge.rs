//! Merges two consecutive files of differences into one.

use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;

use loligo_wire::Name;

use super::file::{Reader, Record, Writer};

/// A range that differs: data, or zeros.
struct Part {
    offset: u64,
    len: u64,
    data: Option<Bytes>,
}

/// The beginning of a file.
#[derive(Default)]
struct Head {
    from_snap: Option<Name>,
    to_snap: Option<Name>,
    size: Option<u64>,
    first: Option<Part>,
}

/// The parts of a file in order, limited to the final size of the image.
struct Parts<R> {
    reader: Reader<R>,
    next: Option<Part>,
    is_at_end: bool,
    /// The offset at which the last part ended.
    last: u64,
    /// A range of zeros to add after the file's parts, from the first to the second offset, where the
    /// image was shorter in between.
    tail: (u64, u64),
    size: u64,
}

/// Merges the differences of `first` and then `second` into one file. `told` gets the number of bytes
/// read of both. Where they overlap, the second is used.
///
/// # Errors
/// `InvalidData` if an input is not such a file, is not ordered by offset, or the second does not begin
/// where the first ends; errors of reads and writes.
pub fn merge<W: Write>(
    first: impl Read,
    second: impl Read,
    out: W,
    mut told: impl FnMut(u64),
) -> io::Result<W> {
    let (mut first, mut second) = (Reader::new(first)?, Reader::new(second)?);
    let (before, after) = (head(&mut first)?, head(&mut second)?);
    if before.to_snap != after.from_snap {
        let name =
            |snap: &Option<Name>| snap.as_ref().map_or("nothing".to_owned(), |name| format!("'{name}'"));
        let (ends, begins) = (name(&before.to_snap), name(&after.from_snap));
        return Err(invalid(format!("the first ends with {ends}, and the second begins with {begins}")));
    }
    let (Some(between), Some(size)) = (before.size, after.size) else {
        return Err(invalid("a file does not say how large the image is".to_owned()));
    };
    let mut writer = Writer::new(out)?;
    if let Some(name) = &before.from_snap {
        writer.from_snap(name)?;
    }
    if let Some(name) = &after.to_snap {
        writer.to_snap(name)?;
    }
    writer.size(size)?;
    let mut old = Parts::new(first, before.first, (between, size), size)?;
    let mut new = Parts::new(second, after.first, (size, size), size)?;
    while let Some(part) = next_of(&mut old, &mut new)? {
        match &part.data {
            Some(data) => writer.data(part.offset, data)?,
            None => writer.zeros(part.offset, part.len)?,
        }
        told(old.reader.position() + new.reader.position());
    }
    writer.end()
}

/// Returns the next range, from the newer file where it has one.
fn next_of<F: Read, S: Read>(old: &mut Parts<F>, new: &mut Parts<S>) -> io::Result<Option<Part>> {
    let until = new.next.as_ref().map_or(u64::MAX, |part| part.offset);
    if old.next.as_ref().is_some_and(|part| part.offset < until) {
        return old.take(until);
    }
    let Some(part) = new.take(u64::MAX)? else { return Ok(None) };
    // Skips the parts of the older file that it hides.
    while old.next.as_ref().is_some_and(|old| old.offset < part.offset + part.len) {
        old.take(part.offset + part.len)?;
    }
    Ok(Some(part))
}

/// Reads up to the first range.
fn head(reader: &mut Reader<impl Read>) -> io::Result<Head> {
    let mut head = Head::default();
    loop {
        match reader.next_record()? {
            Record::FromSnap(name) => head.from_snap = Some(name),
            Record::ToSnap(name) => head.to_snap = Some(name),
            Record::Size(size) => head.size = Some(size),
            Record::Data { offset, data } => {
                head.first = Some(Part { offset, len: data.len() as u64, data: Some(data) });
                return Ok(head);
            }
            Record::Zeros { offset, len } => {
                head.first = Some(Part { offset, len, data: None });
                return Ok(head);
            }
            Record::End => return Ok(head),
            // Not in files of version 1.
            Record::Protection(_) | Record::Unknown { .. } => {}
        }
    }
}

impl<R: Read> Parts<R> {
    fn new(reader: Reader<R>, first: Option<Part>, tail: (u64, u64), size: u64) -> io::Result<Self> {
        let mut parts = Self { reader, is_at_end: first.is_none(), next: first, last: 0, tail, size };
        parts.settle()?;
        Ok(parts)
    }

    /// Takes the next part, limited to the bytes before `until`.
    fn take(&mut self, until: u64) -> io::Result<Option<Part>> {
        let Some(part) = &mut self.next else { return Ok(None) };
        let len = part.len.min(until.saturating_sub(part.offset));
        let data = part.data.as_mut().map(|data| data.split_to(len as usize));
        let taken = Part { offset: part.offset, len, data };
        part.offset += len;
        part.len -= len;
        self.settle()?;
        Ok(Some(taken))
    }

    /// Reads until the next part is not empty, or there is none.
    fn settle(&mut self) -> io::Result<()> {
        loop {
            if let Some(part) = &mut self.next {
                if part.offset < self.last {
                    return Err(invalid(format!("what lies at {} comes too late", part.offset)));
                }
                part.len = part.len.min(self.size.saturating_sub(part.offset));
                if let Some(data) = &mut part.data {
                    data.truncate(part.len as usize);
                }
                if part.len > 0 {
                    return Ok(());
                }
                self.last = part.offset;
            }
            self.next = match self.is_at_end {
                true => {
                    let (from, to) = std::mem::take(&mut self.tail);
                    if from >= to {
                        self.next = None;
                        return Ok(());
                    }
                    Some(Part { offset: from, len: to - from, data: None })
                }
                false => self.read()?,
            };
        }
    }

    fn read(&mut self) -> io::Result<Option<Part>> {
        Ok(match self.reader.next_record()? {
            Record::Data { offset, data } => Some(Part { offset, len: data.len() as u64, data: Some(data) }),
            Record::Zeros { offset, len } => Some(Part { offset, len, data: None }),
            Record::End => {
                self.is_at_end = true;
                None
            }
            _ => return Err(invalid("names and size must come before what differs".to_owned())),
        })
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = (u64, Result<Vec<u8>, u64>);

    fn file(from: Option<&str>, to: Option<&str>, size: u64, changes: &[Change]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).expect("room");
        from.map_or(Ok(()), |name| writer.from_snap(name)).expect("room");
        to.map_or(Ok(()), |name| writer.to_snap(name)).expect("room");
        writer.size(size).expect("room");
        for (offset, change) in changes {
            match change {
                Ok(data) => writer.data(*offset, data).expect("room"),
                Err(len) => writer.zeros(*offset, *len).expect("room"),
            }
        }
        writer.end().expect("room")
    }

    /// Generates ascending ranges within an image, some of data and some of zeros.
    fn changes(random: &mut fastrand::Rng, size: u64) -> Vec<Change> {
        let (mut at, mut changes) = (random.u64(0..20), Vec::new());
        while at < size {
            let len = random.u64(0..30).min(size - at);
            let byte = random.u8(1..);
            changes.push((at, if random.bool() { Ok(vec![byte; len as usize]) } else { Err(len) }));
            at += len + random.u64(0..20);
        }
        changes
    }

    fn apply(image: &mut Vec<u8>, file: &[u8]) {
        let mut reader = Reader::new(file).expect("a file");
        loop {
            match reader.next_record().expect("a record") {
                Record::Size(size) => image.resize(size as usize, 0),
                Record::Data { offset, data } => {
                    image[offset as usize..][..data.len()].copy_from_slice(&data);
                }
                Record::Zeros { offset, len } => image[offset as usize..][..len as usize].fill(0),
                Record::End => return,
                Record::Protection(_) | Record::Unknown { .. } => panic!("not in this format"),
                Record::FromSnap(name) => assert_eq!(name, "a"),
                Record::ToSnap(name) => assert!(["b", "c"].iter().any(|known| name == *known)),
            }
        }
    }

    #[test]
    fn one_file_does_what_two_did() {
        for seed in 0..500 {
            let mut random = fastrand::Rng::with_seed(seed);
            let sizes: [u64; 3] = std::array::from_fn(|_| random.u64(0..300));
            let begin: Vec<u8> = (0..sizes[0]).map(|_| random.u8(..)).collect();
            let (one, two) = (changes(&mut random, sizes[1]), changes(&mut random, sizes[2]));
            let first = file(Some("a"), Some("b"), sizes[1], &one);
            let second = file(Some("b"), Some("c"), sizes[2], &two);
            let merged = merge(&first[..], &second[..], Vec::new(), |_| {}).expect("merged");
            let (mut by_two, mut by_one) = (begin.clone(), begin);
            apply(&mut by_two, &first);
            let mut reader = second.clone();
            // `apply` knows only one start snapshot.
            let name = reader.iter().position(|byte| *byte == b'f').expect("a tag") + 1;
            let name = reader[name..].iter().position(|byte| *byte == b'b').expect("a name") + name;
            reader[name] = b'a';
            apply(&mut by_two, &reader);
            apply(&mut by_one, &merged);
            assert!(by_one == by_two, "seed {seed}");
        }
    }

    #[test]
    fn what_does_not_follow_is_refused() {
        let refused = |first: Vec<u8>, second: Vec<u8>| {
            let e = merge(&first[..], &second[..], Vec::new(), |_| {}).expect_err("it does not follow");
            assert_eq!(e.kind(), ErrorKind::InvalidData, "{e}");
        };
        refused(file(None, Some("a"), 10, &[]), file(Some("b"), None, 10, &[]));
        refused(file(None, None, 10, &[]), file(Some("b"), None, 10, &[]));
        let late = file(None, Some("a"), 99, &[(50, Err(10)), (40, Err(10))]);
        refused(late.clone(), file(Some("a"), None, 99, &[]));
        refused(file(None, Some("a"), 99, &[]), file(Some("a"), None, 99, &[(50, Err(10)), (40, Err(1))]));
        let cut = &late[..late.len() - 30];
        let e = merge(cut, &file(Some("a"), None, 99, &[])[..], Vec::new(), |_| {}).expect_err("cut off");
        assert_eq!(e.kind(), ErrorKind::UnexpectedEof);
    }
}
