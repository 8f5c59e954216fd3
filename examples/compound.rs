//! Several changes of an object in one atomic operation, under a condition.

use bytes::Bytes;
use loligo_rados::{CmpOp, Errno, Error, IoCtx, Rados, ReadOp, WriteOp};

const ACCOUNT: &str = "account";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let rados = Rados::connect().await?;
    let pool = rados.ioctx("p").await?;

    // Data, attribute and map of a new object, in one request.
    let make = WriteOp::new()
        .create(true)
        .write_full(Bytes::from("balance 100"))
        .set_xattr("version", "1")
        .set_omap([("2026-11-26", Bytes::from("opened"))]);
    pool.operate(ACCOUNT, make).await?;

    // A client that has seen version 1 may write version 2, once.
    for attempt in 1..=2 {
        match pay(&pool, "1", "2").await {
            Ok(()) => println!("attempt {attempt}: paid"),
            Err(error) if error.errno() == Errno::ECANCELED => {
                println!("attempt {attempt}: refused, the version is another")
            }
            Err(error) => return Err(error),
        }
    }

    // Several reads in one request see the same state of the object.
    let look = ReadOp::new().read(0, 0).xattr("version").stat();
    let answers = pool.operate_read(ACCOUNT, look).await?;
    let (text, version) =
        (String::from_utf8_lossy(&answers[0].data), String::from_utf8_lossy(&answers[1].data));
    println!("{text}, version {version}, {} bytes", answers[2].stat()?.size);

    pool.remove(ACCOUNT).await?;
    rados.shutdown().await;
    Ok(())
}

async fn pay(pool: &IoCtx, seen: &str, next: &str) -> Result<(), Error> {
    let change = WriteOp::new()
        .compare_xattr("version", CmpOp::Eq, seen)
        .write_full(Bytes::from("balance 70"))
        .set_xattr("version", next);
    pool.operate(ACCOUNT, change).await
}
