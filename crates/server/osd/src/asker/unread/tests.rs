//! Goal: unread replies are bounded. Method: connections that count their calls.

use std::sync::atomic::AtomicUsize;

use loligo_msgr::Cork;
use loligo_wire::message::Msg;

use super::*;

/// A connection that counts its calls.
#[derive(Default)]
struct Conn {
    account: Arc<Account>,
    written: AtomicU64,
    given_up: AtomicUsize,
}

impl Asker for Conn {
    fn answer(&self, _: Msg) {}

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }

    fn account(&self) -> Option<Arc<Account>> {
        Some(Arc::clone(&self.account))
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn give_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }
}

fn unread() -> Arc<Unread> {
    Unread::new(Arc::default())
}

fn count(unread: &Arc<Unread>, conn: &Arc<Conn>, bytes: u64) -> Share {
    let asker = Arc::clone(conn) as Arc<dyn Asker>;
    unread.count(&asker, None, bytes, true).expect("enough to be counted")
}

#[test]
fn one_connection_and_all_have_bounds_and_get_back_what_was_read() {
    let (unread, own) = (unread(), Arc::new(Conn::default()));
    let asker = Arc::clone(&own) as Arc<dyn Asker>;
    assert!(unread.count(&asker, None, COUNTED_FROM - 1, true).is_none(), "small ones are not counted");
    let most = count(&unread, &own, CONNECTION_MAX - COUNTED_FROM);
    assert!(!unread.is_over(&own.account) && !unread.may_be_crowded());
    let more = count(&unread, &own, COUNTED_FROM);
    assert!(unread.is_over(&own.account) && unread.may_be_crowded());
    let fewer = unread.count(&asker, Some(most), COUNTED_FROM, true).expect("counted");
    assert!(!unread.is_over(&own.account), "it was less than thought");
    drop((fewer, more.handed()));
    let others: Vec<_> = (0..8).map(|_| Arc::new(Conn::default())).collect();
    let shares: Vec<_> = others.iter().map(|conn| count(&unread, conn, CONNECTION_MAX - 1)).collect();
    let little = count(&unread, &own, COUNTED_FROM);
    assert!(unread.is_over(&own.account), "all together have as much as they may");
    drop(little);
    assert!(!unread.is_over(&own.account), "who has nothing gets something in any case");
    drop(shares);
    assert_eq!(unread.bytes.load(Ordering::Relaxed), 0);
    assert!(others.iter().all(|conn| conn.account.bytes.load(Ordering::Relaxed) == 0));
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_while_somebody_waits_is_given_up() {
    let unread = unread();
    let [silent, slow, busy] = [0; 3].map(|_| Arc::new(Conn::default()));
    let kept =
        [count(&unread, &silent, CONNECTION_MAX).handed(), count(&unread, &slow, CONNECTION_MAX).handed()];
    // This connection waits for a slow disk, which its client cannot help.
    let reading = count(&unread, &busy, CONNECTION_MAX);
    let room = unread.room(&silent.account).expect("there is none");
    let reads = async {
        loop {
            tokio::time::sleep(SILENCE_MAX / 8).await;
            slow.written.fetch_add(1, Ordering::Relaxed);
            if silent.given_up.load(Ordering::Relaxed) > 0 {
                return;
            }
        }
    };
    tokio::select! {
        () = room => panic!("nobody has read"),
        () = reads => {}
    }
    assert_eq!((slow.given_up.load(Ordering::Relaxed), busy.given_up.load(Ordering::Relaxed)), (0, 0));
    let room = tokio::spawn(unread.room(&silent.account).expect("there is none"));
    tokio::task::yield_now().await;
    assert!(!room.is_finished());
    drop(kept);
    room.await.expect("there is room");
    drop(reading);
}
