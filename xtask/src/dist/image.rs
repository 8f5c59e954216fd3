//! The container image: the program and nothing else, as an OCI layout in a tar file.
//!
//! `podman load`, `docker load` (25 and later) and `skopeo copy oci-archive:…` take it; no daemon makes it.
//! Form: <https://github.com/opencontainers/image-spec>, version 1.1.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::Result;

use super::sums::sha256;
use super::tarball::{Tarball, compressed};

/// The user that the program runs as; no image needs root.
const USER: u64 = 65_532;

/// Where the server keeps what it has: a volume.
const DATA: &str = "/data";

/// One file of the layout.
struct Blob {
    media_type: &'static str,
    bytes: Vec<u8>,
}

impl Blob {
    fn json(media_type: &'static str, value: &Value) -> Result<Self> {
        Ok(Self { media_type, bytes: serde_json::to_vec(value)? })
    }

    fn name(&self) -> String {
        sha256(&self.bytes)
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": format!("sha256:{}", self.name()),
            "size": self.bytes.len(),
        })
    }
}

/// Writes the image of a program into one tar file.
pub(super) fn write(program: &Path, image: &Path) -> Result<()> {
    let root = root_file_system(&fs::read(program)?)?;
    let layer = Blob { media_type: "application/vnd.oci.image.layer.v1.tar+gzip", bytes: compressed(&root)? };
    let config = Blob::json("application/vnd.oci.image.config.v1+json", &configuration(&sha256(&root))?)?;
    let manifest = Blob::json(
        "application/vnd.oci.image.manifest.v1+json",
        &json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        }),
    )?;
    let mut named = manifest.descriptor();
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": "latest" });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [named],
    });
    let mut tar = Tarball::new();
    tar.file("oci-layout", 0o644, 0, &serde_json::to_vec(&json!({ "imageLayoutVersion": "1.0.0" }))?)?;
    tar.file("index.json", 0o644, 0, &serde_json::to_vec(&index)?)?;
    for blob in [&config, &layer, &manifest] {
        tar.file(&format!("blobs/sha256/{}", blob.name()), 0o644, 0, &blob.bytes)?;
    }
    Ok(fs::write(image, tar.finish()?)?)
}

/// What is in the container: the program, the name of its user, a folder for its data and one for what is
/// written for a moment.
fn root_file_system(program: &[u8]) -> Result<Vec<u8>> {
    let mut tar = Tarball::new();
    tar.file("loligo", 0o755, 0, program)?;
    tar.folder("etc/", 0o755, 0)?;
    tar.file("etc/passwd", 0o644, 0, format!("loligo:x:{USER}:{USER}::{DATA}:/loligo\n").as_bytes())?;
    tar.file("etc/group", 0o644, 0, format!("loligo:x:{USER}:\n").as_bytes())?;
    tar.folder("data/", 0o700, USER)?;
    tar.folder("tmp/", 0o1777, 0)?;
    tar.finish()
}

fn configuration(layer: &str) -> Result<Value> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(format!("no image for {other}: its name in images is not known here").into()),
    };
    Ok(json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": ["/loligo"],
            "Cmd": ["serve", "--ms-bind-port-min", "6800", "--ms-bind-port-max", "6809"],
            "Env": [
                "PATH=/",
                format!("LOLIGO_DATA={DATA}"),
                "LOLIGO_STORE=memory",
                "LOLIGO_MON_ADDR=0.0.0.0:3300",
                format!("CEPH_CONF={DATA}/ceph.conf"),
            ],
            "ExposedPorts": { "3300/tcp": {}, "6800/tcp": {} },
            "Volumes": { DATA: {} },
            "WorkingDir": DATA,
            "StopSignal": "SIGTERM",
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::Read;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    fn entries(bytes: &[u8]) -> HashMap<String, (u32, Vec<u8>)> {
        let mut archive = Archive::new(bytes);
        let read = |entry: std::io::Result<tar::Entry<&[u8]>>| {
            let mut entry = entry.expect("an entry");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("read");
            let name = entry.path().expect("a name").display().to_string();
            (name, (entry.header().mode().expect("a mode"), bytes))
        };
        archive.entries().expect("entries").map(read).collect()
    }

    /// Follows the image as a container engine does, by its digests, to the program.
    #[test]
    fn an_engine_finds_the_program_by_the_digests() {
        let place = std::env::temp_dir().join(format!("loligo-image-{}", std::process::id()));
        fs::create_dir_all(&place).expect("a folder");
        fs::write(place.join("program"), "the program").expect("written");
        let image = place.join("image.tar");
        write(&place.join("program"), &image).expect("an image");
        let bytes = fs::read(&image).expect("the image");
        write(&place.join("program"), &image).expect("an image");
        assert_eq!(bytes, fs::read(&image).expect("the image"), "two runs make one image");
        fs::remove_dir_all(&place).expect("removed");

        let files = entries(&bytes);
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().expect("a digest");
            let digest = digest.strip_prefix("sha256:").expect("sha256");
            let (_, bytes) = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(descriptor["size"], bytes.len());
            assert_eq!(sha256(bytes), digest);
            bytes.clone()
        };
        let index: Value = serde_json::from_slice(&files["index.json"].1).expect("JSON");
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).expect("JSON");
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).expect("JSON");
        assert_eq!(config["config"]["User"], "65532:65532");
        let mut layer = Vec::new();
        GzDecoder::new(&*blob(&manifest["layers"][0])).read_to_end(&mut layer).expect("gzip");
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
        let root = entries(&layer);
        assert_eq!(root["loligo"], (0o755, b"the program".to_vec()));
        assert_eq!(root["data/"].0, 0o700);
    }
}
