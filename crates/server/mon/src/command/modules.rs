//! The commands of manager modules in 16.2.15. None of the modules exists here, and all these commands
//! are refused.

use super::signature::ArgKind::Text;
use super::signature::{Arg, Command, many, opt};
use super::{absent, table};

const ANY: &[Arg] = &[many(opt("args", Text))];

/// A module's command. Its arguments are not checked.
const fn absent(prefix: &'static str, perm: &'static str) -> Command {
    let help = "(for a module of the manager, which is not there)";
    Command { is_absent: true, ..table::cmd(prefix, ANY, ("mgr", perm), absent::module, help) }
}

/// A command that needs read permission.
const fn r(prefix: &'static str) -> Command {
    absent(prefix, "r")
}

/// A command that needs write permission.
const fn rw(prefix: &'static str) -> Command {
    absent(prefix, "rw")
}

/// The commands by module.
#[rustfmt::skip]
pub(super) static COMMANDS: &[Command] = &[
    // alerts
    r("alerts send"),
    // balancer
    r("balancer dump"), r("balancer eval"), r("balancer eval-verbose"), rw("balancer execute"),
    r("balancer ls"), rw("balancer mode"), rw("balancer off"), rw("balancer on"), rw("balancer optimize"),
    rw("balancer pool add"), r("balancer pool ls"), rw("balancer pool rm"), rw("balancer reset"),
    rw("balancer rm"), r("balancer show"), r("balancer status"),
    // crash
    rw("crash archive"), rw("crash archive-all"), r("crash info"), r("crash json_report"), r("crash ls"),
    r("crash ls-new"), rw("crash post"), rw("crash prune"), rw("crash rm"), r("crash stat"),
    // devicehealth
    rw("device check-health"), r("device get-health-metrics"), r("device info"), rw("device light"),
    r("device ls"), r("device ls-by-daemon"), r("device ls-by-host"), r("device ls-lights"),
    rw("device monitoring off"), rw("device monitoring on"), r("device predict-life-expectancy"),
    r("device query-daemon-health-metrics"), rw("device rm-life-expectancy"),
    r("device scrape-daemon-health-metrics"), r("device scrape-health-metrics"),
    rw("device set-life-expectancy"),
    // influx
    rw("influx config-set"), r("influx config-show"), rw("influx send"),
    // insights
    r("insights"), rw("insights prune-health"),
    // iostat
    r("iostat"),
    // mirroring
    rw("fs snapshot mirror add"), r("fs snapshot mirror daemon status"), r("fs snapshot mirror dirmap"),
    rw("fs snapshot mirror disable"), rw("fs snapshot mirror enable"), rw("fs snapshot mirror peer_add"),
    rw("fs snapshot mirror peer_bootstrap create"), rw("fs snapshot mirror peer_bootstrap import"),
    r("fs snapshot mirror peer_list"), rw("fs snapshot mirror peer_remove"),
    rw("fs snapshot mirror remove"), r("fs snapshot mirror show distribution"),
    // nfs
    r("nfs cluster config get"), rw("nfs cluster config reset"), rw("nfs cluster config set"),
    rw("nfs cluster create"), rw("nfs cluster delete"), r("nfs cluster info"), r("nfs cluster ls"),
    rw("nfs cluster rm"), rw("nfs export apply"), rw("nfs export create cephfs"),
    rw("nfs export create rgw"), rw("nfs export delete"), r("nfs export get"), r("nfs export info"),
    r("nfs export ls"), rw("nfs export rm"),
    // orchestrator
    rw("orch apply"), rw("orch apply iscsi"), rw("orch apply mds"), rw("orch apply nfs"),
    rw("orch apply osd"), rw("orch apply rgw"), rw("orch apply snmp-gateway"), rw("orch cancel"),
    rw("orch daemon"), rw("orch daemon add"), rw("orch daemon add iscsi"), rw("orch daemon add mds"),
    rw("orch daemon add nfs"), rw("orch daemon add osd"), rw("orch daemon add rgw"),
    rw("orch daemon redeploy"), rw("orch daemon rm"), r("orch device ls"), rw("orch device zap"),
    rw("orch host add"), rw("orch host drain"), rw("orch host label add"), rw("orch host label rm"),
    r("orch host ls"), rw("orch host maintenance enter"), rw("orch host maintenance exit"),
    rw("orch host ok-to-stop"), rw("orch host rescan"), rw("orch host rm"), rw("orch host set-addr"),
    r("orch ls"), rw("orch osd rm"), rw("orch osd rm status"), rw("orch osd rm stop"), rw("orch pause"),
    r("orch ps"), rw("orch resume"), rw("orch rm"), rw("orch set backend"), r("orch status"),
    rw("orch upgrade check"), r("orch upgrade ls"), rw("orch upgrade pause"), rw("orch upgrade resume"),
    rw("orch upgrade start"), rw("orch upgrade status"), rw("orch upgrade stop"),
    // progress
    r("progress"), rw("progress clear"), r("progress json"), rw("progress off"), rw("progress on"),
    // prometheus
    rw("healthcheck history clear"), r("healthcheck history ls"), r("prometheus file_sd_config"),
    // rbd_support
    rw("rbd mirror snapshot schedule add"), r("rbd mirror snapshot schedule list"),
    rw("rbd mirror snapshot schedule remove"), r("rbd mirror snapshot schedule status"),
    r("rbd perf image counters"), r("rbd perf image stats"), rw("rbd task add flatten"),
    rw("rbd task add migration abort"), rw("rbd task add migration commit"),
    rw("rbd task add migration execute"), rw("rbd task add remove"), rw("rbd task add trash remove"),
    r("rbd task cancel"), r("rbd task list"), rw("rbd trash purge schedule add"),
    r("rbd trash purge schedule list"), rw("rbd trash purge schedule remove"),
    r("rbd trash purge schedule status"),
    // restful
    rw("restful create-key"), rw("restful create-self-signed-cert"), rw("restful delete-key"),
    r("restful list-keys"), rw("restful restart"),
    // selftest
    rw("mgr self-test background start"), rw("mgr self-test background stop"),
    rw("mgr self-test cluster-log"), rw("mgr self-test config get"),
    rw("mgr self-test config get_localized"), rw("mgr self-test health clear"),
    rw("mgr self-test health set"), rw("mgr self-test insights_set_now_offset"), rw("mgr self-test module"),
    r("mgr self-test python-version"), rw("mgr self-test remote"), rw("mgr self-test run"),
    // snap_schedule
    rw("fs snap-schedule activate"), rw("fs snap-schedule add"), rw("fs snap-schedule deactivate"),
    r("fs snap-schedule list"), rw("fs snap-schedule remove"), rw("fs snap-schedule retention add"),
    rw("fs snap-schedule retention remove"), r("fs snap-schedule status"),
    // stats
    r("fs perf stats"),
    // status
    r("fs status"), r("osd status"),
    // telegraf
    rw("telegraf config-set"), r("telegraf config-show"), rw("telegraf send"),
    // telemetry
    rw("telemetry off"), rw("telemetry on"), rw("telemetry send"), r("telemetry show"),
    r("telemetry show-all"), r("telemetry show-device"), r("telemetry status"),
    // test_orchestrator
    rw("test_orchestrator load_data"),
    // volumes
    r("fs clone cancel"), r("fs clone status"), rw("fs subvolume authorize"),
    r("fs subvolume authorized_list"), rw("fs subvolume create"), rw("fs subvolume deauthorize"),
    rw("fs subvolume evict"), r("fs subvolume exist"), rw("fs subvolume getpath"), r("fs subvolume info"),
    r("fs subvolume ls"), r("fs subvolume metadata get"), r("fs subvolume metadata ls"),
    rw("fs subvolume metadata rm"), rw("fs subvolume metadata set"), rw("fs subvolume pin"),
    rw("fs subvolume resize"), rw("fs subvolume rm"), rw("fs subvolume snapshot clone"),
    rw("fs subvolume snapshot create"), r("fs subvolume snapshot info"), r("fs subvolume snapshot ls"),
    r("fs subvolume snapshot metadata get"), r("fs subvolume snapshot metadata ls"),
    rw("fs subvolume snapshot metadata rm"), rw("fs subvolume snapshot metadata set"),
    rw("fs subvolume snapshot protect"), rw("fs subvolume snapshot rm"),
    rw("fs subvolume snapshot unprotect"), rw("fs subvolumegroup create"), r("fs subvolumegroup exist"),
    r("fs subvolumegroup getpath"), r("fs subvolumegroup info"), r("fs subvolumegroup ls"),
    rw("fs subvolumegroup pin"), rw("fs subvolumegroup resize"), rw("fs subvolumegroup rm"),
    rw("fs subvolumegroup snapshot create"), r("fs subvolumegroup snapshot ls"),
    rw("fs subvolumegroup snapshot rm"), rw("fs volume create"), r("fs volume info"), r("fs volume ls"),
    rw("fs volume rm"),
    // zabbix
    rw("zabbix config-set"), r("zabbix config-show"), r("zabbix discovery"), rw("zabbix send"),
];
