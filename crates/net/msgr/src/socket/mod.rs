//! Sockets, behind the few calls that connections make: the kernel's and, in tests, those of a simulated
//! network (`simulated`). In other builds there is one kind, and nothing is decided at run time.

#[cfg(any(test, feature = "testing"))]
pub(crate) mod simulated;

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};

use bytes::BytesMut;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};

/// The source of a messenger's sockets and random numbers; by default the kernel.
#[derive(Clone, Default)]
pub struct Network {
    #[cfg(any(test, feature = "testing"))]
    pub(crate) simulated: Option<simulated::Host>,
}

impl Network {
    /// Opens a connection.
    pub(crate) async fn connect(&self, addr: SocketAddr) -> io::Result<Socket> {
        #[cfg(any(test, feature = "testing"))]
        if let Some(host) = &self.simulated {
            return host.connect(addr).await.map(Socket::Simulated);
        }
        TcpStream::connect(addr).await.map(Socket::Tcp)
    }

    /// Listens at an address; port 0: any free one.
    pub(crate) async fn bind(&self, addr: SocketAddr) -> io::Result<Listener> {
        #[cfg(any(test, feature = "testing"))]
        if let Some(host) = &self.simulated {
            return host.bind(addr).map(Listener::Simulated);
        }
        TcpListener::bind(addr).await.map(Listener::Tcp)
    }

    /// A number that peers cannot guess and that no two processes share.
    ///
    /// # Panics
    /// If the system provides no random numbers: nothing works without them.
    pub fn random_u64(&self) -> u64 {
        #[cfg(any(test, feature = "testing"))]
        if let Some(host) = &self.simulated {
            return host.random();
        }
        getrandom::u64().expect("the system gives random numbers")
    }

    /// Like [`random_u64`](Self::random_u64), with fewer bits.
    pub fn random_u32(&self) -> u32 {
        (self.random_u64() >> 32) as u32
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

/// A connected socket. All calls take `&self`: the reader and the writer use it at the same time.
pub(crate) enum Socket {
    Tcp(TcpStream),
    #[cfg(any(test, feature = "testing"))]
    Simulated(simulated::End),
}

impl Socket {
    /// Disables delays of small writes; `send_buffer` bounds the bytes that the kernel buffers.
    pub(crate) fn tune(&self, send_buffer: Option<usize>) -> io::Result<()> {
        let Some(stream) = self.tcp() else { return Ok(()) };
        if let Some(bytes) = send_buffer {
            SockRef::from(stream).set_send_buffer_size(bytes)?;
        }
        stream.set_nodelay(true)
    }

    /// Makes the kernel check whether the peer is still there.
    pub(crate) fn set_keepalive(&self, keepalive: &TcpKeepalive) -> io::Result<()> {
        self.tcp().map_or(Ok(()), |stream| SockRef::from(stream).set_tcp_keepalive(keepalive))
    }

    /// Reads the available bytes into the buffer's spare capacity; 0 at the end.
    ///
    /// A read that does not fill the spare capacity has emptied the socket. The runtime is then told
    /// that the socket would block, which saves the read that would find out.
    #[inline]
    pub(crate) fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let socket = match self {
            Self::Tcp(stream) => stream,
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(end) => return end.try_read(buf),
        };
        let mut received = 0;
        let result = socket.try_io(Interest::READABLE, || {
            let room = buf.spare_capacity_mut();
            let room_len = room.len();
            received = SockRef::from(socket).recv(room)?;
            // SAFETY: `recv` has initialized that many bytes of the spare capacity, which follows the
            // buffer's bytes.
            unsafe { buf.set_len(buf.len() + received) };
            if received == 0 || received == room_len { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
        });
        if received > 0 { Ok(received) } else { result.map(|()| 0) }
    }

    /// Waits until a read may return something.
    #[inline]
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(end) => end.readable().await,
        }
    }

    /// Waits for data and reads it into the buffer's spare capacity; 0 at the end.
    pub(crate) async fn read_buf(&self, buf: &mut BytesMut) -> io::Result<usize> {
        loop {
            match self.try_read(buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.readable().await?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    /// Writes as much as the socket accepts now.
    #[inline]
    pub(crate) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(slices),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(end) => end.try_write_vectored(slices),
        }
    }

    /// Waits until the socket may accept something.
    #[inline]
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.writable().await,
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(end) => end.writable().await,
        }
    }

    /// Writes all bytes.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write_vectored(&[IoSlice::new(bytes)]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Shuts both directions down; tasks that wait for the socket wake up.
    pub(crate) fn shut_down(&self) {
        match self {
            Self::Tcp(stream) => {
                // An error means that the socket is shut down already.
                let _ = SockRef::from(stream).shutdown(Shutdown::Both);
            }
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(end) => end.shut_down(),
        }
    }

    /// The kernel's socket, unless it is simulated.
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(_) => None,
        }
    }
}

/// A listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    #[cfg(any(test, feature = "testing"))]
    Simulated(simulated::Listener),
}

impl Listener {
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(listener) => Ok(listener.addr()),
        }
    }

    /// Returns the next connection and the address it comes from. Cancellation-safe.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, from)| (Socket::Tcp(stream), from)),
            #[cfg(any(test, feature = "testing"))]
            Self::Simulated(listener) => {
                listener.accept().await.map(|(end, from)| (Socket::Simulated(end), from))
            }
        }
    }
}
