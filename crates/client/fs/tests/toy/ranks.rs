//! Several ranks: which one is asked, what moves between them, and one that is replaced or taken away.

use loligo_fs::{FileSystem, OpenOptions};
use loligo_maps::MdsState;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    CapOp, CapPeer, ClientCaps, ClientReconnect, ClientReply, ClientRequest, RequestOp, SetAttr,
};
use loligo_wire::{CapId, Caps, Ino, Rank, Tid};

use crate::cluster::{Toy, ends, until};

/// What a file has that one client has opened.
const ALL: Caps = Caps::PIN
    .union(Caps::ANY_SHARED)
    .union(Caps::FILE_RD)
    .union(Caps::FILE_WR)
    .union(Caps::FILE_EXCL)
    .union(Caps::FILE_CACHE);

async fn mounted(ranks: i32) -> (Toy, FileSystem) {
    let toy = Toy::start(ranks).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    (toy, fs)
}

/// Returns the ranks that heard requests of a kind.
fn asked(toy: &Toy, is_meant: impl Fn(&RequestOp) -> bool) -> Vec<i32> {
    let heard = toy.heard::<ClientRequest>();
    heard.iter().filter(|(_, request)| is_meant(&request.op)).map(|(rank, _)| rank.0).collect()
}

/// Makes a directory "d". Replies tell that rank 1 has the names in it.
async fn make_of_rank_1(toy: &Toy, fs: &FileSystem) {
    fs.create_dir("d", 0o755).await.expect("made");
    let dir = fs.stat("d").await.expect("there").ino;
    toy.twist(move |msg| {
        let Ok(mut reply) = msg.open::<ClientReply>() else { return vec![msg] };
        if let Some(dentry) = reply.trace.dentry.as_mut().filter(|dentry| dentry.dir.ino == dir) {
            dentry.dirstat.auth = Rank(1);
        }
        vec![Msg::new(&reply).with_tid(msg.header.tid)]
    });
}

/// Goal: a request about a name goes to the rank that has the part of the directory which the name is in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_goes_to_the_rank_of_the_names_part() {
    let (toy, fs) = mounted(2).await;
    make_of_rank_1(&toy, &fs).await;
    let is_mknod = |op: &RequestOp| matches!(op, RequestOp::MkNod { .. });
    fs.make_node("d/first", 0o644, 0).await.expect("made");
    fs.make_node("d/second", 0o644, 0).await.expect("made");
    fs.make_node("third", 0o644, 0).await.expect("made");
    assert_eq!(asked(&toy, is_mknod), [0, 1, 0], "the first one's reply told of the rank");
    // The rank is taken away: what it had is the other one's.
    toy.stop_rank(1).await;
    ends("a name", fs.make_node("d/fourth", 0o644, 0)).await.expect("made");
    assert_eq!(asked(&toy, is_mknod), [0, 1, 0, 0]);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a rank that was taken away and is given back is a new one: its server hears of no earlier session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rank_that_comes_back_is_asked_anew() {
    let (toy, fs) = mounted(2).await;
    make_of_rank_1(&toy, &fs).await;
    let is_mknod = |op: &RequestOp| matches!(op, RequestOp::MkNod { .. });
    fs.make_node("d/first", 0o644, 0).await.expect("made");
    fs.make_node("d/second", 0o644, 0).await.expect("made");
    toy.stop_rank(1).await;
    ends("a name", fs.make_node("d/third", 0o644, 0)).await.expect("made");
    toy.take_rank(1, MdsState::ACTIVE).await;
    // Asked of the rank that is left, if the map with the other one has not come yet.
    let at_the_new_one = async {
        for at in 0.. {
            fs.make_node(format!("d/{at}"), 0o644, 0).await.expect("made");
            if asked(&toy, is_mknod).last() == Some(&1) {
                break;
            }
        }
    };
    ends("names", at_the_new_one).await;
    assert_eq!(toy.heard::<ClientReconnect>().len(), 0);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: sessions are opened with the ranks to which directories will move, before they move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_there_before_something_moves() {
    let (toy, fs) = mounted(3).await;
    assert_eq!(toy.ranks_connected(), [Rank(0)].into());
    name_target(&toy, 2);
    until("a session with rank 2", || toy.ranks_connected() == [Rank(0), Rank(2)].into()).await;
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

fn name_target(toy: &Toy, target: i32) {
    toy.change_map(|map| {
        let gid = map.up[&Rank(0)];
        map.mds_info.get_mut(&gid).expect("rank 0").export_targets = [Rank(target)].into();
    });
}

/// The two messages by which rank 0 hands an inode over to rank 1.
fn move_of(ino: Ino) -> [(i32, Msg); 2] {
    let (here, there) = (CapId(ino.0), CapId(9000));
    let export = ClientCaps {
        op: CapOp::Export,
        ino,
        cap_id: here,
        mseq: 1,
        peer: CapPeer { cap_id: there, issue_seq: 1, mseq: 1, mds: Rank(1), flags: 1 },
        ..ClientCaps::default()
    };
    let import = ClientCaps {
        op: CapOp::Import,
        ino,
        realm: Ino::ROOT,
        cap_id: there,
        seq: 1,
        issue_seq: 1,
        mseq: 1,
        caps: ALL,
        mode: 0o100_644,
        nlink: 1,
        peer: CapPeer { cap_id: here, issue_seq: 1, mseq: 0, mds: Rank(0), flags: 0 },
        ..ClientCaps::default()
    };
    [(0, Msg::new(&export)), (1, Msg::new(&import))]
}

/// Goal: an inode that moves to another rank is asked for there afterwards, whichever of the two ranks is
/// heard first, and what was held is held on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_may_be_told_by_either_rank_first() {
    for is_export_first in [true, false] {
        let (toy, fs) = mounted(2).await;
        let file = fs.open("f", OpenOptions::new().read().write().create()).await.expect("made");
        let ino = file.stat().await.expect("there").ino;
        name_target(&toy, 1);
        until("a session with rank 1", || toy.ranks_connected().contains(&Rank(1))).await;
        let mut words = move_of(ino);
        if !is_export_first {
            words.reverse();
        }
        for (rank, msg) in words {
            toy.say(rank, msg);
            // The connections are two: the second word comes certainly later.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        toy.forget_heard();
        file.stat().await.expect("there");
        assert!(asked(&toy, |op| matches!(op, RequestOp::GetAttr { .. })).is_empty(), "it is held on");
        file.truncate(5).await.expect("changed");
        let is_resize =
            |op: &RequestOp| matches!(op, RequestOp::SetAttr(args) if args.mask & SetAttr::SIZE != 0);
        assert_eq!(asked(&toy, is_resize), [1], "export first: {is_export_first}");
        // An old word of the first rank changes nothing.
        let [(_, export), _] = move_of(ino);
        toy.say(0, export);
        file.truncate(6).await.expect("changed");
        assert_eq!(asked(&toy, is_resize), [1, 1]);
        file.close().await.expect("closed");
        ends("unmount", fs.unmount()).await.expect("unmounted");
    }
}

/// Goal: another server takes a rank over. It hears, in this order, the requests that its predecessor had
/// carried out and not made durable, with the inodes that they made, and what this client holds; then what
/// was in flight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_hears_what_was_done_and_what_is_held() {
    let (toy, fs) = mounted(1).await;
    let file = fs.open("open", OpenOptions::new().read().write().create()).await.expect("made");
    let held = file.stat().await.expect("there").ino;
    toy.tree(|tree| tree.is_unsafe = true);
    fs.create_dir("d", 0o755).await.expect("made");
    let made = fs.stat("d").await.expect("there").ino;
    let first = toy.heard::<ClientRequest>().last().map(|(_, request)| request.op).expect("a request");
    assert!(matches!(first, RequestOp::MkDir { .. } | RequestOp::GetAttr { .. }), "{first:?}");
    toy.forget_heard();
    toy.take_rank(0, MdsState::RECONNECT).await;
    until("it tells what it holds", || !toy.heard::<ClientReconnect>().is_empty()).await;
    let order = toy.kinds_heard();
    let replay = order.iter().position(|kind| *kind == 24).expect("a request");
    let reconnect = order.iter().position(|kind| *kind == 23).expect("a reconnect");
    assert!(replay < reconnect, "{order:?}");
    let again = toy.heard::<ClientRequest>();
    let (_, request) = again.first().expect("a request");
    assert!(request.flags & ClientRequest::REPLAY != 0, "{request:?}");
    assert_eq!((request.ino, matches!(request.op, RequestOp::MkDir { .. })), (made, true));
    let (_, told) = toy.heard::<ClientReconnect>().remove(0);
    let cap = told.caps.get(&held).expect("the open file");
    assert!(cap.wanted.contains(Caps::FILE_WR | Caps::FILE_RD), "{cap:?}");
    toy.set_state(0, MdsState::ACTIVE);
    toy.tree(|tree| tree.is_unsafe = false);
    ends("a name", fs.create_dir("e", 0o755)).await.expect("made");
    // The successor has made it durable.
    let tid = toy.tids_heard().into_iter().next().expect("a replay");
    let safe = ClientReply { op: 0x1220, safe: true, ..ClientReply::default() };
    toy.say(0, Msg::new(&safe).with_tid(Tid(tid)));
    ends("sync", fs.sync()).await.expect("durable");
    file.close().await.expect("closed");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}
