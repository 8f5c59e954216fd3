//! Lists directories, and shows what is known of files.

use loligo_fs::{FileType, Metadata, UTime};
use serde_json::{Value, json};

use super::args::Kind;
use super::{Mount, named, tree};
use crate::args::Format;
use crate::failure::{Context, Failure};
use crate::name::{Name, shown, text};
use crate::say::say_line;
use crate::table;

pub(super) async fn list(mount: &Mount, paths: &[Name], long: bool) -> Result<(), Failure> {
    let root = [Name::from("/")];
    let paths = if paths.is_empty() { &root } else { paths };
    let mut all = Vec::new();
    for path in paths {
        let what = || named("ls", path);
        let metadata = mount.fs.stat(path).await.context(what)?;
        let mut found = Vec::new();
        if metadata.is_dir() {
            let entries = mount.fs.read_dir(path).await.context(what)?.all().await.context(what)?;
            found.extend(entries.into_iter().map(|entry| (entry.name, entry.metadata)));
            found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        } else {
            found.push((path.as_bytes().to_vec(), metadata));
        }
        if mount.format != Format::Plain {
            all.extend(found.iter().map(|(name, metadata)| described(mount, name, metadata)));
            continue;
        }
        if paths.len() > 1 {
            say_line(&format!("{}:", shown(path)));
        }
        if long {
            let rows: Vec<_> = found.iter().map(|(name, metadata)| row(name, metadata)).collect();
            let right = [false, true, true, true, true, false, false];
            table::lines(right, &rows).iter().for_each(|line| say_line(line.trim_end()));
        } else {
            found.iter().for_each(|(name, _)| say_line(&shown(name)));
        }
    }
    if mount.format != Format::Plain {
        mount.format.print("entries", "entry", &Value::from(all));
    }
    Ok(())
}

pub(super) async fn stat(mount: &Mount, paths: &[Name], link: bool) -> Result<(), Failure> {
    let mut all = Vec::new();
    for path in paths {
        let metadata = match link {
            true => mount.fs.lstat(path).await,
            false => mount.fs.stat(path).await,
        };
        let metadata = metadata.context(|| named("stat", path))?;
        all.push(described(mount, path.as_bytes(), &metadata));
        if mount.format == Format::Plain {
            say_line(&format!(
                "{}: {} {} inode {} links {} owner {}:{} mtime {}, size {}",
                shown(path),
                kind(metadata.file_type()),
                permissions(&metadata),
                metadata.ino.0,
                metadata.nlink,
                metadata.uid,
                metadata.gid,
                metadata.mtime,
                metadata.size
            ));
        }
    }
    match mount.format {
        Format::Plain => {}
        format => format.print("files", "file", &Value::from(all)),
    }
    Ok(())
}

pub(super) async fn usage(mount: &Mount, paths: &[Name]) -> Result<(), Failure> {
    let root = [Name::from("/")];
    let paths = if paths.is_empty() { &root } else { paths };
    let mut all = Vec::new();
    for path in paths {
        let found = mount.fs.statistics(path).await.context(|| named("du", path))?;
        let (bytes, files, dirs) = match found.is_dir() {
            true => (found.recursive.bytes, found.recursive.files, found.recursive.subdirs),
            false => (found.size, 1, 0),
        };
        match mount.format {
            Format::Plain => {
                say_line(&format!("{bytes}\t{files} files\t{dirs} directories\t{}", shown(path)))
            }
            _ => all.push(json!({"path": text(path), "bytes": bytes, "files": files, "directories": dirs})),
        }
    }
    if mount.format != Format::Plain {
        mount.format.print("directories", "directory", &Value::from(all));
    }
    Ok(())
}

pub(super) async fn find(
    mount: &Mount,
    dir: &Name,
    pattern: Option<&Name>,
    wanted: Option<Kind>,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for found in tree::below(mount, dir).await? {
        let name = found.below.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let is_kind = wanted.is_none_or(|wanted| {
            found.metadata.file_type()
                == match wanted {
                    Kind::File => FileType::Regular,
                    Kind::Directory => FileType::Directory,
                    Kind::Link => FileType::Symlink,
                }
        });
        if !is_kind || pattern.is_some_and(|pattern| !tree::matches(pattern, name)) {
            continue;
        }
        match mount.format {
            Format::Plain => say_line(&shown(&found.path)),
            _ => all.push(described(mount, &found.path, &found.metadata)),
        }
    }
    if mount.format != Format::Plain {
        mount.format.print("entries", "entry", &Value::from(all));
    }
    Ok(())
}

pub(super) async fn xattrs(mount: &Mount, path: &Name) -> Result<(), Failure> {
    let names = mount.fs.xattrs(path).await.context(|| named("listxattr", path))?;
    match mount.format {
        Format::Plain => names.iter().for_each(|name| say_line(&shown(name))),
        format => {
            let names = names.iter().map(|name| json!({"name": text(name)}));
            format.print("xattrs", "xattr", &Value::from_iter(names));
        }
    }
    Ok(())
}

/// Describes a file for programs.
fn described(mount: &Mount, name: &[u8], metadata: &Metadata) -> Value {
    let time = |time: UTime| format!("{time}");
    let mut all = json!({
        "name": text(name),
        "type": kind(metadata.file_type()),
        "inode": metadata.ino.0,
        "mode": format!("{:o}", metadata.permissions()),
        "uid": metadata.uid,
        "gid": metadata.gid,
        "links": metadata.nlink,
        "size": metadata.size,
        "mtime": time(metadata.mtime),
        "ctime": time(metadata.ctime),
        "btime": time(metadata.btime),
    });
    if metadata.is_file() {
        let layout = &metadata.layout;
        let pools = mount.fs.rados().pools();
        let pool = pools.into_iter().find(|(id, _)| *id == layout.pool);
        all["layout"] = json!({
            "stripe_unit": layout.stripe_unit,
            "stripe_count": layout.stripe_count,
            "object_size": layout.object_size,
            "pool": pool.map_or_else(|| layout.pool.to_string(), |(_, name)| name),
            "namespace": text(&layout.namespace),
        });
    }
    if metadata.is_dir() {
        all["entries"] = metadata.entries.into();
        all["recursive"] = json!({
            "bytes": metadata.recursive.bytes,
            "files": metadata.recursive.files,
            "directories": metadata.recursive.subdirs,
        });
    }
    all
}

/// A line of a long list.
fn row(name: &[u8], metadata: &Metadata) -> [String; 7] {
    [
        permissions(metadata),
        metadata.nlink.to_string(),
        metadata.uid.to_string(),
        metadata.gid.to_string(),
        metadata.size.to_string(),
        metadata.mtime.to_string(),
        shown(name),
    ]
}

/// Type and permissions as `ls -l` shows them.
fn permissions(metadata: &Metadata) -> String {
    let mode = metadata.mode;
    let mut text = String::from(metadata.file_type().letter());
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::BlockDevice => "block device",
        FileType::CharDevice => "character device",
    }
}
