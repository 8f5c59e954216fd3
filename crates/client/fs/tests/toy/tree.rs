//! A small file system in memory, as replies describe it.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_maps::ObjectHash;
use loligo_wire::message::mds::{
    ClientReply, ClientRequest, CreateExtra, DentryTrace, FileLayout, Frag, InodeStat, LeaseStat, OpenArgs,
    ReaddirEntry, ReaddirExtra, RecursiveStat, ReplyCap, RequestOp, SetAttr, SnapRealmInfo, SnapTrace, Trace,
    Xattrs,
};
use loligo_wire::{CapId, Caps, Encode as _, Epoch, Ino, PoolId, SnapId, UTime};

const ENOENT: i32 = -2;
const EEXIST: i32 = -17;
const EOPNOTSUPP: i32 = -95;

/// The capabilities that a look at an inode brings.
const TO_LOOK: Caps = Caps::PIN.union(Caps::ANY_SHARED);
/// The capabilities that an open of a file brings.
const TO_USE: Caps =
    TO_LOOK.union(Caps::FILE_RD).union(Caps::FILE_WR).union(Caps::FILE_CACHE).union(Caps::FILE_EXCL);

/// The capabilities that the making of a file brings to who does not even open it, as from a stock server.
const TO_FILL: Caps = TO_USE.union(Caps::FILE_BUFFER).union(Caps::AUTH_EXCL).union(Caps::XATTR_EXCL);

/// The file system.
pub(crate) struct Tree {
    nodes: BTreeMap<Ino, Node>,
    next: u64,
    /// Entries of one reply to READDIR.
    pub(crate) page: usize,
    /// Whether changes are answered as not durable. Nothing tells later that they are.
    pub(crate) is_unsafe: bool,
}

/// A file or directory.
#[derive(Clone, Default)]
struct Node {
    mode: u32,
    size: u64,
    version: u64,
    /// The number of the capability's last issue.
    seq: u32,
    entries: BTreeMap<Vec<u8>, Ino>,
    target: Vec<u8>,
    /// The names of a file beyond the first.
    more_names: u32,
    /// What the client said last that it wants of a directory.
    wanted: Caps,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let root = Node { mode: 0o040_755, version: 1, ..Node::default() };
        Self { nodes: [(Ino::ROOT, root)].into(), next: 0x1000, page: 1000, is_unsafe: false }
    }

    /// Makes an empty file, or a directory, in a directory.
    pub(crate) fn make(&mut self, dir: Ino, name: &[u8], mode: u32) -> Ino {
        self.next += 1;
        let ino = Ino(self.next);
        self.nodes.insert(ino, Node { mode, version: 1, ..Node::default() });
        let dir = self.nodes.get_mut(&dir).expect("a directory");
        dir.entries.insert(name.to_vec(), ino);
        dir.version += 2;
        ino
    }

    /// Gives something another name.
    pub(crate) fn link(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        self.put(dir, name, ino);
        self.nodes.get_mut(&ino).expect("an inode").more_names += 1;
    }

    fn put(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        let dir = self.nodes.get_mut(&dir).expect("a directory");
        dir.version += 2;
        let before = dir.entries.insert(name.to_vec(), ino);
        before.into_iter().for_each(|ino| self.lost_name(ino));
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, dir: Ino, name: &[u8]) {
        let removed = self.nodes.get_mut(&dir).and_then(|dir| dir.entries.remove(name)).expect("a name");
        self.lost_name(removed);
    }

    fn lost_name(&mut self, ino: Ino) {
        let node = self.nodes.get_mut(&ino).expect("an inode");
        node.more_names = node.more_names.saturating_sub(1);
    }

    /// Writes a file, up to this size.
    pub(crate) fn write(&mut self, ino: Ino, size: u64) {
        let node = self.nodes.get_mut(&ino).expect("an inode");
        (node.size, node.version) = (size, node.version + 2);
    }

    /// Returns the names in a directory.
    pub(crate) fn names(&self, dir: Ino) -> Vec<Vec<u8>> {
        self.nodes[&dir].entries.keys().cloned().collect()
    }

    /// Notes what the client wants of a directory.
    pub(crate) fn wants(&mut self, ino: Ino, wanted: Caps) {
        let dir = self.nodes.get_mut(&ino).filter(|node| node.mode & 0o170_000 == 0o040_000);
        dir.into_iter().for_each(|dir| dir.wanted = wanted);
    }

    /// Numbers the next message about a capability, and returns with it what the client wants.
    pub(crate) fn next_word(&mut self, ino: Ino) -> (u32, Caps) {
        let node = self.nodes.get_mut(&ino).expect("an inode");
        node.seq += 1;
        (node.seq, node.wanted)
    }

    /// Moves a name.
    pub(crate) fn rename(&mut self, (from, old): (Ino, &[u8]), (to, new): (Ino, &[u8])) {
        let ino = self.nodes.get_mut(&from).and_then(|dir| dir.entries.remove(old)).expect("a name");
        self.put(to, new, ino);
    }

    /// Answers a request.
    pub(crate) fn serve(&mut self, request: &ClientRequest) -> ClientReply {
        let (trace, extra, result) = match self.done(request) {
            Ok((trace, extra)) => (trace, extra, 0),
            Err(errno) => (Trace::default(), Bytes::new(), errno),
        };
        ClientReply {
            op: request.op.code(),
            result,
            mdsmap_epoch: Epoch(1),
            safe: !(self.is_unsafe && request.op.is_write()),
            trace,
            extra,
            snap: realm(),
        }
    }

    fn done(&mut self, request: &ClientRequest) -> Result<(Trace, Bytes), i32> {
        let none = Bytes::new;
        match request.op {
            RequestOp::GetAttr { .. } => {
                let ino = self.find(request.path.base, &request.path.path)?;
                Ok((self.of_inode(ino, TO_LOOK), none()))
            }
            RequestOp::Lookup { .. } => {
                let (dir, name) = self.place(request)?;
                let ino = *self.nodes[&dir].entries.get(&name).ok_or(ENOENT)?;
                Ok((self.of_name(dir, name, Some(ino), TO_LOOK), none()))
            }
            RequestOp::MkDir { mode } => self.made(request, 0o040_000 | mode, TO_LOOK).map(|t| (t, none())),
            RequestOp::MkNod { mode, .. } => {
                let caps = if mode & 0o170_000 == 0o100_000 { TO_FILL } else { TO_LOOK };
                self.made(request, mode, caps).map(|t| (t, none()))
            }
            RequestOp::LookupParent { .. } => {
                let child = self.find(request.path.base, &request.path.path)?;
                let has_it = |node: &Node| node.entries.values().any(|ino| *ino == child);
                let dir = self.nodes.iter().find(|(_, node)| has_it(node)).map(|(ino, _)| *ino);
                Ok((self.of_inode(dir.ok_or(ENOENT)?, TO_LOOK), none()))
            }
            RequestOp::SymLink => self.made(request, 0o120_777, TO_LOOK).map(|t| (t, none())),
            RequestOp::Create(OpenArgs { mode, .. }) => {
                let trace = self.made(request, 0o100_000 | mode, TO_USE)?;
                let created = trace.target.as_ref().map_or(Ino(0), |stat| stat.ino);
                let extra = CreateExtra { created, delegated: Some(BTreeMap::new()) };
                Ok((trace, extra.to_bytes()))
            }
            RequestOp::Open(_) => {
                let ino = self.find(request.path.base, &request.path.path)?;
                Ok((self.of_inode(ino, TO_USE), none()))
            }
            RequestOp::Unlink | RequestOp::RmDir => {
                let (dir, name) = self.place(request)?;
                let removed = self.dir(dir)?.entries.remove(&name).ok_or(ENOENT)?;
                self.lost_name(removed);
                Ok((self.of_name(dir, name, None, TO_LOOK), none()))
            }
            RequestOp::Link => {
                let (dir, name) = self.place(request)?;
                if self.nodes[&dir].entries.contains_key(&name) {
                    return Err(EEXIST);
                }
                let ino = self.find(request.path2.base, &request.path2.path)?;
                self.link(dir, &name, ino);
                Ok((self.of_name(dir, name, Some(ino), TO_LOOK), none()))
            }
            RequestOp::Rename => self.renamed(request).map(|trace| (trace, none())),
            RequestOp::SetAttr(args) => self.changed(request, &args).map(|trace| (trace, none())),
            RequestOp::ReadDir(_) => self.listed(request),
            _ => Err(EOPNOTSUPP),
        }
    }

    fn dir(&mut self, ino: Ino) -> Result<&mut Node, i32> {
        let dir = self.nodes.get_mut(&ino).ok_or(ENOENT)?;
        dir.version += 2;
        Ok(dir)
    }

    /// Follows a path.
    fn find(&self, base: Ino, path: &[u8]) -> Result<Ino, i32> {
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let found = names.try_fold(base, |at, name| self.nodes.get(&at)?.entries.get(name).copied());
        found.filter(|ino| self.nodes.contains_key(ino)).ok_or(ENOENT)
    }

    /// Returns the directory and the name that a request is about.
    fn place(&self, request: &ClientRequest) -> Result<(Ino, Vec<u8>), i32> {
        let path = &request.path.path;
        let at = path.iter().rposition(|byte| *byte == b'/');
        let (dir, name) = at.map_or((&b""[..], &path[..]), |at| (&path[..at], &path[at + 1..]));
        Ok((self.find(request.path.base, dir)?, name.to_vec()))
    }

    fn made(&mut self, request: &ClientRequest, mode: u32, caps: Caps) -> Result<Trace, i32> {
        let (dir, name) = self.place(request)?;
        if self.nodes[&dir].entries.contains_key(&name) {
            return Err(EEXIST);
        }
        let ino = self.make(dir, &name, mode);
        if request.op == RequestOp::SymLink {
            self.nodes.get_mut(&ino).expect("made").target = request.path2.path.clone();
        }
        Ok(self.of_name(dir, name, Some(ino), caps))
    }

    fn renamed(&mut self, request: &ClientRequest) -> Result<Trace, i32> {
        let (to, name) = self.place(request)?;
        let from = ClientRequest { path: request.path2.clone(), ..request.clone() };
        let (from, old) = self.place(&from)?;
        let ino = *self.dir(from)?.entries.get(&old).ok_or(ENOENT)?;
        // Two names of one file stay as they are.
        if self.dir(to)?.entries.get(&name) != Some(&ino) {
            self.rename((from, &old), (to, &name));
        }
        Ok(self.of_name(to, name, Some(ino), TO_LOOK))
    }

    fn changed(&mut self, request: &ClientRequest, args: &SetAttr) -> Result<Trace, i32> {
        let ino = self.find(request.path.base, &request.path.path)?;
        let node = self.dir(ino)?;
        if args.mask & SetAttr::SIZE != 0 {
            node.size = args.size;
        }
        if args.mask & SetAttr::MODE != 0 {
            node.mode = node.mode & !0o7777 | args.mode & 0o7777;
        }
        Ok(self.of_inode(ino, TO_LOOK))
    }

    fn listed(&mut self, request: &ClientRequest) -> Result<(Trace, Bytes), i32> {
        let dir = self.find(request.path.base, &request.path.path)?;
        let RequestOp::ReadDir(args) = &request.op else { return Err(EOPNOTSUPP) };
        let after = &request.path2.path;
        let from = if after.is_empty() { (args.offset_hash, Vec::new()) } else { place_of(after) };
        let mut all: Vec<_> = self.nodes[&dir].entries.iter().map(|(n, ino)| (place_of(n), *ino)).collect();
        all.sort();
        all.retain(|(place, _)| *place > from || after.is_empty() && *place == from);
        let is_end = all.len() <= self.page;
        all.truncate(self.page);
        let rest = all.into_iter().map(|((_, name), ino)| (name, ino));
        let order = ReaddirExtra::HASH_ORDER | ReaddirExtra::OFFSET_HASH;
        let flags = order | if is_end { ReaddirExtra::END } else { 0 };
        let entry = |(name, ino)| ReaddirEntry { name, lease: lease(), stat: self.stat(ino, TO_LOOK) };
        let entries = rest.map(entry).collect();
        let extra = ReaddirExtra { flags, entries, ..ReaddirExtra::default() };
        Ok((self.of_inode(dir, TO_LOOK), extra.to_bytes()))
    }

    fn of_inode(&mut self, ino: Ino, caps: Caps) -> Trace {
        Trace { dentry: None, target: Some(Box::new(self.stat(ino, caps))) }
    }

    fn of_name(&mut self, dir: Ino, name: Vec<u8>, ino: Option<Ino>, caps: Caps) -> Trace {
        let dentry =
            DentryTrace { dir: self.stat(dir, TO_LOOK), name, lease: lease(), ..DentryTrace::default() };
        let target = ino.map(|ino| Box::new(self.stat(ino, caps)));
        Trace { dentry: Some(Box::new(dentry)), target }
    }

    /// Describes an inode, and grants capabilities on it.
    pub(crate) fn stat(&mut self, ino: Ino, caps: Caps) -> InodeStat {
        let node = self.nodes.get_mut(&ino).expect("an inode");
        node.seq += 1;
        let is_dir = node.mode & 0o170_000 == 0o040_000;
        InodeStat {
            ino,
            version: node.version,
            xattr_version: 1,
            cap: ReplyCap {
                caps,
                cap_id: CapId(ino.0),
                seq: node.seq,
                wanted: node.wanted,
                realm: Ino::ROOT,
                flags: ReplyCap::AUTH,
                ..ReplyCap::default()
            },
            layout: FileLayout {
                stripe_unit: 4 << 20,
                stripe_count: 1,
                object_size: 4 << 20,
                pool: PoolId(1),
            },
            mtime: UTime { sec: 1000, nsec: 0 },
            ctime: UTime { sec: 1000, nsec: 0 },
            size: node.size,
            max_size: if is_dir { 0 } else { 1 << 30 },
            truncate_seq: 1,
            mode: node.mode,
            nlink: 1 + node.more_names,
            nfiles: node.entries.len() as i64,
            recursive: RecursiveStat { rsubdirs: 1, ..RecursiveStat::default() },
            dir_hash: 2,
            symlink: node.target.clone(),
            xattrs: Xattrs::default().to_bytes(),
            ..InodeStat::default()
        }
    }
}

/// No lease: the directory's Fs vouches for its names.
fn lease() -> LeaseStat {
    LeaseStat::default()
}

/// The only realm, without a snapshot.
fn realm() -> Bytes {
    let root =
        SnapRealmInfo { ino: Ino::ROOT, created: SnapId(1), seq: SnapId(1), ..SnapRealmInfo::default() };
    SnapTrace(vec![root]).to_blob(false)
}

/// Returns a name's place in the order of a listing.
fn place_of(name: &[u8]) -> (u32, Vec<u8>) {
    (ObjectHash::RJENKINS.of(b"", name) & Frag::HASH_MASK, name.to_vec())
}
