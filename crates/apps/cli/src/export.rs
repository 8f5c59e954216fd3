//! Exports all objects of a pool into a file, and imports them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::{FuturesOrdered, StreamExt as _};
use loligo_rados::{Answer, Errno, Error, IoCtx, ListedObject, OmapPairs, ReadOp, WriteOp};

use crate::client::Pool;
use crate::dump::{DumpReader, DumpWriter, Section, head_of};
use crate::failure::{Context, Failure};
use crate::say::Stdout;

/// Maximum bytes of a data section, as `rados export` writes them.
const PIECE_BYTES: u64 = 4 << 20;
/// Maximum pairs of an omap section.
const PAIRS: u64 = 512;
/// Maximum number of objects whose beginnings are being read.
const OBJECTS_MAX: usize = 8;

/// Writes the objects of all namespaces of a pool, as they are now or at a snapshot.
pub(crate) async fn export(pool: &Pool, file: Option<&Path>) -> Result<(), Failure> {
    let what = || format!("export {}", pool.name);
    let shown = file.unwrap_or(Path::new("-"));
    let to_file = |e| Failure::new(format!("write {}", shown.display()), e);
    let out: Box<dyn Write> = match shown.as_os_str() == "-" {
        true => Box::new(Stdout),
        false => Box::new(File::create(shown).map_err(to_file)?),
    };
    let mut writer = DumpWriter::new(BufWriter::with_capacity(1 << 20, out)).map_err(to_file)?;
    writer.write(&Section::PoolBegin).map_err(to_file)?;
    let mut list = pool.ioctx.objects_of_all_namespaces();
    let mut under_way = FuturesOrdered::new();
    let mut ended = false;
    loop {
        while !ended && under_way.len() < OBJECTS_MAX {
            match list.next().await.context(what)? {
                Some(object) => under_way.push_back(Beginning::of(pool, object)),
                None => ended = true,
            }
        }
        let Some(beginning) = under_way.next().await else { break };
        // The object was removed after it was listed.
        let Some(beginning) = beginning? else { continue };
        beginning.hand_out(pool, async |section| writer.write(&section).map_err(to_file)).await?;
    }
    writer.write(&Section::PoolEnd).map_err(to_file)?;
    writer.finish().map_err(to_file)
}

/// An object and the part of it that one request returns, all of one moment.
struct Beginning {
    ioctx: IoCtx,
    object: ListedObject,
    data: Bytes,
    xattrs: BTreeMap<Bytes, Bytes>,
    /// `None` where the pool's objects have no maps.
    omap: Option<(Bytes, OmapPairs)>,
}

impl Beginning {
    async fn of(pool: &Pool, object: ListedObject) -> Result<Option<Self>, Failure> {
        let ioctx = pool.ioctx.with_namespace(object.nspace.clone()).with_locator(object.locator.clone());
        let read = || ReadOp::new().read(0, PIECE_BYTES).xattrs();
        let whole = read().omap_header().omap("", "", PAIRS);
        let name = String::from_utf8_lossy(&object.oid).into_owned();
        let what = || pool.names("export", &name);
        let answers = match ioctx.operate_read(object.oid.clone(), whole).await {
            // Erasure-coded pools have no maps.
            Err(e) if e.errno() == Errno::EOPNOTSUPP => ioctx.operate_read(object.oid.clone(), read()).await,
            answers => answers,
        };
        let answers = match answers {
            Err(e) if e.is_not_found() => return Ok(None),
            answers => answers.context(what)?,
        };
        Self::from_answers(ioctx, object, &answers).map(Some).context(what)
    }

    fn from_answers(ioctx: IoCtx, object: ListedObject, answers: &[Answer]) -> Result<Self, Error> {
        let [data, xattrs, rest @ ..] = answers else { return Err(Errno::EPROTO.into()) };
        let omap = match rest {
            [header, pairs] => Some((header.data.clone(), pairs.omap()?)),
            _ => None,
        };
        // Stores put an underscore before the names of users' attributes.
        let raw = |(name, value): (Bytes, Bytes)| ([b"_", &name[..]].concat().into(), value);
        let xattrs = xattrs.map()?.into_iter().map(raw).collect();
        Ok(Self { ioctx, object, data: data.data.clone(), xattrs, omap })
    }

    /// Passes this part and the rest of the object to `take`, as sections of an export.
    async fn hand_out(
        self,
        pool: &Pool,
        mut take: impl AsyncFnMut(Section) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Self { ioctx, object: ListedObject { nspace, oid, locator }, data, xattrs, omap } = self;
        let name = String::from_utf8_lossy(&oid).into_owned();
        let what = || pool.names("read", &name);
        take(Section::Object(head_of(&nspace, &oid, &locator))).await?;
        let (mut offset, mut bytes) = (0, data);
        while !bytes.is_empty() {
            let len = bytes.len() as u64;
            take(Section::Data { offset, bytes }).await?;
            if len < PIECE_BYTES {
                break;
            }
            offset += len;
            bytes = ioctx.read(oid.clone(), offset, PIECE_BYTES).await.context(what)?;
        }
        take(Section::Xattrs(xattrs)).await?;
        let (header, OmapPairs { mut pairs, mut more }) = omap.unwrap_or_default();
        take(Section::OmapHeader(header)).await?;
        while let Some((last, _)) = pairs.last() {
            let last = last.clone();
            take(Section::Omap(pairs.into_iter().collect())).await?;
            if !more {
                break;
            }
            let page = ioctx.omap_page(oid.clone(), &last, "", PAIRS).await.context(what)?;
            (pairs, more) = (page.pairs, page.more);
        }
        take(Section::ObjectEnd).await
    }
}

/// How import treats objects that exist, and whether it only reports.
#[derive(Clone, Copy)]
pub(crate) struct ImportOptions {
    pub(crate) dry_run: bool,
    pub(crate) no_overwrite: bool,
}

/// Reads a file that [`export`] or `rados export` wrote.
pub(crate) async fn import(pool: &Pool, file: &Path, options: ImportOptions) -> Result<(), Failure> {
    let what = || format!("import {}", file.display());
    let source: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(file).context(what)?),
    };
    let mut reader = DumpReader::new(BufReader::with_capacity(1 << 20, source)).context(what)?;
    if reader.read().context(what)? != Section::PoolBegin {
        return Err(Failure::new(what(), "it is the export of a placement group, not of a pool"));
    }
    loop {
        match reader.read().context(what)? {
            Section::PoolEnd => return Ok(()),
            Section::Object(object) => {
                let ioctx = pool.ioctx.with_namespace(object.nspace).with_locator(object.key);
                let name = String::from_utf8_lossy(&object.oid).into_owned();
                let writes = begin(&ioctx, &object.oid, &name, options)
                    .await
                    .context(|| pool.names("import", &name))?;
                loop {
                    let section = reader.read().context(what)?;
                    match section {
                        Section::ObjectEnd => break,
                        Section::PoolBegin | Section::PoolEnd | Section::Object(_) => {
                            return Err(Failure::new(what(), format!("object {name} does not end")));
                        }
                        _ => {}
                    }
                    if let Some(op) = change(section).filter(|_| writes) {
                        let done = ioctx.operate(object.oid.clone(), op).await;
                        done.context(|| pool.names("import", &name))?;
                    }
                }
            }
            Section::Other(_) => {}
            _ => return Err(Failure::new(what(), "a section that belongs to an object stands alone")),
        }
    }
}

/// Replaces the object with an empty one, and reports it. Returns `true` if the object must be filled.
async fn begin(ioctx: &IoCtx, oid: &[u8], name: &str, options: ImportOptions) -> Result<bool, Error> {
    let exists = match ioctx.stat(oid).await {
        Err(e) if e.is_not_found() => false,
        found => found.map(|_| true)?,
    };
    let says = match (exists, options.no_overwrite) {
        (false, _) => "Write",
        (true, true) => "Skipping existing",
        (true, false) => "***Overwrite***",
    };
    sayln!("{says} {name}");
    if options.dry_run || (exists && options.no_overwrite) {
        return Ok(false);
    }
    ioctx.operate(oid, anew()).await?;
    Ok(true)
}

/// Replaces any object with an empty one.
fn anew() -> WriteOp {
    // Only an existing object can be removed, so it is created first.
    WriteOp::new().create(false).remove().create(true)
}

/// Returns the change that a section makes to its object.
fn change(section: Section) -> Option<WriteOp> {
    match section {
        Section::Data { offset, bytes } => Some(WriteOp::new().write(offset, bytes)),
        Section::Xattrs(pairs) => Some(with_xattrs(&pairs)),
        Section::OmapHeader(header) if !header.is_empty() => Some(WriteOp::new().set_omap_header(header)),
        Section::Omap(pairs) => Some(WriteOp::new().set_omap(pairs)),
        _ => None,
    }
}

/// Sets users' attributes, whose names have an underscore before them in stores. The store's own
/// attributes are left out.
fn with_xattrs(pairs: &BTreeMap<Bytes, Bytes>) -> WriteOp {
    let own = pairs.iter().filter_map(|(name, value)| Some((name.strip_prefix(b"_")?, value)));
    own.filter(|(name, _)| !name.is_empty())
        .fold(WriteOp::new().create(false), |op, (name, value)| op.set_xattr(name, value))
}

/// Copies all objects of a pool into another one.
pub(crate) async fn copy_pool(pool: &Pool, destination: &IoCtx) -> Result<(), Failure> {
    let what = || format!("cppool {}", pool.name);
    let list = pool.ioctx.objects_of_all_namespaces();
    list.map_err(|e| Failure::new(what(), e))
        .try_for_each_concurrent(OBJECTS_MAX, |object| async move {
            let Some(beginning) = Beginning::of(pool, object).await? else { return Ok(()) };
            let ListedObject { nspace, oid, locator } = beginning.object.clone();
            let name = String::from_utf8_lossy(&oid).into_owned();
            let to = destination.with_namespace(nspace).with_locator(locator);
            let copied = beginning.hand_out(pool, async |section| {
                let op = match section {
                    Section::Object(_) => Some(anew()),
                    part => change(part),
                };
                match op {
                    Some(op) => {
                        to.operate(oid.clone(), op).await.map(drop).context(|| pool.names("cppool", &name))
                    }
                    None => Ok(()),
                }
            });
            copied.await
        })
        .await
}
