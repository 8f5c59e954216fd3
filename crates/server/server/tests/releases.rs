//! Goal: programs of each release of Ceph use this server, with keys of each type that they can read,
//! and our client uses a cluster of each release. Method: the release is that of the cluster in
//! `LOLIGO_STOCK_DIR`. Its programs, run by chroot in their folder unless they are the machine's own,
//! perform the first steps of a user on our server; our client performs them on that cluster.
//! `cargo xtask test --all-releases` runs this with 16.2, 18.2 and 20.2.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

use loligo_msgr::testing::{FaultProxies, FaultProxy};
use loligo_rados::Builder;
use loligo_server::{Handle, KeyType, Method, Server};
use loligo_wire::EntityType;

/// A release's programs.
struct Release {
    root: PathBuf,
    /// A directory that has the same path inside and outside of the chroot.
    dir: PathBuf,
    /// The version that the programs print: `16.2.15`.
    version: String,
}

impl Release {
    fn of_the_cluster() -> Self {
        let dir = PathBuf::from(env::var_os("LOLIGO_STOCK_DIR").expect("LOLIGO_STOCK_DIR is set"));
        let root = PathBuf::from(
            fs::read_to_string(dir.join("root")).expect("the cluster says where its programs are"),
        );
        let mut release = Self { root, dir, version: String::new() };
        let said = release.run("ceph", &["--version"]);
        release.version = said.split(' ').nth(2).expect("ceph version X").to_owned();
        release
    }

    /// The standard output of a program that must succeed.
    fn run(&self, program: &str, args: &[&str]) -> String {
        let mut command = match self.root == Path::new("/") {
            true => Command::new("timeout"),
            false => {
                let mut command = Command::new("chroot");
                command.arg(&self.root).arg("timeout");
                command
            }
        };
        let out = command.arg("60").arg(program).args(args).output().expect("it runs");
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{program} {args:?} of {}: {errors}", self.version);
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    /// The key types that the release's programs can read: `aes256k` came with 19.2.6 and 20.2.4.
    fn key_types(&self) -> &'static [KeyType] {
        let numbers: Vec<u32> = self.version.split('.').filter_map(|n| n.parse().ok()).collect();
        let new = numbers >= vec![20, 2, 4] || (numbers[0] == 19 && numbers >= vec![19, 2, 6]);
        if new { &[KeyType::Aes, KeyType::Aes256k] } else { &[KeyType::Aes] }
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("UTF-8").to_owned()
    }
}

/// A server whose directory is visible to the release's programs.
struct Ours {
    _server: Handle,
    dir: PathBuf,
}

impl Ours {
    fn start(release: &Release, cipher: KeyType) -> Self {
        let dir = release.dir.join(format!("ours-{}", cipher.as_str()));
        let server = Server::memory().data_dir(&dir).pool("p").auth_cipher(cipher).start();
        Self { _server: server.expect("it starts"), dir }
    }

    /// The arguments of the programs: file names in the server's configuration are those outside of the
    /// chroot.
    fn args(&self, mode: &str) -> Vec<String> {
        let file = |name| self.dir.join(name).to_str().expect("UTF-8").to_owned();
        [
            "-c",
            &file("ceph.conf"),
            "--keyring",
            &file("keyring"),
            "--ms_client_mode",
            mode,
            "--ms_mon_client_mode",
            mode,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn its_programs_use_this_server() {
    let release = Release::of_the_cluster();
    let content: Vec<u8> = (0..5_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(release.file("from"), &content).expect("a file");
    for cipher in release.key_types() {
        let ours = Ours::start(&release, *cipher);
        for mode in ["crc", "secure"] {
            let how = ours.args(mode);
            let run = |program: &str, args: &[&str]| {
                let args: Vec<&str> = how.iter().map(String::as_str).chain(args.iter().copied()).collect();
                release.run(program, &args)
            };
            assert!(run("ceph", &["health"]).starts_with("HEALTH_OK"));
            run("rados", &["-p", "p", "put", "o", &release.file("from")]);
            run("rados", &["-p", "p", "get", "o", &release.file("to")]);
            assert!(fs::read(release.file("to")).expect("it is there") == content, "{cipher:?}, {mode}");
            let image = format!("p/{mode}");
            run("rbd", &["create", "--size", "8M", &image]);
            run("rbd", &["snap", "create", &format!("{image}@s")]);
            run("rbd", &["snap", "protect", &format!("{image}@s")]);
            run("rbd", &["clone", &format!("{image}@s"), &format!("{image}-clone")]);
            assert!(run("rbd", &["ls", "p"]).lines().any(|name| name == format!("{mode}-clone")));
            // A separate user, with a key of the server's type.
            let user = format!("client.{mode}");
            let ring =
                run("ceph", &["auth", "get-or-create", &user, "mon", "allow r", "osd", "allow r pool=p"]);
            fs::write(release.file("user"), ring).expect("a file");
            assert_eq!(key_type_of(&release.file("user")), *cipher);
            let user_args = ["-n", &user, "--keyring", &release.file("user"), "-p", "p", "stat", "o"];
            assert!(run("rados", &user_args).contains("size 5000000"));
        }
        drop(ours);
    }
}

/// The type of the only key in a keyring.
fn key_type_of(file: &str) -> KeyType {
    let ring = loligo_conf::read_keyring(Path::new(file)).expect("a keyring");
    let (_, entry) = ring.iter().next().expect("an entry");
    entry.key.kind()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_key_of_each_type_can_be_asked_for() {
    let release = Release::of_the_cluster();
    if release.key_types().len() < 2 {
        // The release's `ceph` could not read the reply.
        return;
    }
    let ours = Ours::start(&release, KeyType::Aes);
    let how = ours.args("crc");
    let run = |args: &[&str]| {
        let args: Vec<&str> = how.iter().map(String::as_str).chain(args.iter().copied()).collect();
        release.run("ceph", &args)
    };
    for (user, cipher) in [("client.one", KeyType::Aes), ("client.other", KeyType::Aes256k)] {
        let ring = run(&["auth", "get-or-create", user, "mon", "allow r", "--key-type", cipher.as_str()]);
        fs::write(release.file("user"), ring).expect("a file");
        assert_eq!(key_type_of(&release.file("user")), cipher);
        run(&["-n", user, "--keyring", &release.file("user"), "fsid"]);
        let ring = run(&["auth", "rotate", user, "--key-type", KeyType::Aes256k.as_str()]);
        fs::write(release.file("user"), ring).expect("a file");
        assert_eq!(key_type_of(&release.file("user")), KeyType::Aes256k);
        run(&["-n", user, "--keyring", &release.file("user"), "fsid"]);
    }
}

#[tokio::test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn our_client_uses_its_cluster() {
    let release = Release::of_the_cluster();
    let content: Vec<u8> = (0..5_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for mode in ["crc", "secure"] {
        let builder = Builder::new().conf_file(&release.file("ceph.conf"));
        let builder = builder.set("ms_client_mode", mode).set("ms_mon_client_mode", mode);
        let rados = builder.connect().await.expect("it connects");
        let ioctx = rados.ioctx("p").await.expect("the pool");
        ioctx.write_full("ours", content.clone().into()).await.expect("it is written");
        let read = ioctx.read("ours", 0, content.len() as u64 + 1).await.expect("it is read");
        assert!(read == content, "{mode}");
        ioctx.remove("ours").await.expect("it is removed");
        rados.shutdown().await;
    }
}

/// Stock OSDs compress only their traffic to OSDs, so the client poses as one. OSDs of 16.2 do not know
/// compression. The client does not compress its messages: an OSD of 18.2.7 would fail an assertion,
/// since its throttle takes the length on the wire and returns the uncompressed one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn what_stock_osds_compress_is_read() {
    const LEN: usize = 4 << 20;
    let release = Release::of_the_cluster();
    let conf = release.file("ceph.conf");
    let text: Vec<u8> = b"what is said again and again ".iter().copied().cycle().take(LEN).collect();
    let admin = Builder::new().conf_file(&conf).connect().await.expect("connects");
    let set = |name: &str, value: &str| {
        let command = serde_json::json!({"prefix": "config set", "who": "osd", "name": name, "value": value});
        let admin = admin.clone();
        async move { admin.mon_command(&command.to_string(), Default::default()).await }
    };
    let knows = set("ms_osd_compress_mode", "force").await.is_ok();
    assert_eq!(knows, !release.version.starts_with("16."));
    if knows {
        set("ms_osd_compression_algorithm", "snappy zlib zstd lz4").await.expect("known");
        set("ms_compress_secure", "true").await.expect("known");
    }
    admin.ioctx("p").await.expect("the pool").write_full("text", text.clone().into()).await.expect("written");
    for method in Method::ALL {
        for mode in ["crc", "secure"] {
            let proxies = Arc::new(FaultProxies::new(1, u64::MAX, 0));
            let through = Arc::clone(&proxies);
            let builder = Builder::new()
                .conf_file(&conf)
                .set("ms_client_mode", mode)
                .set("ms_osd_compress_mode", "force")
                .set("ms_osd_compression_algorithm", method.name())
                .set("ms_osd_compress_min_size", "1G")
                .set("ms_compress_secure", "true")
                .set("rados_osd_op_timeout", "30")
                .reroute(move |kind, to| if kind == EntityType::OSD { through.route(to) } else { to });
            let rados = builder.masquerade(EntityType::OSD).connect().await.expect("connects");
            let pool = rados.ioctx("p").await.expect("the pool");
            assert_eq!(pool.read("text", 0, 0).await.expect("read"), text);
            let carried = proxies.sum(FaultProxy::carried);
            assert_eq!(carried < LEN as u64 / 4, knows, "{method:?}, {mode}: {carried}");
        }
    }
    // A client that offers compression without posing as an OSD is not refused.
    let client = Builder::new().conf_file(&conf).set("ms_osd_compress_mode", "force");
    let pool = client.connect().await.expect("connects").ioctx("p").await.expect("the pool");
    assert_eq!(pool.read("text", 0, 0).await.expect("read"), text);
}
