//! `loligo rbd export`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use loligo_rbd::diff::Grain;
use loligo_rbd::image_file::{Head, Writer};
use loligo_rbd::{Image, Mode, SnapKind};

use super::args::{Export, ExportFormat};
use super::diff::{Step, discard};
use super::{Bar, Place, diff, transfer};
use crate::failure::{Context, Failure};
use crate::name::Name;

pub(super) async fn run(place: &Place, options: &Export) -> Result<(), Failure> {
    let what = format!("export {}", options.image);
    let (image, _) = place.open_to_read(&options.image).await?;
    let file = options.file.clone().unwrap_or_else(|| image.name().as_path().to_owned());
    let bar = Bar::new("Exporting image", &options.quiet);
    if file == Path::new("-") {
        let out = crate::say::Stdout;
        return match options.export_format {
            ExportFormat::Bytes => transfer::export_stream(&image, out, &what).await,
            ExportFormat::Whole => whole(place, &options.image, out, &bar, &what).await.map(drop),
        };
    }
    let mut out = File::create_new(&file).context(|| format!("{what}: {}", file.display()))?;
    let done = match options.export_format {
        ExportFormat::Bytes => transfer::export(&image, &mut out, &bar, &what).await,
        ExportFormat::Whole => {
            match whole(place, &options.image, BufWriter::new(&mut out), &bar, &what).await {
                Ok(out) => out.get_ref().sync_all().context(|| what),
                Err(e) => Err(e),
            }
        }
    };
    if done.is_err() {
        discard(&file);
    }
    done
}

/// Writes an image with all its snapshots, each as its difference from the one before.
async fn whole<W: Write>(place: &Place, text: &Name, out: W, bar: &Bar, what: &str) -> Result<W, Failure> {
    let what_of = || what.to_owned();
    let (io, image_name, _) = place.image_or_snapshot(text).await?;
    let image = Image::open(&io, &image_name, Mode::ReadOnly).await.context(what_of)?;
    let view = image.view();
    // Snapshots in the trash, of groups and of mirrors are skipped: they belong to something outside the
    // file.
    let snaps: Vec<_> = view.snapshots.iter().filter(|snap| snap.info.kind == SnapKind::User).collect();
    let all = snaps.iter().map(|snap| snap.info.size).sum::<u64>().saturating_add(image.size());
    let head = Head::of(&image).await.context(what_of)?;
    let mut writer = Writer::new(out, &head, snaps.len() as u64 + 1).context(what_of)?;
    let (mut from, mut done) = (None, 0);
    for snap in &snaps {
        let name = &snap.info.name;
        let state = Image::open_snapshot(&io, &image_name, name).await.context(what_of)?;
        let step = Step { from, to: Some(name), is_protected: snap.protected };
        let (diff, told) = (writer.diff().context(what_of)?, |at: u64| bar.at(done + at, all));
        diff::write(&state, &step, Grain::Bytes, diff, &told, what).await?;
        (from, done) = (Some(name), done.saturating_add(state.size()));
    }
    let step = Step { from, to: None, is_protected: false };
    let (diff, told) = (writer.diff().context(what_of)?, |at: u64| bar.at(done + at, all));
    diff::write(&image, &step, Grain::Bytes, diff, &told, what).await?;
    Ok(writer.into_inner())
}
