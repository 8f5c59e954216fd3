//! An image behind a cache: reads of cached data, and writes, need no exchange with the cluster.

use bytes::Bytes;
use loligo_rados::Rados;
use loligo_rbd::{CacheOptions, Image, ImageCache, Mode, NewImage};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rados = Rados::connect().await?;
    let pool = rados.ioctx("p").await?;
    loligo_rbd::create(&pool, "disk", NewImage::of_size(64 << 20)).await?;

    // One cache may serve many images.
    let cache = ImageCache::new(CacheOptions::of_size(16 << 20));
    let image = Image::open(&pool, "disk", Mode::ReadWrite).await?.cached(&cache)?;
    image.write(0, Bytes::from("in memory")).await?;
    println!("cached {:?}", image.read(0, 9).await?);

    // Data is in the cluster once a flush has returned, as with a disk's own cache.
    image.flush().await?;
    let other = Image::open(&pool, "disk", Mode::ReadOnly).await?;
    println!("stored {:?}", other.read(0, 9).await?);

    other.close().await?;
    image.close().await?;
    loligo_rbd::remove(&pool, "disk", |_, _| {}).await?;
    rados.shutdown().await;
    Ok(())
}
