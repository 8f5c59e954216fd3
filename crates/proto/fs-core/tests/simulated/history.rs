//! What programs have seen, and whether one register for each file explains it.

use crate::message::{File, Life, OpId};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Read,
    /// A write of this value; values are unique and grow.
    Write(u64),
}

/// One operation of a program.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) client: usize,
    pub(crate) file: File,
    pub(crate) what: What,
    pub(crate) began: u64,
    /// When it ended; none while it runs.
    pub(crate) ended: Option<u64>,
}

/// A value that was written, or may have been.
#[derive(Clone, Debug)]
struct Value {
    writer: Option<Life>,
    file: File,
    began: u64,
    /// From when on every read that begins sees it or a later one; none if nobody was promised that.
    known: Option<u64>,
    /// It was buffered, and the client's end took it along.
    is_lost: bool,
    /// When its writer was fenced off: it was written before that, or never is.
    fenced: Option<u64>,
}

impl Value {
    fn new(writer: Option<Life>, file: File, began: u64) -> Self {
        Self { writer, file, began, known: None, is_lost: false, fenced: None }
    }
}

/// All operations.
#[derive(Default)]
pub(crate) struct History {
    ops: Vec<Op>,
    /// By value; the first is what files have at the beginning.
    values: Vec<Value>,
}

impl History {
    pub(crate) fn new() -> Self {
        let first = Value { known: Some(0), ..Value::new(None, usize::MAX, 0) };
        Self { ops: Vec::new(), values: vec![first] }
    }

    pub(crate) fn begin(&mut self, life: Life, file: File, writes: bool, now: u64) -> OpId {
        let what = if writes {
            self.values.push(Value::new(Some(life), file, now));
            What::Write(self.values.len() as u64 - 1)
        } else {
            What::Read
        };
        self.ops.push(Op { client: life.client, file, what, began: now, ended: None });
        self.ops.len() - 1
    }

    pub(crate) fn op(&self, id: OpId) -> &Op {
        &self.ops[id]
    }

    /// A write has succeeded.
    pub(crate) fn wrote(&mut self, id: OpId, now: u64) {
        self.end(id, now);
        if let What::Write(value) = self.ops[id].what {
            let known = &mut self.values[value as usize].known;
            *known = Some(known.map_or(now, |known| known.min(now)));
        }
    }

    /// An operation has failed: its value may be there or not.
    pub(crate) fn failed(&mut self, id: OpId, now: u64) {
        self.end(id, now);
    }

    /// A read has returned a value. Fails if a write that was known before the read began came after it.
    pub(crate) fn read(&mut self, id: OpId, value: u64, now: u64) -> Result<(), String> {
        self.end(id, now);
        let Op { client, file, began, .. } = self.ops[id];
        let seen = self.values[value as usize].clone();
        if value != 0 && seen.file != file {
            return Err(format!("client {client} read value {value} of another file in file {file}"));
        }
        let later = self.values.iter().enumerate().find(|(_, other)| {
            let is_after = seen.known.into_iter().chain(seen.fenced).any(|end| end < other.began);
            let is_due = other.known.is_some_and(|known| known < began);
            other.file == file && !other.is_lost && is_after && is_due
        });
        if let Some((other, _)) = later {
            return Err(format!(
                "client {client} read value {value} of file {file} at {now} (began {began}), \
                 but value {other} was there before"
            ));
        }
        // Nobody may see an older one from now on.
        let known = &mut self.values[value as usize].known;
        *known = Some(known.map_or(now, |known| known.min(now)));
        Ok(())
    }

    /// Buffered values went with their client.
    pub(crate) fn lost(&mut self, values: &[u64]) {
        for value in values {
            self.values[*value as usize].is_lost = true;
        }
    }

    /// A life is over, and the store knows.
    pub(crate) fn fenced(&mut self, life: Life, now: u64) {
        for value in self.values.iter_mut().filter(|value| value.writer == Some(life)) {
            value.fenced.get_or_insert(now);
        }
    }

    /// The operations that have not ended.
    pub(crate) fn open(&self) -> Vec<(OpId, &Op)> {
        self.ops.iter().enumerate().filter(|(_, op)| op.ended.is_none()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// A number that differs between runs that differ.
    pub(crate) fn fingerprint(&self) -> u64 {
        let parts = self.ops.iter().flat_map(|op| [op.began, op.ended.unwrap_or(0), op.file as u64]);
        parts.fold(0, |sum: u64, part| sum.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part)
    }

    fn end(&mut self, id: OpId, now: u64) {
        assert!(self.ops[id].ended.replace(now).is_none(), "operation {id} ends once");
    }
}
