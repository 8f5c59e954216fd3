//! A random script: calls on a small set of names, so that most paths lead to something.

use fastrand::Rng;

use crate::call::{Call, Open, Text};

/// Files that may be open at a time.
pub(crate) const SLOTS: u8 = 4;
/// Paths that are remembered.
const SEEN_MAX: usize = 48;
/// Sizes and offsets: three objects and a half.
const SIZE_MAX: u64 = 14 << 20;
/// Beyond the largest file that a file system permits by default.
const TOO_LARGE: u64 = (1 << 40) + 1;

/// Names that a client may stumble over. The last ones are refused, or none at all. `.` and `..` are parts of
/// paths only: libcephfs takes them for names that it could make.
const ODD: [&[u8]; 14] = [
    b"\xc3\xa4",
    b"\xff\xfe",
    b" ",
    b"a b",
    b"new\nline",
    b"...",
    b"-",
    b"*",
    b"\\",
    b".snap.",
    b"_s1_1",
    &[b'y'; 255],
    &[b'z'; 256],
    b"",
];

/// Names of attributes: of users, of the system, of the file system itself, and some that nobody has.
const XATTRS: [&str; 8] =
    ["user.a", "user.b", "user.long", "trusted.a", "security.a", "plain", "user.", "ceph.nonsense"];

/// Attributes that the file system computes, and whose values do not depend on the time.
const VIRTUAL: [&str; 17] = [
    "ceph.dir.entries",
    "ceph.dir.files",
    "ceph.dir.subdirs",
    "ceph.dir.pin",
    "ceph.dir.layout",
    "ceph.dir.layout.stripe_unit",
    "ceph.dir.layout.pool",
    "ceph.file.layout",
    "ceph.file.layout.stripe_unit",
    "ceph.file.layout.stripe_count",
    "ceph.file.layout.object_size",
    "ceph.file.layout.pool",
    "ceph.file.layout.pool_namespace",
    "ceph.quota",
    "ceph.quota.max_bytes",
    "ceph.quota.max_files",
    "ceph.nonsense",
];

/// What is set of those: valid values and others. The quotas are larger than anything written here.
const SETTINGS: [(&str, &str); 16] = [
    ("ceph.dir.layout", "stripe_unit=65536 stripe_count=3 object_size=262144"),
    ("ceph.dir.layout.stripe_unit", "1048576"),
    ("ceph.dir.layout.stripe_count", "2"),
    ("ceph.dir.layout.object_size", "8388608"),
    ("ceph.dir.layout.stripe_unit", "1000"),
    ("ceph.dir.layout.pool", "no-such-pool"),
    ("ceph.dir.layout.nothing", "1"),
    ("ceph.file.layout.stripe_unit", "65536"),
    ("ceph.file.layout.stripe_count", "0"),
    ("ceph.quota.max_bytes", "1000000000000"),
    ("ceph.quota.max_bytes", "0"),
    ("ceph.quota.max_bytes", "many"),
    ("ceph.quota.max_files", "100000"),
    ("ceph.quota.max_files", "-1"),
    ("ceph.dir.pin", "0"),
    ("ceph.dir.pin", "-1"),
];

/// What a path is for.
#[derive(Clone, Copy)]
enum Purpose {
    New,
    File,
    Dir,
}

/// The script. It depends on the seed and on the answers alone.
pub(crate) struct Script {
    rng: Rng,
    known: Known,
    made: u64,
    refused: u64,
}

/// What the answers tell of the tree. Most calls are of what is there: a script of calls that are refused
/// shows little.
#[derive(Default)]
struct Known {
    /// Paths that were made, by their names alone. Some are gone again, with a directory above them.
    files: Vec<Vec<u8>>,
    dirs: Vec<Vec<u8>>,
    /// How each slot was opened.
    open: [Option<Open>; SLOTS as usize],
}

impl Known {
    fn add(&mut self, path: &Text, is_dir: bool) {
        let path = plain(path).join(&b'/');
        if path.is_empty() || self.files.contains(&path) || self.dirs.contains(&path) {
            return;
        }
        let paths = if is_dir { &mut self.dirs } else { &mut self.files };
        if paths.len() == SEEN_MAX {
            paths.remove(0);
        }
        paths.push(path);
    }

    /// Forgets a path and what is below it. Returns `true` if it was a directory.
    fn forget(&mut self, path: &Text) -> bool {
        let path = plain(path).join(&b'/');
        let below = [&path[..], b"/"].concat();
        let is_dir = self.dirs.contains(&path);
        let stays = |known: &Vec<u8>| *known != path && !known.starts_with(&below);
        self.files.retain(stays);
        self.dirs.retain(stays);
        is_dir
    }
}

impl Script {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), known: Known::default(), made: 0, refused: 0 }
    }

    /// Learns from the answer which paths there are.
    pub(crate) fn answered(&mut self, call: &Call, answer: &str) {
        if answer.starts_with("err") {
            self.refused += 1;
            if let Call::Stat { path } | Call::StatLink { path } | Call::Content { path } = call {
                self.known.forget(path);
            }
            return;
        }
        let known = &mut self.known;
        match call {
            Call::Open { slot, path, how, .. } => {
                known.open[usize::from(*slot)] = Some(*how);
                known.add(path, false);
            }
            Call::Close { slot } => known.open[usize::from(*slot)] = None,
            Call::MakeDir { path, .. } => known.add(path, true),
            Call::Symlink { path, .. } | Call::MakeNode { path, .. } => known.add(path, false),
            Call::Link { to, .. } => known.add(to, false),
            Call::Unlink { path } | Call::RemoveDir { path } => {
                known.forget(path);
            }
            Call::Rename { from, to } => {
                let is_dir = known.forget(from);
                known.forget(to);
                known.add(to, is_dir);
            }
            _ => {}
        }
    }

    /// The number of calls that failed.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// The next call.
    pub(crate) fn next(&mut self) -> Call {
        self.made += 1;
        match self.rng.u32(..100) {
            0..=29 => self.on_file(),
            30..=49 => self.make(),
            50..=61 => self.remove_or_move(),
            62..=77 => self.look(),
            78..=85 => self.attributes(),
            86..=95 => self.xattrs(),
            96..=97 => self.snapshots(),
            98 => Call::Sync,
            _ => Call::StatFile { slot: self.slot() },
        }
    }

    /// Most often a slot with an open file.
    fn slot(&mut self) -> u8 {
        let any = self.rng.u8(..SLOTS);
        let is_open = |slot: &u8| self.known.open[usize::from(*slot)].is_some();
        if self.rng.u32(..10) == 0 {
            return any;
        }
        (0..SLOTS).map(|step| (any + step) % SLOTS).find(is_open).unwrap_or(any)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    fn name(&mut self) -> Vec<u8> {
        match self.rng.u32(..20) {
            0 => self.one(&ODD).to_vec(),
            _ => vec![b'a' + self.rng.u8(..12)],
        }
    }

    fn of(&mut self, paths: fn(&Known) -> &Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let count = paths(&self.known).len();
        (count > 0).then(|| paths(&self.known)[self.rng.usize(..count)].clone())
    }

    /// A path that was made before.
    fn old(&mut self) -> Vec<u8> {
        let is_dir = self.rng.u32(..3) == 0;
        let first = if is_dir { self.of(|known| &known.dirs) } else { self.of(|known| &known.files) };
        first.unwrap_or_else(|| self.name())
    }

    /// A name in a directory, or in the root.
    fn new_path(&mut self) -> Vec<u8> {
        let dir = self.of(|known| &known.dirs).filter(|_| self.rng.u32(..4) > 0);
        let name = self.name();
        dir.map_or_else(|| name.clone(), |dir| [&dir[..], b"/", &name].concat())
    }

    fn raw_path(&mut self) -> Vec<u8> {
        match self.rng.u32(..20) {
            0..=12 => self.old(),
            13..=17 => self.new_path(),
            18 => {
                let (dir, name) = (self.old(), self.name());
                [&dir[..], b"/", &name].concat()
            }
            _ => {
                // Deep, through what may not be there, and up again.
                let names: Vec<Vec<u8>> = (0..self.rng.usize(2..12)).map(|_| self.name()).collect();
                names.join(&b'/')
            }
        }
    }

    /// A path with which a call has a purpose, four times of five.
    fn fit(&mut self, purpose: Purpose) -> Text {
        let fits = match purpose {
            _ if self.rng.u32(..5) == 0 => None,
            Purpose::New => Some(self.new_path()),
            Purpose::File => self.of(|known| &known.files),
            Purpose::Dir => self.of(|known| &known.dirs),
        };
        let path = fits.unwrap_or_else(|| self.raw_path());
        self.spelled(path)
    }

    fn path(&mut self) -> Text {
        let path = self.raw_path();
        self.spelled(path)
    }

    fn spelled(&mut self, path: Vec<u8>) -> Text {
        Text(match self.rng.u32(..30) {
            1 => [b"/", &path[..]].concat(),
            // Not up again: libcephfs does so from a file, too, and from the mount's root.
            2 => [b"/./", &path[..]].concat(),
            3 => [b"./", &path[..]].concat(),
            4 => path
                .iter()
                .flat_map(|byte| std::iter::repeat_n(*byte, 1 + usize::from(*byte == b'/')))
                .collect(),
            _ => path,
        })
    }

    fn size(&mut self) -> u64 {
        match self.rng.u32(..40) {
            0 => TOO_LARGE,
            1..=4 => self.rng.u64(..SIZE_MAX),
            // Where one object ends and the next begins.
            5..=8 => (4 << 20) * self.rng.u64(1..3) + self.rng.u64(..3) - 1,
            9..=12 => 0,
            _ => self.rng.u64(..100_000),
        }
    }

    fn len(&mut self) -> u64 {
        match self.rng.u32(..30) {
            0 => 0,
            1 => self.rng.u64(..6 << 20),
            _ => self.rng.u64(..70_000),
        }
    }

    fn mode(&mut self) -> u32 {
        match self.rng.u32(..4) {
            0 => self.rng.u32(..0o10_000),
            _ => self.one(&[0o644, 0o755, 0o600, 0o2775]),
        }
    }

    fn on_file(&mut self) -> Call {
        let slot = self.slot();
        match self.rng.u32(..22) {
            0..=5 => self.open(),
            6 => Call::Close { slot },
            7..=10 => Call::Read { slot, at: self.size(), len: self.len() },
            // At least one byte: libcephfs aborts otherwise.
            11..=16 => Call::Write { slot, at: self.size(), len: self.len().max(1), seed: self.made },
            17 => Call::Append { slot, len: self.len().max(1), seed: self.made },
            // libcephfs cuts a file that was opened to read, too.
            18 if self.known.open[usize::from(slot)].is_none_or(|how| how.write) => {
                Call::TruncateFile { slot, size: self.size() }
            }
            19 => Call::Punch { slot, at: self.size(), len: self.len() },
            20 => Call::StatFile { slot },
            _ => Call::SyncFile { slot },
        }
    }

    fn open(&mut self) -> Call {
        let access = self.rng.u32(..8);
        let mut one_in = |n: u32| self.rng.u32(..n) == 0;
        let how = Open {
            read: access != 0,
            write: access != 1,
            create: !one_in(3),
            exclusive: one_in(8),
            truncate: one_in(6) && access != 1,
        };
        // `O_EXCL` has a meaning with `O_CREAT` alone.
        let how = Open { create: how.create || how.exclusive, ..how };
        let path = self.fit(if how.exclusive { Purpose::New } else { Purpose::File });
        Call::Open { slot: self.rng.u8(..SLOTS), path, how, mode: self.mode() & 0o777 | 0o600 }
    }

    fn make(&mut self) -> Call {
        let path = self.fit(Purpose::New);
        match self.rng.u32(..20) {
            0..=6 => Call::MakeDir { path, mode: self.mode() },
            7..=10 => self.open(),
            11..=13 => Call::Link { from: self.fit(Purpose::File), to: path },
            14..=16 => self.symlink(path),
            _ => {
                let (kind, rdev) = self.one(&[
                    (0o100_000, 0),
                    (0o010_000, 0),
                    (0o140_000, 0),
                    (0o020_000, 259),
                    (0o060_000, 2049),
                ]);
                Call::MakeNode { path, mode: kind | self.mode() & 0o777, rdev }
            }
        }
    }

    /// Relative ones, absolute ones, such as lead to themselves, and such as lead nowhere.
    fn symlink(&mut self, path: Text) -> Call {
        let target = match self.rng.u32(..8) {
            0 => path.clone(),
            1 => Text([b"/", &self.raw_path()[..]].concat()),
            // Up from the mount's root libcephfs finds what was not mounted.
            2 if plain(&path).len() > 1 => Text([b"../", &self.raw_path()[..]].concat()),
            3..=4 => Text(self.name()),
            _ => Text(self.raw_path()),
        };
        Call::Symlink { target, path }
    }

    fn remove_or_move(&mut self) -> Call {
        match self.rng.u32(..12) {
            0..=3 => Call::Unlink { path: self.fit(Purpose::File) },
            4..=5 => Call::RemoveDir { path: self.fit(Purpose::Dir) },
            _ => {
                let (path, to) = (self.path(), self.fit(Purpose::New));
                // libcephfs takes a name that is renamed to itself for gone.
                if plain(&path) == plain(&to) {
                    Call::StatLink { path }
                } else {
                    Call::Rename { from: path, to }
                }
            }
        }
    }

    fn look(&mut self) -> Call {
        match self.rng.u32(..16) {
            0..=3 => Call::Stat { path: self.path() },
            4..=6 => Call::StatLink { path: self.path() },
            7 => Call::ReadLink { path: self.fit(Purpose::File) },
            8..=11 => Call::ReadDir { path: self.fit(Purpose::Dir) },
            _ => Call::Content { path: self.fit(Purpose::File) },
        }
    }

    fn attributes(&mut self) -> Call {
        let path = self.path();
        let mut id = || self.rng.u32(..5) * 1000;
        let (uid, gid) = (id(), id());
        match self.rng.u32(..10) {
            0..=2 => Call::Chmod { path, mode: self.mode() },
            3..=4 => Call::Chown { path, uid, gid },
            5 => Call::ChownLink { path, uid, gid },
            6..=7 => {
                // Of the past: those of now differ.
                let mut time = || self.rng.u32(1_000_000..1_700_000) * 1000;
                Call::SetTimes { path, atime: time(), mtime: time() }
            }
            _ => Call::Truncate { path: self.fit(Purpose::File), size: self.size() },
        }
    }

    fn xattrs(&mut self) -> Call {
        let path = self.path();
        match self.rng.u32(..16) {
            0..=4 => {
                let name = self.one(&XATTRS).into();
                let value = (0..self.rng.usize(..40)).map(|_| self.rng.u8(..)).collect();
                let flags = self.one(&[0, 0, 1, 2]);
                Call::SetXattr { path, name, value: Text(value), flags }
            }
            5..=7 => Call::GetXattr { path, name: self.one(&XATTRS).into() },
            8..=11 => Call::GetXattr { path, name: self.one(&VIRTUAL).into() },
            12 => Call::RemoveXattr { path, name: self.one(&XATTRS).into() },
            13 => {
                let (name, value) = self.one(&SETTINGS);
                Call::SetXattr { path, name: name.into(), value: value.into(), flags: 0 }
            }
            _ => Call::ListXattrs { path },
        }
    }

    fn snapshots(&mut self) -> Call {
        let dir = self.of(|known| &known.dirs).unwrap_or_else(|| self.name());
        let snap = |name: &str| Text([&dir[..], b"/.snap", name.as_bytes()].concat());
        let name = format!("/s{}", self.rng.u32(..3));
        match self.rng.u32(..12) {
            0..=2 => Call::MakeDir { path: snap(&name), mode: 0o755 },
            3..=4 => Call::RemoveDir { path: snap(&name) },
            5 => Call::ReadDir { path: snap(&name) },
            6 => Call::Content { path: snap(&format!("{name}/{}", char::from(b'a' + self.rng.u8(..6)))) },
            7 => Call::Unlink { path: snap(&format!("{name}/a")) },
            8 => Call::MakeDir { path: snap(&format!("{name}/new")), mode: 0o755 },
            9 => Call::Rename { from: snap(&name), to: snap("/s9") },
            10 => Call::StatLink { path: snap(&format!("{name}/b")) },
            _ => Call::Open {
                slot: self.slot(),
                path: snap(&format!("{name}/a")),
                how: Open { read: true, ..Open::default() },
                mode: 0o644,
            },
        }
    }
}

/// The names of a path.
fn plain(path: &Text) -> Vec<&[u8]> {
    path.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a script is the same each time; one that is not cannot be looked into again.
    #[test]
    fn a_seed_has_one_script() {
        let script = |seed| {
            let mut script = Script::new(seed);
            let mut calls = Vec::new();
            for _ in 0..500 {
                let call = script.next();
                script.answered(&call, "ok");
                calls.push(call.to_string());
            }
            calls
        };
        assert_eq!(script(7), script(7));
        assert_ne!(script(7), script(8));
    }
}
