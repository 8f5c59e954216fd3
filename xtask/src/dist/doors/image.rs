//! The container image, started as an engine does it: its layers unpacked, its user, its variables, its
//! command.
//!
//! No engine is needed. What only an engine does (networks, volumes, limits) is not tried.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use serde_json::Value;

use crate::Result;
use crate::process::{output_of, succeed};

use super::super::trial::{Ended, devices};
use super::root::{CleanRoot, enter};

/// Starts the image as a server, and has a stock client of another root put an object and get it back.
pub(super) fn try_it(image: &Path, client: &CleanRoot) -> Result<String> {
    let root = Unpacked::new(image)?;
    devices(&root.path, &[("null", "3"), ("zero", "5"), ("random", "8"), ("urandom", "9")])?;
    fs::create_dir_all(root.path.join("proc"))?;
    let mut server = root.start(&["LOLIGO_POOLS=p", "LOLIGO_MON_ADDR=127.0.0.1:0"])?;
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().ok_or("no pipe to the server")?).read_line(&mut line)?;
    if !line.starts_with("ready conf=/data/ceph.conf ") {
        return Err(format!("the server of the image is not ready: {line:?}").into());
    }
    // An engine would mount the volume of the data into both containers.
    succeed(Command::new("cp").arg("-a").arg(root.path.join("data")).arg(client.path()))?;
    let rados = ["rados", "-c", "/data/ceph.conf", "-p", "p"];
    output_of(&mut client.command(&[&rados[..], &["put", "greeting", "/etc/hostname"]].concat()))?;
    let got = output_of(&mut client.command(&[&rados[..], &["get", "greeting", "-"]].concat()))?;
    if got != fs::read_to_string(client.path().join("etc/hostname"))? {
        return Err(format!("a stock client gets {got:?} from the server of the image").into());
    }
    let listed = output_of(&mut client.command(&[&rados[..], &["ls"]].concat()))?;
    fs::remove_dir_all(client.path().join("data"))?;
    Ok(format!("{line}$ rados -c /data/ceph.conf -p p ls\n{listed}"))
}

/// The layers of an image in a folder, which is removed with this.
struct Unpacked {
    path: PathBuf,
    /// The part `config` of the image's configuration.
    config: Value,
}

impl Unpacked {
    /// Unpacks an OCI layout in a tar file, following its digests.
    fn new(image: &Path) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("loligo-image-root.{}", std::process::id()));
        let mut root = Self { path, config: Value::Null };
        fs::create_dir_all(&root.path)?;
        let manifest = json(&entry(image, &blob(&json(&entry(image, "index.json")?)?["manifests"][0])?)?)?;
        for layer in manifest["layers"].as_array().ok_or("the manifest has no layers")? {
            let bytes = entry(image, &blob(layer)?)?;
            let mut archive = tar::Archive::new(GzDecoder::new(&*bytes));
            archive.set_preserve_permissions(true);
            archive.set_preserve_ownerships(true);
            archive.unpack(&root.path)?;
        }
        root.config = json(&entry(image, &blob(&manifest["config"])?)?)?["config"].take();
        Ok(root)
    }

    /// Starts what the image starts, as its user, with its variables and some more.
    fn start(&self, more: &[&str]) -> Result<Ended> {
        let user = format!("--userspec={}", self.config["User"].as_str().ok_or("the image names no user")?);
        let mut started = [words(&self.config["Entrypoint"])?, words(&self.config["Cmd"])?].concat();
        // A container has a network of its own; here the ports of the image may be in use.
        for word in &mut started {
            *word = match *word {
                "6800" => "1024",
                "6809" => "65535",
                other => other,
            };
        }
        let mut command = enter(&self.path, &[&user], &started);
        // The image's PATH is for programs in it; the ones that enter it are outside.
        let own = words(&self.config["Env"])?;
        for variable in own.into_iter().filter(|v| !v.starts_with("PATH=")).chain(more.iter().copied()) {
            command.envs(variable.split_once('='));
        }
        Ok(Ended(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?))
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // What is left is in the way of nothing.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A file of the layout.
fn entry(image: &Path, name: &str) -> Result<Vec<u8>> {
    let mut archive = tar::Archive::new(fs::File::open(image)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.path()?.as_ref() == Path::new(name) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            return Ok(bytes);
        }
    }
    Err(format!("{} has no {name}", image.display()).into())
}

/// The name of the file that a descriptor points to.
fn blob(descriptor: &Value) -> Result<String> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    Ok(format!("blobs/sha256/{}", digest.ok_or("a descriptor has no digest of SHA-256")?))
}

fn json(bytes: &[u8]) -> Result<Value> {
    Ok(serde_json::from_slice(bytes)?)
}

fn words(list: &Value) -> Result<Vec<&str>> {
    let list = list.as_array().ok_or("the image's configuration lacks a list of words")?;
    list.iter().map(|word| word.as_str().ok_or_else(|| "a word is no text".into())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::image;
    use super::*;

    #[test]
    fn an_image_is_unpacked_by_its_digests() {
        let place = std::env::temp_dir().join(format!("loligo-unpacked-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a folder");
        fs::write(place.join("program"), "the program").expect("written");
        let image = place.join("image.tar");
        image::write(&place.join("program"), &image).expect("an image");
        let index = json(&entry(&image, "index.json").expect("an index")).expect("JSON");
        let manifest = entry(&image, &blob(&index["manifests"][0]).expect("a name")).expect("a manifest");
        let config = blob(&json(&manifest).expect("JSON")["config"]).expect("a name");
        let config = json(&entry(&image, &config).expect("a configuration")).expect("JSON");
        assert_eq!(words(&config["config"]["Entrypoint"]).expect("words"), ["/loligo"]);
        assert!(entry(&image, "blobs/sha256/none").is_err());
        fs::remove_dir_all(&place).expect("removed");
    }
}
