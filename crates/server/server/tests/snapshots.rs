//! Goal: pool snapshots and self-managed snapshots work as on a stock cluster. Method: scripts with
//! assertions run through python3-rados on an embedded server, in memory and on disk, and, if
//! `LOLIGO_STOCK_CONF` names the configuration of a stock cluster, on that one too.

mod python;

use python::on_all;

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_pool_is_seen_as_it_was() {
    on_all(
        r#"
io.write_full('o', b'first'); io.set_xattr('o', 'a', b'1')
with rados.WriteOpCtx() as op: io.set_omap(op, ('k',), (b'v1',)); io.operate_write_op(op, 'o')
io.create_snap('one'); fails(rados.ObjectExists, io.create_snap, 'one')
io.write('o', b'FI'); io.append('o', b'!'); io.set_xattr('o', 'a', b'2'); io.write_full('new', b'n')
with rados.WriteOpCtx() as op: io.set_omap(op, ('k', 'l'), (b'v2', b'')); io.operate_write_op(op, 'o')
io.create_snap('two'); io.remove_object('o')
snaps = {s.name: s for s in io.list_snaps()}
assert sorted(snaps) == ['one', 'two'] and snaps['one'].snap_id < snaps['two'].snap_id
assert io.lookup_snap('two').snap_id == snaps['two'].snap_id
assert abs((snaps['one'].get_timestamp() - __import__('datetime').datetime.now()).total_seconds()) < 3600 * 26
def omap():
    with rados.ReadOpCtx() as op:
        found, _ = io.get_omap_vals(op, '', '', 10); io.operate_read_op(op, 'o'); return [(k, v or b'') for k, v in found]
io.set_read(snaps['one'].snap_id)
assert io.read('o') == b'first' and io.get_xattr('o', 'a') == b'1' and omap() == [('k', b'v1')] and io.stat('o')[0] == 5
fails(rados.ObjectNotFound, io.read, 'new')
io.set_read(snaps['two'].snap_id)
assert io.read('o') == b'FIrst!' and io.get_xattr('o', 'a') == b'2' and omap() == [('k', b'v2'), ('l', b'')]
assert io.read('new') == b'n'
io.set_read(rados.LIBRADOS_SNAP_HEAD); fails(rados.ObjectNotFound, io.read, 'o'); fails(rados.ObjectNotFound, io.stat, 'o')
io.snap_rollback('o', 'one'); assert io.read('o') == b'first' and omap() == [('k', b'v1')]
io.snap_rollback('o', 'two'); assert io.read('o') == b'FIrst!'
io.write_full('o', b'again'); io.snap_rollback('new', 'one'); fails(rados.ObjectNotFound, io.read, 'new')
io.remove_snap('one'); fails(rados.ObjectNotFound, io.lookup_snap, 'one'); fails(rados.ObjectNotFound, io.remove_snap, 'one')
c.wait_for_latest_osdmap(); io.set_read(snaps['one'].snap_id); fails(rados.ObjectNotFound, io.read, 'o')
io.set_read(snaps['two'].snap_id); assert io.read('o') == b'FIrst!'
io.set_read(rados.LIBRADOS_SNAP_HEAD); assert io.read('o') == b'again'
fails(rados.InvalidArgumentError, io.create_self_managed_snap)
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn clients_manage_snapshots_themselves() {
    on_all(
        r#"
io.write_full('o', b'0123456789')
one = io.create_self_managed_snap(); io.set_self_managed_snap_write([one]); io.write('o', b'ab', 2)
two = io.create_self_managed_snap(); assert two > one
io.set_self_managed_snap_write([two, one]); io.trunc('o', 4); io.append('o', b'!')
def at(snap, name='o'):
    io.set_read(snap)
    try: return io.read(name)
    finally: io.set_read(rados.LIBRADOS_SNAP_HEAD)
assert (at(one), at(two), io.read('o')) == (b'0123456789', b'01ab456789', b'01ab!')
io.write_full('later', b'x'); fails(rados.ObjectNotFound, at, two, 'later')
io.rollback_self_managed_snap('o', one); assert io.read('o') == b'0123456789'
fails(rados.InvalidArgumentError, io.create_snap, 'pool snapshot')
io.remove_object('o'); fails(rados.ObjectNotFound, io.stat, 'o'); assert at(two) == b'01ab456789'
io.remove_self_managed_snap(two); io.remove_self_managed_snap(two)
io.set_self_managed_snap_write([one]); c.wait_for_latest_osdmap(); fails(rados.ObjectNotFound, at, two)
assert at(one) == b'0123456789'
fails(rados.ObjectNotFound, io.remove_self_managed_snap, two + 1000)
many = [io.aio_write_full('many%d' % i, b'old') for i in range(300)]
for w in many: w.wait_for_complete()
three = io.create_self_managed_snap(); io.set_self_managed_snap_write([three, one])
many = [io.aio_write_full('many%d' % i, b'new') for i in range(300)]
for w in many: w.wait_for_complete()
assert all(at(three, 'many%d' % i) == b'old' and io.read('many%d' % i) == b'new' for i in range(300))
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_no_snapshot_needs_is_removed() {
    // Not on a stock cluster, which trims snapshots with a delay.
    python::on_ours(
        r#"
def objects():
    return io.get_stats()['num_objects']
def pool():
    return next(p for p in json.loads(c.mon_command(json.dumps({'prefix': 'osd dump', 'format': 'json'}), b'')[1])['pools'] if p['pool_name'] == name)
for i in range(700): io.aio_write_full('o%d' % i, b'x')
io.aio_flush(); snap = io.create_self_managed_snap(); io.set_self_managed_snap_write([snap])
for i in range(700): io.aio_write_full('o%d' % i, b'y') if i % 2 else io.aio_remove('o%d' % i)
io.aio_flush()
until(lambda: objects() == 1400)
io.remove_self_managed_snap(snap); until(lambda: objects() == 350)
dump = lambda: json.loads(c.mon_command(json.dumps({'prefix': 'osd dump', 'format': 'json'}), b'')[1])
until(lambda: dump()['removed_snaps_queue'] == [])
assert sum(1 for _ in io.list_objects()) == 350
"#,
    );
}
