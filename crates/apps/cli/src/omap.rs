//! Commands on objects' maps, named as `rados` names them.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Subcommand;
use futures_util::TryStreamExt as _;
use loligo_rados::Errno;
use serde_json::json;

use crate::client::{Client, Pool};
use crate::failure::{Context, Failure};
use crate::format::Format;
use crate::name::{self, Name};
use crate::stdio::{given_or_read, print_bytes, print_lines};

/// Commands on an object's map.
#[derive(Subcommand)]
pub(crate) enum OmapCommand {
    /// List the keys of an object's map.
    Listomapkeys { object: Name },
    /// Show the keys and values of an object's map.
    Listomapvals { object: Name },
    /// Show the value of a key of an object's map.
    Getomapval {
        object: Name,
        /// A key, and a file to which its value is written; - is standard output.
        #[arg(value_names = ["KEY", "FILE"], num_args = 0..=2)]
        words: Vec<Name>,
        /// Read the key from this file, and not from the command line.
        #[arg(long, value_name = "FILE")]
        omap_key_file: Option<PathBuf>,
    },
    /// Set a key of an object's map; without VALUE it is read from standard input.
    Setomapval {
        object: Name,
        /// A key, and its value.
        #[arg(value_names = ["KEY", "VALUE"], num_args = 0..=2)]
        words: Vec<Name>,
        /// Read the key from this file, and not from the command line.
        #[arg(long, value_name = "FILE")]
        omap_key_file: Option<PathBuf>,
        /// Read the value from this file.
        #[arg(long, value_name = "FILE")]
        input_file: Option<PathBuf>,
    },
    /// Remove keys of an object's map.
    Rmomapkey {
        object: Name,
        #[arg(required_unless_present = "omap_key_file")]
        keys: Vec<Name>,
        /// Read a key from this file.
        #[arg(long, value_name = "FILE")]
        omap_key_file: Option<PathBuf>,
    },
    /// Show the header of an object's map.
    Getomapheader {
        object: Name,
        /// Write it to this file; - is standard output.
        file: Option<PathBuf>,
    },
    /// Set the header of an object's map; without VALUE it is read from standard input.
    Setomapheader { object: Name, value: Option<Name> },
    /// Remove all keys and the header of an object's map.
    Clearomap { object: Name },
}

pub(crate) fn run(client: Client, command: &OmapCommand) -> Result<(), Failure> {
    client.in_pool(async |pool| one(pool, command).await)
}

async fn one(pool: &Pool, command: &OmapCommand) -> Result<(), Failure> {
    let io = &pool.ioctx;
    match command {
        OmapCommand::Listomapkeys { object } => list_keys(pool, object).await,
        OmapCommand::Listomapvals { object } => list_values(pool, object).await,
        OmapCommand::Getomapval { object, words, omap_key_file } => {
            let (key, file) = key_and(words, omap_key_file.as_deref())?;
            let what = || format!("{} {key}", pool.names("getomapval", object));
            let found = io.omap_values(object.as_bytes(), [&key]).await.context(what)?;
            let value = found.into_values().next();
            let value = value.ok_or_else(|| Failure::of(Errno::ENOENT, what(), "there is no such key"))?;
            show(pool, "value", &value, file.map(Name::as_path))
        }
        OmapCommand::Setomapval { object, words, omap_key_file, input_file } => {
            let (key, value) = key_and(words, omap_key_file.as_deref())?;
            let value = match (input_file, value) {
                (Some(_), Some(_)) => return Err(Failure::new("setomapval", "has two values")),
                (Some(file), None) => read(file)?,
                (None, value) => given_or_read(value)?,
            };
            let done = io.set_omap(object.as_bytes(), [(&key, Bytes::from(value))]).await;
            done.context(|| format!("{} {key}", pool.names("setomapval", object)))
        }
        OmapCommand::Rmomapkey { object, keys, omap_key_file } => {
            let of_file = omap_key_file.as_deref().map(read).transpose()?;
            let keys = keys.iter().cloned().chain(of_file.map(Name::from));
            let done = io.remove_omap_keys(object.as_bytes(), keys).await;
            done.context(|| pool.names("rmomapkey", object))
        }
        OmapCommand::Getomapheader { object, file } => {
            let header = io.omap_header(object.as_bytes()).await;
            show(pool, "header", &header.context(|| pool.names("getomapheader", object))?, file.as_deref())
        }
        OmapCommand::Setomapheader { object, value } => {
            let header = Bytes::from(given_or_read(value.as_ref())?);
            let done = io.set_omap_header(object.as_bytes(), header).await;
            done.context(|| pool.names("setomapheader", object))
        }
        OmapCommand::Clearomap { object } => {
            io.clear_omap(object.as_bytes()).await.context(|| pool.names("clearomap", object))
        }
    }
}

/// Returns the key, which is read from `file` if there is one, and the word after it.
fn key_and<'a>(words: &'a [Name], file: Option<&Path>) -> Result<(Name, Option<&'a Name>), Failure> {
    match (words, file) {
        ([], Some(file)) => Ok((read(file)?.into(), None)),
        ([word], Some(file)) => Ok((read(file)?.into(), Some(word))),
        ([key], None) => Ok((key.clone(), None)),
        ([key, word], None) => Ok((key.clone(), Some(word))),
        ([], None) => Err(Failure::new("key", "not given; name it, or a file with --omap-key-file")),
        _ => Err(Failure::new("key", "given twice, on the command line and with --omap-key-file")),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).context(|| format!("read {}", file.display()))
}

async fn list_keys(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let mut after = Bytes::new();
    let mut all = Vec::new();
    loop {
        let page = pool.ioctx.omap_keys(object.as_bytes(), &after, u64::MAX).await;
        let page = page.context(|| pool.names("listomapkeys", object))?;
        match pool.format {
            Format::Plain => print_lines(page.keys.iter())?,
            _ => all.extend(page.keys.iter().map(|key| name::text(key))),
        }
        match page.keys.into_iter().next_back() {
            Some(last) if page.more => after = last,
            _ => break,
        }
    }
    if pool.format != Format::Plain {
        pool.format.print("keys", "key", &json!(all));
    }
    Ok(())
}

async fn list_values(pool: &Pool, object: &Name) -> Result<(), Failure> {
    let mut pairs = pool.ioctx.omap(object.as_bytes(), "");
    let mut all = Vec::new();
    while let Some((key, value)) = pairs.try_next().await.context(|| pool.names("listomapvals", object))? {
        match pool.format {
            Format::Plain => {
                print_bytes(&key_line(&key))?;
                show(pool, "value", &value, None)?;
            }
            _ => all.push(json!({"key": name::text(&key), "value": hex(&value)})),
        }
    }
    if pool.format != Format::Plain {
        pool.format.print("pairs", "pair", &json!(all));
    }
    Ok(())
}

/// Formats a key as it is, or as `rados` does if it has more than printable ASCII.
fn key_line(key: &[u8]) -> Vec<u8> {
    match key.iter().all(|byte| (b' '..0x7f).contains(byte)) {
        true => [key, b"\n"].concat(),
        false => format!("key ({} bytes):\n{}\n", key.len(), dump(key)).into_bytes(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Prints bytes in the form of `rados`, or writes them unchanged to a file.
fn show(pool: &Pool, what: &str, bytes: &[u8], file: Option<&Path>) -> Result<(), Failure> {
    match file {
        Some(file) if file == Path::new("-") => print_bytes(bytes),
        Some(file) => fs::write(file, bytes).context(|| format!("write {}", file.display())),
        None if pool.format != Format::Plain => {
            pool.format.print("omap", "item", &json!({what: hex(bytes)}));
            Ok(())
        }
        None => print_bytes(format!("{what} ({} bytes) :\n{}\n", bytes.len(), dump(bytes)).as_bytes()),
    }
}

/// Bytes in a line of `dump`.
const WIDTH: usize = 16;

/// Formats sixteen bytes a line: offset, hexadecimal, text. The last line is the length. A star replaces
/// repeated lines.
pub(crate) fn dump(bytes: &[u8]) -> String {
    let mut shown = String::new();
    let mut before: Option<&[u8]> = None;
    let mut starred = false;
    for (n, line) in bytes.chunks(WIDTH).enumerate() {
        if before == Some(line) && line.len() == WIDTH {
            if !starred {
                shown.push_str("*\n");
            }
            starred = true;
            continue;
        }
        (before, starred) = (Some(line), false);
        let mut columns = String::new();
        for (column, byte) in line.iter().enumerate() {
            columns.push_str(if column == WIDTH / 2 { "  " } else { " " });
            columns.push_str(&format!("{byte:02x}"));
        }
        let printable = |byte: &u8| if (b' '..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = line.iter().map(printable).collect();
        shown.push_str(&format!("{:08x} {columns:<49}  |{text}|\n", n * WIDTH));
    }
    shown.push_str(&format!("{:08x}\n", bytes.len()));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_rados_shows_them() {
        let two = "00000000  76 31                                             |v1|\n00000002\n";
        assert_eq!(dump(b"v1"), two);
        let line = "00000000  61 20 6c 6f 6e 67 20 76  61 6c 75 65 20 6f 66 20  |a long value of |\n";
        assert!(dump(b"a long value of several").starts_with(line));
        assert_eq!(dump(&[0; 48]).lines().count(), 3);
        assert_eq!(dump(b""), "00000000\n");
    }
}
