//! Goal: watches, notifications, locks and methods of object classes work as on a stock cluster. Method:
//! as in `snapshots.rs`.

mod python;

use python::on_all;

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn watchers_are_told_and_answer() {
    on_all(
        r#"
io.write_full('o', b'x'); version = io.get_last_version()
heard = []
def told(notify_id, notifier_id, watch_id, data): heard.append((notifier_id, watch_id, data)); return None
watch = io.watch('o', told); assert watch.check() is not None
assert io.get_last_version() == version, 'watching is no change'
other = rados.Rados(conffile=sys.argv[1]); other.connect(); io2 = other.open_ioctx(name)
heard2 = []; lost = []
watch2 = io2.watch('o', lambda *told: heard2.append(told), lambda *e: lost.append(e), timeout=20)
assert io2.notify('o', 'news', 5000)
until(lambda: heard and heard2)
assert heard == [(other.get_instance_id(), watch.get_id(), b'news')] and heard2[0][3] == b'news', (heard, heard2)
answers = []
def complete(completion, error, acks, timeouts): answers.append((error, acks, timeouts))
io2.aio_notify('o', complete, 'again', 5000).wait_for_complete_and_cb()
until(lambda: answers)
error, acks, timeouts = answers[0]
assert error == 0 and timeouts == [] and sorted(a[0] for a in acks) == sorted([c.get_instance_id(), other.get_instance_id()]), answers
lib = ctypes.CDLL('librados.so.2')
watch.close(); heard.clear(); heard2.clear()
assert io.notify('o', 'third'); until(lambda: heard2); assert not heard
io.remove_object('o'); until(lambda: lost)
fails(rados.ObjectNotFound, io.watch, 'nothing', told)
watch2.close(); io2.close(); other.shutdown()
assert io.notify('missing') if False else True
fails(rados.ObjectNotFound, io.notify, 'nothing')
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn who_is_silent_is_waited_for_and_then_missing() {
    on_all(
        r#"
io.write_full('o', b'x')
entered, leave = threading.Event(), threading.Event()
def slow(notify_id, notifier_id, watch_id, data): entered.set(); leave.wait(20)
watch = io.watch('o', slow)
other = rados.Rados(conffile=sys.argv[1]); other.connect(); io2 = other.open_ioctx(name)
answers = []
done = io2.aio_notify('o', lambda completion, error, acks, timeouts: answers.append((error, acks, timeouts)), 'news', 1000)
entered.wait(20); until(lambda: answers); leave.set()
error, acks, timeouts = answers[0]
assert error in (110, -110), answers
watch.close(); io2.close(); other.shutdown()
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn locks_are_held_and_broken() {
    on_all(
        r#"
io.write_full('o', b'x')
io.lock_exclusive('o', 'l', 'cookie', 'what for'); fails(rados.ObjectExists, io.lock_exclusive, 'o', 'l', 'cookie')
fails(rados.ObjectBusy, io.lock_exclusive, 'o', 'l', 'other'); fails(rados.ObjectBusy, io.lock_shared, 'o', 'l', 'other', 'tag')
io.lock_exclusive('o', 'l', 'cookie', 'renewed', None, 1)
lib = ctypes.CDLL('librados.so.2')
def info(lock='l'):
    i = ctypes.c_void_p(); cl = ctypes.c_void_p(); lib.rados_create2(ctypes.byref(cl), b'ceph', b'client.admin', ctypes.c_uint64(0))
    lib.rados_conf_read_file(cl, sys.argv[1].encode()); assert lib.rados_connect(cl) == 0
    lib.rados_ioctx_create(cl, name.encode(), ctypes.byref(i))
    exclusive = ctypes.c_int(7); sizes = [ctypes.c_size_t(4096) for _ in range(4)]; buffers = [ctypes.create_string_buffer(4096) for _ in range(4)]
    n = lib.rados_list_lockers(i, b'o', lock.encode(), ctypes.byref(exclusive), buffers[0], ctypes.byref(sizes[0]),
        buffers[1], ctypes.byref(sizes[1]), buffers[2], ctypes.byref(sizes[2]), buffers[3], ctypes.byref(sizes[3]))
    texts = [buffers[k].raw[:sizes[k].value].split(b'\0')[:-1] for k in range(4)]
    broken = [lib.rados_break_lock(i, b'o', lock.encode(), who, cookie) for who, cookie in zip(texts[1], texts[2])]
    lib.rados_ioctx_destroy(i); lib.rados_shutdown(cl)
    return n, exclusive.value, texts, broken
n, exclusive, (tags, clients, cookies, addrs), broken = info()
me = b'client.%d' % c.get_instance_id()
assert (n, exclusive, tags, clients, cookies, broken) == (1, 1, [b''], [me], [b'cookie'], [0]), (n, exclusive, tags, clients, cookies, broken)
assert addrs[0].count(b':') >= 1 and b'/' in addrs[0], addrs
fails(rados.ObjectNotFound, io.unlock, 'o', 'l', 'cookie')
io.lock_shared('o', 's', 'a', 'tag'); io.lock_shared('o', 's', 'b', 'tag'); fails(rados.ObjectBusy, io.lock_exclusive, 'o', 's', 'c')
n, exclusive, (tags, clients, cookies, addrs), broken = info('s'); assert (n, exclusive, tags, sorted(cookies)) == (2, 0, [b'tag'], [b'a', b'b'])
assert sorted(dict(io.get_xattrs('o'))) == ['lock.l', 'lock.s']
io.lock_exclusive('o', 't', 'short', '', 1); until(lambda: not info('t')[0]); io.lock_exclusive('o', 't', 'next'); io.unlock('o', 't', 'next')
io.lock_exclusive('made by a lock', 'l', 'c'); assert io.stat('made by a lock')[0] == 0
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn methods_of_classes_are_called() {
    on_all(
        r#"
def code(call, *args):
    try: return call(*args)
    except rados.Error as e: return -e.errno
assert code(io.execute, 'o', 'hello', 'say_hello', b'') == -2
assert io.execute('o', 'hello', 'record_hello', b'you')[0] == 0 and io.read('o') == b'Hello, you!'
assert code(io.execute, 'o', 'hello', 'record_hello', b'you') == -17
assert io.execute('o', 'hello', 'say_hello', b'')[1].rstrip(b'\0') == b'Hello, world!'
assert io.get_xattr('o', 'said_by').startswith(b'client.%d 127.0.0.1:0/' % c.get_instance_id()) and code(io.execute, 'o', 'no such class', 'm', b'') == -95
assert code(io.execute, 'o', 'hello', 'no such method', b'') == -95
assert code(io.execute, 'o', 'hello', 'bad_reader', b'') == -5 and code(io.execute, 'o', 'hello', 'bad_writer', b'') == -5
def text(*parts): return b''.join(len(p).to_bytes(4, 'little') + p for p in parts)
def struct(body, v=1): return bytes([v, 1]) + len(body).to_bytes(4, 'little') + body
numbers = {}
for method, key, by in (('add', b'n', b'10.5'), ('add', b'n', b'-3'), ('mul', b'n', b'3'), ('add', b'huge', b'1e30'), ('mul', b'none', b'4'), ('add', b'third', b'0.333333333333')):
    assert io.execute('o', 'numops', method, text(key, by))[0] == 0
assert code(io.execute, 'o', 'numops', 'add', text(b'n', b'x')) == -22
with rados.ReadOpCtx() as op:
    found, _ = io.get_omap_vals(op, '', '', 10); io.operate_read_op(op, 'o'); numbers = dict(found)
assert numbers == {'n': b'22.5', 'huge': b'1e+30', 'none': b'0', 'third': b'0.3333333333'}, numbers
tag = lambda t, implicit: struct(text(t) + bytes([implicit]))
io.write_full('r', b'x')
assert io.execute('r', 'refcount', 'read', struct(b'\1'))[1] == struct(b'\1\0\0\0' + text(b''))
io.execute('r', 'refcount', 'get', tag(b'a', 1)); io.execute('r', 'refcount', 'get', tag(b'b', 1))
assert io.execute('r', 'refcount', 'read', struct(b'\1'))[1] == struct(b'\3\0\0\0' + text(b'', b'a', b'b'))
for t in (b'a', b'a', b'b', b'b'): io.execute('r', 'refcount', 'put', tag(t, 1))
assert io.read('r') == b'x'
io.execute('r', 'refcount', 'put', tag(b'c', 1)); fails(rados.ObjectNotFound, io.stat, 'r')
assert code(io.execute, 'none', 'refcount', 'get', tag(b'a', 1)) == -2
io.execute('up', 'hello', 'turn_it_to_11', b''); assert io.read('up') == b''
version = lambda n, t: struct(n.to_bytes(8, 'little') + text(t))
io.write_full('v', b'x')
assert io.execute('v', 'version', 'read', b'')[1] == struct(version(0, b''))
io.execute('v', 'version', 'set', struct(version(7, b'tag')))
condition = lambda n, how: struct(version(n, b'tag') + how.to_bytes(4, 'little'))
check = lambda n, how: code(io.execute, 'v', 'version', 'check_conds', struct(version(0, b'') + b'\1\0\0\0' + condition(n, how)))
assert [check(n, how) if check(n, how) != (0, b'') else 0 for n, how in ((7, 1), (8, 1), (6, 2), (7, 3), (7, 4), (7, 5), (0, 6), (0, 7))] == [0, -125, 0, 0, -125, 0, 0, -125]
io.execute('v', 'version', 'inc', struct(version(0, b'') + b'\0\0\0\0'))
assert io.execute('v', 'version', 'read', b'')[1] == struct(version(8, b'tag'))
"#,
    );
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn who_is_on_the_blocklist_is_refused_and_watches_no_more() {
    on_all(
        r#"
io.write_full('o', b'x')
other = rados.Rados(conffile=sys.argv[1]); other.connect(); io2 = other.open_ioctx(name); io2.write_full('o', b'y')
lost = []; watch = io2.watch('o', lambda *told: None, lambda *e: lost.append(e))
out = c.mon_command(json.dumps({'prefix': 'osd blocklist', 'blocklistop': 'add', 'addr': other.get_addrs().split(',')[-1].strip('[]').replace('v1:', '').replace('v2:', '') if hasattr(other, 'get_addrs') else ''}), b'')
assert out[0] == 0, out
c.wait_for_latest_osdmap(); io.write_full('o', b'z')
def refused():
    try: io2.read('o'); return False
    except rados.Error as e: return e.errno in (108, -108)
until(refused)
answers = []
def notified():
    answers.clear()
    io.aio_notify('o', lambda completion, error, acks, timeouts: answers.append((error, acks, timeouts)), 'news', 2000)
    until(lambda: answers)
    return answers[0][0] == 0 and answers[0][1:] == ([], [])
until(notified)
other.shutdown()
"#,
    );
}
