//! Directories of which all names are known: what is warm asks no server, and what another client has changed
//! is seen at once.

use loligo_fs::{DirEntry, Errno, FileSystem, OpenOptions};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    CapOp, ClientCapRelease, ClientCaps, ClientMetric, ClientMetrics, ClientReply, ClientSession,
    ReaddirExtra, RequestOp, SessionOp,
};
use loligo_wire::{CapId, Caps, Decode as _, Encode as _, Ino};

use crate::cluster::{Toy, Verdict, ends, options, until};

/// A mount of a file system that has a directory `d` with so many files in it.
async fn mounted(files: usize) -> (Toy, FileSystem, Ino) {
    let toy = Toy::start(1).await;
    let dir = toy.tree(|tree| {
        let dir = tree.make(Ino::ROOT, b"d", 0o040_755);
        for at in 0..files {
            tree.make(dir, format!("f{at}").as_bytes(), 0o100_644);
        }
        dir
    });
    let fs = toy.mount(&toy.client().await).await;
    (toy, fs, dir)
}

async fn list(fs: &FileSystem, path: &str) -> Vec<DirEntry> {
    fs.read_dir(path).await.expect("a directory").all().await.expect("listed")
}

/// Returns the names that the client lists, in the order of the server's.
async fn names(fs: &FileSystem, path: &str) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = list(fs, path).await.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

async fn is_missing(fs: &FileSystem, path: &str) -> bool {
    match fs.stat(path).await {
        Ok(_) => false,
        Err(e) if e.is_not_found() => true,
        Err(e) => panic!("{path}: {e}"),
    }
}

/// Checks that all names of `d` are known, and are those that the server has.
async fn is_known(toy: &Toy, fs: &FileSystem, dir: Ino, after: &str) {
    toy.forget_heard();
    assert_eq!(names(fs, "d").await, toy.tree(|tree| tree.names(dir)), "after {after}");
    assert!(is_missing(fs, "d/none").await);
    assert_eq!(toy.asked(), [], "after {after}");
}

/// Goal: a directory that was listed once is listed again, and its files are looked at, without a request,
/// with the same result, also from each position.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_listed_once_is_listed_without_a_server() {
    let (toy, fs, _) = mounted(3000).await;
    toy.tree(|tree| tree.page = 700);
    let first = list(&fs, "d").await;
    assert_eq!(first.len(), 3000);
    toy.forget_heard();
    assert_eq!(list(&fs, "d").await, first);
    for entry in first.iter().step_by(100) {
        let path = [&b"d/"[..], &entry.name[..]].concat();
        assert_eq!(fs.stat(path).await.expect("there"), entry.metadata);
    }
    let node = fs.find("d").await.expect("there");
    for at in [0, 1, 1023, 1024, 2998, 2999] {
        let rest = node.read_dir_from(first[at].next).expect("a directory").all().await.expect("listed");
        assert_eq!(rest, first[at + 1..], "after entry {at}");
    }
    assert_eq!(toy.asked(), []);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a name that does not exist is not asked for where all names are known: in a directory that was
/// listed, and in one that is empty or was made here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_not_there_is_not_asked_for() {
    let (toy, fs, dir) = mounted(3).await;
    toy.tree(|tree| tree.make(dir, b"empty", 0o040_755));
    assert!(is_missing(&fs, "d/none").await);
    let is_lookup = |op: &RequestOp| matches!(op, RequestOp::Lookup { .. });
    assert_eq!(toy.asked().iter().filter(|op| is_lookup(op)).count(), 2, "d, and the name in it");
    list(&fs, "d").await;
    toy.forget_heard();
    assert!(is_missing(&fs, "d/none").await && is_missing(&fs, "d/empty/none").await);
    assert_eq!(toy.asked(), []);
    let options = OpenOptions::new().write().create();
    for path in ["d/new", "d/empty/new"] {
        toy.forget_heard();
        fs.open(path, options).await.expect("made").close().await.expect("closed");
        let asked = toy.asked();
        assert!(matches!(asked[..], [RequestOp::Create(_)]), "{path}: {asked:?}");
    }
    fs.create_dir("d/own", 0o755).await.expect("made");
    toy.forget_heard();
    assert!(is_missing(&fs, "d/own/none").await);
    assert_eq!(list(&fs, "d/own").await, []);
    assert_eq!(toy.asked(), []);
    fs.make_node("d/own/f", 0o644, 0).await.expect("made");
    is_known(&toy, &fs, dir, "files in it").await;
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: what this client does itself leaves all names known, and they are right. It wants to have the
/// directory for itself then: otherwise the server takes back, before each change, what vouches for the
/// names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_changes_leave_all_names_known() {
    let (toy, fs, dir) = mounted(10).await;
    list(&fs, "d").await;
    let wanted = || {
        let of_dir = |said: &ClientCaps| said.ino == dir;
        toy.heard::<ClientCaps>().iter().rev().find(|(_, said)| of_dir(said)).map(|(_, said)| said.wanted)
    };
    assert_eq!(wanted(), None, "who only looks leaves it to all");
    fs.make_node("d/new", 0o644, 0).await.expect("made");
    until("it wants the directory", || wanted().is_some_and(|caps| caps.contains(Caps::FILE_EXCL))).await;
    is_known(&toy, &fs, dir, "a new file").await;
    fs.remove_file("d/f0").await.expect("removed");
    assert!(is_missing(&fs, "d/f0").await);
    is_known(&toy, &fs, dir, "a file removed").await;
    fs.rename("d/f1", "d/renamed").await.expect("renamed");
    assert!(is_missing(&fs, "d/f1").await);
    is_known(&toy, &fs, dir, "a rename").await;
    fs.rename("d/f2", "d/f3").await.expect("renamed over");
    is_known(&toy, &fs, dir, "a rename over a file").await;
    fs.rename("d/f4", "out").await.expect("moved out");
    assert!(is_missing(&fs, "d/f4").await);
    fs.rename("out", "d/f4").await.expect("moved in");
    fs.create_dir("d/sub", 0o755).await.expect("made");
    is_known(&toy, &fs, dir, "moves out and in").await;
    fs.rename("d/f5", "d/f5").await.expect("nothing to do");
    assert!(!is_missing(&fs, "d/f5").await);
    is_known(&toy, &fs, dir, "a rename to itself").await;
    fs.remove_dir("d/sub").await.expect("removed");
    is_known(&toy, &fs, dir, "a directory removed").await;
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: of a file with several names each one is listed, comes and goes for itself, and stays if the file is
/// renamed from one of them to another, which changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_several_names_keeps_those_that_it_has() {
    let (toy, fs, dir) = mounted(3).await;
    list(&fs, "d").await;
    fs.link("d/f0", "d/second").await.expect("linked");
    is_known(&toy, &fs, dir, "a link").await;
    fs.rename("d/f0", "d/second").await.expect("nothing to do");
    assert!(!is_missing(&fs, "d/f0").await && !is_missing(&fs, "d/second").await);
    list(&fs, "d").await;
    is_known(&toy, &fs, dir, "a rename to its other name").await;
    fs.remove_file("d/f0").await.expect("removed");
    assert!(is_missing(&fs, "d/f0").await && !is_missing(&fs, "d/second").await);
    is_known(&toy, &fs, dir, "the first name removed").await;
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: whatever another client does to a directory of which all names are known is seen by the next look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_client_does_is_seen_at_once() {
    let (toy, fs, dir) = mounted(10).await;
    let all = || async {
        list(&fs, "d").await;
        is_known(&toy, &fs, dir, "a listing").await;
    };
    all().await;
    toy.by_another(dir, |tree| tree.make(dir, b"new", 0o100_644)).await;
    assert!(!is_missing(&fs, "d/new").await);
    all().await;
    toy.by_another(dir, |tree| tree.remove(dir, b"f0")).await;
    assert!(is_missing(&fs, "d/f0").await);
    all().await;
    let before = fs.stat("d/f1").await.expect("there").ino;
    toy.by_another(dir, |tree| tree.rename((dir, b"f1"), (dir, b"f2"))).await;
    assert_eq!(fs.stat("d/f2").await.expect("there").ino, before, "moved over another file");
    assert!(is_missing(&fs, "d/f1").await);
    all().await;
    toy.by_another(dir, |tree| tree.rename((dir, b"f3"), (Ino::ROOT, b"out"))).await;
    assert_eq!(names(&fs, "d").await, toy.tree(|tree| tree.names(dir)));
    // Each change of its own, and another client's in between.
    fs.make_node("d/own", 0o644, 0).await.expect("made");
    toy.by_another(dir, |tree| tree.remove(dir, b"own")).await;
    assert!(is_missing(&fs, "d/own").await);
    assert_eq!(names(&fs, "d").await, toy.tree(|tree| tree.names(dir)));
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a listing during which another client made a name does not hide that name, and neither does one
/// whose last part was listed after the change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_comes_during_a_listing_is_not_hidden() {
    let (toy, fs, dir) = mounted(1000).await;
    toy.tree(|tree| tree.page = 400);
    // Names that belong into the first part, and into the last.
    let mut listing = fs.read_dir("d").await.expect("a directory");
    for _ in 0..401 {
        listing.next().await.expect("listed").expect("an entry");
    }
    let new: Vec<String> = (0..20).map(|at| format!("new{at}")).collect();
    toy.by_another(dir, |tree| {
        for name in &new {
            tree.make(dir, name.as_bytes(), 0o100_644);
        }
    })
    .await;
    listing.all().await.expect("listed");
    for name in &new {
        assert!(!is_missing(&fs, &format!("d/{name}")).await, "{name}");
    }
    assert_eq!(names(&fs, "d").await, toy.tree(|tree| tree.names(dir)));
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: an entry whose attributes no server vouches for is not shown from memory: the server lists it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_that_nobody_vouches_for_are_asked_for() {
    let (toy, fs, dir) = mounted(30).await;
    let first = list(&fs, "d").await;
    let (file, last) = (first[10].metadata.ino, first[29].metadata.ino);
    // Another client writes the two files.
    for ino in [file, last] {
        let (seq, _) = toy.tree(|tree| tree.next_word(ino));
        let caps = Caps::PIN | (Caps::ANY_SHARED - Caps::FILE_SHARED);
        let body = ClientCaps {
            op: CapOp::Revoke,
            ino,
            cap_id: CapId(ino.0),
            seq,
            caps,
            mode: 0o100_644,
            nlink: 1,
            ..ClientCaps::default()
        };
        toy.say(0, Msg::new(&body));
        let answers = |said: &ClientCaps| said.ino == ino && said.seq == seq;
        until("an answer", || toy.heard::<ClientCaps>().iter().any(|(_, said)| answers(said))).await;
        toy.tree(|tree| tree.write(ino, 77));
    }
    toy.forget_heard();
    let again = list(&fs, "d").await;
    assert_eq!(again.iter().map(|entry| &entry.name).collect::<Vec<_>>(), {
        first.iter().map(|entry| &entry.name).collect::<Vec<_>>()
    });
    assert_eq!((again[10].metadata.size, again[29].metadata.size), (77, 77));
    let asked = toy.asked();
    assert!(matches!(asked[..], [RequestOp::ReadDir(_)]), "{asked:?}");
    is_known(&toy, &fs, dir, "a listing").await;
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: of a session that is late nothing is believed, and what the server has taken meanwhile not after it
/// is renewed either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_a_late_session_are_asked_for() {
    let toy = Toy::start(1).await;
    toy.change_map(|map| map.session_timeout_s = 3);
    let dir = toy.tree(|tree| tree.make(Ino::ROOT, b"d", 0o040_755));
    toy.tree(|tree| tree.make(dir, b"f", 0o100_644));
    let fs = toy.mount(&toy.client().await).await;
    let node = fs.find("d").await.expect("there");
    list(&fs, "d").await;
    toy.script(|heard| {
        let is_renewal = heard.session().is_some_and(|said| said.op == SessionOp::RequestRenewCaps);
        if is_renewal { Verdict::Drop } else { Verdict::Serve }
    });
    toy.forget_heard();
    ends("the session is late", async {
        while toy.asked().is_empty() {
            assert!(node.lookup("none").await.expect_err("not there").is_not_found());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    })
    .await;
    toy.by_another(dir, |tree| tree.make(dir, b"new", 0o100_644)).await;
    let (seq, _) = toy.tree(|tree| tree.next_word(dir));
    let (caps, mode) = (Caps::PIN | Caps::ANY_SHARED, 0o040_755);
    let cap_id = CapId(dir.0);
    let body = ClientCaps { op: CapOp::Grant, ino: dir, cap_id, seq, caps, mode, ..ClientCaps::default() };
    toy.say(0, Msg::new(&body));
    toy.be_good();
    let renewals = || {
        let heard = toy.heard::<ClientSession>();
        heard.iter().filter(|(_, said)| said.op == SessionOp::RequestRenewCaps).count()
    };
    let so_far = renewals();
    until("it is renewed", || renewals() >= so_far + 2).await;
    node.lookup("new").await.expect("another client has made it");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: what a server took back without a word, because the session was stale, is not believed after the
/// session is renewed: neither that a name is there, nor that there is none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_from_before_a_session_was_stale_are_asked_for() {
    for is_complete in [false, true] {
        let (toy, fs, dir) = mounted(3).await;
        fs.stat("d/f0").await.expect("there");
        if is_complete {
            list(&fs, "d").await;
        }
        toy.forget_heard();
        toy.say(0, Msg::new(&ClientSession::new(SessionOp::Stale, 0)));
        toy.tree(|tree| {
            tree.make(dir, b"new", 0o100_644);
            tree.rename((dir, b"f0"), (Ino::ROOT, b"moved"));
        });
        until("it is renewed", || {
            toy.heard::<ClientSession>().iter().any(|(_, said)| said.op == SessionOp::RequestRenewCaps)
        })
        .await;
        assert!(!is_missing(&fs, "d/new").await, "complete: {is_complete}");
        assert!(is_missing(&fs, "d/f0").await, "complete: {is_complete}");
        assert_eq!(names(&fs, "d").await, toy.tree(|tree| tree.names(dir)));
        ends("unmount", fs.unmount()).await.expect("unmounted");
    }
}

/// Goal: where names were forgotten because there were too many, one that is not known may exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_names_are_asked_for() {
    const INODES: usize = 100;
    const NAMES: usize = 20_000;
    let toy = Toy::start(1).await;
    let dir = toy.tree(|tree| {
        let dir = tree.make(Ino::ROOT, b"d", 0o040_755);
        let file = tree.make(dir, b"0", 0o100_644);
        (1..NAMES).for_each(|at| tree.link(dir, at.to_string().as_bytes(), file));
        dir
    });
    let options = options().inodes_max(INODES);
    let fs = FileSystem::mount(&toy.client().await, options).await.expect("mounted");
    assert_eq!(list(&fs, "d").await.len(), NAMES);
    let known = || {
        let heard = toy.heard::<ClientMetrics>();
        let of = |metric: &ClientMetric| match metric {
            ClientMetric::DentryLease { dentries, .. } => Some(*dentries),
            _ => None,
        };
        heard.last().and_then(|(_, said)| said.metrics.iter().find_map(of))
    };
    toy.forget_heard();
    // More than are looked at in one go.
    until("they are forgotten", || known().is_some_and(|names| (1..=2 * INODES as u64).contains(&names)))
        .await;
    for at in [1, 17, NAMES - 1] {
        assert!(!is_missing(&fs, &format!("d/{at}")).await, "{at}");
    }
    assert_eq!(names(&fs, "d").await, toy.tree(|tree| tree.names(dir)));
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: files that are forgotten, since a server wants their capabilities back, are found again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_files_are_found_again() {
    let (toy, fs, dir) = mounted(100).await;
    list(&fs, "d").await;
    let recall = ClientSession { max_caps: 30, ..ClientSession::new(SessionOp::RecallState, 0) };
    toy.say(0, Msg::new(&recall));
    until("files are given back", || !toy.heard::<ClientCapRelease>().is_empty()).await;
    toy.forget_heard();
    for at in 0..100 {
        assert!(!is_missing(&fs, &format!("d/f{at}")).await, "{at}");
    }
    assert_ne!(toy.asked(), []);
    assert_eq!(names(&fs, "d").await, toy.tree(|tree| tree.names(dir)));
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a name that is removed and made again at the same time is there afterwards: what was removed is not
/// forgotten later than what was made is remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_removed_and_made_again_is_there() {
    let (toy, fs, dir) = mounted(1).await;
    list(&fs, "d").await;
    for _ in 0..100 {
        let remove = tokio::spawn({
            let fs = fs.clone();
            async move { fs.remove_file("d/f0").await }
        });
        let make = async {
            loop {
                match fs.make_node("d/f0", 0o644, 0).await {
                    Err(e) if e.errno() == Errno::EEXIST => {}
                    done => break done,
                }
            }
        };
        ends("made", make).await.expect("made");
        remove.await.expect("no panic").expect("removed");
        assert!(!is_missing(&fs, "d/f0").await);
    }
    is_known(&toy, &fs, dir, "all that").await;
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a listing that ends although the server has not shown all names, because it does not say where it
/// is, is an error and makes nothing known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_fails_makes_nothing_known() {
    let (toy, fs, _) = mounted(30).await;
    toy.twist(|msg| {
        let Ok(mut reply) = msg.open::<ClientReply>() else { return vec![msg] };
        let Ok(mut extra) = ReaddirExtra::from_bytes(&reply.extra) else { return vec![msg] };
        extra.entries.truncate(10);
        extra.flags &= !ReaddirExtra::HASH_ORDER;
        reply.extra = extra.to_bytes();
        vec![Msg::new(&reply).with_tid(msg.header.tid)]
    });
    let failed = fs.read_dir("d").await.expect("a directory").all().await;
    failed.expect_err("the order is unknown");
    toy.be_good();
    for at in 0..30 {
        assert!(!is_missing(&fs, &format!("d/f{at}")).await, "{at}");
    }
    ends("unmount", fs.unmount()).await.expect("unmounted");
}
