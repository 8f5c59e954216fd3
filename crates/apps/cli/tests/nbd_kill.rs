//! Goal: writes that a gateway acknowledged are kept when it is killed. Method: a `loligo nbd serve` on
//! an image of a server of our own is killed during writes, several times, and another one serves the
//! image.

mod nbd_load;

use std::process::Command;

use loligo_server::Server;
use nbd_load::{Gateway, Load, SIZE, Writer, read};

/// Number of kills.
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_gateway_answered_is_there() {
    let server = Server::memory().pool("p").start().expect("memory");
    let conf = server.conf().display().to_string();
    // With the exclusive lock, each new gateway would have to break that of the killed one.
    let features = ["--image-feature", "layering"];
    let made = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["-c", &conf, "-p", "p", "rbd", "create", "i", "--size", &format!("{}M", SIZE >> 20)])
        .args(features)
        .output()
        .expect("it can be run");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut writers = Writer::all();
    for _ in 0..ROUNDS {
        let mut gateway = Gateway::start(&conf, "p", "i");
        let load = Load::start(gateway.addr, "i", writers).await;
        load.progress(300).await;
        gateway.kill();
        writers = load.finish().await;
        assert!(writers.iter().any(|writer| writer.is_cut_off), "it was at work");
        let gateway = Gateway::start(&conf, "p", "i");
        let device = read(gateway.addr, "i").await;
        for writer in &mut writers {
            writer.compare(&device);
        }
    }
}
