//! `loligo nbd` beside stock clients: libnbd's nbdinfo and nbdcopy, qemu's tools, fio, and certificates
//! of gnutls. The exports are files and memory of this machine, and objects of a server of our own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::{env, fs};

use loligo_server::Server;
use serde_json::Value;

const LOLIGO: &str = env!("CARGO_BIN_EXE_loligo");

/// A gateway with a directory of its own.
struct Gateway {
    child: Child,
    dir: PathBuf,
    ready: String,
}

impl Gateway {
    fn folder(what: &str) -> PathBuf {
        let dir = env::temp_dir().join(format!("loligo-nbd-{what}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        dir
    }

    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(LOLIGO);
        command.current_dir(dir).env_remove("CEPH_ARGS").args([
            "nbd",
            "serve",
            "--unix",
            "s",
            "--control",
            "c",
        ]);
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().expect("it can be run");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut ready).expect("text");
        assert!(ready.starts_with("ready "), "{ready}");
        Self { child, dir: dir.to_owned(), ready }
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        Command::new(program).current_dir(&self.dir).args(args).output().expect("it is installed")
    }

    fn done(&self, program: &str, args: &[&str]) -> String {
        let output = self.run(program, args);
        let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{program} {args:?}: {said}{why}");
        said.into_owned()
    }

    /// Runs a control command. Returns its output.
    fn word(&self, args: &[&str]) -> String {
        self.done(LOLIGO, &[&["nbd", args[0], "c"], &args[1..]].concat())
    }

    fn refused(&self, args: &[&str]) -> String {
        let output = self.run(LOLIGO, &[&["nbd", args[0], "c"], &args[1..]].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    /// Returns the TCP port on which it listens.
    fn port(&self) -> &str {
        let place = self.ready.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split(' ').next());
        place.expect("a port")
    }

    fn list(&self) -> Vec<Value> {
        serde_json::from_str(&self.word(&["ls", "--format", "json"])).expect("JSON")
    }

    fn stop(self) {
        let dir = self.dir.clone();
        self.end();
        fs::remove_dir_all(&dir).expect("it is ours");
    }

    /// Ends the gateway without removing the directory.
    fn end(mut self) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").arg(&pid).status().expect("it is installed");
        assert!(killed.success());
        assert!(self.child.wait().expect("it ends").success());
        assert!(!self.dir.join("s").exists() && !self.dir.join("c").exists());
    }
}

/// A gateway left behind by a failed test would block the reader of the test's output.
impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn uri(name: &str) -> String {
    format!("nbd+unix:///{name}?socket=s")
}

fn random(len: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut data);
    data
}

#[test]
fn devices_are_added_changed_listed_and_removed() {
    let dir = Gateway::folder("words");
    fs::write(dir.join("f"), random(10_000, 1)).expect("room");
    let config = "[[export]]\nname = 'f'\nspec = 'file:f'\nread-only = true\ndescription = 'a file'\n";
    fs::write(dir.join("config"), config).expect("room");
    let gateway =
        Gateway::start(&dir, &["--config", "config", "--export", "m=memory:1M", "--listen", "127.0.0.1:0"]);
    assert!(gateway.ready.contains("devices=2"), "{}", gateway.ready);
    gateway.word(&["add", "n", "memory:4K", "--description", "more"]);
    assert!(gateway.refused(&["add", "n", "memory:4K"]).contains("already"));
    assert!(gateway.refused(&["add", "x", "nothing:1"]).contains("is not memory:SIZE"));
    assert!(gateway.refused(&["add", "x", "file:absent"]).contains("No such file"));
    gateway.word(&["resize", "n", "8K"]);
    gateway.word(&["suspend", "n"]);
    let names: Vec<String> = gateway.list().iter().map(|device| device["name"].to_string()).collect();
    assert_eq!(names, ["\"f\"", "\"m\"", "\"n\""]);
    assert_eq!(
        (&gateway.list()[2]["size"], &gateway.list()[2]["state"]),
        (&8192.into(), &"suspended".into())
    );
    assert_eq!((&gateway.list()[0]["read_only"], &gateway.list()[0]["size"]), (&true.into(), &10_000.into()));
    gateway.word(&["resume", "n"]);
    gateway.word(&["rm", "n"]);
    assert!(gateway.refused(&["rm", "n"]).contains("no device 'n'"));
    assert_eq!(gateway.word(&["ls"]).lines().count(), 2);
    gateway.stop();
}

#[test]
fn what_cannot_be_served_is_told_in_one_line() {
    let said = |args: &[&str]| {
        let output =
            Command::new(LOLIGO).args(["nbd", "serve", "--listen", "127.0.0.1:0"]).args(args).output();
        let output = output.expect("it can be run");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(said(&["--export", "x"]).contains("is not NAME=SPEC"));
    assert!(said(&["--export", "x=file:/no such file"]).contains("No such file"));
    assert!(said(&["--config", "/no such file"]).contains("configuration"));
    assert!(said(&["--tls-cert", "/no such file", "--tls-key", "/no such file"]).contains("TLS"));
    assert!(said(&["--tls-psk", "/no such file"]).contains("TLS: /no such file: No such file"));
}

/// Attaching needs a kernel of its own: `nbd_kernel.rs`.
#[test]
fn what_cannot_be_attached_is_told_in_one_line() {
    let said = |args: &[&str]| {
        let output = Command::new(LOLIGO).arg("nbd").args(args).output().expect("it can be run");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    assert!(said(&["attach", "sda", "nbd://localhost/x"]).contains("sda: is not /dev/nbdN"));
    assert!(said(&["attach", "auto", "http://localhost/x"]).contains("is not nbd://HOST[:PORT]/NAME"));
    assert!(said(&["attach", "auto", "nbds://localhost/x"]).contains("does not speak TLS"));
    assert!(said(&["detach", "/dev/sda"]).contains("is not /dev/nbdN"));
    // If the kernel has the client, the missing server is reported.
    let why = said(&["attach", "auto", "--unix", "/no such socket", "x"]);
    assert!(why.contains("modprobe nbd") || why.contains("No such file"), "{why}");
    let why = said(&["detach", "/dev/nbd1234"]);
    assert!(why.contains("modprobe nbd") || why.contains("is not attached"), "{why}");
}

#[test]
#[ignore = "needs libnbd-bin, qemu-utils"]
fn stock_nbd_clients_move_data_in_and_out() {
    let dir = Gateway::folder("copy");
    let data = random(5 << 20, 2);
    fs::write(dir.join("in"), &data).expect("room");
    fs::write(dir.join("f"), vec![0; data.len()]).expect("room");
    let size = data.len().to_string();
    let memory = format!("m=memory:{size}");
    let gateway = Gateway::start(&dir, &["--export", "f=file:f", "--export", &memory]);
    for name in ["f", "m"] {
        let uri = uri(name);
        let info: Value = serde_json::from_str(&gateway.done("nbdinfo", &["--json", &uri])).expect("JSON");
        assert_eq!(info["exports"][0]["export-size"], data.len());
        assert_eq!(info["exports"][0]["can_multi_conn"], true);
        gateway.done("nbdcopy", &["--flush", "in", &uri]);
        gateway.done("nbdcopy", &[&uri, "out"]);
        assert!(fs::read(dir.join("out")).expect("it was written") == data, "{name}");
        // Zeros of two kinds, a discard, and a comparison of bytes.
        let words = [
            "-c",
            "write -P 5 4k 100k",
            "-c",
            "write -z 8k 8k",
            "-c",
            "write -zu 1M 1M",
            "-c",
            "discard 3M 1M",
        ];
        let words =
            [&words[..], &["-c", "read -P 5 4k 4k", "-c", "read -P 0 8k 8k", "-c", "read -P 0 1M 1M"]]
                .concat();
        let said = gateway.done("qemu-io", &[&["-f", "raw"], &words[..], &[&uri]].concat());
        assert!(!said.contains("fail"), "{said}");
        let map = gateway.done("nbdinfo", &["--map", &uri]);
        assert!(map.contains("hole,zero"), "{map}");
        gateway.done("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "in", &uri]);
        gateway.done("qemu-img", &["compare", "-f", "raw", "-F", "raw", "in", &uri]);
    }
    let listed = gateway.done("nbdinfo", &["--list", "--json", "nbd+unix://?socket=s"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["exports"].as_array().map(Vec::len), Some(2));
    assert_eq!(fs::read(dir.join("f")).expect("it is there"), data);
    gateway.stop();
}

#[test]
#[ignore = "needs fio with its nbd engine"]
fn stock_fio_finds_what_it_wrote() {
    let dir = Gateway::folder("fio");
    fs::write(dir.join("f"), vec![0; 16 << 20]).expect("room");
    let gateway = Gateway::start(&dir, &["--export", "f=file:f", "--export", "m=memory:16M"]);
    for name in ["f", "m"] {
        let uri = format!("--uri={}", uri(name));
        let shape = ["--ioengine=nbd", "--rw=randwrite", "--bsrange=512-64k", "--iodepth=32", "--size=16M"];
        let verify = ["--name=x", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
        gateway.done("fio", &[&shape[..], &verify, &[&uri]].concat());
    }
    gateway.stop();
}

/// Small images, all served at once; each is compared through its device.
#[test]
#[ignore = "needs squashfs-tools, libnbd-bin"]
fn stock_squashfs_images_by_the_hundred() {
    const IMAGES: usize = 200;
    const COPIES: usize = 4;
    let dir = Gateway::folder("squashfs");
    let mut config = String::new();
    for n in 0..IMAGES {
        let content = dir.join("content");
        fs::create_dir_all(&content).expect("room");
        fs::write(content.join("file"), random(10_000 + n, n as u64)).expect("room");
        let image = format!("{n}.squashfs");
        let args = ["content", &image, "-quiet", "-no-progress", "-processors", "1", "-noappend"];
        let made = Command::new("mksquashfs").args(args).current_dir(&dir).stdout(Stdio::null()).status();
        assert!(made.expect("it is installed").success());
        config += &format!("[[export]]\nname = '{n}'\nspec = 'file:{image}'\nread-only = true\n");
    }
    fs::write(dir.join("config"), config).expect("room");
    let gateway = Gateway::start(&dir, &["--config", "config"]);
    assert!(gateway.ready.contains(&format!("devices={IMAGES}")), "{}", gateway.ready);
    std::thread::scope(|scope| {
        for part in 0..COPIES {
            let gateway = &gateway;
            scope.spawn(move || {
                for n in (part..IMAGES).step_by(COPIES) {
                    let (image, out) = (format!("{n}.squashfs"), format!("{n}.out"));
                    gateway.done("nbdcopy", &[&uri(&n.to_string()), &out]);
                    let bytes = |name: &str| fs::read(gateway.dir.join(name)).expect("it is there");
                    assert!(bytes(&image) == bytes(&out), "{image}");
                }
            });
        }
    });
    gateway.done("unsquashfs", &["-quiet", "-no-progress", "-d", "unpacked", "7.out"]);
    assert_eq!(fs::read(dir.join("unpacked/file")).expect("it is there"), random(10_007, 7));
    gateway.stop();
}

#[test]
#[ignore = "needs libnbd-bin, gnutls-bin"]
fn stock_nbd_clients_speak_tls() {
    let dir = Gateway::folder("tls");
    let run = |args: &[&str]| {
        let made = Command::new("certtool").current_dir(&dir).args(args).output().expect("it is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    fs::write(dir.join("ca.info"), "cn = test\nca\ncert_signing_key\n").expect("room");
    fs::write(
        dir.join("own.info"),
        "cn = localhost\ndns_name = localhost\ntls_www_server\ntls_www_client\nsigning_key\nencryption_key\n",
    )
    .expect("room");
    let rsa = &["--rsa", "--bits", "2048"][..];
    for (key, kind) in
        [("ca-key.pem", rsa), ("server-key.pem", rsa), ("client-key.pem", &["--key-type", "ecdsa"])]
    {
        run(&[&["--generate-privkey", "--outfile", key], kind].concat());
    }
    run(&[
        "--generate-self-signed",
        "--load-privkey",
        "ca-key.pem",
        "--template",
        "ca.info",
        "--outfile",
        "ca-cert.pem",
    ]);
    for own in ["server", "client"] {
        let (key, cert) = (format!("{own}-key.pem"), format!("{own}-cert.pem"));
        let signed = [
            "--load-ca-certificate",
            "ca-cert.pem",
            "--load-ca-privkey",
            "ca-key.pem",
            "--template",
            "own.info",
        ];
        run(&[&["--generate-certificate", "--load-privkey", &key, "--outfile", &cert], &signed[..]].concat());
    }
    fs::write(dir.join("in"), random(1 << 20, 3)).expect("room");
    let certs =
        ["--tls-cert", "server-cert.pem", "--tls-key", "server-key.pem", "--tls-client-ca", "ca-cert.pem"];
    let gateway =
        Gateway::start(&dir, &[&certs[..], &["--listen", "127.0.0.1:0", "--export", "m=memory:1M"]].concat());
    let port = gateway.port();
    let secure = format!("nbds://localhost:{port}/m?tls-certificates={}", dir.display());
    assert!(gateway.done("nbdinfo", &[&secure]).contains("with TLS"));
    gateway.done("nbdcopy", &["in", &secure]);
    gateway.done("nbdcopy", &[&secure, "out"]);
    assert!(fs::read(dir.join("out")).expect("it was written") == random(1 << 20, 3));
    // A client without TLS gets no information, and a client without a certificate of its own is
    // refused.
    assert!(!gateway.run("nbdinfo", &[&format!("nbd://localhost:{port}/m")]).status.success());
    let bare = dir.join("bare");
    fs::create_dir(&bare).expect("room");
    fs::copy(dir.join("ca-cert.pem"), bare.join("ca-cert.pem")).expect("room");
    let bare = format!("nbds://localhost:{port}/m?tls-certificates={}", bare.display());
    assert!(!gateway.run("nbdinfo", &[&bare]).status.success());
    gateway.end();
    // With shared keys in addition, a client may use either, and the others still need a certificate of
    // the authority.
    let own = psktool(&dir, "user");
    let both = [&certs[..], &["--tls-psk", "user.psk", "--listen", "127.0.0.1:0", "--export", "m=memory:1M"]];
    let gateway = Gateway::start(&dir, &both.concat());
    let port = gateway.port();
    let secure = format!("nbds://localhost:{port}/m?tls-certificates={}", dir.display());
    gateway.done("nbdcopy", &["in", &secure]);
    let keyed = format!("nbds://user@localhost:{port}/m?tls-psk-file={}", own.display());
    gateway.done("nbdcopy", &[&keyed, "out"]);
    assert!(fs::read(dir.join("out")).expect("it was written") == random(1 << 20, 3));
    run(&[
        "--generate-self-signed",
        "--load-privkey",
        "client-key.pem",
        "--template",
        "ca.info",
        "--outfile",
        "client-cert.pem",
    ]);
    assert!(!gateway.run("nbdinfo", &[&secure]).status.success(), "a certificate that signed itself");
    gateway.stop();
}

/// Creates a file with a user's key.
fn psktool(dir: &Path, user: &str) -> PathBuf {
    let file = dir.join(format!("{user}.psk"));
    let mut command = Command::new("psktool");
    let made = command.args(["-u", user, "-p"]).arg(&file).output().expect("it is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    file
}

#[test]
#[ignore = "needs libnbd-bin, qemu-utils, gnutls-bin"]
fn stock_nbd_clients_have_shared_keys() {
    let dir = Gateway::folder("psk");
    let mut keys = String::new();
    for user in ["alice", "bob"] {
        keys += &fs::read_to_string(psktool(&dir, user)).expect("it was written");
    }
    let file = dir.join("keys.psk");
    fs::write(&file, keys).expect("room");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    fs::write(dir.join("in"), random(9 << 20, 5)).expect("room");
    let gateway = Gateway::start(
        &dir,
        &["--tls-psk", "keys.psk", "--listen", "127.0.0.1:0", "--export", "m=memory:9M"],
    );
    let port = gateway.port();
    let of = |user: &str, file: &str| {
        format!("nbds+unix://{user}@/m?socket=s&tls-psk-file={}", dir.join(file).display())
    };
    assert!(gateway.done("nbdinfo", &[&of("alice", "alice.psk")]).contains("with TLS"));
    gateway.done("nbdcopy", &["in", &of("bob", "bob.psk")]);
    gateway.done("nbdcopy", &[&of("alice", "alice.psk"), "out"]);
    assert!(fs::read(dir.join("out")).expect("it was written") == random(9 << 20, 5));
    let over_tcp =
        format!("nbds://alice@localhost:{port}/m?tls-psk-file={}", dir.join("alice.psk").display());
    assert!(gateway.done("nbdinfo", &[&over_tcp]).contains("with TLS"));
    // qemu requires a directory with a file of this name.
    let qemu = |user: &str| {
        let folder = dir.join(user);
        fs::create_dir_all(&folder).expect("room");
        fs::copy(dir.join(format!("{user}.psk")), folder.join("keys.psk")).expect("room");
        let object = format!("tls-creds-psk,id=t,endpoint=client,username={user},dir={user}");
        let place = format!("driver=nbd,host=localhost,port={port},export=m,tls-creds=t");
        gateway.run(
            "qemu-img",
            &["compare", "--object", &object, "--image-opts", &place, "driver=file,filename=in"],
        )
    };
    let compared = qemu("bob");
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
    // Another user's key, an unknown user, and no TLS.
    let refused = |uri: &str| !gateway.run("nbdinfo", &[uri]).status.success();
    fs::write(
        dir.join("false.psk"),
        fs::read_to_string(dir.join("bob.psk")).expect("text").replace("bob", "alice"),
    )
    .expect("room");
    assert!(refused(&of("alice", "false.psk")));
    psktool(&dir, "carol");
    assert!(refused(&of("carol", "carol.psk")));
    assert!(!qemu("carol").status.success());
    assert!(refused(&uri("m")));
    assert!(!gateway.run("qemu-img", &["info", "-f", "raw", &uri("m")]).status.success());
    gateway.stop();
}

#[test]
#[ignore = "needs libnbd-bin, qemu-utils"]
fn stock_nbd_clients_use_images_snapshots_and_striped_files() {
    let dir = Gateway::folder("rbd");
    let server = Server::memory().pool("p").start().expect("memory");
    let conf = server.conf().display().to_string();
    let loligo = |args: &[&str]| {
        let done = Command::new(LOLIGO).current_dir(&dir).args(["-c", &conf, "-p", "p"]).args(args).output();
        let done = done.expect("it can be run");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let data = random(9 << 20, 4);
    fs::write(dir.join("in"), &data).expect("room");
    loligo(&["rbd", "create", "i", "--size", "16M"]);
    loligo(&["file", "put", "striped", "in"]);
    let args = ["-c", &conf, "-p", "p", "--export", "i=rbd:i", "--export", "s=striped:striped,ro"];
    let gateway = Gateway::start(&dir, &args);
    gateway.done("nbdcopy", &[&uri("s"), "out"]);
    assert!(fs::read(dir.join("out")).expect("it was written") == data);
    gateway.done("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", "in", &uri("i")]);
    // Objects that were never written are holes.
    let map = gateway.done("nbdinfo", &["--map", &uri("i")]);
    assert!(map.lines().last().is_some_and(|last| last.contains("hole")), "{map}");
    // Trimmed parts of a striped file are holes, too.
    gateway.word(&["rm", "s"]);
    gateway.word(&["add", "s", "striped:p/striped"]);
    let words =
        ["-c", "discard 1M 3M", "-c", "write -zu 4M 4M", "-c", "write -z 8M 64k", "-c", "read -P 0 1M 7232k"];
    let wrote = gateway.done("qemu-io", &[&["-f", "raw"], &words[..], &[&uri("s")]].concat());
    assert!(!wrote.contains("fail"), "{wrote}");
    let map: Value =
        serde_json::from_str(&gateway.done("nbdinfo", &["--map", "--json", &uri("s")])).expect("JSON");
    let holes = map.as_array().expect("extents").iter().filter(|extent| extent["type"] == 3);
    assert_eq!(holes.map(|extent| extent["length"].as_u64().expect("a number")).sum::<u64>(), 7 << 20);
    gateway.done("nbdcopy", &[&uri("s"), "out"]);
    let now = fs::read(dir.join("out")).expect("it was written");
    assert!(now[..1 << 20] == data[..1 << 20] && now[(8 << 20) + 65_536..] == data[(8 << 20) + 65_536..]);
    gateway.word(&["rm", "i"]);
    loligo(&["rbd", "snap", "create", "i@then"]);
    gateway.word(&["add", "i", "rbd:p/i"]);
    gateway.word(&["add", "then", "rbd:p/i@then"]);
    let wrote =
        gateway.done("qemu-io", &["-f", "raw", "-c", "write -P 9 0 1M", "-c", "discard 4M 4M", &uri("i")]);
    assert!(!wrote.contains("fail"), "{wrote}");
    gateway.done("nbdcopy", &[&uri("then"), "out"]);
    assert!(fs::read(dir.join("out")).expect("it was written")[..data.len()] == data, "a snapshot stays");
    gateway.done("nbdcopy", &[&uri("i"), "out"]);
    let now = fs::read(dir.join("out")).expect("it was written");
    assert!(
        now[..1 << 20].iter().all(|byte| *byte == 9) && now[4 << 20..8 << 20].iter().all(|byte| *byte == 0)
    );
    assert!(now[8 << 20..9 << 20] == data[8 << 20..]);
    gateway.word(&["resize", "i", "32M"]);
    assert!(gateway.done("nbdinfo", &["--size", &uri("i")]).starts_with("33554432"));
    assert_eq!(gateway.list().len(), 3);
    gateway.stop();
}

/// Images created and changed by either side are the same for both.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_images_are_used_over_nbd() {
    let dir = Gateway::folder("stock");
    let conf = env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let image = format!("nbd-{}", std::process::id());
    let rbd = |args: &[&str]| {
        let done = Command::new("rbd")
            .current_dir(&dir)
            .env("CEPH_CONF", &conf)
            .args(["-p", "p"])
            .args(args)
            .output();
        let done = done.expect("it is installed");
        assert!(done.status.success(), "rbd {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let bytes = |name: &str| fs::read(dir.join(name)).expect("it was written");
    let stock_reads = |name: &str| {
        let _ = fs::remove_file(dir.join("exported"));
        rbd(&["export", name, "exported", "--no-progress"]);
        bytes("exported")
    };
    let mut data = random(17 << 20, 6);
    fs::write(dir.join("in"), &data).expect("room");
    rbd(&["import", "in", &image, "--no-progress"]);
    rbd(&["snap", "create", &format!("{image}@then"), "--no-progress"]);
    let (now, then) = (format!("i=rbd:{image}"), format!("then=rbd:{image}@then"));
    let gateway = Gateway::start(&dir, &["-c", &conf, "-p", "p", "--export", &now, "--export", &then]);
    gateway.done("nbdcopy", &[&uri("i"), "out"]);
    assert!(bytes("out") == data, "what the stock program has imported");
    // The stock program sees data written over NBD, also while the image is served.
    let words = ["write -P 7 3M 2M", "write -z 9M 100k", "discard 12M 4M", "write -P 8 17823744 1k"];
    let words: Vec<&str> = words.iter().flat_map(|word| ["-c", *word]).collect();
    let said = gateway.done("qemu-io", &[&["-f", "raw"], &words[..], &[&uri("i")]].concat());
    assert!(!said.contains("fail"), "{said}");
    data[3 << 20..5 << 20].fill(7);
    data[9 << 20..(9 << 20) + 102_400].fill(0);
    data[12 << 20..16 << 20].fill(0);
    data[17_823_744..17_824_768].fill(8);
    assert!(stock_reads(&image) == data, "what was written over NBD");
    // Enlarged by one side, then by the other.
    let size =
        |len: usize| assert_eq!(gateway.done("nbdinfo", &["--size", &uri("i")]).trim(), len.to_string());
    gateway.word(&["resize", "i", "20M"]);
    assert!(rbd(&["info", &image]).contains("size 20 MiB"));
    size(20 << 20);
    rbd(&["resize", &image, "--size", "24M", "--no-progress"]);
    data.resize(24 << 20, 0);
    assert!(stock_reads(&image) == data);
    size(24 << 20);
    gateway.done("nbdcopy", &[&uri("i"), "out"]);
    assert!(bytes("out") == data);
    gateway.done("nbdcopy", &[&uri("then"), "out"]);
    assert!(bytes("out") == random(17 << 20, 6), "a snapshot stays");
    // The stock program creates a striped file, and reads it with the hole that the gateway makes in it.
    let rados = |args: &[&str]| {
        let mut command = Command::new("rados");
        let done = command
            .current_dir(&dir)
            .env("CEPH_CONF", &conf)
            .args(["-p", "p", "--striper"])
            .args(args)
            .output();
        let done = done.expect("it is installed");
        assert!(done.status.success(), "rados {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    rados(&["put", &image, "in"]);
    gateway.word(&["add", "s", &format!("striped:p/{image}")]);
    let said =
        gateway.done("qemu-io", &["-f", "raw", "-c", "discard 4M 8M", "-c", "write -P 9 16M 1M", &uri("s")]);
    assert!(!said.contains("fail"), "{said}");
    let map: Value =
        serde_json::from_str(&gateway.done("nbdinfo", &["--map", "--json", &uri("s")])).expect("JSON");
    let extents = map.as_array().expect("extents").iter();
    let extents: Vec<_> =
        extents.map(|e| (e["offset"].as_u64(), e["length"].as_u64(), e["type"].as_u64())).collect();
    assert_eq!(
        extents,
        [(0, 4, 0), (4, 8, 3), (12, 5, 0)].map(|(at, len, kind)| (
            Some(at << 20),
            Some(len << 20),
            Some(kind)
        ))
    );
    gateway.word(&["rm", "s"]);
    rados(&["get", &image, "out"]);
    let mut data = random(17 << 20, 6);
    data[4 << 20..12 << 20].fill(0);
    data[16 << 20..].fill(9);
    assert!(bytes("out") == data, "what is left of the striped file");
    rados(&["rm", &image]);
    gateway.end();
    rbd(&["snap", "purge", &image, "--no-progress"]);
    rbd(&["rm", &image, "--no-progress"]);
    fs::remove_dir_all(&dir).expect("it is ours");
}
