//! Goal: classes need nothing of an OSD but the trait `Object`. Method: an object in a few maps that runs
//! a handful of operations; methods of three classes are called at it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use loligo_classes::{Object, Outcome};
use loligo_wire::message::osd::{OpCode, OsdOp};
use loligo_wire::{Encode as _, EntityAddr, Errno, GlobalId, Reader, SnapId, UTime, Writer};

/// An object in memory.
#[derive(Default)]
struct Toy {
    client: u64,
    exists: bool,
    data: Bytes,
    xattrs: BTreeMap<Bytes, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
    explanation: Bytes,
}

impl Object for Toy {
    fn client(&self) -> GlobalId {
        GlobalId(self.client)
    }

    fn client_addr(&self) -> EntityAddr {
        EntityAddr::msgr2(([127, 0, 0, 1], 6_800).into())
    }

    fn unique_id(&self) -> String {
        "1.0".to_owned()
    }

    fn snap_seq(&self) -> Option<SnapId> {
        self.exists.then_some(SnapId(0))
    }

    fn explain(&mut self, output: Bytes) {
        self.explanation = output;
    }

    fn run(&mut self, op: &OsdOp) -> Outcome {
        let there = if self.exists { Ok(()) } else { Err(Errno::ENOENT) };
        let output = match op.code {
            OpCode::STAT => there.map(|()| {
                let mut w = Writer::new();
                w.u64(self.data.len() as u64);
                w.put(&UTime::default());
                w.into_bytes()
            })?,
            OpCode::SYNC_READ => there.map(|()| self.data.clone())?,
            OpCode::GETXATTR => {
                there?;
                self.xattrs.get(&op.xattr_input()?.0).cloned().ok_or(Errno::ENODATA)?
            }
            OpCode::OMAPGETVALSBYKEYS => {
                there?;
                let keys: BTreeSet<Bytes> = Reader::new(&op.data).get()?;
                let found = |key: Bytes| self.omap.get(&key).map(|value| (key.clone(), value.clone()));
                keys.into_iter().filter_map(found).collect::<BTreeMap<Bytes, Bytes>>().to_bytes()
            }
            OpCode::WRITEFULL => {
                (self.exists, self.data) = (true, op.data.clone());
                Bytes::new()
            }
            OpCode::SETXATTR => {
                self.exists = true;
                self.xattrs.extend([op.xattr_input()?]);
                Bytes::new()
            }
            OpCode::OMAPSETVALS => {
                self.exists = true;
                self.omap.extend(Reader::new(&op.data).get::<BTreeMap<Bytes, Bytes>>()?);
                Bytes::new()
            }
            _ => return Err(Errno::EOPNOTSUPP),
        };
        Ok((0, output))
    }
}

impl Toy {
    fn call(&mut self, class: &str, method: &str, input: &[u8]) -> Outcome {
        let method = loligo_classes::method(class.as_bytes(), method.as_bytes()).ok_or(Errno::EOPNOTSUPP)?;
        method.run(self, input)
    }

    fn lock(&mut self, client: u64) -> Result<(), Errno> {
        self.client = client;
        let mut w = Writer::new();
        w.versioned(1, 1, |w| {
            w.blob(b"a lock");
            w.u8(1); // exclusive
            ["cookie", "tag", "why"].iter().for_each(|text| w.blob(text.as_bytes()));
            w.put(&UTime::default()); // forever
            w.u8(0);
        });
        self.call("lock", "lock", &w.into_bytes()).map(drop)
    }

    fn unlock(&mut self, client: u64) -> Result<(), Errno> {
        self.client = client;
        let mut w = Writer::new();
        w.versioned(1, 1, |w| ["a lock", "cookie"].iter().for_each(|text| w.blob(text.as_bytes())));
        self.call("lock", "unlock", &w.into_bytes()).map(drop)
    }
}

#[test]
fn a_lock_has_one_owner() {
    let mut toy = Toy::default();
    assert_eq!(toy.lock(1), Ok(()));
    assert_eq!((toy.lock(2), toy.lock(1)), (Err(Errno::EBUSY), Err(Errno::EEXIST)));
    assert_eq!((toy.unlock(2), toy.unlock(1)), (Err(Errno::ENOENT), Ok(())));
    assert_eq!(toy.lock(2), Ok(()));
    assert_eq!(toy.xattrs.keys().collect::<Vec<_>>(), ["lock.a lock"]);
}

#[test]
fn numbers_are_kept_in_the_omap() {
    let mut toy = Toy::default();
    for (number, sum) in [("3", "3"), ("4.5", "7.5")] {
        let mut w = Writer::new();
        w.blob(b"sum");
        w.blob(number.as_bytes());
        assert_eq!(toy.call("numops", "add", &w.into_bytes()), Ok((0, Bytes::new())));
        assert_eq!(toy.omap.get(&b"sum"[..]).map(|sum| &sum[..]), Some(sum.as_bytes()));
    }
}

#[test]
fn a_method_does_only_what_it_is_marked_for() {
    let mut toy = Toy { exists: true, ..Toy::default() };
    for method in ["bad_reader", "bad_writer"] {
        assert_eq!(toy.call("hello", method, b""), Err(Errno::EIO));
    }
    assert!(toy.data.is_empty());
    assert_eq!(toy.call("hello", "write_return_data", b"input"), Err(Errno::EINVAL));
    assert_eq!(&toy.explanation[..], b"too much input data!");
    let needs = loligo_classes::needs(b"lock", b"get_info").expect("it is known");
    assert!(needs.read && !needs.write && needs.by_default);
    assert!(loligo_classes::needs(b"lock", b"pick").is_none());
    assert_eq!(toy.call("fifo", "create_meta", b""), Err(Errno::EOPNOTSUPP));
}
