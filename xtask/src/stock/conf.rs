//! The cluster's ceph.conf.

use std::path::Path;

use super::{Auth, UpOptions};

/// Returns the text of ceph.conf. `mon_host`: the monitors' addresses, separated by commas.
pub(super) fn text(options: &UpOptions, dir: &Path, fsid: &str, mon_host: &str) -> String {
    let auth = if options.auth == Auth::Cephx { "cephx" } else { "none" };
    let store = options.store.name();
    let dir = dir.display();
    let msgr2 = !options.without_msgr2;
    format!(
        "[global]
fsid = {fsid}
mon host = {mon_host}
auth cluster required = {auth}
auth service required = {auth}
auth client required = {auth}
keyring = {dir}/keyring
ms bind msgr2 = {msgr2}
run dir = {dir}/run
admin socket = {dir}/run/$cluster-$name.$pid.asok
log file = {dir}/log/$name.log
pid file = {dir}/run/$name.pid
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon warn on pool no redundancy = false
auth allow insecure global id reclaim = false
osd objectstore = {store}
memstore device bytes = 8589934592
[mon]
mon data = {dir}/mon.$id
mon data avail crit = 1
mon data avail warn = 1
# Changes of maps are not gathered for a second: tests make one after the other.
paxos propose interval = 0.05
[osd]
osd data = {dir}/osd.$id
osd journal = {dir}/osd.$id/journal
osd journal size = 2048
osd max object name len = 256
osd max object namespace len = 64
osd class load list = *
osd class default list = *
# Backfill without the pauses that spare the clients of real disks: tests wait for it.
osd recovery sleep hdd = 0
osd recovery sleep hybrid = 0
osd max backfills = 8
osd recovery retry interval = 2
osd backfill retry interval = 2
[mgr]
mgr data = {dir}/mgr.$id
[mds]
mds data = {dir}/mds.$id
"
    )
}
