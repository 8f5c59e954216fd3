//! Goal: the cost of saving a change depends on the size of the change, not of the state. After a crash
//! or damage, either everything that was saved is read, or an error names the faulty file. Method:
//! commands change a monitor that saves to files; the files are truncated, damaged and exchanged.

use std::fs;
use std::path::PathBuf;

use loligo_mon::{Save, SessionId, StateFile};
use loligo_wire::message::mon::{MMonCommand, PaxosHeader};

use crate::common::{FSID, Mon};

/// A monitor that saves its state to files.
struct Kept {
    mon: Mon,
    admin: SessionId,
    dir: PathBuf,
    file: StateFile,
}

impl Kept {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("loligo-mon-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let file = StateFile::new(dir.join("mon.json"));
        let mut mon = Mon::new();
        let admin = mon.client("admin", "allow *");
        let mut kept = Self { mon, admin, dir, file };
        kept.mon.monitor.change(|_| ());
        kept.change(r#"{"prefix":"osd pool create","pool":"p"}"#);
        kept
    }

    /// Runs a command and saves its effect like a monitor's driver. Returns whether the whole state was
    /// saved.
    fn change(&mut self, json: &str) -> bool {
        let save = self.execute(json).expect(json);
        match save {
            Save::Change(change) if self.file.has_room(&change) => {
                self.file.append(&change).unwrap();
                false
            }
            _ => {
                self.save_all();
                true
            }
        }
    }

    fn execute(&mut self, json: &str) -> Option<Save> {
        let cmd = vec![json.to_owned().into()];
        let command =
            MMonCommand { paxos: PaxosHeader { version: 0 }, fsid: FSID, cmd, input: Default::default() };
        self.mon.send(self.admin, &command).save
    }

    fn save_all(&self) {
        self.file.save(&self.now()).unwrap();
    }

    fn now(&self) -> Vec<u8> {
        self.mon.monitor.state().to_json().to_vec()
    }

    fn contents(&self) -> [Vec<u8>; 2] {
        self.file.paths().map(|path| fs::read(path).unwrap())
    }

    fn put(&self, contents: [&[u8]; 2]) {
        self.file.paths().iter().zip(contents).for_each(|(path, content)| fs::write(path, content).unwrap());
    }

    /// The state that a new process reads.
    fn read(&self) -> Result<Vec<u8>, String> {
        let state = StateFile::new(self.file.path()).load().map_err(|e| e.to_string())?;
        Ok(state.expect("it was saved").to_json().to_vec())
    }

    /// Checks that an error names this file, and that it can be rewritten from the other one.
    fn is_mended(&self, bad: usize, what: &str) {
        let path = &self.file.paths()[bad];
        let error = self.read().expect_err(what);
        assert!(
            error.contains(&format!("{}", path.display())) && error.contains("--repair"),
            "{what}: {error}"
        );
        let file = StateFile::new(self.file.path());
        let (wrong, done) = file.check(None, Some(&self.dir.join("lost+found"))).unwrap();
        assert_eq!((wrong.len(), done.len()), (1, 1), "{what}: {wrong:?} {done:?}");
        assert!(self.read().as_ref() == Ok(&self.now()), "{what}");
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn fence(n: u32) -> String {
    let [_, a, b, c] = n.to_be_bytes();
    format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"10.{a}.{b}.{c}:0/7"}}"#)
}

const CHANGES: [&str; 14] = [
    r#"{"prefix":"osd pool create","pool":"q"}"#,
    r#"{"prefix":"osd pool set","pool":"q","var":"pg_num","val":"64"}"#,
    r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r"]}"#,
    r#"{"prefix":"auth get-or-create","entity":"client.y","caps":["mon","allow command \"osd dump\""]}"#,
    r#"{"prefix":"auth caps","entity":"client.x","caps":["mon","allow rw"]}"#,
    r#"{"prefix":"auth del","entity":"client.y"}"#,
    r#"{"prefix":"config set","who":"client","name":"rbd_cache","value":"false"}"#,
    r#"{"prefix":"config rm","who":"client","name":"rbd_cache"}"#,
    r#"{"prefix":"config-key set","key":"k","val":"a\nb"}"#,
    r#"{"prefix":"config-key set","key":"l","val":"c"}"#,
    r#"{"prefix":"config-key rm","key":"k"}"#,
    r#"{"prefix":"osd new","uuid":"00000000-0000-0000-0000-000000000001"}"#,
    r#"{"prefix":"health mute","code":"OSDMAP_FLAGS","ttl":"1h","sticky":true}"#,
    r#"{"prefix":"osd set","key":"noout"}"#,
];

#[test]
fn every_change_is_read_back() {
    let mut kept = Kept::new("changes");
    for json in CHANGES {
        let all = kept.change(json);
        assert!(!all, "{json}: a change is enough");
        assert!(kept.read().as_ref() == Ok(&kept.now()), "{json}");
    }
    let [first, copy] = kept.contents();
    assert!(first == copy, "both files have the same");
    // A new process first saves the whole state.
    kept.file = StateFile::new(kept.file.path());
    kept.file.load().unwrap();
    assert!(kept.change(r#"{"prefix":"osd unset","key":"noout"}"#));
    assert!(kept.read().as_ref() == Ok(&kept.now()));
}

/// The cost of a blocklist entry with this number of existing ones: bytes written to both files.
fn bytes_of_a_fence(entries: u32) -> u64 {
    let mut kept = Kept::new(&format!("fences-{entries}"));
    (0..entries).for_each(|n| drop(kept.execute(&fence(n))));
    kept.save_all();
    let (before, count) = (kept.file.bytes_written(), 60);
    for n in 0..count {
        assert!(!kept.change(&fence(entries + n)), "there is room for {n} changes");
    }
    assert!(kept.read().as_ref() == Ok(&kept.now()));
    // The whole state is written again only after changes of the same size.
    let all = fs::metadata(kept.file.path()).unwrap().len();
    assert!(all >= 2 * kept.now().len() as u64 / 10 * 9, "{all}");
    (kept.file.bytes_written() - before) / u64::from(count)
}

#[test]
fn an_entry_of_the_blocklist_costs_the_same_however_many_there_are() {
    let [few, many] = [10, 3000].map(bytes_of_a_fence);
    assert!(many <= few + few / 10, "{few} bytes with 10 entries, {many} with 3000");
    assert!(few < 2000, "{few}");
}

#[test]
fn a_full_log_becomes_a_new_file() {
    let mut kept = Kept::new("full");
    let len = fs::metadata(kept.file.path()).unwrap().len();
    let mut changes = 0;
    while !kept.change(&fence(changes)) {
        changes += 1;
    }
    assert!(changes > 50, "{changes}");
    assert!(fs::metadata(kept.file.path()).unwrap().len() >= len);
    assert!(kept.read().as_ref() == Ok(&kept.now()));
    // A change that does not fit into a log at all is saved with the whole state.
    let long = "x".repeat(60_000);
    assert!(kept.change(&format!(r#"{{"prefix":"config-key set","key":"k","val":"{long}"}}"#)));
    assert!(kept.read().as_ref() == Ok(&kept.now()));
}

/// A monitor with some changes in its files, the files before the last change, and the state at that
/// time.
fn before_the_last() -> (Kept, [Vec<u8>; 2], Vec<u8>) {
    let mut kept = Kept::new(&format!("torn-{:?}", std::thread::current().id()));
    (0..3).for_each(|n| assert!(!kept.change(&fence(n))));
    let before = (kept.contents(), kept.now());
    kept.change(&fence(3));
    (kept, before.0, before.1)
}

#[test]
fn a_change_that_was_cut_short_is_there_or_not() {
    let (kept, [older, _], then) = before_the_last();
    let [newer, _] = kept.contents();
    let now = kept.now();
    let differing: Vec<usize> = (0..newer.len()).filter(|i| newer[*i] != older[*i]).collect();
    let (start, end) = (differing[0], differing[differing.len() - 1] + 1);
    for split in start..end {
        let with = |from: &[u8], until: &[u8]| [&from[..split], &until[split..]].concat();
        // Only the beginning of the change was written, or only the end.
        for torn in [with(&newer, &older), with(&older, &newer)] {
            if torn == newer || torn == older {
                continue;
            }
            kept.put([&torn, &older]);
            assert!(kept.read().as_ref() == Ok(&then), "first, {split}");
            kept.put([&newer, &torn]);
            assert!(kept.read().as_ref() == Ok(&now), "second, {split}");
        }
    }
    kept.put([&newer, &older]);
    assert!(kept.read().as_ref() == Ok(&now));
}

#[test]
fn damage_in_a_log_is_told_and_mended() {
    let (kept, _, _) = before_the_last();
    let whole = kept.contents();
    let start = whole[0].windows(3).rposition(|some| some == b"\n}\n").unwrap() + 3;
    let end = whole[0].iter().rposition(|byte| *byte == b'}').unwrap() + 2;
    let last = whole[0][..end - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for at in (start..end).step_by(7) {
        for bad in [0, 1] {
            let mut damaged = whole.clone();
            damaged[bad][at] ^= 1;
            kept.put([&damaged[0], &damaged[1]]);
            let what = format!("byte {at} of {start}..{end} in file {bad}");
            if bad == 1 && at >= last {
                // The same as an interrupted write: the first file has the change.
                assert!(kept.read().as_ref() == Ok(&kept.now()), "{what}");
                continue;
            }
            kept.is_mended(bad, &what);
        }
        let mut damaged = whole.clone();
        damaged.iter_mut().for_each(|content| content[at] ^= 1);
        kept.put([&damaged[0], &damaged[1]]);
        assert!(kept.read().is_err(), "byte {at} in both");
    }
}

#[test]
fn an_older_file_is_told_and_mended() {
    let mut kept = Kept::new("older");
    let old = kept.contents();
    (0..2).for_each(|n| assert!(!kept.change(&fence(n))));
    let new = kept.contents();
    for bad in [0, 1] {
        let mut contents = [&new[0][..], &new[1]];
        contents[bad] = &old[bad];
        kept.put(contents);
        kept.is_mended(bad, &format!("file {bad} is older"));
    }
    // Two older files are a valid backup.
    kept.put([&old[0], &old[1]]);
    assert!(kept.read().is_ok());
}

/// After a crash the second file may lack a change. A second crash, during the next full save, must not
/// make it count as too old.
#[test]
fn two_crashes_one_after_the_other_are_no_damage() {
    let (mut kept, [_, older], _) = before_the_last();
    let [newer, _] = kept.contents();
    kept.put([&newer, &older]);
    kept.file = StateFile::new(kept.file.path());
    kept.file.load().unwrap();
    assert!(kept.change(&fence(9)));
    let [first, _] = kept.contents();
    kept.put([&first, &older]);
    assert!(kept.read().as_ref() == Ok(&kept.now()));
    // The same for the very first save.
    fs::remove_file(&kept.file.paths()[1]).unwrap();
    kept.file = StateFile::new(kept.dir.join("other.json"));
    for n in 10..12 {
        kept.file = StateFile::new(kept.file.path());
        let _ = kept.file.load().unwrap();
        assert!(kept.change(&fence(n)));
        fs::remove_file(&kept.file.paths()[1]).unwrap();
        assert!(kept.read().as_ref() == Ok(&kept.now()));
    }
}
