//! Lists striped files and shows their properties.

use futures_util::stream::{self, StreamExt as _};
use loligo_stripe::{FileStat, Layout, ObjectNames, Striper};
use loligo_wire::UTime;
use serde_json::{Value, json};

use super::note::{Readable, Unfinished};
use super::striper;
use crate::args::Format;
use crate::client::Pool;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown};
use crate::say::say_line;

/// Number of files whose first objects are queried concurrently.
const STATS_UNDER_WAY: usize = 16;

pub(super) async fn list(pool: &Pool, prefix: &[u8], long: bool) -> Result<(), Failure> {
    let striper = &striper(pool);
    let what = || format!("ls {}", pool.name);
    let listed = stream::try_unfold(striper.files(), |mut files| async move {
        Ok::<_, Failure>(files.next().await.context(what)?.map(|file| (file, files)))
    });
    let wanted = listed.filter(|file| {
        let wanted = file.as_ref().map_or(true, |file| file.starts_with(prefix));
        async move { wanted }
    });
    let mut found = Box::pin(
        wanted
            .map(|file| async move {
                let file = file?;
                let stat = if long { Some(Listed::of(striper, &file).await) } else { None };
                Ok::<_, Failure>((Name::from(&file), stat))
            })
            .buffered(STATS_UNDER_WAY),
    );
    let mut all = Vec::new();
    while let Some(next) = found.next().await {
        let (name, stat) = next?;
        let stat = match stat {
            // Removed meanwhile, or an object that only has the name of a striped file's first object.
            Some(Err(e)) if e.errno() == loligo_rados::Errno::ENOENT => continue,
            Some(stat) => Some(stat.context(|| pool.names("ls", &name))?),
            None => None,
        };
        match (pool.format, stat) {
            (Format::Plain, None) => say_line(&shown(&name)),
            (Format::Plain, Some(listed)) => {
                say_line(&line(&name, &listed.stat));
                if let Some(unfinished) = listed.unfinished {
                    eprintln!("loligo: {}: {unfinished}", pool.names("ls", &name));
                }
            }
            (_, None) => all.push(json!({"name": shown(&name)})),
            (_, Some(listed)) => {
                let mut described = described(&name, &listed.stat);
                described["whole"] = listed.is_whole.into();
                all.push(described);
            }
        }
    }
    if pool.format != Format::Plain {
        pool.format.print("files", "file", &Value::from(all));
    }
    Ok(())
}

/// The properties of a file in a long list.
struct Listed {
    stat: FileStat,
    /// Set if no program is writing the file.
    is_whole: bool,
    unfinished: Option<Unfinished>,
}

impl Listed {
    async fn of(striper: &Striper, name: &[u8]) -> Result<Self, loligo_stripe::Error> {
        Ok(match Readable::of(striper, name).await? {
            Ok(Readable { stat, end }) => Self { stat, is_whole: end == stat.size, unfinished: None },
            Err(unfinished) => {
                let stat = striper.stat(name).await?;
                Self { stat, is_whole: false, unfinished: Some(unfinished) }
            }
        })
    }
}

/// Shows a file's size. It fails for a file that is not whole, whose size is not reliable.
pub(super) async fn stat(pool: &Pool, name: &Name) -> Result<(), Failure> {
    let what = || pool.names("stat", name);
    let stat = Readable::or_refuse(&striper(pool), name.as_bytes(), what).await?.stat;
    match pool.format {
        // The format of `rados --striper stat`.
        Format::Plain => {
            let (name, mtime) = (shown(name), UTime::from_system(stat.mtime));
            say_line(&format!("{}/{name} mtime {mtime}, size {}", pool.name, stat.size));
        }
        _ => pool.format.print("file", "item", &described(name, &stat)),
    }
    Ok(())
}

pub(super) async fn layout(pool: &Pool, name: &Name, offset: Option<u64>, len: u64) -> Result<(), Failure> {
    let stat = striper(pool).stat(name).await.context(|| pool.names("layout", name))?;
    match (offset, pool.format) {
        (None, Format::Plain) => sayln!("{}", stat.layout),
        (None, format) => format.print("layout", "item", &numbers(stat.layout)),
        (Some(offset), format) => {
            let pieces = pieces(stat.layout, name, offset, len);
            if format != Format::Plain {
                format.print("pieces", "piece", &Value::from_iter(pieces));
                return Ok(());
            }
            for piece in pieces {
                let object = piece["object"].as_str().unwrap_or_default();
                let [offset, len, at] = ["offset", "length", "object_offset"].map(|field| &piece[field]);
                say_line(&format!("{offset}\t{len}\t{object}\t{at}"));
            }
        }
    }
    Ok(())
}

/// Returns the locations of a file's range, in the file's order.
fn pieces(layout: Layout, name: &Name, offset: u64, len: u64) -> impl Iterator<Item = Value> {
    let names = ObjectNames::Striper(name.as_bytes().to_vec());
    let end = offset.saturating_add(len);
    let mut at = offset;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (object, object_offset) = layout.locate(at);
            let here = (layout.stripe_unit() - at % layout.stripe_unit()).min(end - at);
            let object = names.name(object);
            let object = shown(&object);
            let piece =
                json!({"offset": at, "length": here, "object": object, "object_offset": object_offset});
            at += here;
            piece
        })
    })
}

fn line(name: &Name, stat: &FileStat) -> String {
    let FileStat { size, mtime, layout } = stat;
    let (unit, count, object) = (layout.stripe_unit(), layout.stripe_count(), layout.object_size());
    format!("{size:>15}  {}  {unit}/{count}/{object}  {}", UTime::from_system(*mtime), shown(name))
}

fn described(name: &Name, stat: &FileStat) -> Value {
    let objects = stat.layout.object_count(stat.size);
    let mtime = UTime::from_system(stat.mtime).to_string();
    json!({"name": shown(name), "size": stat.size, "mtime": mtime, "layout": numbers(stat.layout), "objects_max": objects})
}

fn numbers(layout: Layout) -> Value {
    let (unit, count, size) = (layout.stripe_unit(), layout.stripe_count(), layout.object_size());
    json!({"stripe_unit": unit, "stripe_count": count, "object_size": size})
}
