//! Goal: libradosstriper and `rados --striper` read, write, truncate and remove this crate's files, and
//! this crate theirs, with any layout. Method: 50 layouts in both directions, on an embedded server and
//! on the stock cluster that LOLIGO_STOCK_CONF names. Lengths and offsets are chosen around the borders
//! of units, objects and sets.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use bytes::Bytes;
use loligo_rados::{Builder, IoCtx, Rados};
use loligo_server::Server;
use loligo_stripe::{Layout, Striper};

const UNIT: u64 = 64 << 10;
const LAYOUTS: usize = 50;

fn stock() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf").into()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn libradosstriper_and_we_exchange_files() {
    let server = Server::memory().start().expect("the server starts");
    exchange(server.conf()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn libradosstriper_and_we_exchange_files_on_stock() {
    exchange(&stock()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn the_stock_program_does_with_our_files_what_it_does_with_its_own() {
    let server = Server::memory().start().expect("the server starts");
    commands(server.conf()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn the_stock_program_does_with_our_files_what_it_does_with_its_own_on_stock() {
    commands(&stock()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn attributes_are_the_same_for_the_stock_program() {
    let server = Server::memory().start().expect("the server starts");
    attributes(server.conf()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn attributes_are_the_same_for_the_stock_program_on_stock() {
    attributes(&stock()).await;
}

/// Attributes set by one side are seen, changed and removed by the other. Neither lists a file's own
/// attributes.
async fn attributes(conf: &Path) {
    let place = Place::new(conf, "attributes").await;
    let striper = Striper::new(place.pool.clone()).with_layout(Layout::new(UNIT, 3, UNIT).expect("valid"));
    let striper = striper.expect("stock reads it");
    let rados = |args: &[&str]| place.rados(args);
    let source = place.write("source", &pattern(5 << 20, 1));
    rados(&["put", "theirs", &source]).expect("put");
    let mut file = striper.create("ours").await.expect("made");
    file.append(pattern(9 * UNIT, 2)).await.expect("written");
    file.close().await.expect("closed");
    for name in ["ours", "theirs"] {
        assert_eq!(rados(&["listxattr", name]).expect("listed"), "", "{name}");
        assert!(striper.xattrs(name).await.expect("listed").is_empty(), "{name}");
        rados(&["setxattr", name, "colour", "red"]).expect("set");
        striper.set_xattr(name, "shape", "round").await.expect("set");
        assert_eq!(rados(&["listxattr", name]).expect("listed"), "colour\nshape\n", "{name}");
        assert_eq!(rados(&["getxattr", name, "shape"]).expect("there").trim_end(), "round", "{name}");
        let all = striper.xattrs(name).await.expect("listed");
        let expected = [("colour", "red"), ("shape", "round")];
        let expected = expected.map(|(name, value)| (name.as_bytes().to_vec(), Bytes::from(value)));
        assert_eq!(all, expected.into(), "{name}");
        rados(&["setxattr", name, "shape", "flat"]).expect("set");
        assert_eq!(striper.xattr(name, "shape").await.expect("there"), "flat", "{name}");
        rados(&["rmxattr", name, "shape"]).expect("removed");
        striper.remove_xattr(name, "colour").await.expect("removed");
        for gone in ["colour", "shape"] {
            assert_eq!(striper.xattr(name, gone).await.expect_err("gone").errno().0, 61, "{name}");
            assert!(rados(&["getxattr", name, gone]).is_err(), "{name}");
        }
        // A second removal is an error on both sides, or on neither.
        let (ours, stock) = (striper.remove_xattr(name, "shape").await, rados(&["rmxattr", name, "shape"]));
        assert_eq!(ours.is_ok(), stock.is_ok(), "{name}: {ours:?} {stock:?}");
        assert_eq!(rados(&["listxattr", name]).expect("listed"), "", "{name}");
        striper.remove(name).await.expect("removed");
    }
    place.end().await;
}

async fn exchange(conf: &Path) {
    let place = Place::new(conf, "exchange").await;
    let mut stock = place.libradosstriper();
    let mut random = fastrand::Rng::with_seed(7);
    for (n, layout) in layouts(&mut random).into_iter().enumerate() {
        let striper = Striper::new(place.pool.clone()).with_layout(layout).expect("stock reads it");
        let len = length(&mut random, layout);
        let data = pattern(len, n as u64);
        stock_reads_ours(&place, &mut stock, &striper, &data).await;
        we_read_stock_s(&place, &mut stock, &striper, &data, &mut random).await;
        assert_eq!(place.objects().await, 0, "{layout}: nothing is left");
    }
    drop(stock);
    place.end().await;
}

/// Writes with this crate; reads, truncates and extends with libradosstriper; removes with this crate.
async fn stock_reads_ours(place: &Place, stock: &mut Stock, striper: &Striper, data: &Bytes) {
    let (what, len) = (striper.layout(), data.len() as u64);
    let file = striper.create("ours").await.expect("made");
    file.write(0, data.clone()).await.expect("written");
    file.close().await.expect("closed");
    assert_eq!(stock.ask("stat ours"), len as i64, "{what}");
    assert_eq!(stock.ask(&format!("read ours {}", place.file("got"))), len as i64, "{what}");
    assert!(place.read("got") == *data, "{what}");
    // Both sides read the same after libradosstriper has truncated and extended the file.
    let cut = len * 2 / 3;
    assert_eq!(stock.ask(&format!("trunc ours {cut}")), 0, "{what}");
    assert_eq!(stock.ask(&format!("trunc ours {len}")), 0, "{what}");
    assert_eq!(
        stock.ask(&format!("append ours {}", place.write("more", &data.slice(..data.len().min(99_999))))),
        0
    );
    let mut expected = data[..cut as usize].to_vec();
    expected.resize(len as usize, 0);
    expected.extend_from_slice(&data[..data.len().min(99_999)]);
    let file = striper.open("ours").await.expect("theirs to open");
    assert!(file.read(0, u64::MAX).await.expect("read").into_bytes() == expected, "{what}");
    // Both sides have the file open at the same time.
    assert_eq!(stock.ask(&format!("read ours {}", place.file("got"))), expected.len() as i64, "{what}");
    assert_eq!(stock.ask("trunc ours 0"), -16, "{what}: it is open");
    file.close().await.expect("closed");
    striper.remove("ours").await.expect("removed");
    assert_eq!(stock.ask("stat ours"), -2, "{what}");
}

/// Writes with libradosstriper, in two parts with a hole between; reads, truncates and appends with this
/// crate, and reads the result with libradosstriper.
async fn we_read_stock_s(
    place: &Place,
    stock: &mut Stock,
    striper: &Striper,
    data: &Bytes,
    random: &mut fastrand::Rng,
) {
    let what = striper.layout();
    let numbers = format!("{} {} {}", what.stripe_unit(), what.stripe_count(), what.object_size());
    let source = place.write("data", data);
    assert_eq!(stock.ask(&format!("write theirs {numbers} 0 {source}")), 0, "{what}");
    let offset = data.len() as u64 + length(random, what);
    assert_eq!(stock.ask(&format!("write theirs {numbers} {offset} {source}")), 0, "{what}");
    let mut expected = data.to_vec();
    expected.resize(offset as usize, 0);
    expected.extend_from_slice(data);
    let stat = striper.stat("theirs").await.expect("there");
    assert_eq!((stat.size, stat.layout), (expected.len() as u64, what));
    let mut file = striper.open("theirs").await.expect("opened");
    assert!(file.read(0, u64::MAX).await.expect("read").into_bytes() == expected, "{what}");
    assert!(file.read_sparse(0, u64::MAX).await.expect("read").into_bytes() == expected, "{what}");
    file.append(data.clone()).await.expect("appended");
    file.close().await.expect("closed");
    expected.extend_from_slice(data);
    let cut = random.u64(..=expected.len() as u64);
    striper.truncate("theirs", cut).await.expect("cut");
    striper.truncate("theirs", cut + 100_000).await.expect("extended");
    expected.truncate(cut as usize);
    expected.resize(cut as usize + 100_000, 0);
    assert_eq!(stock.ask(&format!("read theirs {}", place.file("got"))), expected.len() as i64, "{what}");
    assert!(place.read("got") == expected, "{what}");
    // libradosstriper counts a file's objects by the layout of the handle that removes it, so this crate
    // removes it.
    striper.remove("theirs").await.expect("removed");
}

/// Tests the `rados` program, whose files have the default layout.
async fn commands(conf: &Path) {
    let place = Place::new(conf, "commands").await;
    let striper = Striper::new(place.pool.clone());
    let rados = |args: &[&str]| place.rados(args);
    for len in [0, 1, 4 << 20, (9 << 20) + 5] {
        let data = pattern(len, 3);
        let file = striper.create("ours").await.expect("made");
        file.write(0, data.clone()).await.expect("written");
        file.close().await.expect("closed");
        let got = place.file("got");
        rados(&["get", "ours", &got]).expect("got");
        assert!(place.read("got") == data, "{len}");
        let said = rados(&["stat", "ours"]).expect("there");
        assert!(said.ends_with(&format!("size {len}\n")), "{said}");
        assert_eq!(rados(&["ls"]).expect("listed"), "ours\n");
        let source = place.write("source", &data);
        rados(&["put", "theirs", &source]).expect("put");
        rados(&["append", "theirs", &source]).expect("appended");
        rados(&["setxattr", "ours", "colour", "red"]).expect("set");
        assert_eq!(rados(&["listxattr", "ours"]).expect("listed"), "colour\n");
        let file = striper.open("theirs").await.expect("opened");
        let twice = [&data[..], &data[..]].concat();
        assert!(file.read(0, u64::MAX).await.expect("read").into_bytes() == twice, "{len}");
        file.close().await.expect("closed");
        rados(&["truncate", "ours", "1000000"]).expect("truncated");
        let file = striper.open("ours").await.expect("opened");
        let mut cut = data.to_vec();
        cut.resize(1_000_000, 0);
        assert!(file.read(0, u64::MAX).await.expect("read").into_bytes() == cut, "{len}");
        file.close().await.expect("closed");
        rados(&["rm", "ours"]).expect("removed");
        striper.remove("theirs").await.expect("removed");
        assert!(rados(&["stat", "theirs"]).is_err() && striper.stat("ours").await.is_err());
        assert_eq!(place.objects().await, 0, "{len}");
    }
    place.end().await;
}

/// Valid layouts, from one unit in all to sets of 20 objects.
fn layouts(random: &mut fastrand::Rng) -> Vec<Layout> {
    let mut layouts = vec![Layout::default(), Layout::new(UNIT, 1, UNIT).expect("valid")];
    while layouts.len() < LAYOUTS {
        let unit = UNIT << random.u64(..5);
        let layout = Layout::new(unit, random.u64(1..=20), unit * random.u64(1..=6)).expect("valid");
        if !layouts.contains(&layout) && layout.set_size() <= 16 << 20 {
            layouts.push(layout);
        }
    }
    layouts
}

/// A length around a border, at least one byte.
fn length(random: &mut fastrand::Rng, layout: Layout) -> u64 {
    let sizes = [layout.stripe_unit(), layout.object_size(), layout.stripe_width(), layout.set_size()];
    let near = sizes[random.usize(..4)] * random.u64(..3);
    (near + random.u64(..3) * UNIT / 3 + random.u64(..3)).max(2) - 1
}

fn pattern(len: u64, seed: u64) -> Bytes {
    (0..len).map(|at| ((at * 31 + seed) % 251) as u8 ^ (at >> 14) as u8).collect()
}

async fn connect(conf: &Path) -> Rados {
    Builder::new().conf_file(conf.to_str().expect("UTF-8")).connect().await.expect("connects")
}

/// A pool of a cluster, and a directory for files.
struct Place {
    conf: PathBuf,
    rados: Rados,
    pool: IoCtx,
    name: String,
    dir: PathBuf,
}

impl Place {
    async fn new(conf: &Path, name: &str) -> Self {
        let rados = connect(conf).await;
        let name = format!("stripe-{name}-{}", std::process::id());
        rados.create_pool(&name).await.expect("made");
        let dir = std::env::temp_dir().join(format!("loligo-{name}-{}", rados.fsid()));
        std::fs::create_dir_all(&dir).expect("room");
        let pool = rados.ioctx(&name).await.expect("just made");
        Self { conf: conf.to_owned(), rados, pool, name, dir }
    }

    async fn end(self) {
        self.rados.delete_pool(&self.name).await.expect("removed");
        self.rados.shutdown().await;
        let _ = std::fs::remove_dir_all(&self.dir);
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn write(&self, name: &str, data: &[u8]) -> String {
        std::fs::write(self.file(name), data).expect("room");
        self.file(name)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.file(name)).expect("just written")
    }

    async fn objects(&self) -> usize {
        self.pool.objects().next_batch().await.expect("listed").len()
    }

    fn rados(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new("rados");
        command.env("CEPH_CONF", &self.conf).args(["--striper", "-p", &self.name]).args(args);
        let output = command.output().expect("it is installed");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    fn libradosstriper(&self) -> Stock {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/striper.py");
        let mut child = Command::new("python3")
            .arg(script)
            .args([self.conf.as_os_str(), self.name.as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Stock { input: Some(input), output: BufReader::new(output), child }
    }
}

/// libradosstriper in a separate process.
struct Stock {
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    child: Child,
}

impl Stock {
    fn ask(&mut self, command: &str) -> i64 {
        let input = self.input.as_mut().expect("open");
        writeln!(input, "{command}").expect("it reads");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("it answers");
        answer.trim().parse().unwrap_or_else(|_| panic!("{command}: {answer:?}"))
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
