//! All commands.

use super::signature::ArgKind::{
    Addr, Bool, Choice, Float, Fraction, Int, Object, OsdName, Pg, Pool, Text, TextOf, Uuid,
};
use super::signature::{Arg, Command, NAME_CHARS, VALUE_CHARS, many, opt, req};
use super::{
    Call, Outcome, absent, auth, autoscale, blocklist, config, config_assimilate, config_help, config_key,
    config_log, crush, crush_change, crush_class, crush_dump, crush_place, crush_weights, erasure, health,
    health_mute, log, metadata, mgr, mon, mon_change, osd, osd_df, osd_dump, osd_group, osd_new, osd_perf,
    osd_pg, osd_release, osd_state, osd_weights, pg_dump, pg_ls, pg_stuck, pool, pool_app, pool_vars, quota,
    report, reweight, scrub, status, usage,
};

const ENTITY: Arg = req("entity", Text);
const CAPS: Arg = many(opt("caps", Text));
const KEY_TYPE: Arg = opt("key_type", Choice(&["aes", "aes256k"]));
const EPOCH: Arg = opt("epoch", Int { min: Some(0) });
const PROPERTY: Arg = req("property", Text);
const MGR: Arg = opt("who", Text);
const POOL: Arg = req("pool", Pool);
const STATES: Arg = many(opt("states", Text));
const APP: Arg = req("app", Text);
const KEY: Arg = req("key", Text);
const WHO: Arg = req("who", Text);
const RATIO: &[Arg] = &[req("ratio", Fraction)];
const OSD: Arg = req("id", OsdName);
const IDS: &[Arg] = &[many(req("ids", Text))];
const OVERLOAD: Arg = opt("oload", Int { min: None });
const MAX_CHANGE: Arg = opt("max_change", Float { min: None });
const MAX_OSDS: Arg = opt("max_osds", Int { min: None });
const REWEIGHT: &[Arg] = &[OVERLOAD, MAX_CHANGE, MAX_OSDS, opt("no_increasing", Bool)];
const REWEIGHT_PG: &[Arg] = &[OVERLOAD, MAX_CHANGE, MAX_OSDS, many(opt("pools", Pool))];
const GROUP: &[Arg] = &[req("flags", Text), many(req("who", Text))];
const RENAME: &[Arg] = &[req("srcname", TextOf(NAME_CHARS)), req("dstname", TextOf(NAME_CHARS))];
const ITEM: Arg = req("name", TextOf(NAME_CHARS));
const CLASS: Arg = req("class", TextOf("[A-Za-z0-9-_]"));
const WEIGHT: Arg = req("weight", Float { min: Some(0.0) });
const WEIGHTS: Arg = many(WEIGHT);
const PLACE: Arg = many(req("args", TextOf(VALUE_CHARS)));
const REMOVED: &[Arg] = &[ITEM, opt("ancestor", TextOf(NAME_CHARS))];
const PGID: Arg = req("pgid", Pg);
const PGIDS: &[Arg] = &[many(PGID)];
const POOLS: &[Arg] = &[many(req("who", Pool))];
const MON: Arg = req("name", Text);
const OSDS: Arg = many(req("id", OsdName));
const FS: Arg = req("fs_name", Text);
const ANY: &[Arg] = &[many(opt("args", Text))];
const SURE: Arg = opt("yes_i_really_mean_it", Bool);
const POOL_RM: &[Arg] = &[
    POOL,
    opt("pool2", Pool),
    opt("yes_i_really_really_mean_it", Bool),
    opt("yes_i_really_really_mean_it_not_faking", Bool),
];

const fn cmd(
    prefix: &'static str,
    args: &'static [Arg],
    (module, perm): (&'static str, &'static str),
    run: fn(&mut Call<'_>) -> Outcome,
    help: &'static str,
) -> Command {
    Command { prefix, args, help, module, perm, deprecated: false, bare: false, run }
}

const fn old(command: Command) -> Command {
    Command { deprecated: true, ..command }
}

/// A command of a manager's module. What it takes is not looked at.
const fn module(prefix: &'static str) -> Command {
    cmd(prefix, ANY, ("mgr", "r"), absent::module, "(for a module of the manager, which is not there)")
}

const fn bare(command: Command) -> Command {
    Command { bare: true, ..command }
}

/// Every command, with its signature as Ceph's tools know it: they parse the command line by it.
#[rustfmt::skip] // one line for each command reads as the table that it is
pub static COMMANDS: &[Command] = &[
    cmd("status", &[], ("mon", "r"), status::status, "show the state of the cluster"),
    bare(cmd("health", &[opt("detail", Choice(&["detail"]))], ("mon", "r"), health::health, "show what is wrong")),
    cmd("health mute", &[req("code", Text), opt("ttl", Text), opt("sticky", Bool)], ("mon", "w"), health_mute::mute, "pass over what is wrong, for some time or until it gets worse"),
    cmd("health unmute", &[opt("code", Text)], ("mon", "w"), health_mute::unmute, "show again what is passed over"),
    cmd("df", &[opt("detail", Choice(&["detail"]))], ("mon", "r"), usage::df, "show how much is stored, and how much fits"),
    bare(cmd("fsid", &[], ("mon", "r"), mon::fsid, "show the cluster's id")),
    cmd("version", &[], ("mon", "r"), mon::version, "show the monitor's version"),
    bare(cmd("versions", &[], ("mon", "r"), mon::versions, "show the versions of all daemons")),
    bare(cmd("features", &[], ("mon", "r"), mon::feature_groups, "show the features of whoever is connected")),
    cmd("quorum_status", &[], ("mon", "r"), mon::quorum_status, "show who the monitors are and who leads"),
    cmd("mon dump", &[EPOCH], ("mon", "r"), mon::dump, "show the monmap"),
    cmd("mon stat", &[], ("mon", "r"), mon::stat, "summarize the monitors' state"),
    cmd("mon getmap", &[EPOCH], ("mon", "r"), mon::getmap, "get the monmap, encoded"),
    cmd("mon metadata", &[opt("id", Text)], ("mon", "r"), metadata::mons, "show what is known of a monitor, or of all"),
    cmd("mon count-metadata", &[PROPERTY], ("mon", "r"), metadata::count_mons, "count monitors by a property of their metadata"),
    cmd("mon versions", &[], ("mon", "r"), mon::mon_versions, "show the versions of monitors"),
    cmd("mon ok-to-stop", &[many(req("ids", Text))], ("mon", "r"), mon::ok_to_stop, "tell whether monitors may be stopped"),
    cmd("mon feature ls", &[opt("with_value", Choice(&["--with-value"]))], ("mon", "r"), mon::feature_ls, "list what monitors can do, and what the monmap asks of them"),
    cmd("mon feature set", &[req("feature_name", Text), SURE], ("mon", "rw"), mon::feature_set, "ask a feature of all monitors"),
    cmd("mon ok-to-rm", &[req("id", Text)], ("mon", "r"), mon::ok_to_rm, "tell whether a monitor may be removed"),
    cmd("mon ok-to-add-offline", &[], ("mon", "r"), mon::ok_to_add_offline, "tell whether a monitor that does not run may be added"),
    bare(cmd("report", &[many(opt("tags", Text))], ("mon", "r"), report::report, "show all that the monitor knows")),
    bare(cmd("time-sync-status", &[], ("mon", "r"), mon::time_sync_status, "show how far monitors' clocks are apart")),
    cmd("node ls", &[opt("type", Choice(&["all", "osd", "mon", "mds", "mgr"]))], ("mon", "r"), metadata::nodes, "list machines with their daemons"),
    bare(cmd("mgr dump", &[EPOCH], ("mgr", "r"), mgr::dump, "show the manager map")),
    bare(cmd("mgr stat", &[], ("mgr", "r"), mgr::stat, "show whether there is a manager")),
    bare(cmd("mgr services", &[], ("mgr", "r"), mgr::nothing, "list what managers' modules serve")),
    bare(cmd("mgr module ls", &[], ("mgr", "r"), mgr::module_ls, "list managers' modules")),
    bare(cmd("mgr metadata", &[MGR], ("mgr", "r"), mgr::metadata, "show what is known of a manager, or of all")),
    bare(cmd("mgr count-metadata", &[PROPERTY], ("mgr", "r"), mgr::nothing, "count managers by a property of their metadata")),
    bare(cmd("mgr versions", &[], ("mgr", "r"), mgr::nothing, "show the versions of managers")),
    bare(cmd("service dump", &[], ("mgr", "r"), status::service_dump, "show the daemons that have registered")),
    bare(cmd("service status", &[], ("mgr", "r"), mgr::nothing, "show the state of the daemons that have registered")),
    cmd("mgr fail", &[req("who", Text)], ("mgr", "rw"), mgr::fail, "say that a manager has failed"),
    bare(cmd("pg stat", &[], ("pg", "r"), usage::pg_stat, "summarize the placement groups' state")),
    bare(cmd("pg dump", &[many(opt("dumpcontents", Choice(&pg_dump::PARTS)))], ("pg", "r"), pg_dump::dump, "show what placement groups hold")),
    bare(cmd("pg ls", &[opt("pool", Int { min: None }), STATES], ("pg", "r"), pg_ls::ls, "list placement groups, of one pool or all, by what state they are in")),
    bare(cmd("pg ls-by-pool", &[req("poolstr", Text), STATES], ("pg", "r"), pg_ls::ls_by_pool, "list a pool's placement groups")),
    bare(cmd("pg ls-by-primary", &[req("osd", OsdName), opt("pool", Int { min: None }), STATES], ("pg", "r"), pg_ls::ls_by_osd, "list placement groups of which an OSD is the first")),
    bare(cmd("pg ls-by-osd", &[req("osd", OsdName), opt("pool", Int { min: None }), STATES], ("pg", "r"), pg_ls::ls_by_osd, "list an OSD's placement groups")),
    bare(cmd("pg map", &[req("pgid", Pg)], ("pg", "r"), osd::pg_map, "show where a placement group is")),
    bare(cmd("pg dump_json", &[many(opt("dumpcontents", Choice(&pg_dump::JSON_PARTS)))], ("pg", "r"), pg_dump::dump_json, "show what placement groups hold, in JSON")),
    cmd("pg dump_stuck", &[many(opt("stuckops", Choice(&pg_stuck::STUCK))), opt("threshold", Int { min: None })], ("pg", "r"), pg_stuck::dump, "list placement groups that are stuck"),
    cmd("pg scrub", &[PGID], ("pg", "rw"), scrub::pg, "look for objects of a placement group that cannot be read"),
    cmd("pg deep-scrub", &[PGID], ("pg", "rw"), scrub::pg, "read all data of a placement group and check it"),
    cmd("pg repair", &[PGID], ("pg", "rw"), scrub::pg, "check all data of a placement group, and repair what can be repaired"),
    cmd("pg force-recovery", PGIDS, ("pg", "rw"), scrub::force, "recover placement groups before others"),
    cmd("pg force-backfill", PGIDS, ("pg", "rw"), scrub::force, "backfill placement groups before others"),
    cmd("pg cancel-force-recovery", PGIDS, ("pg", "rw"), scrub::force, "recover placement groups as others"),
    cmd("pg cancel-force-backfill", PGIDS, ("pg", "rw"), scrub::force, "backfill placement groups as others"),
    cmd("pg debug", &[req("debugop", Choice(&["unfound_objects_exist", "degraded_pgs_exist"]))], ("pg", "r"), scrub::debug, "tell whether something is missing"),
    cmd("pg repeer", &[PGID], ("osd", "rw"), scrub::repeer, "have a placement group's OSDs agree again"),
    cmd("osd scrub", &[WHO], ("osd", "rw"), scrub::osd, "look for objects of an OSD that cannot be read; all: of all"),
    cmd("osd deep-scrub", &[WHO], ("osd", "rw"), scrub::osd, "read all data of an OSD and check it; all: of all"),
    cmd("osd repair", &[WHO], ("osd", "rw"), scrub::osd, "check all data of an OSD, and repair what can be repaired; all: of all"),
    cmd("osd pool scrub", POOLS, ("osd", "rw"), scrub::pool, "look for objects of pools that cannot be read"),
    cmd("osd pool deep-scrub", POOLS, ("osd", "rw"), scrub::pool, "read all data of pools and check it"),
    cmd("osd pool repair", POOLS, ("osd", "rw"), scrub::pool, "check all data of pools, and repair what can be repaired"),
    cmd("osd pool force-recovery", POOLS, ("osd", "rw"), scrub::force_pools, "recover pools before others"),
    cmd("osd pool force-backfill", POOLS, ("osd", "rw"), scrub::force_pools, "backfill pools before others"),
    cmd("osd pool cancel-force-recovery", POOLS, ("osd", "rw"), scrub::force_pools, "recover pools as others"),
    cmd("osd pool cancel-force-backfill", POOLS, ("osd", "rw"), scrub::force_pools, "backfill pools as others"),

    bare(cmd("osd stat", &[], ("osd", "r"), osd::stat, "summarize the OSDs' state")),
    cmd("osd dump", &[EPOCH], ("osd", "r"), osd_dump::dump, "show the osdmap"),
    cmd("osd info", &[opt("id", OsdName)], ("osd", "r"), osd_dump::info, "show what the osdmap says of an OSD, or of all"),
    cmd("osd tree", &[EPOCH, many(opt("states", Choice(&["up", "down", "in", "out"])))], ("osd", "r"), crush::osd_tree, "show the OSDs as CRUSH sees them"),
    cmd("osd df", &[], ("osd", "r"), osd_df::df, "show how full the OSDs are"),
    cmd("osd ls", &[EPOCH], ("osd", "r"), osd::ls, "list the OSDs' numbers"),
    cmd("osd getmap", &[EPOCH], ("osd", "r"), osd::getmap, "get the osdmap, encoded"),
    cmd("osd getcrushmap", &[EPOCH], ("osd", "r"), osd::getcrushmap, "get the CRUSH map, encoded"),
    bare(cmd("osd getmaxosd", &[], ("osd", "r"), osd::getmaxosd, "show how many OSDs there is room for")),
    cmd("osd setmaxosd", &[req("newmax", Int { min: Some(0) })], ("osd", "rw"), osd::setmaxosd, "say how many OSDs there is room for"),
    bare(cmd("osd metadata", &[opt("id", OsdName)], ("osd", "r"), metadata::osds, "show what is known of an OSD, or of all")),
    bare(cmd("osd count-metadata", &[PROPERTY], ("osd", "r"), metadata::count_osds, "count OSDs by a property of their metadata")),
    bare(cmd("osd versions", &[], ("osd", "r"), mon::osd_versions, "show the versions of OSDs")),
    cmd("osd get-require-min-compat-client", &[], ("osd", "r"), osd::min_compat_client, "show the oldest release whose clients may connect"),
    bare(cmd("osd find", &[req("id", OsdName)], ("osd", "r"), osd::find, "show where an OSD is")),
    bare(cmd("osd map", &[POOL, req("object", Object), opt("nspace", Text)], ("osd", "r"), osd::map, "show where an object is, or would be")),
    old(cmd("osd lspools", &[], ("osd", "r"), osd::lspools, "list pools with their numbers")),
    bare(cmd("osd crush tree", &[opt("shadow", Choice(&["--show-shadow"]))], ("osd", "r"), crush::crush_tree, "show the CRUSH hierarchy")),
    bare(cmd("osd crush ls", &[req("node", TextOf(NAME_CHARS))], ("osd", "r"), crush::ls, "list what is in a CRUSH bucket")),
    cmd("osd ls-tree", &[EPOCH, req("name", Text)], ("osd", "r"), crush::ls_tree, "list the OSDs below a CRUSH bucket"),
    bare(cmd("osd crush class ls", &[], ("osd", "r"), crush::class_ls, "list devices' classes")),
    cmd("osd crush dump", &[], ("osd", "r"), crush_dump::crush_dump, "show the whole CRUSH map"),
    cmd("osd crush show-tunables", &[], ("osd", "r"), crush_dump::show_tunables, "show what CRUSH goes by"),
    bare(cmd("osd crush get-tunable", &[req("tunable", Choice(&["straw_calc_version"]))], ("osd", "r"), crush_dump::get_tunable, "show one thing that CRUSH goes by")),
    bare(cmd("osd crush rule ls", &[], ("osd", "r"), crush::rule_ls, "list CRUSH rules")),
    bare(old(cmd("osd crush rule list", &[], ("osd", "r"), crush::rule_ls, "list CRUSH rules"))),
    cmd("osd crush rule dump", &[opt("name", TextOf(NAME_CHARS))], ("osd", "r"), crush::rule_dump, "show a CRUSH rule, or all"),
    cmd("osd setcrushmap", &[opt("prior_version", Int { min: None })], ("osd", "rw"), crush_change::set_map, "replace the CRUSH map by an encoded one (-i FILE)"),
    cmd("osd crush rule create-simple", &[req("name", TextOf(NAME_CHARS)), req("root", TextOf(NAME_CHARS)), req("type", TextOf(NAME_CHARS)), opt("mode", Choice(&["firstn", "indep"]))], ("osd", "rw"), crush_change::rule_create, "make a CRUSH rule"),
    cmd("osd crush rule create-replicated", &[req("name", TextOf(NAME_CHARS)), req("root", TextOf(NAME_CHARS)), req("type", TextOf(NAME_CHARS)), opt("class", Text)], ("osd", "rw"), crush_change::rule_create, "make a CRUSH rule for replicated pools"),
    cmd("osd crush rule rename", RENAME, ("osd", "rw"), crush_change::rule_rename, "give a CRUSH rule another name"),
    cmd("osd crush rule rm", &[req("name", TextOf(NAME_CHARS))], ("osd", "rw"), crush_change::rule_rm, "remove a CRUSH rule"),
    cmd("osd crush rename-bucket", RENAME, ("osd", "rw"), crush_change::rename_bucket, "give a CRUSH bucket another name"),
    cmd("osd crush add-bucket", &[ITEM, req("type", Text), many(opt("args", TextOf(VALUE_CHARS)))], ("osd", "rw"), crush_change::add_bucket, "make an empty CRUSH bucket, perhaps at a place such as root=default"),
    cmd("osd crush reweight", &[req("name", TextOf(NAME_CHARS)), req("weight", Float { min: Some(0.0) })], ("osd", "rw"), crush_change::reweight, "change what a device weighs in CRUSH"),
    cmd("osd crush add", &[OSD, WEIGHT, PLACE], ("osd", "rw"), crush_place::set, "put an OSD into the CRUSH hierarchy, at a place such as host=h root=default"),
    cmd("osd crush set", &[OSD, WEIGHT, PLACE], ("osd", "rw"), crush_place::set, "say where in the CRUSH hierarchy an OSD is, and what it weighs"),
    cmd("osd crush create-or-move", &[OSD, WEIGHT, PLACE], ("osd", "rw"), crush_place::create_or_move, "say where in the CRUSH hierarchy an OSD is, and what it weighs if it is new there"),
    cmd("osd crush move", &[ITEM, PLACE], ("osd", "rw"), crush_place::move_item, "move something to another place of the CRUSH hierarchy"),
    cmd("osd crush link", &[ITEM, PLACE], ("osd", "rw"), crush_place::move_item, "have a CRUSH bucket lie at another place too"),
    cmd("osd crush unlink", REMOVED, ("osd", "rw"), crush_place::remove, "take something out of CRUSH buckets"),
    cmd("osd crush rm", REMOVED, ("osd", "rw"), crush_place::remove, "remove something from the CRUSH map"),
    old(cmd("osd crush remove", REMOVED, ("osd", "rw"), crush_place::remove, "remove something from the CRUSH map")),
    cmd("osd crush swap-bucket", &[req("source", TextOf(NAME_CHARS)), req("dest", TextOf(NAME_CHARS)), SURE], ("osd", "rw"), crush_place::swap, "exchange what is in two CRUSH buckets"),
    cmd("osd crush reweight-all", &[], ("osd", "rw"), crush_place::reweight_all, "have all CRUSH buckets weigh what is in them"),
    cmd("osd crush reweight-subtree", &[ITEM, WEIGHT], ("osd", "rw"), crush_place::reweight_subtree, "give all OSDs below a CRUSH bucket a weight"),
    cmd("osd crush set-all-straw-buckets-to-straw2", &[], ("osd", "rw"), crush_place::straw_to_straw2, "have all CRUSH buckets choose in the newest way"),
    cmd("osd crush set-tunable", &[req("tunable", Choice(&["straw_calc_version"])), req("value", Int { min: None })], ("osd", "rw"), crush_place::set_tunable, "change one thing that CRUSH goes by"),
    cmd("osd crush set-device-class", &[req("class", Text), many(req("ids", Text))], ("osd", "rw"), crush_class::set, "put OSDs into a class; all: all of them"),
    cmd("osd crush rm-device-class", IDS, ("osd", "rw"), crush_class::rm, "take OSDs out of their classes; all: all of them"),
    bare(cmd("osd crush get-device-class", IDS, ("osd", "r"), crush_class::get, "show the classes of OSDs")),
    cmd("osd crush class create", &[CLASS], ("osd", "rw"), crush_class::create, "make a class of devices"),
    cmd("osd crush class rm", &[CLASS], ("osd", "rw"), crush_class::remove, "remove a class of devices"),
    cmd("osd crush class rename", RENAME, ("osd", "rw"), crush_class::rename, "give a class of devices another name"),
    bare(cmd("osd crush class ls-osd", &[CLASS], ("osd", "r"), crush_class::ls_osd, "list the OSDs of a class")),
    bare(cmd("osd crush rule ls-by-class", &[CLASS], ("osd", "r"), crush_class::rules, "list the CRUSH rules for a class of devices")),
    bare(cmd("osd crush weight-set ls", &[], ("osd", "r"), crush_weights::ls, "list weight sets")),
    bare(cmd("osd crush weight-set dump", &[], ("osd", "r"), crush_weights::dump, "show weight sets")),
    cmd("osd crush weight-set create-compat", &[], ("osd", "rw"), crush_weights::create, "make the weight set of pools that have none of their own"),
    cmd("osd crush weight-set create", &[POOL, req("mode", Choice(&["flat", "positional"]))], ("osd", "rw"), crush_weights::create, "make a weight set of a pool"),
    cmd("osd crush weight-set rm", &[POOL], ("osd", "rw"), crush_weights::rm, "remove the weight set of a pool"),
    cmd("osd crush weight-set rm-compat", &[], ("osd", "rw"), crush_weights::rm, "remove the weight set of pools that have none of their own"),
    cmd("osd crush weight-set reweight", &[POOL, req("item", Text), WEIGHTS], ("osd", "rw"), crush_weights::reweight, "change what something weighs for a pool"),
    cmd("osd crush weight-set reweight-compat", &[req("item", Text), WEIGHTS], ("osd", "rw"), crush_weights::reweight, "change what something weighs for pools that have no weight set of their own"),
    cmd("osd crush tunables", &[req("profile", Choice(&crush_change::PROFILES))], ("osd", "rw"), crush_change::tunables, "say what CRUSH goes by, by the name of a profile"),
    cmd("osd crush rule create-erasure", &[req("name", TextOf(NAME_CHARS)), opt("profile", TextOf(NAME_CHARS))], ("osd", "rw"), erasure::rule_create_erasure, "make a CRUSH rule for erasure-coded pools of a profile"),
    cmd("osd erasure-code-profile set", &[req("name", TextOf(NAME_CHARS)), many(opt("profile", Text)), opt("force", Bool)], ("osd", "rw"), erasure::set, "make a profile of an erasure code, or change it"),
    cmd("osd erasure-code-profile get", &[req("name", TextOf(NAME_CHARS))], ("osd", "r"), erasure::get, "show a profile of an erasure code"),
    cmd("osd erasure-code-profile ls", &[], ("osd", "r"), erasure::ls, "list profiles of erasure codes"),
    cmd("osd erasure-code-profile rm", &[req("name", TextOf(NAME_CHARS))], ("osd", "rw"), erasure::rm, "remove a profile of an erasure code"),
    cmd("osd set", &[req("key", Choice(&osd::SETTABLE_FLAGS)), SURE], ("osd", "rw"), osd::set, "set a flag of the cluster"),
    cmd("osd unset", &[req("key", Choice(&osd::SETTABLE_FLAGS))], ("osd", "rw"), osd::unset, "clear a flag of the cluster"),
    cmd("osd set-full-ratio", RATIO, ("osd", "rw"), osd::set_ratio, "say how full an OSD may be until clients must wait"),
    cmd("osd set-backfillfull-ratio", RATIO, ("osd", "rw"), osd::set_ratio, "say how full an OSD may be until it takes no objects of others"),
    cmd("osd set-nearfull-ratio", RATIO, ("osd", "rw"), osd::set_ratio, "say how full an OSD may be until there is a warning"),
    cmd("osd in", IDS, ("osd", "rw"), osd_state::set_in, "let OSDs take placement groups"),
    cmd("osd out", IDS, ("osd", "rw"), osd_state::set_out, "let OSDs take no placement groups: requests wait where there are no others"),
    cmd("osd down", IDS, ("osd", "rw"), osd_state::set_down, "say that OSDs are down; those that run come up again"),
    cmd("osd reweight", &[OSD, req("weight", Fraction)], ("osd", "rw"), osd_state::reweight, "say how much of its share of placement groups an OSD takes"),
    cmd("osd primary-affinity", &[OSD, req("weight", Fraction)], ("osd", "rw"), osd_state::primary_affinity, "say how often an OSD is the first of a placement group"),
    cmd("osd lost", &[OSD, SURE], ("osd", "rw"), osd_state::lost, "say that what only a down OSD held is lost"),
    old(cmd("osd rm", IDS, ("osd", "rw"), osd_state::rm, "forget OSDs; refused for the one that holds everything")),
    cmd("osd destroy", &[OSD, opt("force", Bool), SURE], ("osd", "rw"), osd_state::destroy, "give up an OSD's data; refused for those that hold everything"),
    cmd("osd purge", &[OSD, opt("force", Bool), SURE], ("osd", "rw"), osd_state::purge, "forget an OSD and its data; refused for the one that holds everything"),
    cmd("osd purge-new", &[OSD, SURE], ("osd", "rw"), osd_state::purge, "forget an OSD that never was up; refused for the one that holds everything"),
    bare(cmd("osd new", &[req("uuid", Uuid), opt("id", OsdName)], ("osd", "rw"), osd_new::new, "give out a number for an OSD, with its secrets (-i FILE)")),
    bare(old(cmd("osd create", &[opt("uuid", Uuid), opt("id", OsdName)], ("osd", "rw"), osd_new::create, "give out a number for an OSD"))),
    cmd("osd set-group", GROUP, ("osd", "rw"), osd_group::set, "set flags of OSDs, CRUSH buckets or device classes"),
    cmd("osd unset-group", GROUP, ("osd", "rw"), osd_group::unset, "clear flags of OSDs, CRUSH buckets or device classes"),
    old(cmd("osd add-noup", IDS, ("osd", "rw"), osd_group::add_one, "let OSDs not come up")),
    old(cmd("osd add-nodown", IDS, ("osd", "rw"), osd_group::add_one, "let OSDs not go down by themselves")),
    old(cmd("osd add-noin", IDS, ("osd", "rw"), osd_group::add_one, "let OSDs not go in by themselves")),
    old(cmd("osd add-noout", IDS, ("osd", "rw"), osd_group::add_one, "let OSDs not go out by themselves")),
    old(cmd("osd rm-noup", IDS, ("osd", "rw"), osd_group::rm_one, "let OSDs come up")),
    old(cmd("osd rm-nodown", IDS, ("osd", "rw"), osd_group::rm_one, "let OSDs go down by themselves")),
    old(cmd("osd rm-noin", IDS, ("osd", "rw"), osd_group::rm_one, "let OSDs go in by themselves")),
    old(cmd("osd rm-noout", IDS, ("osd", "rw"), osd_group::rm_one, "let OSDs go out by themselves")),
    bare(cmd("osd reweight-by-utilization", REWEIGHT, ("osd", "rw"), reweight::by_utilization, "give less to OSDs that are fuller than the others")),
    bare(cmd("osd test-reweight-by-utilization", REWEIGHT, ("osd", "r"), reweight::by_utilization, "show what reweight-by-utilization would do")),
    bare(cmd("osd reweight-by-pg", REWEIGHT_PG, ("osd", "rw"), reweight::by_pg, "give less to OSDs with more placement groups than the others")),
    bare(cmd("osd test-reweight-by-pg", REWEIGHT_PG, ("osd", "r"), reweight::by_pg, "show what reweight-by-pg would do")),
    cmd("osd ok-to-stop", IDS, ("osd", "r"), osd_state::ok_to_stop, "tell whether requests would go on without OSDs"),
    cmd("osd safe-to-destroy", IDS, ("osd", "r"), osd_state::safe_to_destroy, "tell whether nothing would be lost with OSDs"),
    bare(cmd("osd utilization", &[], ("osd", "r"), osd_state::utilization, "show how many placement groups the OSDs have")),
    cmd("osd pause", &[], ("osd", "rw"), osd_state::pause, "let requests wait"),
    cmd("osd unpause", &[], ("osd", "rw"), osd_state::unpause, "let requests go on"),
    cmd("osd blocklist", &[opt("range", TextOf("[range]")), req("blocklistop", Choice(&["add", "rm"])), req("addr", Addr), opt("expire", Float { min: Some(0.0) })], ("osd", "rw"), blocklist::change, "shut a client out for some seconds, or let it in again"),
    bare(cmd("osd blocklist ls", &[], ("osd", "r"), blocklist::ls, "list the clients that are shut out")),
    old(cmd("osd blacklist", &[req("blacklistop", Choice(&["add", "rm"])), req("addr", Addr), opt("expire", Float { min: Some(0.0) })], ("osd", "rw"), blocklist::change, "shut a client out for some seconds, or let it in again")),
    bare(old(cmd("osd blacklist ls", &[], ("osd", "r"), blocklist::ls, "list the clients that are shut out"))),
    old(cmd("osd blacklist clear", &[], ("osd", "rw"), blocklist::clear, "let all clients in again")),
    cmd("osd blocklist clear", &[], ("osd", "rw"), blocklist::clear, "let all clients in again"),

    bare(cmd("osd pool ls", &[opt("detail", Choice(&["detail"]))], ("osd", "r"), osd_dump::pool_ls, "list pools")),
    bare(cmd("osd pool stats", &[opt("pool_name", Pool)], ("osd", "r"), osd_df::pool_stats, "show what pools are busy with")),
    cmd("osd pool autoscale-status", &[], ("mgr", "r"), autoscale::status, "show how many placement groups pools would have by what they hold"),
    cmd("osd pool create", &[
        POOL, opt("pg_num", Int { min: Some(0) }), opt("pgp_num", Int { min: Some(0) }), opt("pool_type", Choice(&["replicated", "erasure"])),
        opt("erasure_code_profile", TextOf(NAME_CHARS)), opt("rule", Text), opt("expected_num_objects", Int { min: Some(0) }),
        opt("size", Int { min: Some(0) }), opt("autoscale_mode", Choice(&["on", "off", "warn"])), opt("bulk", Bool), SURE,
    ], ("osd", "rw"), pool::create, "make a pool"),
    cmd("osd pool rm", POOL_RM, ("osd", "rw"), pool::rm, "remove a pool and everything in it"),
    old(cmd("osd pool delete", POOL_RM, ("osd", "rw"), pool::rm, "remove a pool and everything in it")),
    cmd("osd pool rename", &[req("srcpool", Pool), req("destpool", Pool)], ("osd", "rw"), pool::rename, "give a pool another name"),
    cmd("osd pool mksnap", &[POOL, req("snap", Text)], ("osd", "rw"), pool::mksnap, "make a snapshot of a pool"),
    cmd("osd pool rmsnap", &[POOL, req("snap", Text)], ("osd", "rw"), pool::rmsnap, "remove a snapshot of a pool"),
    bare(cmd("osd pool get", &[POOL, req("var", Choice(&pool_vars::READABLE))], ("osd", "r"), pool_vars::get, "show a setting of a pool")),
    cmd("osd pool set", &[POOL, req("var", Choice(&pool_vars::WRITABLE)), req("val", Text), SURE], ("osd", "rw"), pool_vars::set, "change a setting of a pool"),
    cmd("osd pool set-quota", &[POOL, req("field", Choice(&quota::FIELDS)), req("val", Text)], ("osd", "rw"), quota::set, "bound how much a pool may hold"),
    cmd("osd pool get-quota", &[POOL], ("osd", "r"), quota::get, "show how much a pool may hold"),
    cmd("osd pool application enable", &[POOL, req("app", TextOf(NAME_CHARS)), SURE], ("osd", "rw"), pool_app::enable, "say that an application uses a pool"),
    cmd("osd pool application disable", &[POOL, APP, SURE], ("osd", "rw"), pool_app::disable, "say that an application uses a pool no more"),
    cmd("osd pool application set", &[POOL, APP, req("key", TextOf(NAME_CHARS)), req("value", TextOf(VALUE_CHARS))], ("osd", "rw"), pool_app::set, "keep a value for an application of a pool"),
    cmd("osd pool application rm", &[POOL, APP, KEY], ("osd", "rw"), pool_app::rm, "forget a value of an application of a pool"),
    bare(cmd("osd pool application get", &[opt("pool", Pool), opt("app", Text), opt("key", Text)], ("osd", "r"), pool_app::get, "show what applications use pools")),

    bare(cmd("auth ls", &[], ("auth", "rx"), auth::ls, "list keys and capabilities")),
    bare(old(cmd("auth list", &[], ("auth", "rx"), auth::ls, "list keys and capabilities"))),
    bare(cmd("auth get", &[ENTITY], ("auth", "rx"), auth::get, "get a key with its capabilities, as a keyring")),
    bare(cmd("auth get-key", &[ENTITY], ("auth", "rx"), auth::get_key, "get a key")),
    bare(cmd("auth print-key", &[ENTITY], ("auth", "rx"), auth::get_key, "get a key")),
    bare(cmd("auth print_key", &[ENTITY], ("auth", "rx"), auth::get_key, "get a key")),
    bare(cmd("auth export", &[opt("entity", Text)], ("auth", "rx"), auth::export, "get one key or all with their capabilities, as a keyring")),
    cmd("auth import", &[], ("auth", "rwx"), auth::import, "add or change the keys in a keyring (-i FILE)"),
    cmd("auth add", &[ENTITY, CAPS, KEY_TYPE], ("auth", "rwx"), auth::add, "add a key: a new one, or the one in a keyring (-i FILE)"),
    bare(cmd("auth get-or-create", &[ENTITY, CAPS, KEY_TYPE], ("auth", "rwx"), auth::get_or_create, "get a key as a keyring; make it if there is none")),
    bare(cmd("auth get-or-create-key", &[ENTITY, CAPS, KEY_TYPE], ("auth", "rwx"), auth::get_or_create_key, "get a key; make it if there is none")),
    cmd("auth caps", &[ENTITY, many(req("caps", Text))], ("auth", "rwx"), auth::caps, "change the capabilities of a key"),
    cmd("auth rotate", &[ENTITY, KEY_TYPE], ("auth", "rwx"), auth::rotate, "replace a key by a new one, and get it as a keyring"),
    cmd("auth rm", &[ENTITY], ("auth", "rwx"), auth::rm, "remove a key"),
    old(cmd("auth del", &[ENTITY], ("auth", "rwx"), auth::rm, "remove a key")),

    cmd("config set", &[WHO, req("name", Text), req("value", Text), opt("force", Bool)], ("config", "rw"), config::set, "change a setting for some programs"),
    cmd("config rm", &[WHO, req("name", Text)], ("config", "rw"), config::rm, "forget a setting"),
    bare(cmd("config get", &[WHO, opt("key", Text)], ("config", "r"), config::get, "show what is set for a program")),
    bare(cmd("config dump", &[], ("mon", "r"), config::dump, "show all settings")),
    bare(cmd("config help", &[KEY], ("config", "r"), config_help::help, "show what is known of an option")),
    cmd("config generate-minimal-conf", &[], ("config", "r"), config_help::minimal_conf, "show the least ceph.conf that a client needs"),
    bare(cmd("config show", &[WHO, opt("key", Text)], ("mgr", "r"), config_log::show, "show what a daemon goes by, of all that is set")),
    bare(cmd("config show-with-defaults", &[WHO], ("mgr", "r"), config_log::show_with_defaults, "show what a daemon goes by")),
    bare(cmd("config log", &[opt("num", Int { min: None })], ("config", "r"), config_log::log, "show the latest changes of settings")),
    cmd("config reset", &[req("num", Int { min: Some(0) })], ("config", "rw"), config_log::reset, "make all settings what they were at a version"),
    bare(cmd("config ls", &[], ("config", "r"), config::ls, "list the options that there are")),
    cmd("config assimilate-conf", &[], ("config", "rw"), config_assimilate::assimilate, "take settings from a ceph.conf (-i FILE), and give back what cannot be set so"),
    cmd("config-key get", &[KEY], ("config-key", "r"), config_key::get, "get a value"),
    cmd("config-key set", &[KEY, opt("val", Text)], ("config-key", "rw"), config_key::set, "keep a value, or the content of a file (-i FILE)"),
    old(cmd("config-key put", &[KEY, opt("val", Text)], ("config-key", "rw"), config_key::set, "keep a value, or the content of a file (-i FILE)")),
    cmd("config-key rm", &[KEY], ("config-key", "rw"), config_key::rm, "forget a value"),
    old(cmd("config-key del", &[KEY], ("config-key", "rw"), config_key::rm, "forget a value")),
    cmd("config-key exists", &[KEY], ("config-key", "r"), config_key::exists, "tell whether there is a value"),
    cmd("config-key ls", &[], ("config-key", "r"), config_key::ls, "list keys"),
    old(cmd("config-key list", &[], ("config-key", "r"), config_key::ls, "list keys")),
    cmd("config-key dump", &[opt("key", Text)], ("config-key", "r"), config_key::dump, "show keys and values"),
    cmd("log", &[many(req("logtext", Text))], ("mon", "rw"), log::write, "write to the cluster's log"),
    bare(cmd("log last", &[opt("num", Int { min: Some(1) }), opt("level", Choice(&["debug", "info", "sec", "warn", "error"])), opt("channel", Choice(&["*", "cluster", "audit"]))], ("mon", "r"), log::last, "show the cluster's log")),
    cmd("mon add", &[MON, req("addr", Text), many(opt("location", Text))], ("mon", "rw"), mon_change::add, "add a monitor; refused: there is one"),
    cmd("mon rm", &[MON], ("mon", "rw"), mon_change::rm, "remove a monitor; refused for the last"),
    old(cmd("mon remove", &[MON], ("mon", "rw"), mon_change::rm, "remove a monitor; refused for the last")),
    cmd("mon scrub", &[], ("mon", "rw"), mon_change::scrub, "compare what monitors keep"),
    old(cmd("scrub", &[], ("mon", "rw"), mon_change::old_scrub, "compare what monitors keep")),
    cmd("mon enable-msgr2", &[], ("mon", "rw"), mon_change::enable_msgr2, "have monitors speak the newer protocol"),
    cmd("mon set-rank", &[MON, req("rank", Int { min: None })], ("mon", "rw"), mon_change::set_rank, "give a monitor a rank"),
    cmd("mon add disallowed_leader", &[MON], ("mon", "rw"), mon_change::disallowed_leader, "let a monitor not lead"),
    cmd("mon rm disallowed_leader", &[MON], ("mon", "rw"), mon_change::disallowed_leader, "let a monitor lead again"),
    cmd("mgr module enable", &[req("module", Text), opt("force", Choice(&["--force"]))], ("mgr", "rw"), absent::module_enable, "have the manager load a module; refused: there is none"),
    cmd("mgr module disable", &[req("module", Text)], ("mgr", "rw"), absent::module_disable, "have the manager leave out a module"),

    bare(cmd("osd perf", &[], ("osd", "r"), osd_perf::perf, "show how fast OSDs' stores are")),
    bare(cmd("osd blocked-by", &[], ("osd", "r"), osd_perf::blocked_by, "show which OSDs keep others waiting")),
    bare(cmd("osd numa-status", &[], ("osd", "r"), osd_perf::numa_status, "show where OSDs' devices are")),
    cmd("osd last-stat-seq", &[OSD], ("osd", "r"), osd_perf::last_stat_seq, "show the number of an OSD's newest report"),
    cmd("osd tree-from", &[EPOCH, opt("bucket", Text), many(opt("states", Choice(&["up", "down", "in", "out", "destroyed"])))], ("osd", "r"), crush::tree_from, "show the OSDs below a CRUSH bucket"),
    cmd("osd reweightn", &[req("weights", Text)], ("osd", "rw"), osd_weights::reweight_many, "say how much of their share of placement groups OSDs take"),
    cmd("osd set-require-min-compat-client", &[req("version", Text), SURE], ("osd", "rw"), osd_release::min_compat_client, "say which is the oldest release whose clients may connect"),
    cmd("osd require-osd-release", &[req("release", Choice(&osd_release::OSD_RELEASES)), SURE], ("osd", "rw"), osd_release::osd_release, "say which is the oldest release of OSDs"),
    cmd("osd crush set", &[opt("prior_version", Int { min: None })], ("osd", "rw"), crush_change::set_map, "replace the CRUSH map by an encoded one (-i FILE)"),
    cmd("osd stop", IDS, ("osd", "rw"), osd_state::stop, "stop OSDs; refused for those that hold everything"),
    cmd("osd pg-temp", &[PGID, many(opt("id", OsdName))], ("osd", "rw"), osd_pg::pg_temp, "have other OSDs serve a placement group for a while"),
    cmd("osd primary-temp", &[PGID, req("id", OsdName)], ("osd", "rw"), osd_pg::primary_temp, "have another OSD be the first of a placement group for a while; -1: no more"),
    cmd("osd pg-upmap", &[PGID, OSDS], ("osd", "rw"), osd_pg::upmap, "say which OSDs have a placement group"),
    cmd("osd pg-upmap-items", &[PGID, OSDS], ("osd", "rw"), osd_pg::upmap_items, "say which OSDs of a placement group others replace: pairs"),
    cmd("osd rm-pg-upmap", &[PGID], ("osd", "rw"), osd_pg::rm_upmap, "have CRUSH say again which OSDs have a placement group"),
    cmd("osd rm-pg-upmap-items", &[PGID], ("osd", "rw"), osd_pg::rm_upmap_items, "replace no OSDs of a placement group any more"),
    cmd("osd force-create-pg", &[PGID, SURE], ("osd", "rw"), osd_pg::force_create, "make a lost placement group anew; refused: none is lost"),
    bare(cmd("pg dump_pools_json", &[], ("pg", "r"), pg_dump::dump_pools, "show what pools hold, in JSON")),

    cmd("fs ls", &[], ("fs", "r"), absent::fs_ls, "list file systems"),
    cmd("fs get", &[FS], ("fs", "r"), absent::fs_missing, "show a file system"),
    cmd("fs fail", &[FS], ("fs", "rw"), absent::fs_missing, "stop a file system"),
    cmd("mds stat", &[], ("mds", "r"), absent::mds_stat, "summarize the metadata servers' state"),
    cmd("mds metadata", &[opt("who", Text)], ("mds", "r"), absent::mds_metadata, "show what is known of a metadata server, or of all"),
    cmd("mds count-metadata", &[PROPERTY], ("mds", "r"), absent::none_of_mds, "count metadata servers by a property"),
    cmd("mds versions", &[], ("mds", "r"), absent::none_of_mds, "show the versions of metadata servers"),
    cmd("mds ok-to-stop", &[many(req("ids", Text))], ("mds", "r"), absent::mds_ok_to_stop, "tell whether metadata servers may be stopped"),
    module("balancer status"), module("crash ls"), module("crash stat"), module("crash ls-new"), module("device ls"),
    module("telemetry status"), module("progress"), module("orch status"), module("orch ls"), module("orch ps"),
    module("rbd task list"), module("rbd trash purge schedule add"), module("rbd trash purge schedule list"),
    module("rbd trash purge schedule remove"), module("rbd trash purge schedule status"),
    module("rbd mirror snapshot schedule add"), module("rbd mirror snapshot schedule list"),
    module("rbd mirror snapshot schedule remove"), module("rbd mirror snapshot schedule status"),
    module("rbd perf image stats"), module("rbd perf image counters"), module("iostat"), module("insights"),
    module("fs volume ls"), module("fs status"), module("balancer on"), module("balancer off"), module("balancer mode"),
];
