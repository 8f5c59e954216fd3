//! What requests give back of capabilities and leases, so that their server need not ask for it.

use loligo_fs::{Changes, FileSystem};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    CapOp, ClientCaps, ClientReply, ClientRequest, LeaseStat, RequestOp, RequestRelease,
};
use loligo_wire::{CapId, Caps, Ino};

use crate::cluster::{Toy, ends, until};

/// A mount of a file system that has the directories `d` and `e`, and files `f` and `g` in both.
async fn mounted() -> (Toy, FileSystem, [Ino; 2]) {
    let toy = Toy::start(1).await;
    let dirs = toy.tree(|tree| {
        [b"d", b"e"].map(|name| {
            let dir = tree.make(Ino::ROOT, name, 0o040_755);
            for name in [b"f", b"g"] {
                tree.make(dir, name, 0o100_644);
            }
            dir
        })
    });
    let fs = toy.mount(&toy.client().await).await;
    for path in ["d/f", "d/g", "e/f", "e/g"] {
        fs.stat(path).await.expect("there");
    }
    toy.forget_heard();
    (toy, fs, dirs)
}

/// The server gives leases on names, and no Fs on directories.
fn lease_names(toy: &Toy) {
    toy.twist(|msg| {
        let Ok(mut reply) = msg.open::<ClientReply>() else { return vec![msg] };
        if let Some(dentry) = reply.trace.dentry.as_mut() {
            dentry.dir.cap.caps -= Caps::FILE_SHARED;
            let (mask, duration_ms) = (LeaseStat::VALID, 30_000);
            dentry.lease = LeaseStat { mask, duration_ms, seq: 77, ..LeaseStat::default() };
        }
        vec![Msg::new(&reply).with_tid(msg.header.tid)]
    });
}

/// Returns what the last request that changes something has given back.
fn given(toy: &Toy) -> Vec<RequestRelease> {
    let requests = toy.heard::<ClientRequest>();
    let changes = requests.into_iter().rev().find(|(_, request)| request.op.is_write());
    changes.expect("a change").1.releases
}

/// Checks that a request has given back these parts of these inodes, and no more.
fn gave(toy: &Toy, expected: &[(Ino, Caps)]) {
    let mut given = given(toy);
    given.sort_by_key(|release| release.ino);
    let mut expected = expected.to_vec();
    expected.sort_by_key(|(ino, _)| *ino);
    assert_eq!(
        given.iter().map(|release| release.ino).collect::<Vec<_>>(),
        expected.iter().map(|(ino, _)| *ino).collect::<Vec<_>>()
    );
    for (release, (ino, parts)) in given.iter().zip(&expected) {
        let all = Caps::PIN | Caps::ANY_SHARED;
        assert_eq!((release.caps & all, release.cap_id), (all - *parts, CapId(ino.0)), "of {ino}");
    }
}

/// Goal: a request takes with it what it makes of no use here, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_gives_back_what_it_spoils() {
    let (toy, fs, [d, e]) = mounted().await;
    let ino = async |path: &str| fs.stat(path).await.expect("there").ino;
    let (names, links) = (Caps::FILE_SHARED, Caps::LINK_SHARED);
    let [f, g, moved] = [ino("d/f").await, ino("d/g").await, ino("e/f").await];
    fs.remove_file("d/f").await.expect("removed");
    gave(&toy, &[(d, names), (f, links)]);
    fs.change("d/g", Changes { permissions: Some(0o600), ..Changes::default() }).await.expect("changed");
    gave(&toy, &[(g, Caps::AUTH_SHARED)]);
    fs.rename("e/f", "d/g").await.expect("moved over another file");
    gave(&toy, &[(d, names), (e, names), (moved, links), (g, links)]);
    fs.link("e/g", "d/second").await.expect("linked");
    gave(&toy, &[(ino("e/g").await, links)]);
    fs.create_dir("d/sub", 0o755).await.expect("made");
    gave(&toy, &[]);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a lease on a name goes back with the request that changes it, and is not believed afterwards, also
/// if the request has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_goes_back_with_the_name() {
    let toy = Toy::start(1).await;
    let (dir, file) = toy.tree(|tree| {
        let dir = tree.make(Ino::ROOT, b"d", 0o040_755);
        tree.make(dir, b"g", 0o100_644);
        (dir, tree.make(dir, b"f", 0o100_644))
    });
    lease_names(&toy);
    let fs = toy.mount(&toy.client().await).await;
    for path in ["d/f", "d/g"] {
        fs.stat(path).await.expect("there");
        toy.forget_heard();
        fs.stat(path).await.expect("there");
        assert_eq!(toy.asked(), [], "there are leases on names");
    }
    fs.remove_file("d/f").await.expect("removed");
    let leases: Vec<_> =
        given(&toy).into_iter().map(|release| (release.ino, release.name, release.lease_seq)).collect();
    assert_eq!(leases, [(dir, b"f".to_vec(), 77), (file, Vec::new(), 0)]);
    // Another client was faster.
    toy.tree(|tree| tree.remove(dir, b"g"));
    assert!(fs.remove_file("d/g").await.expect_err("it is gone").is_not_found());
    assert_eq!(given(&toy)[0].name, b"g");
    toy.tree(|tree| tree.make(dir, b"g", 0o100_600));
    assert_eq!(fs.stat("d/g").await.expect("another file").permissions(), 0o600);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a server that has asked for what is on its way back gets an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoke_that_crosses_with_a_request_is_answered() {
    let (toy, fs, [dir, _]) = mounted().await;
    // The reply does not bring Fs back.
    lease_names(&toy);
    fs.remove_file("d/f").await.expect("removed");
    let seq = given(&toy)[0].seq + 50;
    let caps = Caps::PIN | (Caps::ANY_SHARED - Caps::FILE_SHARED);
    let op = CapOp::Revoke;
    let revoke = ClientCaps {
        op,
        ino: dir,
        cap_id: CapId(dir.0),
        seq,
        caps,
        mode: 0o040_755,
        ..ClientCaps::default()
    };
    toy.say(0, Msg::new(&revoke));
    until("it is answered", || {
        toy.heard::<ClientCaps>().iter().any(|(_, said)| (said.ino, said.seq, said.caps) == (dir, seq, caps))
    })
    .await;
    let asks = |op: &RequestOp| matches!(op, RequestOp::Lookup { .. });
    toy.forget_heard();
    fs.stat("d/g").await.expect("there");
    assert!(toy.asked().iter().any(asks), "nothing vouches for the name");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}
