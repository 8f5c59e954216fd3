//! A file of any size over objects of a pool, as `rados --striper` has it.

use bytes::Bytes;
use loligo_rados::Rados;
use loligo_stripe::{Layout, Striper};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rados = Rados::connect().await?;
    let pool = rados.ioctx("p").await?;

    // Stripes of 64 KiB go round four objects, which have up to 1 MiB.
    let layout = Layout::new(64 << 10, 4, 1 << 20)?;
    let striper = Striper::new(pool.clone()).with_layout(layout)?;

    // One write, whose requests to all objects are under way together.
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
