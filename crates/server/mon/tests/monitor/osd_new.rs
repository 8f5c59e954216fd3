//! Goal: OSD ids are reserved and released, flags are set on single OSDs, and networks are blocklisted,
//! as in a stock cluster; served OSDs cannot be removed. Method: a monitor without sockets; the expected
//! texts are those of a stock 16.2.15 cluster.

use loligo_mon::state::OsdCount;
use loligo_mon::state::State;
use loligo_wire::{EntityAddr, OsdId, UTime};

use crate::common::{Mon, NOW};

const U: &str = "11111111-1111-1111-1111-111111111111";
const V: &str = "22222222-2222-2222-2222-222222222222";
const W: &str = "33333333-3333-3333-3333-333333333333";

fn said(mon: &mut Mon, session: u64, command: &str) -> (i32, String, String) {
    let ack = mon.command(session, &format!("{{\"prefix\":{command}}}"));
    (ack.result, String::from_utf8(ack.output.to_vec()).expect("a text"), ack.status)
}

#[test]
fn numbers_are_given_out_and_taken_back() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let new = |uuid: &str, rest: &str| format!(r#""osd new","uuid":"{uuid}"{rest}"#);
    let number = |text: &str| (0, text.to_owned(), String::new());
    let status = |result, text: &str| (result, String::new(), text.to_owned());
    let yes = r#","yes_i_really_mean_it":true"#;
    for (command, expected) in [
        (new(U, ""), number("1\n")),
        (new(U, r#","format":"json""#), number("{\"osdid\":1}")),
        (new(U, r#","format":"xml""#), number("<created_osd><osdid>1</osdid></created_osd>")),
        (new(V, r#","id":7"#), number("7\n")),
        (new(V, r#","id":3"#), status(-17, &format!("uuid {V} already in use for different id 7"))),
        (new(W, r#","id":7"#), status(-22, &format!("id 7 already in use and does not match uuid {W}"))),
        (new(W, r#","id":0"#), status(-22, &format!("id 0 already in use and does not match uuid {W}"))),
        (new("x", ""), status(-22, "invalid UUID value 'x'.")),
        (r#""osd ls""#.to_owned(), number("0\n1\n7\n")),
        (r#""osd getmaxosd""#.to_owned(), number("max_osd = 8 in epoch 4\n")),
        (
            r#""osd info","id":1"#.to_owned(),
            number(&format!(
                "osd.1 down in  weight 1 up_from 0 up_thru 0 down_at 0 last_clean_interval [0,0)   exists,new {U}\n"
            )),
        ),
        (r#""health""#.to_owned(), number("HEALTH_OK\n")),
        (format!(r#""osd destroy","id":1{yes}"#), status(0, "destroyed osd.1")),
        (format!(r#""osd destroy","id":1{yes}"#), status(0, "destroyed osd.1")),
        (
            r#""osd info","id":1"#.to_owned(),
            number(
                "osd.1 down in  weight 1 up_from 0 up_thru 0 down_at 0 last_clean_interval [0,0)   destroyed,exists,new \n",
            ),
        ),
        (new(W, r#","id":1"#), number("1\n")),
        (new(W, ""), number("1\n")),
        (format!(r#""osd purge-new","id":7{yes}"#), status(0, "purged osd.7")),
        (format!(r#""osd purge","id":9{yes}"#), status(0, "osd.9 does not exist")),
        (format!(r#""osd purge","id":0{yes}"#), status(-16, "osd.0 is not `down`.")),
        (r#""osd create""#.to_owned(), number("2\n")),
        (format!(r#""osd create","uuid":"{U}""#), number("3\n")),
        (r#""osd rm","ids":["1","2","3"]"#.to_owned(), status(0, "removed osd.1, osd.2, osd.3")),
        (r#""osd ls""#.to_owned(), number("0\n")),
    ] {
        assert_eq!(said(&mut mon, admin, &command), expected, "{command}");
    }
}

#[test]
fn what_is_served_is_not_given_up_and_numbers_are_not_served() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    said(&mut mon, admin, &format!(r#""osd new","uuid":"{U}""#));
    said(&mut mon, admin, r#""osd out","ids":["1"]"#);
    said(&mut mon, admin, r#""osd in","ids":["1"]"#);
    let mut again = State::from_json(&mon.monitor.state().to_json()).expect("a state");
    assert_eq!(again.osd_count_for(None), Ok(OsdCount::new(1).expect("one")));
    assert_eq!(again.size_max(), 1);
    // Additional OSDs take over the reserved ids.
    again.add_osds(NOW, 3, "host").expect("two more");
    assert_eq!(again.served_osds().collect::<Vec<_>>(), [0, 1, 2].map(OsdId));
    said(&mut mon, admin, r#""osd set","key":"noup""#);
    said(&mut mon, admin, r#""osd down","ids":["0"]"#);
    for command in ["destroy", "purge", "purge-new"] {
        let (result, _, why) =
            said(&mut mon, admin, &format!(r#""osd {command}","id":0,"yes_i_really_mean_it":true"#));
        assert!(result == -1 && why.contains("holds all"), "{command}: {why}");
    }
    assert_eq!(said(&mut mon, admin, r#""osd rm","ids":["0"]"#).0, -1);
}

#[test]
fn secrets_come_and_go_with_the_number() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let key = "AQBNLAZZ0000AxAAK3rTLLg7yCfRIGJrcUQ4TA==";
    let mut new = |uuid: &str, input: &str| {
        let ack = mon.command_with(admin, &format!(r#"{{"prefix":"osd new","uuid":"{uuid}"}}"#), input);
        (ack.result, ack.status)
    };
    assert_eq!(new(U, r#"{"cephx_secret":"x"}"#), (-22, "invalid cephx secret.".to_owned()));
    assert_eq!(new(U, "x").0, -22);
    let all = format!(r#"{{"cephx_secret":"{key}","cephx_lockbox_secret":"{key}","dmcrypt_key":"disk"}}"#);
    assert_eq!(new(U, &all), (0, String::new()));
    let osd = mon.output(admin, r#"{"prefix":"auth get","entity":"osd.1"}"#);
    assert!(osd.contains(key) && osd.contains("caps mon = \"allow profile osd\""), "{osd}");
    let lockbox = format!(r#"{{"prefix":"auth get-key","entity":"client.osd-lockbox.{U}"}}"#);
    assert_eq!(mon.output(admin, &lockbox), key);
    let disk = format!(r#"{{"prefix":"config-key get","key":"dm-crypt/osd/{U}/luks"}}"#);
    assert_eq!(mon.output(admin, &disk), "disk");
    mon.output(admin, r#"{"prefix":"osd purge-new","id":1,"yes_i_really_mean_it":true}"#);
    assert_eq!([&lockbox, &disk].map(|command| mon.command(admin, command).result), [-2, -2]);
}

#[test]
fn flags_are_set_on_what_is_named() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let ok = |text: &str| (0, String::new(), text.to_owned());
    let no = |text: &str| (-22, String::new(), text.to_owned());
    let flag = "unrecognized flag 'x', must be one of {noup,nodown,noin,noout}";
    for (command, expected) in [
        (r#""osd set-group","flags":"noout,noup","who":["osd.0","default"]"#, ok("")),
        (r#""osd set-group","flags":"noout,x","who":["0"]"#, no(flag)),
        (
            r#""osd set-group","flags":"noout","who":["nosuch"]"#,
            no("unable to parse osd id or crush node or device class: \"nosuch\". "),
        ),
        (r#""osd add-noout","ids":["osd.0","9"]"#, ok("osd.9 does not exist. ")),
    ] {
        assert_eq!(said(&mut mon, admin, command), expected, "{command}");
    }
    let (_, health, _) = said(&mut mon, admin, r#""health","detail":"detail""#);
    let sum = "2 OSDs or CRUSH {nodes, device-classes} have {NOUP,NODOWN,NOIN,NOOUT} flags set";
    let expected = format!(
        "HEALTH_WARN {sum}\n[WRN] OSD_FLAGS: {sum}\n    osd.0 has flags noout,noup\n    root default has flags noout,noup\n"
    );
    assert_eq!(health, expected);
    assert!(
        said(&mut mon, admin, r#""osd dump","format":"json""#)
            .1
            .contains(r#""crush_node_flags":{"default":["noout","noup"]}"#)
    );
    // An OSD with the flag `noup` stays down.
    said(&mut mon, admin, r#""osd down","ids":["0"]"#);
    mon.monitor.tick(NOW);
    assert!(!mon.monitor.state().osdmap().is_up(OsdId(0)));
    assert_eq!(
        said(&mut mon, admin, r#""osd unset-group","flags":"noout,noup","who":["all","default"]"#),
        ok("")
    );
    mon.monitor.tick(NOW);
    assert!(mon.monitor.state().osdmap().is_up(OsdId(0)));
    assert_eq!(said(&mut mon, admin, r#""health""#).1, "HEALTH_OK\n");
}

#[test]
fn networks_are_shut_out_for_a_time() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let range = |op: &str, addr: &str| {
        format!(r#""osd blocklist","range":"range","blocklistop":"{op}","addr":"{addr}","expire":60.0"#)
    };
    let until = "2027-01-15T08:01:00.000000+0000";
    let ok = |text: String| (0, String::new(), text);
    let no = |text: &str| (-22, String::new(), text.to_owned());
    for (command, expected) in [
        (range("add", "10.1.2.3/16"), ok(format!("blocklisting cidr:10.1.2.3:0/16 until {until} (60 sec)"))),
        (
            range("add", "2001:db8::/32"),
            ok(format!("blocklisting cidr:[2001:db8::]:0/32 until {until} (60 sec)")),
        ),
        (
            range("add", "10.2.0.0"),
            no("You specified a range command, but v2:10.2.0.0:0/0 does not parse as a CIDR range"),
        ),
        (range("add", "10.2.0.0/99"), no("Too many bits in range for that protocol!")),
        (range("add", "x"), no("unable to parse address x")),
        (range("rm", "10.1.9.9/16"), ok("cidr:10.1.9.9:0/16 isn't blocklisted".into())),
    ] {
        assert_eq!(said(&mut mon, admin, &command), expected, "{command}");
    }
    let odd = r#""osd blocklist","range":"bogus","blocklistop":"add","addr":"10.4.0.0/8""#;
    assert_eq!(said(&mut mon, admin, odd), no("Did you mean to specify \"osd blocklist range\"?"));
    let (_, listed, told) = said(&mut mon, admin, r#""osd blocklist ls""#);
    assert_eq!(listed, format!("cidr:10.1.2.3:0/16 {until}\ncidr:[2001:db8::]:0/32 {until}\n"));
    assert_eq!(told, "listed 2 entries");
    assert!(
        said(&mut mon, admin, r#""osd dump""#)
            .1
            .contains(&format!("range blocklist cidr:10.1.2.3:0/16 expires {until}\n"))
    );
    let of = |ip: [u8; 4]| EntityAddr::msgr2((ip, 1).into());
    let listed = |mon: &Mon, ip| mon.monitor.state().osdmap().blocklist.contains(&of(ip).into());
    assert!(listed(&mon, [10, 1, 200, 1]) && !listed(&mon, [10, 2, 0, 1]));
    assert_eq!(
        said(&mut mon, admin, &range("rm", "2001:db8::/32")),
        ok("un-blocklisting cidr:[2001:db8::]:0/32".into())
    );
    mon.monitor.tick(UTime { sec: NOW.sec + 60, ..NOW });
    assert!(mon.monitor.state().osdmap().blocklist.is_empty());
    said(&mut mon, admin, &range("add", "10.1.2.3/16"));
    assert_eq!(
        said(&mut mon, admin, r#""osd blocklist clear""#),
        ok(" removed all blocklist entries".into())
    );
    assert!(mon.monitor.state().osdmap().blocklist.is_empty());
    let old = r#""osd blacklist","blacklistop":"add","addr":"1.2.3.4:0/5","expire":60.0"#;
    assert_eq!(said(&mut mon, admin, old), ok(format!("blocklisting 1.2.3.4:0/5 until {until} (60 sec)")));
    let long = r#""osd blocklist","blocklistop":"add","addr":"1.2.3.5:0/5","expire":1e10"#;
    said(&mut mon, admin, long);
    mon.monitor.tick(UTime { sec: NOW.sec + 60, ..NOW });
    assert_eq!(mon.monitor.state().osdmap().blocklist.addrs.len(), 1, "as long as clocks go");
}

#[test]
fn one_user_cannot_fill_the_blocklist_for_all() {
    let mut mon = Mon::new();
    let [admin, weak] = [mon.client("admin", "allow *"), mon.client("weak", "profile rbd")];
    let other = mon.client("other", "profile rbd");
    let add = |n: usize| {
        format!(
            r#""osd blocklist","blocklistop":"add","addr":"10.0.{}.{}:0/1","expire":60.0"#,
            n / 256,
            n % 256
        )
    };
    for n in 0..1_000 {
        assert_eq!(said(&mut mon, weak, &add(n)).0, 0, "{n}");
    }
    // A user may renew its own entry.
    assert_eq!(said(&mut mon, weak, &add(5)).0, 0);
    let (status, _, told) = said(&mut mon, weak, &add(1_000));
    assert_eq!(status, -28);
    assert!(told.starts_with("client.weak has 1000 clients on the blocklist"), "{told}");
    assert_eq!(mon.monitor.state().osdmap().blocklist.addrs.len(), 1_000);
    assert_eq!(said(&mut mon, other, &add(1_001)).0, 0, "others can");
    assert_eq!(said(&mut mon, admin, &add(1_002)).0, 0, "an administrator can");
    // Expired entries do not count any more.
    mon.monitor.tick(UTime { sec: NOW.sec + 61, ..NOW });
    assert_eq!(said(&mut mon, weak, &add(1_000)).0, 0);
}

#[test]
fn pools_have_so_many_placement_groups_in_all() {
    let mut mon = Mon::new();
    let admin = mon.client("admin", "allow *");
    let create = |name: &str, pg_num: u32| format!(r#""osd pool create","pool":"{name}","pg_num":{pg_num}"#);
    assert_eq!(said(&mut mon, admin, &create("a", 65_536)).0, 0);
    assert_eq!(said(&mut mon, admin, &create("b", 65_535)).0, 0);
    let (status, _, told) = said(&mut mon, admin, &create("c", 2));
    assert_eq!(status, -34);
    assert_eq!(told, "pg_num 2 would mean 131073 total pgs, which exceeds max 131072");
    let split = r#""osd pool set","pool":"b","var":"pg_num","val":"65536""#;
    assert_eq!(said(&mut mon, admin, split).0, 0, "that is the most");
}
