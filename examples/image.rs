//! An image of a block device, with a snapshot.

use bytes::Bytes;
use loligo_rados::Rados;
use loligo_rbd::{Image, Mode, NewImage};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rados = Rados::connect().await?;
    let pool = rados.ioctx("p").await?;

    // No data is written: unwritten ranges read as zeros.
    loligo_rbd::create(&pool, "disk", NewImage::of_size(1 << 30)).await?;
    let image = Image::open(&pool, "disk", Mode::ReadWrite).await?;
    image.write(4096, Bytes::from("before")).await?;
    image.create_snapshot("monday").await?;
    image.write(4096, Bytes::from("behind")).await?;

    let monday = Image::open_snapshot(&pool, "disk", "monday").await?;
    println!("now    {:?}", image.read(4096, 6).await?);
    println!("monday {:?}", monday.read(4096, 6).await?);
    println!("zeros  {:?}", image.read(0, 4).await?);

    monday.close().await?;
    image.remove_snapshot("monday").await?;
    image.close().await?;
    loligo_rbd::remove(&pool, "disk", |_, _| {}).await?;
    rados.shutdown().await;
    Ok(())
}
