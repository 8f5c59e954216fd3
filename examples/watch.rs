//! Watches: clients that watch an object receive its notifications, and reply.

use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Error, Rados, WatchNews};

const OBJECT: &str = "notice board";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let rados = Rados::connect().await?;
    let pool = rados.ioctx("p").await?;
    pool.create(OBJECT, false).await?;

    // Zero selects the OSD's own timeout, after which a silent client's watch ends.
    let mut watch = pool.watch(OBJECT, Duration::ZERO).await?;
    let listener = tokio::spawn(async move {
        match watch.next().await? {
            WatchNews::Notified(notice) => {
                println!("heard {:?}", notice.payload);
                notice.answer(Bytes::from("understood"));
            }
            // The watch was lost and registered again: read the object itself.
            WatchNews::Missed => println!("something may have been missed"),
        }
        watch.unwatch().await
    });

    // Returns when all watchers have replied, or after the timeout.
    let notified = pool.notify(OBJECT, Bytes::from("lunch"), Duration::from_secs(10)).await?;
    for answer in notified.answers.values() {
        println!("answered {answer:?}");
    }
    println!("{} did not answer", notified.missing.len());

    listener.await.expect("the listener does not panic")?;
    pool.remove(OBJECT).await?;
    rados.shutdown().await;
    Ok(())
}
