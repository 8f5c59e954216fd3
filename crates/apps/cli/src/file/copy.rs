//! Copies striped files.

use loligo_stripe::{File, Segment, StreamOptions};

use super::appends;
use super::note::{NOTE, Readable};
use super::{LayoutOptions, closing, striper};
use crate::carried::progress;
use crate::client::Pool;
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::note::Note;

pub(super) async fn run(
    pool: &Pool,
    source: &Name,
    destination: &Name,
    layout: LayoutOptions,
    sparse: bool,
) -> Result<(), Failure> {
    if source == destination {
        return Err(Failure::new(pool.names("cp", source), "onto itself"));
    }
    let what = || pool.names("cp", source);
    let from = striper(pool).open(source).await.context(what)?;
    let done = async {
        let readable = Readable::or_refuse(&striper(pool), source.as_bytes(), what).await?;
        readable.tell(what);
        onto(pool, (source, &from, readable.end), destination, layout, sparse).await
    };
    let done = done.await;
    closing(from, done, what).await
}

/// Copies onto the destination, whose old content is lost.
async fn onto(
    pool: &Pool,
    (source, from, end): (&Name, &File, u64),
    destination: &Name,
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
    let done = fill(pool, (from, end), &to, sparse, what).await;
    closing(to, done, what).await?;
    // Set last, so that a file that has the attributes is whole.
    let attributes = striper.xattrs(source).await.context(what)?;
    let appends: Vec<_> = appends::noted(&attributes).collect();
    for (name, value) in attributes {
        let is_note = name == NOTE.as_bytes() || appends.iter().any(|append| append.as_bytes() == name);
        if !is_note {
            striper.set_xattr(destination, name, value).await.context(what)?;
        }
    }
    mark.take_off(&striper, destination.as_bytes()).await.context(what)
}

async fn fill(
    pool: &Pool,
    (from, size): (&File, u64),
    to: &File,
    sparse: bool,
    what: impl Fn() -> String + Copy,
) -> Result<(), Failure> {
    let bar = progress(Some(size));
    let mut read = from
        .read_stream(0, size, StreamOptions { sparse, ..StreamOptions::default() })
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
