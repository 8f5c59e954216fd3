//! A server in a test, without a container: a cluster of its own for each test, ready in milliseconds.

use bytes::Bytes;
use loligo_rados::Builder;
use loligo_server::Server;

#[test]
fn what_is_written_is_read() -> Result<(), Box<dyn std::error::Error>> {
    // The server and its objects end when it is dropped. `server.conf()` is a ceph.conf that other
    // programs can use too.
    let server = Server::memory().pool("p").start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let conf = server.conf().to_str().ok_or("a path that is text")?;
        let rados = Builder::new().conf_file(conf).connect().await?;
        let pool = rados.ioctx("p").await?;
        pool.write_full("o", Bytes::from("data")).await?;
        assert_eq!(pool.read("o", 0, 0).await?, "data");
        rados.shutdown().await;
        Ok(())
    })
}
