//! Methods of classes that store data in an object's omap, and listings in the old form.

use super::*;

/// An input in Ceph's structure encoding: version, oldest compatible version, length.
fn input(version: u8, fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(version, 1, fill);
    w.into_bytes().to_vec()
}

fn called(g: &mut Group, name: &str, class: &str, method: &str, data: &[u8]) -> (i32, Bytes) {
    let reply = g.ask(name, smallvec![OsdOp::call(class, method, data)]);
    (reply.result, reply.outs.first().map(|out| out.data.clone()).unwrap_or_default())
}

fn at(sec: u32) -> UTime {
    UTime { sec, nsec: 0 }
}

/// `cls_log_entry`, without an id unless one is given.
fn log_entry(w: &mut Writer, sec: u32, data: &[u8], id: &[u8]) {
    w.versioned(2, 1, |w| {
        w.blob(b"section");
        w.blob(b"name");
        w.put(&at(sec));
        w.blob(data);
        w.blob(id);
    });
}

fn log_add(g: &mut Group, entries: &[(u32, &[u8], &[u8])]) -> i32 {
    let data = input(2, |w| {
        w.count(entries.len());
        entries.iter().for_each(|(sec, data, id)| log_entry(w, *sec, data, id));
        w.bool(true);
    });
    called(g, "log", "log", "add", &data).0
}

/// The times and data of a log's entries, and whether there are more.
fn log_list(g: &mut Group, from: u32, to: u32, max: u32) -> (Vec<(u32, Vec<u8>)>, bool) {
    let data = input(1, |w| {
        w.put(&at(from));
        w.blob(b"");
        w.put(&at(to));
        w.u32(max);
    });
    let (result, output) = called(g, "log", "log", "list", &data);
    assert_eq!(result, 0);
    let listed = Reader::new(&output).versioned("cls_log_list_ret", 1, 1, |r, _| {
        let count = r.u32()?;
        let entry = |r: &mut Reader<'_>| {
            r.versioned("cls_log_entry", 1, 2, |r, _| {
                let (_section, _name) = (r.blob()?, r.blob()?);
                let (time, data): (UTime, Bytes) = (r.get()?, r.get()?);
                r.blob()?;
                Ok((time.sec, data.to_vec()))
            })
        };
        let entries = (0..count).map(|_| entry(r)).collect::<Result<_, _>>()?;
        r.blob()?;
        Ok((entries, r.bool()?))
    });
    listed.expect("a list")
}

#[test]
fn a_log_is_in_order_of_time_and_never_goes_back() {
    let mut g = roomy();
    assert_eq!(log_add(&mut g, &[(30, b"three", b""), (10, b"late", b"")]), 0);
    assert_eq!(log_add(&mut g, &[(40, b"four", b"")]), 0);
    // The order of entries is independent of the time stored in them.
    let all = log_list(&mut g, 0, 0, 0);
    let expected: Vec<(u32, Vec<u8>)> =
        vec![(30, b"three".to_vec()), (10, b"late".to_vec()), (40, b"four".to_vec())];
    assert_eq!(all, (expected.clone(), false));
    assert_eq!(log_list(&mut g, 0, 0, 2), (expected[..2].to_vec(), true));
    assert_eq!(log_list(&mut g, 5, 35, 0), (expected[..2].to_vec(), false));
    let trim = |g: &mut Group, to: u32| {
        let data = input(2, |w| {
            w.put(&at(0));
            w.put(&at(to));
            w.blob(b"");
            w.blob(b"");
        });
        called(g, "log", "log", "trim", &data).0
    };
    assert_eq!(trim(&mut g, 29), -61, "the first entry is of second 30");
    assert_eq!(trim(&mut g, 30), 0, "entries of the last moment go, as in 16.2.15");
    assert_eq!(log_list(&mut g, 0, 0, 0), (expected[2..].to_vec(), false));
    assert_eq!(trim(&mut g, 35), -61, "nothing is left to be trimmed");
    // The header keeps the newest entry's time even after it was trimmed.
    let (result, info) = called(&mut g, "log", "log", "info", &input(1, |_| ()));
    assert_eq!(result, 0);
    assert!(info.ends_with(&[40, 0, 0, 0, 0, 0, 0, 0]), "{info:?}");
}

#[test]
fn an_entry_with_an_id_takes_the_place_of_the_one_before() {
    let mut g = roomy();
    assert_eq!(log_add(&mut g, &[(5, b"old", b"1_id"), (6, b"new", b"1_id")]), 0);
    assert_eq!(log_list(&mut g, 0, 0, 0), (vec![(6, b"new".to_vec())], false));
    for bad in [&b""[..], b"\x02\x01\xff\xff\xff\xff", b"\x09\x09\0\0\0\0"] {
        assert_eq!(called(&mut g, "log", "log", "add", bad).0, -22);
    }
}

/// `cls_user_bucket_entry` of a bucket whose other fields are ignored.
fn user_entry(w: &mut Writer, name: &str, size: u64, count: u64) {
    w.versioned(9, 5, |w| {
        w.blob(b"");
        w.u64(size);
        w.u32(1);
        w.u64(count);
        w.versioned(8, 8, |w| {
            w.blob(name.as_bytes());
            w.raw(b"the rest");
        });
        w.u64(size.next_multiple_of(4096));
        w.bool(false);
        w.put(&at(1));
    });
}

fn set_buckets(g: &mut Group, entries: &[(&str, u64, u64)], add: bool, time: u32) -> i32 {
    let data = input(1, |w| {
        w.count(entries.len());
        entries.iter().for_each(|(name, size, count)| user_entry(w, name, *size, *count));
        w.bool(add);
        w.put(&at(time));
    });
    called(g, "user", "user", "set_buckets_info", &data).0
}

/// Objects, bytes, rounded bytes, and the time of the last update.
fn user_header(g: &mut Group) -> (u64, u64, u64, u32) {
    let (result, output) = called(g, "user", "user", "get_header", &input(1, |_| ()));
    assert_eq!(result, 0);
    let header = Reader::new(&output).versioned("cls_user_get_header_ret", 1, 1, |r, _| {
        r.versioned("cls_user_header", 1, 1, |r, _| {
            let sums = r.versioned("cls_user_stats", 1, 1, |r, _| Ok((r.u64()?, r.u64()?, r.u64()?)))?;
            let (_last_sync, last_update): (UTime, UTime) = (r.get()?, r.get()?);
            Ok((sums.0, sums.1, sums.2, last_update.sec))
        })
    });
    header.expect("a header")
}

#[test]
fn a_users_sums_are_those_of_his_buckets() {
    let mut g = roomy();
    assert_eq!(set_buckets(&mut g, &[("b", 5000, 3), ("a", 10, 1)], true, 7), 0);
    assert_eq!(user_header(&mut g), (4, 5010, 8192 + 4096, 7));
    // Missing buckets are created only if requested; an older time does not replace a newer one.
    assert_eq!(set_buckets(&mut g, &[("a", 20, 2), ("none", 1, 1)], false, 5), 0);
    assert_eq!(user_header(&mut g), (5, 5020, 8192 + 4096, 7));
    let list = |g: &mut Group, marker: &str, max: u32| {
        let data = input(1, |w| {
            w.blob(marker.as_bytes());
            w.u32(max);
        });
        let (result, output) = called(g, "user", "user", "list_buckets", &data);
        assert_eq!(result, 0);
        let (count, truncated) =
            (u32::from_le_bytes(output[6..10].try_into().expect("a count")), output.last() == Some(&1));
        (count, truncated)
    };
    assert_eq!(
        (list(&mut g, "", 10), list(&mut g, "", 1), list(&mut g, "a", 10)),
        ((2, false), (1, true), (1, false))
    );
    let remove = input(1, |w| {
        w.versioned(8, 8, |w| {
            w.blob(b"b");
            w.raw(b"the rest");
        });
    });
    assert_eq!(called(&mut g, "user", "user", "remove_bucket", &remove).0, 0);
    assert_eq!(user_header(&mut g), (2, 20, 4096, 7));
    assert_eq!(called(&mut g, "user", "user", "remove_bucket", &remove).0, 0, "it is gone already");
    let reset = input(1, |w| w.put(&at(9)));
    assert_eq!(called(&mut g, "user", "user", "reset_user_stats", &reset).0, 0);
    assert_eq!(user_header(&mut g), (2, 20, 4096, 9));
    assert_eq!(set_buckets(&mut g, &[("", 1, 1)], true, 7), -22, "a bucket has a name");
}

#[test]
fn the_old_form_of_listing_leaves_out_namespaces() {
    let mut g = roomy();
    for name in ["one", "two", "three"] {
        assert_eq!(g.result(name, OsdOp::create(true)), 0);
    }
    let page = |g: &mut Group, cursor: &HObject, count: u64| {
        let mut op = OsdOp::pgnls(count, 3, cursor);
        op.code = OpCode::PGLS;
        let reply = g.ask("", smallvec![op]);
        let data = reply.outs[0].data.clone();
        let mut r = Reader::new(&data);
        assert_eq!(r.u8().expect("a version"), 1);
        let next: HObject = r.get().expect("where to go on");
        let names = (0..r.u32().expect("a count")).map(|_| {
            let (name, key) = (r.blob().expect("a name").to_vec(), r.blob().expect("a key"));
            assert!(key.is_empty());
            String::from_utf8(name).expect("UTF-8")
        });
        let names: Vec<_> = names.collect();
        assert!(r.is_empty());
        (reply.result, names, next)
    };
    let (result, mut all, next) = page(&mut g, &HObject::min(), 10);
    all.sort_unstable();
    assert_eq!((result, all, next.max), (1, vec!["one".to_owned(), "three".into(), "two".into()], true));
    let (mut cursor, mut pages) = (HObject::min(), Vec::new());
    loop {
        let (result, names, next) = page(&mut g, &cursor, 2);
        pages.push(names.len());
        if result == 1 {
            break;
        }
        cursor = next;
    }
    assert_eq!(pages, [2, 1]);
}

#[test]
fn a_map_that_a_request_has_begun_cannot_be_gone_through_in_it() {
    let mut g = roomy();
    let add = input(2, |w| {
        w.count(1);
        log_entry(w, 5, b"data", b"");
        w.bool(true);
    });
    let list = input(1, |w| {
        w.put(&at(0));
        w.blob(b"");
        w.put(&at(0));
        w.u32(5);
    });
    let both = smallvec![OsdOp::call("log", "add", &add), OsdOp::call("log", "list", &list)];
    assert_eq!(g.ask("log", both).result, -2);
    assert_eq!(g.result("log", OsdOp::create(true)), 0, "nothing was done");
}

#[test]
fn locks_and_versions_have_names_of_bytes() {
    let mut g = roomy();
    let lock = input(1, |w| {
        w.blob(b"\xff");
        w.u8(1);
        w.blob(b"\xfe");
        w.blob(b"\xfd");
        w.blob(b"");
        w.put(&at(0));
        w.u8(0);
    });
    assert_eq!(called(&mut g, "x", "lock", "lock", &lock).0, 0);
    assert_eq!(called(&mut g, "x", "lock", "lock", &lock).0, -17);
    let version = input(1, |w| {
        w.versioned(1, 1, |w| {
            w.u64(3);
            w.blob(b"\xff");
        });
    });
    assert_eq!(called(&mut g, "x", "version", "set", &version).0, 0);
    assert_eq!(called(&mut g, "x", "version", "read", b"").1, version);
}

#[test]
fn a_call_that_fails_may_have_an_output_and_changes_nothing() {
    let mut g = roomy();
    for method in ["write_return_data", "writes_dont_return_data"] {
        let (result, output) = called(&mut g, "x", "hello", method, b"input");
        assert_eq!((result, &output[..]), (-22, &b"too much input data!"[..]), "{method}");
        assert_eq!(g.result("x", OsdOp::new(OpCode::STAT)), -2, "{method}");
    }
    // Without RETURNVEC a successful write has no result of its own.
    assert_eq!(called(&mut g, "x", "hello", "write_return_data", b"").0, 0);
}

/// A listing of the objects whose attribute `mark` has this value.
pub(super) fn filtered(kind: &[u8], value: &[u8], cursor: &HObject) -> OsdOp {
    let mut w = Writer::new();
    [b"", b"", kind, b"_mark", value].into_iter().for_each(|text| w.blob(text));
    w.put(cursor);
    let mut op = OsdOp::pgnls(10, 3, cursor).with_data(w.into_bytes());
    op.code = OpCode::PGNLS_FILTER;
    op
}

#[test]
fn listings_take_the_filter_of_a_class() {
    let mut g = roomy();
    for (name, value) in [("wanted", &b"yes"[..]), ("other", b"no")] {
        assert_eq!(g.result(name, xattr(OpCode::SETXATTR, "mark", value)), 0);
    }
    let list = |g: &mut Group, kind: &[u8]| {
        let reply = g.ask("", smallvec![filtered(kind, b"yes", &HObject::min())]);
        let page = reply.outs.first().and_then(|out| PgNlsResponse::from_bytes(&out.data).ok());
        (reply.result, page.map(|page| page.entries.into_iter().map(|entry| entry.oid).collect::<Vec<_>>()))
    };
    for kind in [&b"plain"[..], b"hello.hello"] {
        assert_eq!(list(&mut g, kind), (1, Some(vec![b"wanted".to_vec()])));
    }
    for kind in [&b"hello"[..], b"hello.none", b"none.hello", b"."] {
        assert_eq!(list(&mut g, kind).0, -22);
    }
}
