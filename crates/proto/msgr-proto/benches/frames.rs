//! The cost of sealing and opening: `cargo bench -p loligo-msgr-proto`. Prints the best of several
//! rounds, in nanoseconds.

use std::hint::black_box;
use std::io::IoSlice;
use std::time::Instant;

use bytes::{BufMut, Bytes};
use loligo_cephx::handshake::{
    AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode, Identity, ServerAuth, ServerStep,
};
use loligo_msgr_proto::{
    ClientIdent, Established, Event, Frame, Handshake, Limits, Local, OutBuf, Sealer, ServerIdent,
};
use loligo_wire::message::{Header, Msg};
use loligo_wire::{EntityAddr, EntityName, EntityType, Errno, GlobalId};

const ROUNDS: u32 = 15;
/// Messages per round, and per write.
const MESSAGES: u32 = 6400;
const BATCH: usize = 64;

fn main() {
    for mode in [ConMode::Crc, ConMode::Secure] {
        for (what, front_len, data_len) in
            [("reply", 150, 0), ("4 KiB write", 220, 4 << 10), ("64 KiB write", 220, 64 << 10)]
        {
            let (seal_ns, open_ns) = measure(mode, &Bytes::from(vec![1; front_len]), data_len);
            println!("{mode:?} {what:12}: seal {seal_ns:7.0} ns, open {open_ns:7.0} ns");
        }
    }
}

fn measure(mode: ConMode, front: &Bytes, data_len: usize) -> (f64, f64) {
    let (Established { mut sealer, .. }, Established { mut opener, .. }) = established(mode);
    let data = (data_len > 0).then(|| Bytes::from(vec![2; data_len]));
    let data: &[Bytes] = data.as_slice();
    let mut out = OutBuf::new();
    let (mut seal_ns, mut open_ns) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        let (mut sealing, mut opening) = (0, 0);
        for _ in 0..MESSAGES / BATCH as u32 {
            let start = Instant::now();
            (0..BATCH).for_each(|_| seal(&mut sealer, front, data, &mut out));
            sealing += start.elapsed().as_nanos();
            while !out.is_empty() {
                let mut slices = [IoSlice::new(&[]); 256];
                let set = out.io_slices(&mut slices);
                let mut taken = 0;
                let spare = opener.spare();
                for slice in &slices[..set] {
                    let n = slice.len().min(spare.capacity() - spare.len());
                    spare.put_slice(&slice[..n]);
                    taken += n;
                    if n < slice.len() {
                        break;
                    }
                }
                out.advance(taken);
                let start = Instant::now();
                while let Some(frame) = opener.next().expect("the frames are good") {
                    black_box::<Frame>(frame);
                }
                opening += start.elapsed().as_nanos();
            }
        }
        seal_ns = seal_ns.min(sealing as f64 / f64::from(MESSAGES));
        open_ns = open_ns.min(opening as f64 / f64::from(MESSAGES));
    }
    (seal_ns, open_ns)
}

fn seal(sealer: &mut Sealer, front: &Bytes, data: &[Bytes], out: &mut OutBuf) {
    let header = Header { seq: 1, kind: 42, version: 8, ..Header::default() };
    let msg = Msg { header, front: front.clone(), data: data.iter().cloned().collect(), ..Msg::default() };
    sealer.message(black_box(&msg), out).expect("it can be sealed");
}

/// Two ends of an open session.
fn established(mode: ConMode) -> (Established, Established) {
    let addr = EntityAddr::msgr2(([127, 0, 0, 1], 6800).into());
    let local = Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Limits::default() };
    let mut client = Handshake::client(local, Box::new(Trusting(mode)));
    let mut server = Handshake::server(local, Box::new(Trusting(mode)));
    let mut open = [false; 2];
    while open != [true; 2] {
        exchange(&mut client, &mut server);
        exchange(&mut server, &mut client);
        for (hs, open) in [&mut client, &mut server].into_iter().zip(&mut open) {
            while let Some(event) = hs.poll_event() {
                match event {
                    Event::Authenticated { identity: None, .. } => {
                        let ident = ClientIdent { addrs: addr.into(), ..ClientIdent::default() };
                        hs.identify(ident).expect("it is asked for");
                    }
                    Event::ClientIdent(_) => hs.accept(ServerIdent::default()).expect("it is asked for"),
                    Event::Established => *open = true,
                    _ => {}
                }
            }
        }
    }
    match (client.into_established(), server.into_established()) {
        (Ok(client), Ok(server)) => (client, server),
        other => panic!("not established: {other:?}"),
    }
}

fn exchange(from: &mut Handshake, to: &mut Handshake) {
    while let Some(bytes) = from.poll_transmit() {
        to.spare().extend_from_slice(&bytes);
        to.receive().expect("the peer does it right");
    }
}

struct Trusting(ConMode);

impl Trusting {
    fn keys() -> AuthKeys {
        AuthKeys { session_key: vec![1; 16].into(), connection_secret: (0..64).collect::<Vec<_>>().into() }
    }
}

impl ClientAuth for Trusting {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        Ok(AuthRequest { method: AuthMethod::CEPHX, modes: vec![self.0], payload: Bytes::new() })
    }

    fn bad_method(
        &mut self,
        _: AuthMethod,
        _: Errno,
        _: &[u32],
        _: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        ClientAuth::request(self)
    }

    fn more(&mut self, _: &[u8]) -> Result<Bytes, AuthError> {
        Ok(Bytes::new())
    }

    fn done(&mut self, _: GlobalId, _: ConMode, _: &[u8]) -> Result<AuthKeys, AuthError> {
        Ok(Self::keys())
    }
}

impl ServerAuth for Trusting {
    fn request(&mut self, _: EntityType, _: AuthMethod, _: &[u32], _: &[u8]) -> ServerStep {
        let name = EntityName::client("bench");
        ServerStep::Done {
            identity: Identity { name, global_id: GlobalId(1), caps: String::new(), challenge: 0 },
            mode: self.0,
            payload: Bytes::new(),
            keys: Self::keys(),
        }
    }

    fn more(&mut self, _: &[u8]) -> ServerStep {
        ServerAuth::request(self, EntityType::CLIENT, AuthMethod::NONE, &[], &[])
    }
}
