//! Goal: our client's requests other than operations on objects have the same result on this server and
//! on a stock cluster. Method: each test runs on an embedded server and, if LOLIGO_STOCK_CONF names a
//! stock cluster, on that one, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use loligo_rados::{Builder, Errno, Error, IoCtx, ListCursor, ObjectList, OsdId, PgId, Rados, ReadFrom};
use loligo_server::Server;

async fn connect(conf: &Path) -> Rados {
    let conf = conf.to_str().expect("a path in UTF-8");
    Builder::new().conf_file(conf).set("rados_osd_op_timeout", "60").connect().await.expect("connects")
}

/// Runs a test in a pool of its own, which is removed at the end.
async fn in_pool<F: Future<Output = ()>>(conf: &Path, name: &str, test: impl FnOnce(Rados, IoCtx) -> F) {
    let rados = connect(conf).await;
    let name = format!("client-{name}-{}", std::process::id());
    rados.create_pool(&name).await.expect("made");
    test(rados.clone(), rados.ioctx(&name).await.expect("just made")).await;
    rados.delete_pool(&name).await.expect("removed");
    rados.shutdown().await;
}

fn server() -> loligo_server::Handle {
    Server::memory().start().expect("the server starts")
}

fn stock() -> PathBuf {
    std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf").into()
}

/// Defines each test twice: on our server, and on a stock cluster.
macro_rules! on_both {
    ($($test:ident, $on_stock:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            let server = server();
            tests::$test(server.conf()).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        #[ignore = "needs stock Ceph; run by cargo xtask test"]
        async fn $on_stock() {
            tests::$test(&stock()).await;
        }
    )*};
}

on_both! {
    parts_of_a_pool_are_disjoint_and_complete, parts_of_a_stock_pool_are_disjoint_and_complete;
    listings_end_where_they_shall, listings_of_stock_end_where_they_shall;
    only_objects_with_an_attribute_are_listed, only_objects_with_an_attribute_are_listed_by_stock;
    osds_take_commands, stock_osds_take_commands;
    a_blocked_client_is_kept_out, a_blocked_client_is_kept_out_by_stock;
    pools_know_their_applications, stock_pools_know_their_applications;
    what_may_be_read_anywhere_is_read, what_may_be_read_anywhere_is_read_from_stock;
    a_watch_that_is_given_up_ends, a_watch_that_is_given_up_ends_on_stock;
}

/// The commands that docs/emulated.md lists as refused because they are unknown, each with the daemon it
/// is sent to.
fn absent_commands() -> Vec<(&'static str, &'static str)> {
    let page = include_str!("../../../../docs/emulated.md");
    let list =
        page.split_once("## Commands of a 16.2 cluster that the server does not have").expect("a list").1;
    let list = list.split_once("\n- ").expect("items").1;
    let items = list.split("\n- ").flat_map(|item| {
        let (of, commands) = item.split_once(": ").expect("who, and what");
        commands.split('`').skip(1).step_by(2).map(move |command| (of, command))
    });
    items.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_book_calls_unknown_is_refused() {
    let server = server();
    let rados = connect(server.conf()).await;
    let mut asked = BTreeMap::<&str, u32>::new();
    for (of, prefix) in absent_commands() {
        let command = format!(r#"{{"prefix":"{prefix}"}}"#);
        let none = Bytes::new();
        let answer = match of {
            "Monitor" | "Monitor, about file systems" => rados.mon_command(&command, none).await,
            "OSD (`tell osd.N`)" => rados.osd_command(OsdId(0), &command, none).await,
            "Manager (`tell mgr`)" => rados.tell_mgr(None, &command, none).await,
            // Our client sends no tell commands to monitors: `surface/tools.rs` tests these.
            "Monitor (`tell mon.a`)" => continue,
            other => panic!("{other} is not known to this test"),
        };
        assert_eq!(errno(answer), Errno::EINVAL, "{of}: {prefix}");
        *asked.entry(of).or_default() += 1;
    }
    assert!(asked.len() == 4 && asked.values().all(|count| *count > 8), "another form: {asked:?}");
    rados.shutdown().await;
}

/// A blocklist entry can name a whole host. Then only the OSDs know which clients it applies to, and
/// their errors tell the client.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_learns_from_an_osd_that_its_host_is_blocked() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let rados = connect(server.conf()).await;
    let pool = rados.ioctx("p").await.expect("the pool");
    pool.write_full("o", Bytes::new()).await.expect("written");
    assert!(!rados.is_blocklisted());
    rados.block("127.0.0.1:0/0", None).await.expect("blocked");
    assert_eq!(errno(pool.write_full("o", Bytes::new()).await), Errno::EBLOCKLISTED);
    assert!(rados.is_blocklisted());
    rados.blocklisted().await;
    rados.shutdown().await;
}

/// The CRUSH map is shown as a stock monitor shows its own, as far as the maps are equal.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn the_crush_map_is_shown_as_by_stock() {
    let server = server();
    let mut shown = Vec::new();
    for conf in [server.conf().to_owned(), stock()] {
        let rados = connect(&conf).await;
        let (out, _) =
            rados.mon_command(r#"{"prefix": "osd crush dump"}"#, Bytes::new()).await.expect("shown");
        shown.push(serde_json::from_slice::<serde_json::Value>(&out).expect("JSON"));
        rados.shutdown().await;
    }
    let [ours, stock] = &shown[..] else { panic!("two were asked") };
    let keys =
        |of: &serde_json::Value| of.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(ours), keys(stock));
    for same in ["types", "tunables", "choose_args"] {
        assert_eq!(ours[same], stock[same], "{same}");
    }
    for alike in ["buckets", "rules"] {
        assert_eq!(keys(&ours[alike][0]), keys(&stock[alike][0]), "{alike}");
    }
    assert_eq!(keys(&ours["buckets"][0]["items"][0]), keys(&stock["buckets"][0]["items"][0]));
    assert_eq!((&ours["devices"][0]["id"], &ours["devices"][0]["name"]), (&0.into(), &"osd.0".into()));
}

async fn names(list: ObjectList) -> Result<Vec<Vec<u8>>, Error> {
    list.map_ok(|object| [&object.nspace[..], b"/", &object.oid].concat()).try_collect().await
}

fn errno<T: std::fmt::Debug>(result: Result<T, Error>) -> Errno {
    result.expect_err("it must fail").errno()
}

mod tests {
    use super::*;

    pub(super) async fn parts_of_a_pool_are_disjoint_and_complete(conf: &Path) {
        in_pool(conf, "parts", async |_, pool| {
            let spaces = [pool.clone(), pool.with_namespace("elsewhere"), pool.with_locator("key")];
            for (n, space) in spaces.iter().enumerate() {
                try_join_all((0..300).map(|i| space.write_full(format!("o{n}.{i}"), Bytes::new())))
                    .await
                    .expect("written");
            }
            let all = names(pool.objects_of_all_namespaces()).await.expect("listed");
            assert_eq!(all.len(), 900);
            let here = names(pool.objects()).await.expect("listed");
            assert_eq!(here.len(), 600);
            for parts in [1, 2, 5, 64] {
                let lists = pool.object_parts(parts);
                assert_eq!(lists.len(), parts as usize);
                let found = try_join_all(lists.into_iter().map(names)).await.expect("listed");
                // Concatenated in order, the parts equal the whole listing.
                assert_eq!(found.concat(), here, "{parts} parts");
                let largest = found.iter().map(Vec::len).max().unwrap_or(0);
                // Objects with the same locator key are all in one part.
                assert!(largest <= 300 + 600 / parts as usize, "{parts} parts: {largest}");
            }
            assert_eq!(pool.object_parts(0).len(), 1);
        })
        .await;
    }

    pub(super) async fn listings_end_where_they_shall(conf: &Path) {
        in_pool(conf, "ends", async |_, pool| {
            try_join_all((0..100).map(|i| pool.write_full(format!("o{i}"), Bytes::new())))
                .await
                .expect("written");
            let all = names(pool.objects()).await.expect("listed");
            // Positions in the middle of a placement group: the cursors at which a listing's batches
            // ended.
            let mut places = vec![ListCursor::start()];
            let mut list = pool.objects();
            while !list.next_batch().await.expect("listed").is_empty() {
                places.push(ListCursor::from_bytes(&list.cursor().to_bytes()).expect("its own bytes"));
            }
            places.push(ListCursor::end());
            let between = |two: &[ListCursor]| names(pool.objects_between(two[0].clone(), two[1].clone()));
            let found = try_join_all(places.windows(2).map(between)).await.expect("listed");
            assert_eq!(found.concat(), all);
            let none = pool.objects_between(ListCursor::end(), ListCursor::start());
            assert!(names(none).await.expect("nothing to ask").is_empty());
        })
        .await;
    }

    pub(super) async fn only_objects_with_an_attribute_are_listed(conf: &Path) {
        in_pool(conf, "filter", async |_, pool| {
            for i in 0..50 {
                let name = format!("o{i}");
                pool.set_xattr(name.as_str(), "colour", if i % 5 == 0 { "red" } else { "blue" })
                    .await
                    .expect("set");
            }
            pool.write_full("plain", Bytes::new()).await.expect("written");
            let found = names(pool.objects().whose_xattr_is("colour", "red")).await.expect("listed");
            let wanted: BTreeSet<Vec<u8>> =
                (0..50).step_by(5).map(|i| format!("/o{i}").into_bytes()).collect();
            assert_eq!((found.len(), found.into_iter().collect::<BTreeSet<_>>()), (10, wanted));
            let none = names(pool.objects().whose_xattr_is("colour", "green")).await.expect("listed");
            assert!(none.is_empty());
            let parts =
                pool.object_parts(4).into_iter().map(|part| names(part.whose_xattr_is("colour", "blue")));
            assert_eq!(try_join_all(parts).await.expect("listed").concat().len(), 40);
        })
        .await;
    }

    pub(super) async fn osds_take_commands(conf: &Path) {
        in_pool(conf, "commands", async |rados, pool| {
            let command = r#"{"prefix": "version", "format": "json"}"#;
            let (out, _) = rados.osd_command(OsdId(0), command, Bytes::new()).await.expect("answered");
            assert!(String::from_utf8_lossy(&out).contains("version"), "{out:?}");
            let unknown = rados.osd_command(OsdId(0), r#"{"prefix": "no such thing"}"#, Bytes::new()).await;
            assert_eq!(errno(unknown), Errno::EINVAL);
            assert_eq!(errno(rados.osd_command(OsdId(77), command, Bytes::new()).await), Errno::ENOENT);
            let missing = PgId { pool: pool.pool(), seed: 5_000_000 };
            assert_eq!(errno(rados.pg_command(missing, command, Bytes::new()).await), Errno::ENOENT);
            let pg = PgId { pool: pool.pool(), seed: 0 };
            // The primary also answers the OSD's own commands.
            let (out, _) = rados.pg_command(pg, command, Bytes::new()).await.expect("answered");
            assert!(String::from_utf8_lossy(&out).contains("version"), "{out:?}");
            // Many commands at once, while operations use the same connection.
            let commands = (0..8).map(|_| rados.osd_command(OsdId(0), command, Bytes::new()));
            let writes = (0..50).map(|i| pool.write_full(format!("o{i}"), Bytes::new()));
            tokio::try_join!(try_join_all(commands), try_join_all(writes)).expect("answered");
        })
        .await;
    }

    pub(super) async fn a_blocked_client_is_kept_out(conf: &Path) {
        in_pool(conf, "block", async |rados, pool| {
            let victim = connect(conf).await;
            let victims_pool = victim.ioctx_by_id(pool.pool());
            let watch = {
                victims_pool.write_full("o", Bytes::new()).await.expect("written");
                victims_pool.watch("o", Duration::ZERO).await.expect("watched")
            };
            let address = pool.watchers("o").await.expect("listed")[0].addr.to_string();
            let address = address.trim_start_matches("v2:").to_owned();
            rados.block(&address, Some(Duration::from_secs(60))).await.expect("blocked");
            pool.write_full("o", Bytes::new()).await.expect("others go on");
            assert_eq!(errno(victims_pool.write_full("o", Bytes::new()).await), Errno::EBLOCKLISTED);
            assert!(victim.is_blocklisted() && !rados.is_blocklisted());
            rados.unblock(&address).await.expect("let in again");
            rados.unblock(&address).await.expect("it is let in already");
            assert_eq!(errno(rados.block("nonsense", None).await), Errno::EINVAL);
            drop(watch);
            victim.shutdown().await;
        })
        .await;
    }

    pub(super) async fn pools_know_their_applications(conf: &Path) {
        in_pool(conf, "apps", async |_, pool| {
            assert!(pool.applications().await.expect("known").is_empty());
            pool.enable_application("one", false).await.expect("the first");
            assert_eq!(errno(pool.enable_application("two", false).await), Errno::EPERM);
            pool.enable_application("two", true).await.expect("forced");
            assert_eq!(pool.applications().await.expect("known"), ["one", "two"]);
            pool.set_application_metadata("one", "key", "value").await.expect("set");
            pool.set_application_metadata("one", "other", "").await.expect("set");
            let found = pool.application_metadata("one").await.expect("known");
            assert_eq!(
                found.into_iter().collect::<Vec<_>>(),
                [("key".to_owned(), "value".to_owned()), ("other".to_owned(), String::new())]
            );
            pool.remove_application_metadata("one", "key").await.expect("removed");
            pool.remove_application_metadata("one", "key").await.expect("it is not there");
            assert_eq!(pool.application_metadata("one").await.expect("known").len(), 1);
            assert_eq!(errno(pool.application_metadata("three").await), Errno::ENOENT);
            assert_eq!(errno(pool.set_application_metadata("three", "k", "v").await), Errno::ENOENT);
        })
        .await;
    }

    pub(super) async fn what_may_be_read_anywhere_is_read(conf: &Path) {
        in_pool(conf, "anywhere", async |_, pool| {
            pool.write_full("o", Bytes::from_static(b"content")).await.expect("written");
            for read_from in [ReadFrom::Primary, ReadFrom::Balanced, ReadFrom::Nearest] {
                let pool = pool.reading_from(read_from);
                assert_eq!(pool.read("o", 0, 0).await.expect("read"), "content", "{read_from:?}");
                assert_eq!(pool.stat("o").await.expect("there").size, 7);
                assert_eq!(errno(pool.read("none", 0, 0).await), Errno::ENOENT);
                pool.append("o", Bytes::new()).await.expect("writes go where they always go");
                pool.lock_info("o", "a lock").await.expect("classes are asked at the primary");
                assert!(pool.watchers("o").await.expect("asked at the primary").is_empty());
            }
        })
        .await;
    }

    pub(super) async fn a_watch_that_is_given_up_ends(conf: &Path) {
        in_pool(conf, "given-up", async |_, pool| {
            pool.write_full("o", Bytes::new()).await.expect("written");
            for pause in [0, 1, 100, 300, 1000, 3000] {
                let watch = pool.watch("o", Duration::from_secs(60));
                let begun = tokio::time::timeout(Duration::from_micros(pause), watch).await;
                // Dropping the watch ends a registration in progress.
                drop(begun);
            }
            // An OSD drops a watch that it does not hear from for a minute.
            let ended = async {
                while !pool.watchers("o").await.expect("told").is_empty() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), ended).await.expect("all end");
        })
        .await;
    }
}
