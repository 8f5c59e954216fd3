//! Goal: the functions of stock librados that this server supports work as on a stock cluster. Method:
//! scripts with assertions run through python3-rados on an embedded server and, if `LOLIGO_STOCK_CONF`
//! names the configuration of a stock cluster, on that one too.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::Builder;
use loligo_server::Server;

/// A connected cluster `c`, and a new pool `io` which is removed at the end.
const HEAD: &str = r#"
import json, rados, sys, time
c = rados.Rados(conffile=sys.argv[1]); c.connect()
name = 'librados-%d' % c.get_instance_id()
c.create_pool(name); io = c.open_ioctx(name)
def fails(error, call, *args):
    try: call(*args)
    except error as e: return e
    raise AssertionError('%s did not fail' % call)
"#;
const TAIL: &str = "\nio.close(); c.delete_pool(name); c.shutdown()\n";

/// Runs a script on our server, and on the stock cluster if there is one.
fn on_both(script: &str) {
    let server = Server::memory().start().expect("the server starts");
    let stock = env::var_os("LOLIGO_STOCK_CONF").map(PathBuf::from);
    for conf in [Some(server.conf().to_owned()), stock].into_iter().flatten() {
        run(&conf, &format!("{HEAD}{script}{TAIL}"));
    }
}

fn run(conf: &Path, script: &str) {
    let mut command = Command::new("timeout");
    command.args(["60", "/usr/bin/python3", "-c", script]).arg(conf).env("CEPH_CONF", conf);
    let out = command.output().expect("it is installed");
    assert!(out.status.success(), "{}: {}", conf.display(), String::from_utf8_lossy(&out.stderr));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_cluster_is_asked_and_administered() {
    on_both(
        r#"
assert c.state == 'connected' and len(c.get_fsid()) == 36 and c.get_instance_id() > 0
assert c.pool_exists(name) and name in c.list_pools() and not c.pool_exists('no such pool')
number = c.pool_lookup(name)
assert c.pool_reverse_lookup(number) == name == io.get_pool_name() and io.get_pool_id() == number
other = c.open_ioctx2(number)
io.write_full('o', b'x'); assert other.read('o') == b'x'
assert c.pool_lookup('no such pool') is None
fails(rados.ObjectNotFound, c.open_ioctx, 'no such pool')
fails(rados.ObjectNotFound, c.delete_pool, 'no such pool')
fails(rados.ObjectExists, c.create_pool, name)
second = name + '-second'
c.create_pool(second); assert second in c.list_pools()
c.delete_pool(second); assert second not in c.list_pools()
stats = c.get_cluster_stats()
assert set(stats) == {'kb', 'kb_used', 'kb_avail', 'num_objects'} and stats['kb'] >= stats['kb_avail'] > 0
code, out, said = c.mon_command(json.dumps({'prefix': 'osd lspools', 'format': 'json'}), b'')
assert code == 0 and {'poolnum': number, 'poolname': name} in json.loads(out), (code, out, said)
code, out, said = c.mon_command(json.dumps({'prefix': 'no such command'}), b'')
assert code == -22 and said == 'command not known', (code, said)
code, out, said = c.mon_command('not json', b''); assert code == -22, (code, said)
c.wait_for_latest_osdmap()
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn objects_are_written_and_read_in_all_ways() {
    on_both(
        r#"
io.write('o', b'0123456789', 5); assert io.read('o') == b'\0' * 5 + b'0123456789'
io.write('o', b'AB', 1); io.append('o', b'end'); assert io.read('o', 4, 14) == b'9end'
assert io.read('o', 100, 18) == b'' and io.read('o', 3, 1) == b'AB\0'
io.trunc('o', 3); io.trunc('o', 6); assert io.read('o') == b'\0AB\0\0\0'
io.write_full('o', b'all'); assert io.read('o') == b'all'
size, when = io.stat('o'); assert size == 3 and abs(time.mktime(when) - time.time()) < 3600 * 26
before = io.get_last_version(); io.append('o', b'!'); assert io.get_last_version() > before
io.read('o'); assert io.get_last_version() > before
for call in (io.read, io.stat, io.remove_object): fails(rados.ObjectNotFound, call, 'no such object')
fails(rados.NoData, io.get_xattr, 'o', 'no such attribute')
values = {'a': b'', 'b': b'\0\xff', 'user.long': b'v' * 5000}
for key, value in values.items(): io.set_xattr('o', key, value)
assert dict(io.get_xattrs('o')) == values and all(io.get_xattr('o', k) == v for k, v in values.items())
io.rm_xattr('o', 'a'); assert 'a' not in dict(io.get_xattrs('o'))
io.remove_object('o'); fails(rados.ObjectNotFound, io.stat, 'o')

with rados.WriteOpCtx() as op:
    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE); op.write_full(b'0123456789'); op.truncate(8); op.zero(2, 2); op.append(b'.')
    io.set_omap(op, ('k1', 'k2', 'l'), (b'v1', b'', b'\0'))
    io.operate_write_op(op, 'w')
assert io.read('w') == b'01' + bytes(2) + b'4567.', io.read('w')
with rados.WriteOpCtx() as op:
    op.new(rados.LIBRADOS_CREATE_EXCLUSIVE); op.append(b'twice')
    fails(rados.ObjectExists, io.operate_write_op, op, 'w')
def omap(call, *args):
    with rados.ReadOpCtx() as op:
        found, _ = call(op, *args); io.operate_read_op(op, 'w'); return list(found)
assert omap(io.get_omap_vals, '', '', 10) == [('k1', b'v1'), ('k2', None), ('l', b'\0')]
assert omap(io.get_omap_vals, 'k1', 'k', 10) == [('k2', None)] and len(omap(io.get_omap_vals, '', '', 2)) == 2
assert [k for k, _ in omap(io.get_omap_keys, '', 10)] == ['k1', 'k2', 'l']
assert omap(io.get_omap_vals_by_keys, ('l', 'none')) == [('l', b'\0')]
with rados.WriteOpCtx() as op: io.remove_omap_keys(op, ('k1',)); io.operate_write_op(op, 'w')
assert len(omap(io.get_omap_vals, '', '', 10)) == 2
with rados.WriteOpCtx() as op: io.clear_omap(op); io.operate_write_op(op, 'w')
assert omap(io.get_omap_vals, '', '', 10) == []
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn asynchronous_operations_complete_with_what_they_did() {
    on_both(
        r#"
told = []
def done(completion, data=None): told.append(completion.get_return_value())
calls = [io.aio_write('a', b'0123', 0, done, done), io.aio_write_full('b', b'full', done), io.aio_append('b', b'+', done)]
for call in calls: call.wait_for_complete_and_cb()
assert told.count(0) >= 3 and all(call.is_complete() and call.get_return_value() == 0 for call in calls), told
read = []
call = io.aio_read('b', 100, 0, lambda completion, data: read.append(data)); call.wait_for_complete_and_cb()
assert read == [b'full+'] and call.get_return_value() == 5
stat = []
io.aio_stat('a', lambda completion, size, when: stat.append(size)).wait_for_complete_and_cb(); assert stat == [4]
call = io.aio_stat('none', lambda completion, size, when: None); call.wait_for_complete_and_cb()
assert call.get_return_value() == -2
call = io.aio_remove('a'); call.wait_for_complete(); assert call.get_return_value() == 0
call = io.aio_remove('a'); call.wait_for_complete(); assert call.get_return_value() == -2
many = [io.aio_append('many', b'%04d' % i) for i in range(1000)]
io.aio_flush(); assert all(call.is_complete() and call.get_return_value() == 0 for call in many)
assert io.read('many', 8000) == b''.join(b'%04d' % i for i in range(1000))
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn namespaces_and_locators_tell_objects_apart() {
    on_both(
        r#"
places = [(ns, key) for ns in ('', 'one', 'two') for key in ('', 'key')]
for ns, key in places:
    io.set_namespace(ns); io.set_locator_key(key); io.write_full('o', (ns + '/' + key).encode())
    assert io.get_namespace() == ns and io.get_locator_key() == key
for ns, key in places:
    io.set_namespace(ns); io.set_locator_key(key); assert io.read('o') == (ns + '/' + key).encode()
io.set_locator_key('')
for ns in ('', 'one', 'two'):
    io.set_namespace(ns)
    assert sorted(str(o.locator_key or '') for o in io.list_objects()) == ['', 'key']
io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
assert sorted((o.nspace or '', o.locator_key or '') for o in io.list_objects()) == sorted(places)
io.set_namespace('one'); io.set_locator_key('key'); io.remove_object('o'); io.set_locator_key('')
assert [(o.key, o.locator_key or '') for o in io.list_objects()] == [('o', '')]
io.set_namespace('empty'); assert list(io.list_objects()) == []; io.set_namespace('')
"#,
    );
}

/// Objects in each of two namespaces.
const LISTED: usize = 5_000;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_objects_are_listed_by_our_client() {
    let server = Server::memory().pool("data").start().expect("the server starts");
    let conf = server.conf().to_str().expect("a path in UTF-8");
    let rados = Builder::new().conf_file(conf).connect().await.expect("connects");
    let pool = rados.ioctx("data").await.expect("the pool");
    let name = |i: usize| format!("object-{i}");
    for nspace in ["", "other"] {
        let pool = pool.with_namespace(nspace);
        let written = join_all((0..LISTED).map(|i| pool.write_full(name(i), Bytes::new()))).await;
        written.into_iter().for_each(|result| result.expect("written"));
        let mut listed = Vec::new();
        let mut objects = pool.objects();
        while let Some(object) = objects.next().await.expect("listed") {
            listed.push(object.oid);
        }
        let mut expected: Vec<_> = (0..LISTED).map(|i| name(i).into_bytes()).collect();
        expected.sort_unstable();
        listed.sort_unstable();
        assert!(listed == expected, "'{nspace}': {} objects", listed.len());
    }
    let mut objects = pool.objects_of_all_namespaces();
    let mut count = 0;
    while let Some(_object) = objects.next().await.expect("listed") {
        count += 1;
    }
    assert_eq!(count, 2 * LISTED);
}
