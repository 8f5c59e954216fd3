//! Striped files into others.

use loligo_stripe::{File, Segment, StreamOptions};

use super::note::{NOTE, Note, Unfinished};
use super::{LayoutOptions, closing, progress, striper};
use crate::client::Pool;
use crate::failure::{Context, Failure};

pub(super) async fn run(
    pool: &Pool,
    source: &str,
    destination: &str,
    layout: LayoutOptions,
    sparse: bool,
) -> Result<(), Failure> {
    if source == destination {
        return Err(Failure::new(pool.names("cp", source), "onto itself"));
    }
    let what = || pool.names("cp", source);
    let from = striper(pool).open(source).await.context(what)?;
    let whole = Unfinished::refuse(&striper(pool), source.as_bytes(), what).await;
    if whole.is_err() {
        return closing(from, whole, what).await;
    }
    let done = onto(pool, (source, &from), destination, layout, sparse).await;
    closing(from, done, what).await
}

/// What the destination was is gone.
async fn onto(
    pool: &Pool,
    (source, from): (&str, &File),
    destination: &str,
    layout: LayoutOptions,
    sparse: bool,
) -> Result<(), Failure> {
    let what = || pool.names("cp", destination);
    let layout = layout.layout().context(what)?.unwrap_or(from.layout());
    let mark = Note::without_source(0);
    let striper = striper(pool).with_layout(layout).context(what)?.with_mark(NOTE, mark.text());
    match striper.remove(destination).await {
        Err(e) if e.is_not_found() => {}
        removed => removed.context(what)?,
    }
    let to = striper.create(destination).await.context(what)?;
    let done = fill(pool, from, &to, sparse, what).await;
    closing(to, done, what).await?;
    // Last, so that a file that has them is whole.
    for (name, value) in striper.xattrs(source).await.context(what)? {
        if name != NOTE.as_bytes() {
            striper.set_xattr(destination, name, value).await.context(what)?;
        }
    }
    mark.take_off(&striper, destination.as_bytes()).await.context(what)
}

async fn fill(
    pool: &Pool,
    from: &File,
    to: &File,
    sparse: bool,
    what: impl Fn() -> String + Copy,
) -> Result<(), Failure> {
    let size = from.size().await.context(what)?;
    let bar = progress(Some(size));
    let mut read = from
        .read_stream(0, u64::MAX, StreamOptions { sparse, ..StreamOptions::default() })
        .await
        .context(what)?;
    let options = StreamOptions { ends_at: Some(read.end()), ..StreamOptions::default() };
    let mut write = to.write_stream(0, options);
    while let Some(segments) = read.next().await {
        let segments = segments.context(|| format!("read in pool {}", pool.name))?;
        for part in segments.parts() {
            match part {
                Segment::Data(data) => write.write(data.clone()).await.context(what)?,
                Segment::Hole(len) => write.skip(*len).await.context(what)?,
            }
            bar.inc(part.len());
        }
    }
    let end = write.finish().await.context(what)?;
    to.extend(end).await.context(what)?;
    bar.finish_and_clear();
    Ok(())
}
