//! This client against a stock cluster, side by side with the stock `rados` program. LOLIGO_STOCK_CONF
//! names the cluster's ceph.conf; its pool `p` is used.
//!
//! Goal: the same bytes, the same names, the same errors.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use loligo_msgr::testing::{FaultProxy, Random};
use loligo_rados::{Builder, Errno, Error, IoCtx, Rados, ReadOp, WriteOp};
use loligo_wire::EntityType;
use sha2::{Digest, Sha256};

const MIB: usize = 1 << 20;

fn conf() -> String {
    std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf")
}

fn builder() -> Builder {
    Builder::new().conf_file(&conf())
}

async fn pool() -> IoCtx {
    let rados = builder().connect().await.expect("connects");
    rados.ioctx("p").await.expect("the pool")
}

/// Runs the stock `rados`; returns its output or its exit status.
fn stock(args: &[&str], input: &[u8]) -> Result<Vec<u8>, i32> {
    let mut child = Command::new("rados")
        .env("CEPH_CONF", conf())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("rados is installed");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("rados ends");
    writer.join().expect("the writer ends");
    if output.status.success() { Ok(output.stdout) } else { Err(output.status.code().unwrap_or(-1)) }
}

/// Returns the errno that python3-rados reports for connecting and then writing, as `name` with a keyring.
fn stock_errno(name: &str, keyring: &str) -> i32 {
    let script = format!(
        "import rados\n\
         try:\n\
         \x20   c = rados.Rados(conffile='{}', name='{name}', conf={{'keyring': '{keyring}'}}); c.connect()\n\
         \x20   c.open_ioctx('p').write_full('refused', b'x')\n\
         \x20   print(0)\n\
         except rados.Error as e:\n\
         \x20   print(e.errno)\n",
        conf()
    );
    let output = Command::new("/usr/bin/python3").args(["-c", &script]).output().expect("python3 runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn pattern(len: usize) -> Vec<u8> {
    let mut random = Random(len as u64 + 1);
    (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(len).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn objects_of_all_sizes_cross_over_unchanged() {
    let pool = pool().await;
    for len in [0, 1, 4095, 4096, 4 * MIB - 1, 4 * MIB, 64 * MIB] {
        let bytes = pattern(len);
        let name = format!("size-{len}");
        pool.write_full(name.as_str(), bytes.clone().into()).await.expect("written");
        assert_eq!(pool.stat(name.as_str()).await.expect("stat").size, len as u64);
        let theirs = stock(&["-p", "p", "get", &name, "-"], b"").expect("rados get");
        assert_eq!(sha256(&theirs), sha256(&bytes), "our {len} bytes, read by rados");
        pool.remove(name.as_str()).await.expect("removed");

        stock(&["-p", "p", "put", &name, "-"], &bytes).expect("rados put");
        let ours = pool.read(name.as_str(), 0, 0).await.expect("read");
        assert_eq!(sha256(&ours), sha256(&bytes), "their {len} bytes, read by us");
        pool.remove(name.as_str()).await.expect("removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn odd_names_are_the_same_objects() {
    let pool = pool().await;
    for name in ["with spaces in it", "grüße-\u{1f991}", &"x".repeat(200), &"x".repeat(1000)] {
        let theirs = stock(&["-p", "p", "put", name, "-"], b"theirs");
        let ours = pool.write_full(name, Bytes::from_static(b"ours")).await;
        // Whether a name is too long depends on the cluster's configuration.
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{name}");
        if ours.is_ok() {
            assert_eq!(stock(&["-p", "p", "get", name, "-"], b"").as_deref(), Ok(&b"ours"[..]), "{name}");
            pool.remove(name).await.expect("removed");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn namespaces_and_locators_are_the_same_places() {
    let pool = pool().await;
    let apart = pool.with_namespace("ns 1").with_locator("key");
    apart.write_full("o", Bytes::from_static(b"apart")).await.expect("written");
    let args = ["-p", "p", "-N", "ns 1", "--object-locator", "key", "get", "o", "-"];
    assert_eq!(stock(&args, b"").as_deref(), Ok(&b"apart"[..]));
    assert!(pool.read("o", 0, 0).await.is_err_and(|e| e.is_not_found()));
    let mut all = pool.objects_of_all_namespaces();
    let mut found = false;
    while let Some(object) = all.next().await.expect("listed") {
        found |=
            (object.nspace, object.oid, object.locator) == (b"ns 1".to_vec(), b"o".to_vec(), b"key".to_vec());
    }
    assert!(found);
    apart.remove("o").await.expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn ten_thousand_objects_are_listed_by_both() {
    const COUNT: usize = 10_000;
    let rados = builder().connect().await.expect("connects");
    let name = format!("list-{}", rados.instance_id());
    rados.create_pool(&name).await.expect("created");
    let pool = rados.ioctx(&name).await.expect("opened");
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for i in (task..COUNT).step_by(64) {
                    pool.create(format!("object-{i}"), true).await.expect("created");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    let mut ours = BTreeSet::new();
    let mut list = pool.objects();
    while let Some(object) = list.next().await.expect("listed") {
        assert!(ours.insert(String::from_utf8(object.oid).expect("our names")), "listed twice");
    }
    let theirs = stock(&["-p", &name, "ls"], b"").expect("rados ls");
    let theirs: BTreeSet<_> =
        String::from_utf8(theirs).expect("our names").lines().map(str::to_owned).collect();
    assert_eq!(ours.len(), COUNT);
    assert_eq!(ours, theirs);
    rados.delete_pool(&name).await.expect("deleted");
    assert!(matches!(rados.ioctx(&name).await, Err(Error::NoPool(_))));
    assert!(pool.read("object-1", 0, 0).await.is_err_and(|e| e.is_not_found()), "the pool is gone");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn every_operation_does_what_it_says() {
    let pool = pool().await;
    let o = format!("ops-{}", pool.rados().instance_id());
    let o = o.as_str();
    pool.create(o, true).await.expect("created");
    assert_eq!(pool.create(o, true).await.expect_err("exists").errno(), Errno::EEXIST);
    pool.write(o, 3, Bytes::from_static(b"defg")).await.expect("written");
    pool.append(o, Bytes::from_static(b"hi")).await.expect("appended");
    assert_eq!(pool.read(o, 0, 100).await.expect("read"), &b"\0\0\0defghi"[..]);
    assert_eq!(pool.read(o, 4, 2).await.expect("read"), &b"ef"[..]);
    assert_eq!(pool.read(o, 100, 2).await.expect("read"), &b""[..]);
    pool.zero(o, 3, 2).await.expect("zeroed");
    pool.truncate(o, 6).await.expect("truncated");
    assert_eq!(pool.read(o, 0, 0).await.expect("read"), &b"\0\0\0\0\0f"[..]);
    let stat = pool.stat(o).await.expect("stat");
    assert_eq!(stat.size, 6);
    assert!(stat.mtime.elapsed().is_ok_and(|age| age.as_secs() < 60));

    pool.set_xattr(o, "one", "1").await.expect("set");
    pool.set_xattr(o, "two", "").await.expect("set");
    assert_eq!(pool.xattr(o, "one").await.expect("got"), &b"1"[..]);
    assert_eq!(pool.xattrs(o).await.expect("got").into_keys().collect::<Vec<_>>(), [b"one", b"two"]);
    pool.remove_xattr(o, "one").await.expect("removed");
    assert_eq!(pool.xattr(o, "one").await.expect_err("gone").errno(), Errno::ENODATA);

    let both = WriteOp::new().write_full(Bytes::from_static(b"all")).set_xattr("three", "3");
    pool.operate(o, both).await.expect("both");
    let read = ReadOp::new().read(0, 0).xattr("three");
    let answers = pool.operate_read(o, read).await.expect("read");
    assert_eq!(answers.iter().map(|answer| &answer.data[..]).collect::<Vec<_>>(), [b"all", &b"3"[..]]);
    let none = WriteOp::new().create(true).append(Bytes::from_static(b"never"));
    assert_eq!(pool.operate(o, none).await.expect_err("exists").errno(), Errno::EEXIST);
    assert_eq!(pool.read(o, 0, 0).await.expect("read"), &b"all"[..]);
    pool.remove(o).await.expect("removed");
    assert_eq!(pool.remove(o).await.expect_err("gone").errno(), Errno::ENOENT);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn the_cluster_answers_questions() {
    let rados = builder().connect().await.expect("connects");
    assert!(rados.pools().iter().any(|(_, name)| name == "p"));
    assert!(rados.statfs().await.expect("statfs").kb > 0);
    let stats = rados.pool_stats(&["p", "no such pool"]).await.expect("stats");
    assert_eq!(stats.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["p"]);
    let (out, _) = rados.mon_command(r#"{"prefix": "fsid"}"#, Bytes::new()).await.expect("fsid");
    assert_eq!(String::from_utf8_lossy(&out).trim(), rados.fsid().to_string());
    let refused = rados.mon_command(r#"{"prefix": "no such command"}"#, Bytes::new()).await;
    assert_eq!(refused.expect_err("refused").errno(), Errno::EINVAL);
    assert!(matches!(rados.ioctx("no such pool").await, Err(Error::NoPool(_))));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn refusals_carry_stock_s_errno() {
    let admin = builder().connect().await.expect("connects");
    let grant = |entity: &str, caps: &str| {
        format!(r#"{{"prefix": "auth get-or-create", "entity": "{entity}", "caps": [{caps}]}}"#)
    };
    let dir = std::env::temp_dir().join(format!("loligo-stock-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let file = |name: &str| dir.join(name).display().to_string();
    for (entity, caps) in [
        ("client.loligo-ro", r#""mon", "allow r", "osd", "allow r""#),
        ("client.loligo-osdless", r#""mon", "allow r""#),
    ] {
        let (ring, _) = admin.mon_command(&grant(entity, caps), Bytes::new()).await.expect("granted");
        std::fs::write(file(entity), ring).expect("a keyring");
    }
    let key = "AQC8FR9n0wHrMBAAhtHtExCaPKqHBKZfkDXbWw==";
    let ring = format!("[client.admin]\nkey = {key}\n[client.nobody]\nkey = {key}\n");
    std::fs::write(file("wrong"), ring).expect("a keyring");

    for (name, keyring) in [
        ("client.admin", file("wrong")),
        ("client.nobody", file("wrong")),
        ("client.nobody", file("no such file")),
        ("client.loligo-ro", file("client.loligo-ro")),
        ("client.loligo-osdless", file("client.loligo-osdless")),
    ] {
        let ours = write_as(name, &keyring).await.expect_err("refused");
        assert_eq!(ours.errno().0, stock_errno(name, &keyring), "{name} with {keyring}: {ours}");
    }
    std::fs::remove_dir_all(dir).expect("removed");
}

async fn write_as(name: &str, keyring: &str) -> Result<(), Error> {
    let name = name.parse().expect("a name");
    let builder = builder().name(name).set("keyring", keyring).set("client_mount_timeout", "10");
    let rados = builder.connect().await?;
    rados.ioctx("p").await?.write_full("refused", Bytes::from_static(b"x")).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn modes_of_connections_all_work() {
    for (mon, osd) in [("crc", "crc"), ("secure", "secure"), ("crc", "secure"), ("secure", "crc")] {
        let builder = builder().set("ms_mon_client_mode", mon).set("ms_client_mode", osd);
        let rados = builder.connect().await.unwrap_or_else(|e| panic!("{mon} {osd}: {e}"));
        let pool = rados.ioctx("p").await.expect("the pool");
        let bytes = Bytes::from(pattern(100_000));
        pool.write_full("modes", bytes.clone()).await.expect("written");
        assert_eq!(pool.read("modes", 0, 0).await.expect("read"), bytes);
    }
}

/// Every connection to the OSD is reset after some bytes, whatever is in progress.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn appends_happen_once_over_connections_that_break() {
    const WRITERS: usize = 8;
    const APPENDS: usize = 50;
    let osd = osd_addr(&builder().connect().await.expect("connects")).await;
    let seed = std::process::id().into();
    let proxy = FaultProxy::start(osd, seed, 20_000, 40).expect("a proxy");
    let proxied = proxy.addr();
    let reroute = move |kind, addr| if kind == EntityType::OSD { proxied } else { addr };
    let rados = builder().reroute(reroute).connect().await.expect("connects");
    let pool = Arc::new(rados.ioctx("p").await.expect("the pool"));
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                let name = format!("append-{writer}-{}", pool.rados().instance_id());
                for i in 0..APPENDS {
                    pool.append(name.as_str(), format!("{i:06}|").into()).await.expect("appended");
                }
                name
            })
        })
        .collect();
    let expected: String = (0..APPENDS).map(|i| format!("{i:06}|")).collect();
    for task in tasks {
        let name = task.await.expect("no panic");
        let got = pool.read(name.as_str(), 0, 0).await.expect("read");
        assert_eq!(String::from_utf8_lossy(&got), expected, "seed {seed}");
        pool.remove(name).await.expect("removed");
    }
    assert!(proxy.faults() > 0, "nothing broke");
}

/// Returns the address of the only OSD.
async fn osd_addr(rados: &Rados) -> SocketAddr {
    let (out, _) = rados.mon_command(r#"{"prefix": "osd dump"}"#, Bytes::new()).await.expect("osd dump");
    let text = String::from_utf8_lossy(&out).into_owned();
    let line = text.lines().find(|line| line.starts_with("osd.0")).expect("osd.0 in the dump");
    let addr = line.split("v2:").nth(1).and_then(|rest| rest.split('/').next()).expect("a msgr2 address");
    addr.parse().expect("a socket address")
}
