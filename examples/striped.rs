//! A file of any size, striped over objects of a pool in the format of `rados --striper`.

use bytes::Bytes;
use loligo_rados::Rados;
use loligo_stripe::{Layout, Striper};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rados = Rados::connect().await?;
    let pool = rados.ioctx("p").await?;

    // Stripe units of 64 KiB are distributed over four objects of up to 1 MiB.
    let layout = Layout::new(64 << 10, 4, 1 << 20)?;
    let striper = Striper::new(pool.clone()).with_layout(layout)?;

    // One write; its requests to all objects are in flight together.
    let file = striper.create("a film").await?;
    file.write(0, Bytes::from(vec![7; 10 << 20])).await?;
    println!("the file has {} bytes", file.size().await?);
    let middle = file.read(5 << 20, 3).await?.into_bytes();
    println!("in the middle {middle:?}");
    file.close().await?;

    striper.remove("a film").await?;
    rados.shutdown().await;
    Ok(())
}
