//! Client and server against each other, without a messenger: the results of both sides must agree, and
//! a client that lacks a key or a ticket must be refused with the errno of a stock monitor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use loligo_cephx::client::{AuthClient, ClientConfig};
use loligo_cephx::handshake::{
    AuthError, AuthKeys, AuthMethod, ClientAuth, ConMode, Identity, ServerAuth, ServerStep,
};
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::{Entry, Keyring};
use loligo_cephx::server::{AuthConfig, AuthServer, Rotation, ServiceKeys};
use loligo_wire::{EntityName, EntityType, Errno, GlobalId, UTime};

const MON_TTL: Duration = Duration::from_secs(72 * 3600);
const SERVICE_TTL: Duration = Duration::from_secs(3600);

/// Runs one handshake to its end.
fn handshake(
    mut client: Box<dyn ClientAuth>,
    mut server: Box<dyn ServerAuth>,
) -> Result<(AuthKeys, AuthKeys, Identity, ConMode), AuthError> {
    let mut request = client.request()?;
    let codes = |modes: &[ConMode]| modes.iter().map(|m| m.code()).collect::<Vec<_>>();
    let mut step =
        server.request(EntityType::CLIENT, request.method, &codes(&request.modes), &request.payload);
    loop {
        step = match step {
            ServerStep::More(payload) => server.more(&client.more(&payload)?),
            ServerStep::Bad { errno, methods, modes } => {
                request = client.bad_method(request.method, errno, &methods, &modes)?;
                server.request(EntityType::CLIENT, request.method, &codes(&request.modes), &request.payload)
            }
            ServerStep::Done { identity, mode, payload, keys } => {
                let ours = client.done(identity.global_id, mode, &payload)?;
                return Ok((ours, keys, identity, mode));
            }
        };
    }
}

fn now() -> UTime {
    UTime::now()
}

fn server_with(config: AuthConfig, entries: &[(&str, Entry)]) -> Arc<AuthServer> {
    let mut ring = Keyring::new();
    for (name, entry) in entries {
        ring.insert(name.parse().unwrap(), entry.clone());
    }
    let rotation = Rotation { mon_ttl: MON_TTL, service_ttl: SERVICE_TTL, cipher: KeyType::Aes };
    let keys = ServiceKeys::new(rotation, (config.clock)());
    AuthServer::new(config, Arc::new(ring), Arc::new(keys), GlobalId(4100))
}

fn admin() -> Entry {
    admin_with(KeyType::Aes)
}

fn admin_with(kind: KeyType) -> Entry {
    let key = CryptoKey::generate_of(kind, now());
    Entry::new(key).with_caps("mon", "allow *").with_caps("osd", "allow rw pool=p")
}

fn client(name: &str, key: &CryptoKey) -> Arc<AuthClient> {
    AuthClient::new(ClientConfig::new(name.parse().unwrap(), Some(key.clone()), UTime::now))
}

fn refused<T>(result: Result<T, AuthError>) -> Errno {
    match result {
        Err(AuthError::Refused { errno, .. }) => errno,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    }
}

#[test]
fn tickets_of_the_monitor_open_the_services() {
    [KeyType::Aes, KeyType::Aes256k].into_iter().for_each(tickets_open_the_services);
}

fn tickets_open_the_services(kind: KeyType) {
    let admin = admin_with(kind);
    let server = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let client = client("client.admin", &admin.key);
    assert!(!client.can_reach(EntityType::OSD));

    let (ours, theirs, identity, mode) = handshake(client.mon_auth(), server.mon_acceptor()).unwrap();
    assert_eq!(mode, ConMode::Secure);
    assert_eq!(ours.connection_secret.len(), 64);
    assert_eq!(ours.connection_secret, theirs.connection_secret);
    assert_eq!(ours.session_key, theirs.session_key);
    assert_eq!((identity.caps.as_str(), identity.global_id), ("allow *", GlobalId(4100)));
    assert_eq!(client.global_id(), GlobalId(4100));

    for (service, caps) in [(EntityType::OSD, "allow rw pool=p"), (EntityType::MGR, "")] {
        let (ours, theirs, identity, mode) =
            handshake(client.service_auth(service, client.global_id()), server.service_acceptor(service))
                .unwrap();
        assert_eq!(mode, ConMode::Crc);
        assert!(ours.connection_secret.is_empty());
        assert_eq!(ours.session_key, theirs.session_key);
        assert_eq!(identity.name, EntityName::client("admin"));
        assert_eq!((identity.caps.as_str(), identity.global_id), (caps, GlobalId(4100)));
    }
}

#[test]
fn secure_mode_to_services_shares_a_secret() {
    let admin = admin();
    let server = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let mut config = ClientConfig::new(EntityName::client("admin"), Some(admin.key), UTime::now);
    config.service_modes = vec![ConMode::Secure];
    config.mon_modes = vec![ConMode::Crc];
    let client = AuthClient::new(config);
    let (ours, _, _, mode) = handshake(client.mon_auth(), server.mon_acceptor()).unwrap();
    assert_eq!((mode, ours.connection_secret.len()), (ConMode::Crc, 0));
    let (ours, theirs, _, mode) = handshake(
        client.service_auth(EntityType::OSD, client.global_id()),
        server.service_acceptor(EntityType::OSD),
    )
    .unwrap();
    assert_eq!((mode, ours.connection_secret.len()), (ConMode::Secure, 64));
    assert_eq!(ours.connection_secret, theirs.connection_secret);
}

#[test]
fn strangers_are_refused_as_a_stock_monitor_does() {
    let good = admin();
    let no_mon_caps = Entry::new(good.key.clone()).with_caps("osd", "allow *");
    let server = server_with(
        AuthConfig::new(UTime::now),
        &[("client.admin", good.clone()), ("client.nocaps", no_mon_caps)],
    );
    let wrong = CryptoKey::generate(now());
    let other_kind = CryptoKey::generate_of(KeyType::Aes256k, now());
    for (name, key) in [
        ("client.admin", &wrong),
        ("client.admin", &other_kind),
        ("client.nobody", &good.key),
        ("client.nocaps", &good.key),
    ] {
        let result = handshake(client(name, key).mon_auth(), server.mon_acceptor());
        match result {
            Err(AuthError::Refused { errno: Errno::EACCES, methods }) => assert_eq!(methods, [2], "{name}"),
            Err(other) => panic!("{name}: {other:?}"),
            Ok(_) => panic!("{name} was accepted"),
        }
    }
}

#[test]
fn a_service_accepts_only_its_own_tickets() {
    let admin = admin();
    let server = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let stranger = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let client = client("client.admin", &admin.key);
    handshake(client.mon_auth(), server.mon_acceptor()).unwrap();
    let to = |server: &Arc<AuthServer>, service| {
        handshake(client.service_auth(EntityType::OSD, client.global_id()), server.service_acceptor(service))
    };
    assert_eq!(refused(to(&server, EntityType::MGR)), Errno::EACCES);
    assert_eq!(refused(to(&stranger, EntityType::OSD)), Errno::EACCES);
    assert!(to(&server, EntityType::OSD).is_ok());
    assert!(matches!(
        client.service_auth(EntityType::MDS, client.global_id()).request(),
        Err(AuthError::NoCredentials(why)) if why.contains("mds")
    ));
}

#[test]
fn an_answer_is_good_for_one_challenge() {
    let admin = admin();
    let server = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let client = client("client.admin", &admin.key);
    let mut first = client.mon_auth();
    let mut acceptor = server.mon_acceptor();
    let request = first.request().unwrap();
    let ServerStep::More(challenge) =
        acceptor.request(EntityType::CLIENT, request.method, &[1], &request.payload)
    else {
        panic!("no challenge");
    };
    let answer = first.more(&challenge).unwrap();
    assert!(matches!(acceptor.more(&answer), ServerStep::Done { .. }));
    assert!(matches!(acceptor.more(&answer), ServerStep::Bad { errno: Errno::EACCES, .. }));
    acceptor.request(EntityType::CLIENT, request.method, &[1], &request.payload);
    assert!(matches!(acceptor.more(&answer), ServerStep::Bad { errno: Errno::EACCES, .. }));
}

#[test]
fn reconnecting_keeps_the_global_id() {
    let admin = admin();
    let server = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let one = client("client.admin", &admin.key);
    handshake(one.mon_auth(), server.mon_acceptor()).unwrap();
    handshake(one.mon_auth(), server.mon_acceptor()).unwrap();
    assert_eq!(one.global_id(), GlobalId(4100));
    handshake(one.service_auth(EntityType::OSD, one.global_id()), server.service_acceptor(EntityType::OSD))
        .unwrap();

    let other = client("client.admin", &admin.key);
    handshake(other.mon_auth(), server.mon_acceptor()).unwrap();
    assert_eq!(other.global_id(), GlobalId(4101));

    // A monitor that has lost its secrets assigns a new one.
    let reborn = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin)]);
    reborn.keys().rotate(now() + MON_TTL * 3);
    reborn.keys().rotate(now() + MON_TTL * 6);
    handshake(one.mon_auth(), reborn.mon_acceptor()).unwrap();
    handshake(one.service_auth(EntityType::OSD, one.global_id()), reborn.service_acceptor(EntityType::OSD))
        .unwrap();
}

/// Clients ask several monitors at once. The global id of the first one stays, whatever the others
/// answer later: OSDs recognize repeated requests by it.
#[test]
fn of_several_monitors_the_first_one_counts() {
    let admin = admin();
    for method in [AuthMethod::CEPHX, AuthMethod::NONE] {
        let accepts = AuthConfig { methods: vec![method], ..AuthConfig::new(UTime::now) };
        let server = server_with(accepts, &[("client.admin", admin.clone())]);
        let mut config = ClientConfig::new(EntityName::client("admin"), Some(admin.key.clone()), UTime::now);
        config.methods = vec![method];
        let client = AuthClient::new(config);
        for round in ["at first", "again"] {
            let (first, second) = (client.mon_auth(), client.mon_auth());
            let id = handshake(first, server.mon_acceptor()).unwrap().2.global_id;
            assert_eq!((client.global_id(), id), (GlobalId(4100), GlobalId(4100)), "{round}");
            let late = handshake(second, server.mon_acceptor()).err();
            assert_eq!(late, Some(AuthError::Superseded), "{round}");
            assert_eq!(client.global_id(), GlobalId(4100), "{round}");
        }
    }
}

#[test]
fn method_none_believes_everybody() {
    let server = server_with(AuthConfig::none(UTime::now), &[]);
    let client = AuthClient::new(ClientConfig::new(EntityName::client("anybody"), None, UTime::now));
    let (ours, theirs, identity, mode) = handshake(client.mon_auth(), server.mon_acceptor()).unwrap();
    assert_eq!(mode, ConMode::Crc);
    assert!(ours.session_key.is_empty() && theirs.session_key.is_empty());
    assert_eq!(identity.caps, "allow *");
    assert!(client.can_reach(EntityType::OSD));
    let (.., identity, _) = handshake(
        client.service_auth(EntityType::OSD, client.global_id()),
        server.service_acceptor(EntityType::OSD),
    )
    .unwrap();
    assert_eq!(identity.global_id, GlobalId(4100));
}

#[test]
fn the_methods_of_both_sides_must_meet() {
    let admin = admin();
    let cephx = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let none = server_with(AuthConfig::none(UTime::now), &[]);
    let anybody = AuthClient::new(ClientConfig::new(EntityName::client("admin"), None, UTime::now));
    assert_eq!(refused(handshake(anybody.mon_auth(), cephx.mon_acceptor())), Errno::EOPNOTSUPP);

    let mut both = ClientConfig::new(EntityName::client("admin"), Some(admin.key.clone()), UTime::now);
    both.methods = vec![AuthMethod::CEPHX, AuthMethod::NONE];
    let both = AuthClient::new(both);
    handshake(both.mon_auth(), none.mon_acceptor()).unwrap();
    handshake(both.service_auth(EntityType::OSD, both.global_id()), none.service_acceptor(EntityType::OSD))
        .unwrap();

    let strict = client("client.admin", &admin.key);
    assert_eq!(refused(handshake(strict.mon_auth(), none.mon_acceptor())), Errno::EOPNOTSUPP);
}

/// A clock that the renewal test sets; the other tests do not use it.
static SECONDS: AtomicU32 = AtomicU32::new(1_700_000_000);

fn test_clock() -> UTime {
    UTime { sec: SECONDS.load(Ordering::Relaxed), nsec: 0 }
}

#[test]
fn tickets_are_renewed_before_they_end() {
    let admin = admin();
    let server_config = AuthConfig { clock: test_clock, ..AuthConfig::new(UTime::now) };
    let server = server_with(server_config, &[("client.admin", admin.clone())]);
    let mut config = ClientConfig::new(EntityName::client("admin"), Some(admin.key.clone()), UTime::now);
    config.clock = test_clock;
    let client = AuthClient::new(config);
    let (_, _, identity, _) = handshake(client.mon_auth(), server.mon_acceptor()).unwrap();
    assert!(client.renewal().is_none());
    assert_eq!(client.renew_after(), Some(test_clock() + SERVICE_TTL * 3 / 4));

    let mut full_renewals = 0;
    for _ in 0..150 {
        SECONDS.fetch_add(2800, Ordering::Relaxed);
        server.keys().rotate(test_clock());
        let payload = client.renewal().expect("due");
        full_renewals += u32::from(payload[..2] == [0, 1]);
        let renewal = server.renew(&identity, &payload);
        client.renewed(renewal.result, &renewal.payload).unwrap();
        assert!(client.renewal().is_none());
        handshake(
            client.service_auth(EntityType::OSD, client.global_id()),
            server.service_acceptor(EntityType::OSD),
        )
        .unwrap();
    }
    assert_eq!(full_renewals, 2, "the monitors' own ticket lives for 72 hours");
    assert_eq!(client.global_id(), GlobalId(4100));

    // Another client's session cannot use it, and garbage is refused.
    SECONDS.fetch_add(2800, Ordering::Relaxed);
    let payload = client.renewal().unwrap();
    let other = Identity { global_id: GlobalId(7), ..identity.clone() };
    assert_eq!(server.renew(&other, &payload).result, Errno::EACCES.to_result());
    assert_eq!(server.renew(&identity, &payload[..payload.len() - 1]).result, Errno::EACCES.to_result());
    assert_eq!(server.renew(&identity, b"").result, -22);
    assert!(client.renewed(Errno::EACCES.to_result(), b"").is_err());

    // An expired ticket is not presented at all.
    SECONDS.fetch_add(4000, Ordering::Relaxed);
    assert!(!client.can_reach(EntityType::OSD));
    assert!(matches!(
        client.service_auth(EntityType::OSD, client.global_id()).request(),
        Err(AuthError::NoCredentials(why)) if why.contains("expired")
    ));
}

/// Begins a handshake without a proof.
fn begin(server: &Arc<AuthServer>, client: &Arc<AuthClient>) -> Box<dyn ServerAuth> {
    let mut acceptor = server.mon_acceptor();
    let request = client.mon_auth().request().unwrap();
    let step = acceptor.request(EntityType::CLIENT, request.method, &[2, 1], &request.payload);
    assert!(matches!(step, ServerStep::More(_)));
    acceptor
}

#[test]
fn who_proves_nothing_uses_up_no_global_id() {
    let admin = admin();
    let server = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    let stranger = client("client.admin", &CryptoKey::generate_of(KeyType::Aes, now()));
    for _ in 0..100 {
        drop(begin(&server, &stranger));
        assert_eq!(refused(handshake(stranger.mon_auth(), server.mon_acceptor())), Errno::EACCES);
    }
    let honest = client("client.admin", &admin.key);
    handshake(honest.mon_auth(), server.mon_acceptor()).unwrap();
    assert_eq!(honest.global_id(), GlobalId(4100));
}

#[test]
fn global_ids_that_are_not_reserved_are_not_given() {
    let admin = admin();
    let server = server_with(AuthConfig::new(UTime::now), &[("client.admin", admin.clone())]);
    server.limit_global_ids(GlobalId(4102));
    let come = || {
        let newcomer = client("client.admin", &admin.key);
        handshake(newcomer.mon_auth(), server.mon_acceptor()).map(|_| newcomer.global_id().0)
    };
    assert_eq!((come().unwrap(), come().unwrap()), (4100, 4101));
    assert_eq!(refused(come()), Errno::EAGAIN);
    server.limit_global_ids(GlobalId(5000));
    assert_eq!(come().unwrap(), 4102);
}

#[test]
fn a_global_id_is_not_reclaimed_under_another_name() {
    let entry = admin();
    let both = [("client.a", entry.clone()), ("client.b", entry.clone())];
    let server = server_with(AuthConfig::new(UTime::now), &both);
    let owner = client("client.a", &entry.key);
    handshake(owner.mon_auth(), server.mon_acceptor()).unwrap();
    // The owner's requests when it connects again, under the given name, which has the same key.
    let again = |name: u8| {
        let (mut exchange, mut acceptor) = (owner.mon_auth(), server.mon_acceptor());
        let mut opening = exchange.request().unwrap().payload.to_vec();
        assert_eq!(std::mem::replace(&mut opening[9], name), b'a');
        let step = acceptor.request(EntityType::CLIENT, AuthMethod::CEPHX, &[2, 1], &opening);
        let ServerStep::More(challenge) = step else { panic!("no challenge") };
        acceptor.more(&exchange.more(&challenge).unwrap())
    };
    assert!(matches!(again(b'a'), ServerStep::Done { .. }));
    assert!(matches!(again(b'b'), ServerStep::Bad { errno: Errno::EACCES, .. }));
}
