//! `loligo rbd import`.

use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use loligo_rbd::{Image, Mode, image_file};

use super::args::{ExportFormat, Import};
use super::{Bar, Place, config, defaults, diff, shaped_as, transfer};
use crate::failure::{Context, Failure};
use crate::name::Name;
use loligo_rados::Errno;

/// The input, and its length in bytes if that is known.
type Source = (Box<dyn Read>, Option<u64>);

/// The input, read as far as needed before the image is created.
enum Begun {
    Bytes(Box<dyn Read>),
    Whole(image_file::Reader<Box<dyn Read>>),
}

pub(super) async fn run(place: &Place, options: &Import) -> Result<(), Failure> {
    let what = || format!("import {}", options.file.display());
    // Stock `rbd` also names an image from standard input `-` if it is given no other name.
    let own_name = || Name::from(options.file.file_name().unwrap_or_default().to_owned());
    let (io, name) = place.image(&options.image.clone().unwrap_or_else(own_name)).await?;
    let (from, size) = open(&options.file).context(what)?;
    let (new, mut begun) = match options.export_format {
        ExportFormat::Bytes => {
            let conf = config::of_pool_of(place, &io).await;
            (defaults::image(&conf, size.unwrap_or(0))?, Begun::Bytes(from))
        }
        ExportFormat::Whole => {
            let reader = image_file::Reader::new(from).context(what)?;
            (reader.head().new_image().context(what)?, Begun::Whole(reader))
        }
    };
    let new = shaped_as(place, &io, &options.shape, new).await?;
    loligo_rbd::create(&io, &name, new).await.context(what)?;
    let done = async {
        let image = Image::open(&io, &name, Mode::ReadWrite).await.context(what)?;
        let bar = Bar::new("Importing image", &options.quiet);
        let sparse_bytes = usize::try_from(options.sparse_size).unwrap_or(usize::MAX);
        let filled = match (&mut begun, size) {
            (Begun::Whole(file), _) => restore(&image, file, sparse_bytes, (&bar, size), &what()).await,
            (Begun::Bytes(file), Some(_)) => {
                let told = |done, of| bar.at(done, of);
                transfer::import(&image, file, sparse_bytes, told, &what()).await
            }
            (Begun::Bytes(file), None) => transfer::import_stream(&image, file, sparse_bytes, &what()).await,
        };
        let closed = image.close().await;
        filled?;
        closed.context(what)
    };
    let done = done.await;
    if done.is_err() {
        // An incomplete image is removed. An error of that is ignored, since the first failure is the
        // one to report.
        let _ = loligo_rbd::remove_with_snapshots(&io, &name).await;
    }
    done
}

/// Opens a file, block device or pipe; for others the error is that of stock `rbd`.
fn open(file: &Path) -> std::io::Result<Source> {
    if file == Path::new("-") {
        return Ok((Box::new(std::io::stdin()), None));
    }
    let mut opened = File::open(file)?;
    let kind = opened.metadata()?.file_type();
    let size = if kind.is_file() || kind.is_block_device() {
        let size = opened.seek(SeekFrom::End(0))?;
        opened.rewind()?;
        Some(size)
    } else if kind.is_fifo() {
        None
    } else {
        let errno = if kind.is_dir() { Errno::EISDIR } else { Errno::ENOTTY };
        return Err(std::io::Error::from_raw_os_error(errno.0));
    };
    Ok((Box::new(BufReader::new(opened)), size))
}

/// Restores an image with all its snapshots from a file of the second format.
async fn restore(
    image: &Image,
    reader: &mut image_file::Reader<impl Read>,
    sparse_bytes: usize,
    (bar, size): (&Bar, Option<u64>),
    what: &str,
) -> Result<(), Failure> {
    let context = || what.to_owned();
    for (key, value) in &reader.head().metadata {
        image.set_metadata(key, value.clone()).await.context(context)?;
    }
    let (all, mut done) = (reader.diffs(), 0);
    while let Some(mut diff) = tokio::task::block_in_place(|| reader.next_diff()).context(context)? {
        let told = |at: u64| size.into_iter().for_each(|size| bar.at(at, size));
        diff::apply(image, &mut diff, sparse_bytes, &told, what).await?;
        done += 1;
        if size.is_none() {
            bar.at(done, all);
        }
    }
    Ok(())
}
