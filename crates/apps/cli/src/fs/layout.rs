//! Layouts of files, and of directories for the files that are made in them.

use clap::{Args, Subcommand};
use loligo_fs::{Errno, XattrMode};
use serde_json::{Value, json};

use super::{Mount, named};
use crate::args::{Format, size};
use crate::failure::{Context, Failure};
use crate::name::Name;
use crate::say::say_line;

/// Commands of `loligo fs layout`.
#[derive(Subcommand)]
pub(crate) enum LayoutCommand {
    /// Show the layout of a file, or that of files that are made in a directory.
    Get { path: Name },
    /// Set the layout of a file without data, or of files that are made in a directory from now on. What is
    /// not named stays.
    Set {
        path: Name,
        #[command(flatten)]
        shape: Shape,
    },
    /// Remove a directory's layout: files made in it get that of the directory above.
    Rm { directory: Name },
}

/// The parts of a layout.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Shape {
    /// Bytes in one object before the next one's turn comes.
    #[arg(long, value_parser = size, value_name = "BYTES")]
    stripe_unit: Option<u64>,
    /// Objects that are filled in turn.
    #[arg(long, value_name = "N")]
    stripe_count: Option<u32>,
    /// Bytes of an object at most.
    #[arg(long, value_parser = size, value_name = "BYTES")]
    object_size: Option<u64>,
    /// The pool, one of the file system's.
    #[arg(long, value_name = "NAME")]
    data_pool: Option<String>,
    /// The namespace in the pool.
    #[arg(long, value_name = "NAME")]
    pool_namespace: Option<String>,
}

impl Shape {
    /// Returns the layout as the attribute has it.
    fn text(&self) -> String {
        let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
        let parts = [
            number("stripe_unit", self.stripe_unit),
            number("stripe_count", self.stripe_count.map(u64::from)),
            number("object_size", self.object_size),
            self.data_pool.as_ref().map(|pool| format!("pool={pool}")),
            self.pool_namespace.as_ref().map(|namespace| format!("pool_namespace={namespace}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl LayoutCommand {
    pub(super) async fn run(&self, mount: &Mount) -> Result<(), Failure> {
        match self {
            Self::Get { path } => get(mount, path).await,
            Self::Set { path, shape } => {
                let what = || named("layout set", path);
                let is_dir = mount.fs.stat(path).await.context(what)?.is_dir();
                let attribute = if is_dir { "ceph.dir.layout" } else { "ceph.file.layout" };
                let value = shape.text().into_bytes();
                mount.fs.set_xattr(path, attribute, value, XattrMode::Any).await.context(what)
            }
            Self::Rm { directory } => {
                let removed = mount.fs.remove_xattr(directory, "ceph.dir.layout").await;
                removed.context(|| named("layout rm", directory))
            }
        }
    }
}

async fn get(mount: &Mount, path: &Name) -> Result<(), Failure> {
    let what = || named("layout get", path);
    let found = mount.fs.stat(path).await.context(what)?;
    let layout = if found.is_dir() {
        of_directory(mount, path).await.context(what)?
    } else {
        let text = mount.fs.xattr(path, "ceph.file.layout").await.context(what)?;
        parsed(&String::from_utf8_lossy(&text))
    };
    if mount.format != Format::Plain {
        mount.format.print("layout", "item", &layout);
        return Ok(());
    }
    for name in ["stripe_unit", "stripe_count", "object_size", "pool", "namespace", "source"] {
        let value = &layout[name];
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !value.is_empty() && (name != "source" || found.is_dir()) {
            say_line(&format!("{name}: {value}"));
        }
    }
    Ok(())
}

/// Returns the layout of new files in a directory, and where it comes from.
async fn of_directory(mount: &Mount, path: &Name) -> Result<Value, loligo_fs::Error> {
    match mount.fs.xattr(path, "ceph.dir.layout.json").await {
        Ok(json) => {
            let all: Value = serde_json::from_slice(&json).map_err(|_| Errno::EPROTO)?;
            let source = all["inheritance"].as_str().unwrap_or_default().trim_start_matches('@').to_owned();
            return Ok(json!({
                "stripe_unit": all["stripe_unit"],
                "stripe_count": all["stripe_count"],
                "object_size": all["object_size"],
                "pool": all["pool_name"],
                "namespace": all["pool_namespace"],
                "source": source,
            }));
        }
        // A server of an old release tells only of a directory's own layout.
        Err(e) if [Errno::ENODATA, Errno::EOPNOTSUPP].contains(&e.errno()) => {}
        Err(e) => return Err(e),
    }
    let text = mount.fs.xattr(path, "ceph.dir.layout").await?;
    Ok(parsed(&String::from_utf8_lossy(&text)))
}

/// Takes the attribute's text apart: a layout of the file's, or of the directory's, own.
fn parsed(text: &str) -> Value {
    let of = |name: &str| {
        let mut parts = text.split(' ').filter_map(|part| part.split_once('='));
        parts.find(|(part, _)| *part == name).map(|(_, value)| value).unwrap_or_default()
    };
    let number = |name| of(name).parse::<u64>().unwrap_or(0);
    json!({
        "stripe_unit": number("stripe_unit"),
        "stripe_count": number("stripe_count"),
        "object_size": number("object_size"),
        "pool": of("pool"),
        "namespace": of("pool_namespace"),
        "source": "set",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_set() {
        let none = Shape {
            stripe_unit: None,
            stripe_count: None,
            object_size: None,
            data_pool: None,
            pool_namespace: None,
        };
        let shape = Shape { stripe_count: Some(4), data_pool: Some("data".to_owned()), ..none };
        assert_eq!(shape.text(), "stripe_count=4 pool=data");
    }

    #[test]
    fn the_attribute_is_taken_apart() {
        let layout = parsed("stripe_unit=1 stripe_count=2 object_size=3 pool=p pool_namespace=n");
        assert_eq!((&layout["object_size"], &layout["namespace"]), (&json!(3), &json!("n")));
        assert_eq!(parsed("stripe_unit=1 pool=p")["namespace"], json!(""));
    }
}
