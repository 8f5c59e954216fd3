//! The XML names that a monitor of 16.2.15 uses in each command's output: of the outermost element, and
//! of its items if it is an array.

use super::{Args, Call};
use crate::output::xml::{ITEM, Names};

/// Command, outermost element, its items.
#[rustfmt::skip] // a table
const NAMES: &[(&str, &str, &str)] = &[
    ("auth add", "auth", ITEM), ("auth export", "auth", "auth_entities"),
    ("auth get", "auth", "auth_entities"), ("auth get-key", "auth", ITEM),
    ("auth get-or-create", "auth", "auth_entities"), ("auth get-or-create-key", "auth", ITEM),
    ("auth list", "auth", ITEM), ("auth ls", "auth", ITEM), ("auth print-key", "auth", ITEM),
    ("auth print_key", "auth", ITEM), ("config dump", "config", "option"), ("config get", "config", ITEM),
    ("config help", "option", ITEM), ("config log", "changesets", "changeset"),
    ("config ls", "options", "option"), ("config show", "config", "value"),
    ("config show-with-defaults", "config", "value"), ("config-key dump", "config-key_store", ITEM),
    ("config-key list", "keys", "key"), ("config-key ls", "keys", "key"), ("df", "stats", ITEM),
    ("fs ls", "filesystems", "filesystem"), ("log last", "tail", "entry"),
    ("mds metadata", "mds_metadata", "mds"), ("mgr dump", "mgrmap", ITEM),
    ("mgr metadata", "mgr_metadata", "mgr"), ("mgr module ls", "modules", ITEM),
    ("mgr services", "services", ITEM), ("mgr stat", "stat", ITEM), ("mgr versions", "ceph_version", ITEM),
    ("mon dump", "monmap", ITEM), ("mon feature ls", "features", ITEM),
    ("mon metadata", "mon_metadata", "mon"), ("mon stat", "monmap", ITEM),
    ("mon versions", "ceph_version", ITEM), ("node ls", "nodes", ITEM), ("osd blocked-by", "pg_info", ITEM),
    ("osd blocklist ls", "blocklist", "entry"), ("osd create", "created_osd", ITEM),
    ("osd crush class ls", "crush_classes", "class"), ("osd crush dump", "crush_map", ITEM),
    ("osd crush get-tunable", "tunable", ITEM), ("osd crush ls", "items", ITEM),
    ("osd crush rule dump", "rules", "rule"), ("osd crush rule list", "rules", "name"),
    ("osd crush rule ls", "rules", "name"), ("osd crush show-tunables", "crush_map_tunables", ITEM),
    ("osd crush tree", "crush_tree", ITEM), ("osd dump", "osdmap", ITEM),
    ("osd find", "osd_location", ITEM), ("osd getmaxosd", "getmaxosd", ITEM),
    ("osd info", "osds", "osd_info"), ("osd ls", "osds", "osd"), ("osd ls-tree", "osds", "osd"),
    ("osd lspools", "pools", "pool"), ("osd map", "osd_map", ITEM), ("osd metadata", "osd_metadata", "osd"),
    ("osd new", "created_osd", ITEM), ("osd numa-status", "osds", "osd"), ("osd perf", "pg_info", ITEM),
    ("osd pool application get", "pools", ITEM), ("osd pool get", "pool", ITEM),
    ("osd pool get-quota", "pool_quotas", ITEM), ("osd pool ls", "pools", "pool_name"),
    ("osd pool stats", "pool_stats", "pool"), ("osd reweight-by-pg", "reweight_by_utilization", ITEM),
    ("osd reweight-by-utilization", "reweight_by_utilization", ITEM), ("osd stat", "osdmap", ITEM),
    ("osd test-reweight-by-pg", "reweight_by_utilization", ITEM),
    ("osd test-reweight-by-utilization", "reweight_by_utilization", ITEM), ("osd tree-from", "tree", ITEM),
    ("osd versions", "ceph_version", ITEM), ("pg dump", "pg_info", ITEM),
    ("pg dump_pools_json", "pg_info", ITEM), ("pg ls", "pg_info", ITEM), ("pg ls-by-osd", "pg_info", ITEM),
    ("pg ls-by-pool", "pg_info", ITEM), ("pg ls-by-primary", "pg_info", ITEM), ("pg map", "pg_map", ITEM),
    ("pg stat", "pg_info", ITEM), ("time-sync-status", "time_sync", ITEM), ("versions", "version", ITEM),
];

impl Call<'_> {
    /// The XML names of this command's output.
    pub(super) fn xml_names(&self) -> Names {
        names(self.args)
    }
}

fn names(args: &Args) -> Names {
    let prefix = args.prefix().unwrap_or_default();
    let known = NAMES.binary_search_by_key(&prefix, |(known, ..)| known).ok().map(|at| NAMES[at]);
    // A command that is not in the table uses its last word.
    let last = prefix.rsplit(' ').next().unwrap_or_default();
    let (_, root, item) = known.unwrap_or((prefix, last, ITEM));
    // An argument that selects the content may change the names.
    let (root, item) = match prefix {
        "osd info" if args.has("id") => ("osd_info", item),
        "osd crush rule dump" if args.has("name") => ("rule", item),
        "osd pool ls" if args.has("detail") => (root, "pool"),
        "osd pool application get" => (args.text("pool").unwrap_or(root), item),
        "node ls" => (args.text("type").filter(|kind| *kind != "all").unwrap_or(root), item),
        "mon count-metadata" | "osd count-metadata" | "mgr count-metadata" => {
            (args.text("property").unwrap_or(root), item)
        }
        _ => (root, item),
    };
    let special: &[(&str, &str)] = match prefix {
        "osd perf" => &[("osd_perf_infos", "osd")],
        "status" => &[("quorum", "rank"), ("quorum_names", "id")],
        "pg map" => &[("acting", "acting_osd"), ("up", "up_osd")],
        _ => &[],
    };
    Names { root: root.to_owned(), item, special }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_of_commands() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        let unknown: Vec<_> =
            NAMES.iter().filter(|(prefix, ..)| super::super::find(prefix).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    /// The names are those of a monitor of 16.2.15.
    #[test]
    fn arguments_choose_names() {
        for (command, root, item) in [
            (r#"{"prefix":"status"}"#, "status", ITEM),
            (r#"{"prefix":"df"}"#, "stats", ITEM),
            (r#"{"prefix":"osd info"}"#, "osds", "osd_info"),
            (r#"{"prefix":"osd info","id":0}"#, "osd_info", "osd_info"),
            (r#"{"prefix":"osd pool ls","detail":"detail"}"#, "pools", "pool"),
            (r#"{"prefix":"osd pool application get","pool":"xmlp"}"#, "xmlp", ITEM),
            (r#"{"prefix":"osd count-metadata","property":"arch"}"#, "arch", ITEM),
        ] {
            let args = Args::parse(command).expect(command);
            let Names { root: given, item: items, .. } = names(&args);
            assert_eq!((given.as_str(), items), (root, item), "{command}");
        }
    }
}
