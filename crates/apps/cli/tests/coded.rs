//! Goal: files can be put into erasure-coded pools, whose objects grow by whole stripes. Method: a
//! server that presents six OSDs, and a code with three data chunks; no piece of four MiB is a multiple
//! of its stripes.

use std::process::{Command, Output};
use std::{env, fs};

use bytes::Bytes;
use loligo_rados::{Builder, blocking};
use loligo_server::{Handle, OsdCount, Server};

fn server() -> Handle {
    let osds = OsdCount::new(6).expect("a number");
    let server = Server::memory().osds(osds).start().expect("the server starts");
    let conf = server.conf().to_str().expect("UTF-8");
    let rados = blocking::Rados::connect(Builder::new().conf_file(conf)).expect("connects");
    let profile = r#"{"prefix":"osd erasure-code-profile set","name":"three","profile":["k=3","m=2"]}"#;
    let pool = r#"{"prefix":"osd pool create","pool":"coded","pg_num":8,"pool_type":"erasure","erasure_code_profile":"three"}"#;
    for command in [profile, pool] {
        rados.mon_command(command, Bytes::new()).expect("it is carried out");
    }
    rados.shutdown();
    server
}

#[test]
fn files_of_many_pieces_are_put_and_appended() {
    let server = server();
    let dir = env::temp_dir().join(format!("loligo-cli-coded.{}", std::process::id()));
    fs::create_dir_all(&dir).expect("made");
    let data: Vec<u8> = (0..9_500_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(dir.join("file"), &data).expect("written");
    let ours = |args: &[&str]| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.env("CEPH_CONF", server.conf()).env_remove("CEPH_ARGS").current_dir(&dir);
        command.args(["-p", "coded"]).args(args).output().expect("it runs")
    };
    for word in ["put", "append"] {
        let done = ours(&[word, word, "file"]);
        assert!(done.status.success(), "{word}: {}", String::from_utf8_lossy(&done.stderr));
        assert!(ours(&["get", word, "-"]).stdout == data, "{word}");
    }
    // The end is within a stripe, so appending is refused, as on any cluster.
    let refused = ours(&["append", "put", "file"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not supported"));
    assert!(ours(&["get", "put", "-"]).stdout == data);
    fs::remove_dir_all(dir).expect("removed");
}
