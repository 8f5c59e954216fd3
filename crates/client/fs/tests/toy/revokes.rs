//! What is revoked goes back in as few messages as possible: another client waits for it.

use loligo_fs::{FileSystem, OpenOptions};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{CapOp, ClientCaps, ClientReply, ClientRequest, RequestOp};
use loligo_wire::{CapId, Caps, Ino};

use crate::cluster::{Toy, ends, until};

/// What a file has that several clients read.
const SHARED: Caps = Caps::PIN.union(Caps::ANY_SHARED).union(Caps::FILE_RD).union(Caps::FILE_CACHE);

async fn mounted() -> (Toy, FileSystem) {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    toy.forget_heard();
    (toy, fs)
}

/// Leaves these capabilities on an inode to the client.
fn leave(toy: &Toy, ino: Ino, seq: u32, caps: Caps) {
    let cap_id = CapId(ino.0);
    let body = ClientCaps { op: CapOp::Revoke, ino, cap_id, seq, caps, ..ClientCaps::default() };
    toy.say(0, Msg::new(&body));
}

/// Returns the one message about capabilities that the client has sent.
async fn answer(toy: &Toy, fs: &FileSystem) -> ClientCaps {
    let of_files = || {
        // It wants the root for itself, since it makes files there.
        let mut heard = toy.heard::<ClientCaps>();
        heard.retain(|(_, said)| said.ino != Ino::ROOT);
        heard
    };
    until("an answer", || !of_files().is_empty()).await;
    // The request comes after what the client had to say by then.
    fs.statistics("/").await.expect("the root");
    let mut heard = of_files();
    assert_eq!(heard.len(), 1, "{heard:?}");
    heard.remove(0).1
}

/// Goal: a file that this client has made, and nobody here uses, goes to another client with one message,
/// though the server asks for its permissions only, as it does when another client opens the file. It asks
/// the server to write its log, because the other client waits for that, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_nobody_uses_is_given_up_in_one_message() {
    let (toy, fs) = mounted().await;
    fs.make_node("f", 0o644, 0).await.expect("made");
    let ino = fs.stat("f").await.expect("there").ino;
    let writing = Caps::FILE_WR | Caps::FILE_BUFFER | Caps::FILE_EXCL | Caps::XATTR_EXCL;
    leave(&toy, ino, 100, SHARED | writing);
    let answer = answer(&toy, &fs).await;
    assert_eq!((answer.seq, answer.caps, answer.dirty), (100, SHARED, Caps::NONE));
    assert_eq!(answer.flags & ClientCaps::SYNC, ClientCaps::SYNC);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: what lets this client write goes back by itself if it does not write: nobody has to ask for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_nobody_uses_is_given_up_unasked() {
    let (toy, fs) = mounted().await;
    fs.make_node("f", 0o644, 0).await.expect("made");
    let answer = answer(&toy, &fs).await;
    assert_eq!(answer.caps, SHARED);
    assert!(!answer.wanted.intersects(Caps::ANY_FILE_WR), "{answer:?}");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: the first look at a file costs a request to open it, and one for its size if another client has to
/// give it up first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_look_costs_one_request_or_two() {
    let asked = |toy: &Toy| -> Vec<u32> {
        toy.heard::<ClientRequest>().iter().map(|(_, request)| request.op.code()).collect()
    };
    let code = |op: RequestOp| op.code();
    let (lookup, open): (u32, u32) =
        (code(RequestOp::Lookup { mask: Caps::NONE }), code(RequestOp::Open(<_>::default())));
    let get = code(RequestOp::GetAttr { mask: Caps::NONE });
    for is_used in [false, true] {
        let (toy, fs) = mounted().await;
        let ino = toy.by_another(Ino::ROOT, |tree| tree.make(Ino::ROOT, b"f", 0o100_644)).await;
        toy.forget_heard();
        if is_used {
            toy.twist(move |msg| {
                let reply = msg.open::<ClientReply>().ok().filter(|reply| [lookup, open].contains(&reply.op));
                let Some(mut reply) = reply else { return vec![msg] };
                if let Some(target) = reply.trace.target.as_mut() {
                    target.cap.caps = Caps::PIN | Caps::AUTH_SHARED;
                }
                vec![Msg::new(&reply).with_tid(msg.header.tid)]
            });
        }
        let file = fs.open("f", OpenOptions::new().read()).await.expect("opened");
        let read = async {
            assert_eq!(file.read_at(0, 1000).await.expect("read"), "");
        };
        let grant = async {
            if is_used {
                until("it asks for the size", || asked(&toy).contains(&get)).await;
                leave(&toy, ino, 100, SHARED);
            }
        };
        ends("a read", async { tokio::join!(read, grant) }).await;
        let expected = if is_used { vec![lookup, open, get] } else { vec![lookup, open] };
        assert_eq!(asked(&toy), expected);
        file.close().await.expect("closed");
        ends("unmount", fs.unmount()).await.expect("unmounted");
    }
}

/// Goal: the server knows of a file that is open lazily: it may let others use it lazily meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lazy_file_wants_to_be_lazy() {
    let (toy, fs) = mounted().await;
    let file = fs.open("f", OpenOptions::new().read().write().create().lazy()).await.expect("made");
    let ino = file.stat().await.expect("there").ino;
    let is_of_it = |said: &ClientCaps| said.ino == ino;
    let has_asked = || toy.heard::<ClientCaps>().iter().any(|(_, said)| is_of_it(said));
    until("it asks for what the server has not given", has_asked).await;
    toy.forget_heard();
    leave(&toy, ino, 100, SHARED);
    let answer = answer(&toy, &fs).await;
    assert!(answer.wanted.contains(Caps::FILE_LAZYIO | Caps::FILE_WR), "{answer:?}");
    file.close().await.expect("closed");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}
