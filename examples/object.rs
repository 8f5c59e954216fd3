//! An object: write, read, attributes, list, remove.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{Error, Rados};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    // Reads CEPH_CONF, CEPH_ARGS, /etc/ceph/ceph.conf and keyrings, as Ceph's programs do.
    let rados = Rados::connect().await?;
    let pool = rados.ioctx("p").await?;

    // When a write has returned, it is safe on all OSDs of the object.
    pool.write_full("greeting", Bytes::from("hello, world")).await?;
    pool.set_xattr("greeting", "language", "en").await?;

    // From byte 7 on; a length of 0 reads to the object's end.
    let text = pool.read("greeting", 7, 0).await?;
    let language = pool.xattr("greeting", "language").await?;
    println!("read {} ({})", String::from_utf8_lossy(&text), String::from_utf8_lossy(&language));

    let mut objects = pool.objects();
    while let Some(object) = objects.try_next().await? {
        println!("there is {}", String::from_utf8_lossy(&object.oid));
    }

    pool.remove("greeting").await?;
    match pool.stat("greeting").await {
        Err(error) if error.is_not_found() => println!("it is gone"),
        other => println!("still there: {other:?}"),
    }
    rados.shutdown().await;
    Ok(())
}
