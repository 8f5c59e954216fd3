//! `loligo ops`: the operations in flight of clients and servers, ours and stock ones.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use loligo_server::{Handle, Server};
use serde_json::Value;

/// The server's delay before it acknowledges a change, during which the test looks at it.
const DELAY: Duration = Duration::from_secs(2);

struct Place {
    server: Handle,
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        Self::with_delay(name, DELAY)
    }

    fn with_delay(name: &str, delay: Duration) -> Self {
        let dir = env::temp_dir().join(format!("loligo-ops-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        let server = Server::memory().pool("p").commit_delay(delay).start().expect("the server starts");
        Self { server, dir }
    }

    fn client(&self) -> PathBuf {
        self.dir.join("client.asok")
    }

    /// Begins to write an object with a program that has an admin socket.
    fn put(&self, program: &str) -> Child {
        let mut child = Command::new(program)
            .arg("-c")
            .arg(self.server.conf())
            .arg("--admin-socket")
            .arg(self.client())
            .args(["-p", "p", "-N", "n", "put", "the object", "-"])
            .env_remove("CEPH_ARGS")
            .stdin(Stdio::piped())
            .spawn()
            .expect("it is installed");
        child.stdin.take().expect("piped").write_all(&[7; 5000]).expect("it reads");
        child
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn ops(format: &str, socket: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
    command.args(["--format", format, "ops"]).arg(socket).output().expect("it starts")
}

fn told(socket: &Path) -> Value {
    let output = ops("json", socket);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn table(socket: &Path) -> String {
    let output = ops("plain", socket);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn refused(socket: &Path) -> String {
    let output = ops("plain", socket);
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).expect("text")
}

/// Waits until operations are in flight.
fn in_flight(socket: &Path) -> Value {
    let begun = Instant::now();
    loop {
        if socket.exists() && ops("json", socket).status.success() {
            let told = told(socket);
            if told["in_flight"].as_array().is_some_and(|ops| !ops.is_empty()) {
                return told;
            }
        }
        assert!(begun.elapsed() < DELAY * 20, "nothing is in flight");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn operations_that_wait_for_a_place_are_shown_too() {
    let place = Place::new("place");
    let mut bench = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .arg("-c")
        .arg(place.server.conf())
        .arg("--admin-socket")
        .arg(place.client())
        .args(["--objecter_inflight_ops", "1", "-p", "p", "bench", "1", "write", "-b", "4K", "-t", "3"])
        .env_remove("CEPH_ARGS")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    let (waiting, sent): (Vec<Value>, Vec<Value>) = loop {
        let told = in_flight(&place.client());
        let ops = told["in_flight"].as_array().expect("a list").clone();
        let (waiting, sent): (Vec<_>, Vec<_>) =
            ops.into_iter().partition(|op| op["waits_for"] == "a place in flight");
        if waiting.len() == 2 {
            break (waiting, sent);
        }
        assert!(begun.elapsed() < DELAY * 20, "{waiting:?} {sent:?}");
    };
    assert!(sent.len() <= 1, "{sent:?}");
    for op in &waiting {
        assert_eq!((&op["attempts"], &op["osd"]), (&0.into(), &0.into()), "{op}");
        assert!(op["osd_ops"][0].as_str().is_some_and(|text| text.starts_with("write")), "{op}");
    }
    bench.kill().expect("it runs");
    bench.wait().expect("it ends");
}

#[test]
fn client_and_server_tell_of_the_same_operation() {
    let place = Place::new("both");
    let mut put = place.put(env!("CARGO_BIN_EXE_loligo"));
    let client = in_flight(&place.client());
    assert_eq!(client["kind"], "client");
    let op = &client["in_flight"][0];
    assert_eq!((&op["object_id"], &op["attempts"], &op["osd"]), (&"the object".into(), &1.into(), &0.into()));
    assert!(op["object_locator"].as_str().is_some_and(|locator| locator.ends_with(";n")), "{op}");
    assert_eq!(op["osd_ops"], serde_json::json!(["writefull 0~5000"]));
    assert_eq!(op["waits_for"], "the answer");
    let shown = table(&place.client());
    assert!(shown.starts_with("in flight: 1\n") && shown.contains("the object"), "{shown}");

    let socket = place.server.admin_socket();
    let server = told(socket);
    assert_eq!(server["kind"], "server");
    let same = server["in_flight"].as_array().expect("a list").iter().find(|there| {
        there["type_data"]["client_info"]["tid"] == op["tid"]
            && there["description"].as_str().is_some_and(|text| text.contains("the object"))
    });
    assert!(same.is_some(), "{server}");
    assert!(table(socket).contains("writefull"), "{}", table(socket));

    assert!(put.wait().expect("a child").success());
    let after = told(socket);
    let descriptions = |ops: &Value| {
        ops.as_array().expect("a list").iter().map(|op| op["description"].to_string()).collect::<String>()
    };
    assert!(!descriptions(&after["in_flight"]).contains("the object"), "{after}");
    assert!(descriptions(&after["slowest"]).contains("the object"), "{after}");
    let age = after["slowest"].as_array().and_then(|ops| ops.last()).map(|op| op["duration"].as_f64());
    assert!(age.flatten().is_some_and(|age| age >= DELAY.as_secs_f64()), "the slowest is the last: {after}");
}

/// A gateway is a client as well; its control socket reports its operations.
#[test]
fn a_gateway_tells_what_its_devices_wait_for() {
    let place = Place::with_delay("gateway", Duration::from_millis(700));
    let control = place.dir.join("control");
    let loligo = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.arg("-c").arg(place.server.conf()).args(args).env_remove("CEPH_ARGS");
        command.current_dir(&place.dir).stdin(Stdio::null());
        command
    };
    assert!(loligo(&["-p", "p", "file", "put", "f", "-"]).status().expect("it starts").success());
    let mut gateway = loligo(&["-p", "p", "nbd", "serve", "--unix", "s", "--control", "control"]);
    let mut gateway = gateway.stdout(Stdio::null()).spawn().expect("it starts");
    let begun = Instant::now();
    while !control.exists() {
        assert!(begun.elapsed() < DELAY * 20, "it is not ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(told(&control), serde_json::json!({ "kind": "client", "in_flight": [] }), "no cluster yet");
    // The add command takes the file's lock.
    let mut add = loligo(&["nbd", "add", "control", "f", "striped:f"]).spawn().expect("it starts");
    let told = in_flight(&control);
    assert_eq!(told["in_flight"][0]["object_id"], "f.0000000000000000", "{told}");
    assert!(add.wait().expect("a child").success());
    let pid = gateway.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().expect("kill").success());
    assert!(gateway.wait().expect("a child").success());
}

#[test]
fn who_cannot_be_asked_is_explained() {
    let place = Place::new("refused");
    let nothing = place.dir.join("nothing.asok");
    let said = refused(&nothing);
    assert!(said.contains("nothing.asok") && said.contains("--admin-socket PATH"), "{said}");
    let said = refused(&place.dir);
    assert!(said.contains("a directory") && said.contains("loligo.asok"), "{said}");
    let file = place.dir.join("file");
    fs::write(&file, "").expect("room");
    assert!(refused(&file).contains("not a socket"));
    // The socket of a killed program.
    drop(std::os::unix::net::UnixListener::bind(&nothing).expect("room"));
    assert!(refused(&nothing).contains("has ended"), "{}", refused(&nothing));
    // A program that is neither client nor OSD.
    let other = place.dir.join("other.asok");
    let admin = loligo_admin::AdminSocket::open(&other, loligo_admin::Admin::new()).expect("room");
    assert!(refused(&other).contains("no operations"), "{}", refused(&other));
    drop(admin);
}

/// `loligo ops` reads a stock client's socket, and the stock `ceph` reads ours, with the same fields.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_clients_tell_as_ours_do() {
    let place = Place::new("stock");
    let keys = |op: &Value| op.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let mut put = place.put("rados");
    let stock = in_flight(&place.client());
    assert_eq!(
        (&stock["kind"], &stock["in_flight"][0]["object_id"]),
        (&"client".into(), &"the object".into())
    );
    let shown = table(&place.client());
    assert!(shown.contains("writefull 0~5000") && shown.contains("the answer"), "{shown}");
    assert!(put.wait().expect("a child").success());

    let mut put = place.put(env!("CARGO_BIN_EXE_loligo"));
    in_flight(&place.client());
    let asked = Command::new("ceph")
        .arg("--admin-daemon")
        .arg(place.client())
        .arg("objecter_requests")
        .output()
        .expect("it is installed");
    let ours: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    let (ours, stock) = (&ours["ops"][0], &stock["in_flight"][0]);
    assert_eq!(ours["object_locator"], stock["object_locator"]);
    let known = keys(stock);
    let new: Vec<_> = keys(ours).into_iter().filter(|key| !known.contains(key)).collect();
    assert_eq!(new, ["waits_for"], "{stock}");
    assert!(put.wait().expect("a child").success());
}

/// The sockets of a stock cluster's daemons.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_daemons_tell_of_their_operations() {
    let dir = PathBuf::from(env::var_os("LOLIGO_STOCK_DIR").expect("LOLIGO_STOCK_DIR is set"));
    let conf = env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let object = format!("ops-{}", std::process::id());
    let done = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.arg("-c").arg(&conf).args(["-p", "p"]).args(args).env_remove("CEPH_ARGS");
        assert!(command.stdin(Stdio::null()).status().expect("it starts").success(), "{args:?}");
    };
    let run = fs::read_dir(dir.join("run")).expect("the cluster runs");
    let sockets: Vec<PathBuf> = run.map(|entry| entry.expect("readable").path()).collect();
    let of = |kind: &str| {
        let is_its = |name: &str| name.starts_with(&format!("ceph-{kind}.")) && name.ends_with(".asok");
        let found = sockets.iter().find(|path| path.file_name().and_then(|n| n.to_str()).is_some_and(is_its));
        found.unwrap_or_else(|| panic!("no socket of {kind} in {sockets:?}"))
    };
    let (osd, mon) = (of("osd"), of("mon"));
    // The slowest operations are reported as soon as there are any.
    let begun = Instant::now();
    loop {
        done(&["put", &object, "-"]);
        let told = told(osd);
        assert_eq!(told["kind"], "server", "{told}");
        if told["slowest"].as_array().is_some_and(|ops| !ops.is_empty()) {
            break;
        }
        assert!(begun.elapsed() < DELAY * 20, "{told}");
    }
    done(&["rm", &object]);
    let shown = table(osd);
    assert!(shown.contains("CLIENT") && shown.contains("osd_op("), "{shown}");
    assert_eq!(told(mon)["kind"], "server");
}
