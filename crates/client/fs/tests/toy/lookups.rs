//! What is remembered of names and directories: no more than is allowed, no longer than it is true, and what
//! cannot be seen is not asked for again.

use loligo_fs::{Errno, FileSystem, MountOptions};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    CapOp, ClientCaps, ClientMetric, ClientMetrics, ClientReply, ClientRequest, ClientSession, RequestOp,
    SessionOp, SnapRealmInfo, SnapTrace,
};
use loligo_wire::{CapId, Caps, Ino, SnapId, Tid};

use crate::cluster::{Toy, Verdict, ends, options, until};

async fn mounted(toy: &Toy, options: MountOptions) -> FileSystem {
    FileSystem::mount(&toy.client().await, options).await.expect("mounted")
}

/// Goal: the number of names is bounded as that of inodes is, though one file may have any number of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_names_is_bounded() {
    const INODES: usize = 100;
    const NAMES: usize = 3000;
    let toy = Toy::start(1).await;
    toy.tree(|tree| {
        let dir = tree.make(Ino::ROOT, b"d", 0o040_755);
        let file = tree.make(dir, b"0", 0o100_644);
        (1..NAMES).for_each(|at| tree.link(dir, at.to_string().as_bytes(), file));
    });
    let fs = mounted(&toy, options().inodes_max(INODES)).await;
    let all = fs.read_dir("d").await.expect("a directory").all().await.expect("listed");
    assert_eq!(all.len(), NAMES);
    drop(all);
    let names = || {
        let heard = toy.heard::<ClientMetrics>();
        let of = |metric: &ClientMetric| match metric {
            ClientMetric::DentryLease { dentries, .. } => Some(*dentries),
            _ => None,
        };
        heard.last().and_then(|(_, said)| said.metrics.iter().find_map(of))
    };
    toy.forget_heard();
    until("they are forgotten", || names().is_some_and(|names| names <= 2 * INODES as u64)).await;
    assert!(fs.stat("d/17").await.expect("found again").is_file());
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a directory's parent is the one that it has now, also after another client has moved it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_is_not_that_of_yesterday() {
    let toy = Toy::start(1).await;
    let [a, b] = toy.tree(|tree| [b"a", b"b"].map(|name| tree.make(Ino::ROOT, name, 0o040_755)));
    toy.tree(|tree| tree.make(a, b"d", 0o040_755));
    let fs = mounted(&toy, options()).await;
    let dir = fs.find("a/d").await.expect("found");
    let parents = || toy.heard::<ClientRequest>().iter().filter(|(_, it)| is_of_parent(it)).count();
    assert_eq!(dir.lookup("..").await.expect("a parent").id().ino, a);
    assert_eq!(parents(), 0, "the server would tell of a move");
    // It tells: nothing vouches for the names of `a` any more.
    toy.tree(|tree| tree.rename((a, b"d"), (b, b"d")));
    let revoke = ClientCaps {
        op: CapOp::Revoke,
        ino: a,
        cap_id: CapId(a.0),
        seq: 100,
        caps: Caps::PIN | (Caps::ANY_SHARED - Caps::FILE_SHARED),
        ..ClientCaps::default()
    };
    toy.say(0, Msg::new(&revoke));
    until("it has heard", || !toy.heard::<ClientCaps>().is_empty()).await;
    assert_eq!(dir.lookup("..").await.expect("a parent").id().ino, b);
    assert_eq!(parents(), 1);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a name that another client has moved while this client's session was not renewed in time is not
/// believed again once the session is renewed and the directory's capability is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_taken_from_a_late_session_is_forgotten() {
    let toy = Toy::start(1).await;
    toy.change_map(|map| map.session_timeout_s = 3);
    let [a, b] = toy.tree(|tree| [b"a", b"b"].map(|name| tree.make(Ino::ROOT, name, 0o040_755)));
    toy.tree(|tree| tree.make(a, b"f", 0o100_644));
    let fs = mounted(&toy, options()).await;
    let looks = || toy.heard::<ClientRequest>().len();
    let renewals = || {
        let asks = |said: &ClientSession| said.op == SessionOp::RequestRenewCaps;
        toy.heard::<ClientSession>().iter().filter(|(_, said)| asks(said)).count()
    };
    toy.script(|heard| {
        let is_renewal = heard.session().is_some_and(|said| said.op == SessionOp::RequestRenewCaps);
        if is_renewal { Verdict::Drop } else { Verdict::Serve }
    });
    // Without a lease of its own a name is believed as long as the directory's Fs is.
    toy.twist(|msg| {
        let Ok(mut reply) = msg.open::<ClientReply>() else { return vec![msg] };
        if let Some(dentry) = reply.trace.dentry.as_mut() {
            dentry.lease = Default::default();
        }
        vec![Msg::new(&reply).with_tid(msg.header.tid)]
    });
    fs.stat("a/f").await.expect("found");
    let (first, file) = (looks(), fs.find("a/f").await.expect("found"));
    assert_eq!(looks(), first, "it is believed");
    // Once the session's time is past, what is known of the file has to be asked for.
    ends("the session is late", async {
        while looks() == first {
            file.stat(Caps::ANY_SHARED).await.expect("there");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    })
    .await;
    toy.tree(|tree| tree.rename((a, b"f"), (b, b"f")));
    let without = Caps::PIN | (Caps::ANY_SHARED - Caps::FILE_SHARED);
    for (op, seq, caps) in [(CapOp::Revoke, 100, without), (CapOp::Grant, 101, without | Caps::FILE_SHARED)] {
        let mode = 0o040_755;
        let body = ClientCaps { op, ino: a, cap_id: CapId(a.0), seq, caps, mode, ..ClientCaps::default() };
        toy.say(0, Msg::new(&body));
    }
    toy.be_good();
    let so_far = renewals();
    until("it is renewed", || renewals() >= so_far + 2).await;
    assert!(fs.stat("a/f").await.expect_err("it was moved").is_not_found());
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

fn is_of_parent(request: &ClientRequest) -> bool {
    matches!(request.op, RequestOp::LookupParent { .. })
}

/// Goal: a directory that a name was moved out of is described as it is then, though the reply to the move
/// does not describe it, and nobody has revoked what this client holds on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_described_without_what_was_moved_out_of_it() {
    let toy = Toy::start(1).await;
    toy.tree(|tree| {
        let [a, _] = [&b"a"[..], b"b"].map(|name| tree.make(Ino::ROOT, name, 0o040_755));
        tree.make(a, b"f", 0o100_644);
    });
    let fs = mounted(&toy, options()).await;
    assert_eq!(fs.stat("a").await.expect("there").entries, 1);
    fs.rename("a/f", "b/f").await.expect("moved");
    assert_eq!(fs.stat("a").await.expect("there").entries, 0);
    assert_eq!(fs.stat("b").await.expect("there").entries, 1);
    toy.forget_heard();
    fs.stat("a").await.expect("there");
    assert_eq!(toy.tids_heard(), [0; 0], "once is enough");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: of realms that this client does not know the server is asked at once, and once: those that it may
/// not see limit nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn realms_are_asked_for_at_once_and_once() {
    const HIDDEN: [u64; 2] = [0x9001, 0x9002];
    let toy = Toy::start(1).await;
    let fs = mounted(&toy, options()).await;
    toy.twist(|msg| {
        let Ok(mut reply) = msg.open::<ClientReply>() else { return vec![msg] };
        let parents = [(HIDDEN[0], HIDDEN[1]), (HIDDEN[1], Ino::ROOT.0), (Ino::ROOT.0, 0)];
        let realm = |(ino, parent)| SnapRealmInfo {
            ino: Ino(ino),
            parent: Ino(parent),
            created: SnapId(1),
            seq: SnapId(1),
            ..SnapRealmInfo::default()
        };
        reply.snap = SnapTrace(parents.map(realm).to_vec()).to_blob(false);
        if let Some(target) = reply.trace.target.as_mut() {
            target.cap.realm = Ino(HIDDEN[0]);
        }
        if let Some(dentry) = reply.trace.dentry.as_mut() {
            dentry.dir.cap.realm = Ino(HIDDEN[0]);
        }
        vec![Msg::new(&reply).with_tid(msg.header.tid)]
    });
    let is_hidden = |request: &ClientRequest| HIDDEN.contains(&request.path.base.0);
    toy.script(move |heard| match heard.request() {
        Some(request) if is_hidden(&request) => Verdict::Drop,
        _ => Verdict::Serve,
    });
    fs.create_dir("d", 0o755).await.expect("made");
    toy.forget_heard();
    let asked = || toy.heard::<ClientRequest>().iter().filter(|(_, it)| is_hidden(it)).count();
    let make = fs.make_node("d/first", 0o644, 0);
    let refuse = async {
        until("both are asked for", || asked() == 2).await;
        for tid in toy.tids_heard() {
            let refused = ClientReply { op: 0x101, result: -13, safe: true, ..ClientReply::default() };
            toy.say(0, Msg::new(&refused).with_tid(Tid(tid)));
        }
    };
    let (made, ()) = ends("a name", async { tokio::join!(make, refuse) }).await;
    made.expect("nothing limits it");
    fs.make_node("d/second", 0o644, 0).await.expect("made");
    assert_eq!(asked(), 2, "it is not asked for again");
    toy.be_good();
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: calls that wait for a new identity say what it waits for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_an_identity_says_why() {
    let toy = Toy::start(1).await;
    let builder = toy.builder_with("client mount timeout = 1");
    let rados = builder.connect().await.expect("a monitor");
    let fs = FileSystem::mount(&rados, options().recovers(true)).await.expect("mounted");
    toy.stop_monitor().await;
    let metadata = [("error_string".into(), "session: client is blacklisted".into())].into();
    let reject = ClientSession { metadata, ..ClientSession::new(SessionOp::Reject, 0) };
    toy.say(0, Msg::new(&reject));
    let waits = rados.cluster().waits().clone();
    let said = || {
        let all = waits.all(std::time::Duration::ZERO);
        all.iter().any(|wait| wait.to_string().contains("gives it no new identity"))
    };
    until("it says why", said).await;
    // There is nobody to write to any more.
    let _ = ends("unmount", fs.unmount()).await;
}

/// Goal: a name that is looked up again and again, for which no lock is taken any more, means something else
/// as soon as this client or another one has changed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_looked_up_often_is_what_the_name_means() {
    let toy = Toy::start(1).await;
    let dir = toy.tree(|tree| {
        let dir = tree.make(Ino::ROOT, b"d", 0o040_755);
        for name in [b"f", b"g", b"h"] {
            tree.make(dir, name, 0o100_644);
        }
        dir
    });
    let fs = mounted(&toy, options()).await;
    let often = async |path: &str| {
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(fs.stat(path).await.map(|found| found.ino).map_err(|e| e.errno()));
        }
        assert!(all.iter().all(|one| *one == all[0]), "{path}: {all:?}");
        all[0]
    };
    let [f, g, h] = [often("d/f").await, often("d/g").await, often("d/h").await];
    toy.forget_heard();
    assert_eq!(often("d/f").await, f);
    assert_eq!(toy.asked(), []);
    toy.by_another(dir, |tree| tree.rename((dir, b"g"), (dir, b"f"))).await;
    assert_eq!((often("d/f").await, often("d/g").await), (g, Err(Errno::ENOENT)));
    fs.rename("d/h", "d/f").await.expect("moved");
    assert_eq!((often("d/f").await, often("d/h").await), (h, Err(Errno::ENOENT)));
    fs.remove_file("d/f").await.expect("removed");
    assert_eq!(often("d/f").await, Err(Errno::ENOENT));
    fs.make_node("d/f", 0o644, 0).await.expect("made");
    let made = often("d/f").await;
    assert!(made.is_ok() && ![f, g, h].contains(&made));
    fs.rename("d", "e").await.expect("moved");
    assert_eq!((often("e/f").await, often("d/f").await), (made, Err(Errno::ENOENT)));
    ends("unmount", fs.unmount()).await.expect("unmounted");
}
