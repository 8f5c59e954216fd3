//! Test support for this crate and those above it: authentication that admits every peer, proxies that
//! break connections, and a network in simulated time.

mod proxy;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use loligo_cephx::handshake::{
    AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode, Identity, ServerAuth, ServerStep,
};
use loligo_wire::{EntityName, EntityType, Errno, GlobalId};

pub use self::proxy::{FaultProxies, FaultProxy};
pub use crate::socket::simulated::{SimulatedNetwork, Weather};
use crate::{AcceptAuth, ConnectAuth};

/// Admits every peer under the name that it claims, in crc mode. For both sides.
#[derive(Clone, Debug)]
pub struct OpenDoor {
    /// On the connecting side: the name to claim.
    pub name: EntityName,
}

impl OpenDoor {
    /// Connects as `client.NAME`.
    pub fn client(name: &str) -> Arc<Self> {
        Arc::new(Self { name: EntityName::client(name) })
    }
}

impl ConnectAuth for OpenDoor {
    fn connector(&self, _peer: EntityType) -> Box<dyn ClientAuth> {
        Box::new(self.clone())
    }
}

impl AcceptAuth for OpenDoor {
    fn acceptor(&self, _from: SocketAddr) -> Box<dyn ServerAuth> {
        Box::new(self.clone())
    }
}

impl ClientAuth for OpenDoor {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        let payload = Bytes::from(self.name.id.clone());
        Ok(AuthRequest { method: AuthMethod::NONE, modes: vec![ConMode::Crc], payload })
    }

    fn bad_method(
        &mut self,
        _: AuthMethod,
        errno: Errno,
        m: &[u32],
        _: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        Err(AuthError::Refused { errno, methods: m.to_vec() })
    }

    fn more(&mut self, _payload: &[u8]) -> Result<Bytes, AuthError> {
        Err(AuthError::PeerUnproven("asks for more"))
    }

    fn done(&mut self, _: GlobalId, _: ConMode, _: &[u8]) -> Result<AuthKeys, AuthError> {
        Ok(AuthKeys::default())
    }
}

impl ServerAuth for OpenDoor {
    fn request(&mut self, peer: EntityType, _: AuthMethod, _: &[u32], payload: &[u8]) -> ServerStep {
        let id = String::from_utf8_lossy(payload).into_owned();
        ServerStep::Done {
            identity: Identity {
                name: EntityName { kind: peer, id },
                global_id: GlobalId(1),
                caps: "allow *".to_owned(),
                challenge: 0,
            },
            mode: ConMode::Crc,
            payload: Bytes::new(),
            keys: AuthKeys::default(),
        }
    }

    fn more(&mut self, _payload: &[u8]) -> ServerStep {
        ServerStep::Bad {
            errno: Errno::EINVAL,
            methods: vec![AuthMethod::NONE.0],
            modes: vec![ConMode::Crc.code()],
        }
    }
}

/// A small pseudo-random generator (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        // Zero is the one state that the shifts never leave.
        self.0 = self.0.max(1);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
