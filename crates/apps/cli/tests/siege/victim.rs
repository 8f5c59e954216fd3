//! The server as the attackers see it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use loligo_rados::Rados;
use serde_json::{Value, json};

use crate::attacker::{Doors, command};
use crate::server_process::ServerProcess;

/// The quota in bytes of the attackers' pool, which limits their writes.
const QUOTA_BYTES: u64 = 512 << 20;

#[derive(Clone)]
pub(crate) struct Victim {
    conf: PathBuf,
    mon: SocketAddr,
    osd: SocketAddr,
    pid: u32,
}

impl Victim {
    /// Looks up the addresses, and creates the pool that the attackers may use.
    pub(crate) async fn new(dir: &Path, server: &ServerProcess, admin: &Rados) -> Self {
        let dump = |prefix: &'static str| async move {
            let dump = command(admin, json!({"prefix": prefix, "format": "json"})).await;
            serde_json::from_slice::<Value>(&dump).expect("JSON")
        };
        let addr = |addrs: &Value| -> SocketAddr {
            addrs["addrvec"][0]["addr"].as_str().expect("an address").parse().expect("an address")
        };
        let mon = addr(&dump("mon dump").await["mons"][0]["public_addrs"]);
        let osd = addr(&dump("osd dump").await["osds"][0]["public_addrs"]);
        admin.create_pool("evil").await.expect("made");
        let quota = json!({
            "prefix": "osd pool set-quota", "pool": "evil", "field": "max_bytes", "val": QUOTA_BYTES.to_string()
        });
        command(admin, quota).await;
        Self { conf: dir.join("ceph.conf"), mon, osd, pid: server.0.id() }
    }

    /// Returns the peak resident memory of the process in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux tells");
        let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        kib << 10
    }
}

impl Doors for Victim {
    fn conf(&self) -> &Path {
        &self.conf
    }

    fn mon_addr(&self) -> SocketAddr {
        self.mon
    }

    fn osd_addr(&self) -> SocketAddr {
        self.osd
    }
}
