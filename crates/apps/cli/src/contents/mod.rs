//! What a server begins with: `serve --snapshot`, `--load`, `--image`, `--user`, and the key of `LOLIGO_KEY`.
//!
//! Users and the key are the server's own work. Objects and images are written through its own client,
//! before clients are told where the server is. What is there already is left as it is: a server on disk may
//! be started again with the same options.

mod folder;
mod given;
mod write;

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use loligo_conf::{Conf, Environment};
use loligo_rados::{Builder, Rados};
use loligo_server::{Builder as Server, CryptoKey, Handle, Limits};
use loligo_wire::EntityName;

use self::folder::{Files, PoolFolder};
use self::given::{ImageFile, User, Users};
use self::write::{write_image, write_objects};
use crate::carried::progress;
use crate::failure::{Context, Failure};
use crate::name::Name;

/// Threads: one for the network, the other for reading files.
pub(crate) const WORKERS: usize = 2;

/// The variable with the key of `client.admin`. It is no option: others on the machine see those.
const KEY: &str = "LOLIGO_KEY";

/// The pool of an image that names none, where `serve` names none either: the one of `rbd`.
const IMAGES: &str = "rbd";

/// The options.
#[derive(clap::Args)]
pub(crate) struct Contents {
    /// Begin with the state of a file that `loligo server dump` has written: pools, objects, images, users
    /// and settings. With --store disk the directory must be new; a server in memory that had another state
    /// in it keeps its id and the key of client.admin. The other options add to it.
    #[arg(long, value_name = "FILE", env = "LOLIGO_SNAPSHOT")]
    snapshot: Option<PathBuf>,
    /// Begin with the files of this folder: its folders are pools, and the files in them objects, named by
    /// their paths within the pool's folder. What is there already is left as it is. Can be given several
    /// times.
    #[arg(long, value_name = "DIR", env = "LOLIGO_LOAD")]
    load: Vec<PathBuf>,
    /// Begin with an image, [POOL/]NAME, that has a file's contents; without a pool in the first one of -p or
    /// --pools, or else in `rbd`. An image that is there already is left as it is. Can be given several
    /// times.
    #[arg(long, value_name = "NAME=FILE", value_parser = given::image)]
    image: Vec<ImageFile>,
    /// Begin with a user and its capabilities, as `ceph auth get-or-create` makes it: client.app='mon "allow
    /// r" osd "allow rw pool=p"'. The key is in DIR/keyring, beside the administrator's, which LOLIGO_KEY may
    /// give. Can be given several times, and have several lines, a user each.
    #[arg(long, value_name = "NAME=CAPS", value_parser = given::users, env = "LOLIGO_USERS")]
    user: Vec<Users>,
}

/// An image to write.
struct NewImage<'a> {
    pool: &'a str,
    name: &'a Name,
    file: &'a Path,
    bytes: u64,
}

/// What is to be written, after the files were looked at.
pub(crate) struct Plan<'a> {
    folders: Vec<PoolFolder>,
    images: Vec<NewImage<'a>>,
    bytes: u64,
}

impl Contents {
    /// Tells a server its pools, `pools` and those of the contents, and its users.
    pub(crate) fn given_to(&self, server: Server, pools: &[String], plan: &Plan<'_>) -> Server {
        let pools = pools.iter().map(String::as_str).chain(plan.pools());
        let server = pools.fold(server, Server::pool);
        let users = self.user.iter().flat_map(|users| &users.0);
        let server =
            users.fold(server, |server, User { name, caps }| server.user(name.clone(), caps.clone()));
        let server = match self.snapshot.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => server.snapshot(path),
            None => server,
        };
        if plan.is_empty() { server } else { server.conf_later() }
    }

    /// Looks at the files. `pools` are those that the server has in any case.
    pub(crate) fn plan<'a>(&'a self, pools: &'a [String]) -> Result<Plan<'a>, Failure> {
        let limits = Limits::default();
        let mut plan = Plan { folders: Vec::new(), images: Vec::new(), bytes: 0 };
        for folder in &self.load {
            plan.folders.extend(folder::pools(folder)?);
        }
        for file in plan.folders.iter().flat_map(Files::of) {
            let file = file?;
            file.check(&limits)?;
            plan.bytes += file.bytes;
        }
        let first = pools.first().map_or(IMAGES, String::as_str);
        for ImageFile { pool, name, file } in &self.image {
            let what = || format!("--image {name}={}", file.display());
            let found = fs::metadata(file).context(what)?;
            if !found.is_file() {
                return Err(Failure::new(what(), "not a file; 'loligo rbd import' takes pipes and devices"));
            }
            let bytes = found.len();
            plan.images.push(NewImage { pool: pool.as_deref().unwrap_or(first), name, file, bytes });
            plan.bytes += bytes;
        }
        Ok(plan)
    }
}

impl Plan<'_> {
    /// The pools that the contents need.
    pub(crate) fn pools(&self) -> BTreeSet<&str> {
        let of_folders = self.folders.iter().map(|folder| folder.pool.as_str());
        of_folders.chain(self.images.iter().map(|image| image.pool)).collect()
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.images.is_empty()
    }

    /// Writes the contents to a server that runs. Needs a runtime with threads of its own: files are read
    /// while others wait.
    pub(crate) async fn write(&self, server: &Handle) -> Result<(), Failure> {
        let what = || "the server's first contents".to_owned();
        let conf = Conf::parse(server.conf_text(), EntityName::client("admin"), Environment::default());
        let client = Builder::new().conf(conf.context(what)?);
        // Clients may be told an address that this machine itself does not reach, as where a container's
        // ports are forwarded. All daemons listen at one address.
        let here = reached(server.mon_addr().ip());
        let client = client.reroute(move |_, to| SocketAddr::new(here, to.port()));
        let rados = client.connect().await.context(what)?;
        let written = self.write_by(&rados).await;
        rados.shutdown().await;
        written
    }

    async fn write_by(&self, rados: &Rados) -> Result<(), Failure> {
        let bar = progress(Some(self.bytes));
        write_objects(rados, &self.folders, &bar).await?;
        for image in &self.images {
            write_image(rados, image, &bar).await?;
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// Where a program that listens at this address can be reached on its own machine.
fn reached(listens: IpAddr) -> IpAddr {
    match listens {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

/// The administrator's key from the environment. An empty variable is none.
pub(crate) fn admin_key() -> Result<Option<CryptoKey>, Failure> {
    let Some(text) = std::env::var_os(KEY).filter(|text| !text.is_empty()) else { return Ok(None) };
    let hint = "a key is what 'ceph-authtool --gen-print-key' prints, and what a keyring has behind 'key ='";
    let text = text.to_str().ok_or_else(|| Failure::new(KEY, format!("not UTF-8; {hint}")))?;
    let key = text.parse::<CryptoKey>();
    key.map(Some).map_err(|why| Failure::new(KEY, format!("{why}; {hint}")))
}
